//! The ledger in memory, which is the reference.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;

use settled::{Ledger, MemoryLedger};
use settled_ledger_tests::{SOON, Views};

async fn views() -> Views {
    let ledger: Arc<dyn Ledger> = Arc::new(MemoryLedger::new());
    Views { a: Arc::clone(&ledger), b: ledger, soon: SOON, keep: Box::new(()) }
}

settled_ledger_tests::conformance!(crate::views);

//! Changes to try a ledger with.
#![allow(dead_code, unused_imports)] // each test binary uses a part

use std::time::Duration;

use settled::{Ledger, Liveness};
use settled_protocol::Epoch;

#[path = "../../../../../tests/ledgers/src/make.rs"]
mod changes;

pub use changes::*;

/// A lease that lasts for longer than any test.
pub const LEASE: Duration = Duration::from_secs(600);

/// Whether an owner's process may still send something.
pub async fn alive(ledger: &dyn Ledger, epoch: Epoch) -> bool {
    ledger.liveness(epoch).await.unwrap() != Liveness::Gone
}

//! The ledger in a directory, as its holder and as its guests.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;
use std::sync::Arc;

use settled_ledger_file::{FileLedger, FileLedgerOptions};
use settled_ledger_tests::{SOON, Views};

fn open(directory: &Path) -> FileLedger {
    FileLedger::open(directory, FileLedgerOptions::default()).unwrap()
}

async fn holder_and_guest() -> Views {
    let directory = tempfile::tempdir().unwrap();
    let (holder, guest) = (open(directory.path()), open(directory.path()));
    assert!(holder.is_holder() && !guest.is_holder());
    Views { a: Arc::new(holder), b: Arc::new(guest), soon: SOON, keep: Box::new(directory) }
}

async fn two_guests() -> Views {
    let directory = tempfile::tempdir().unwrap();
    let (holder, one, other) = (open(directory.path()), open(directory.path()), open(directory.path()));
    assert!(holder.is_holder() && !one.is_holder() && !other.is_holder());
    Views { a: Arc::new(one), b: Arc::new(other), soon: SOON, keep: Box::new((holder, directory)) }
}

settled_ledger_tests::conformance!(crate::holder_and_guest);

mod guests {
    settled_ledger_tests::conformance!(crate::two_guests);
}

//! The ledgers under test.

use std::cell::RefCell;
use std::sync::Arc;

use settled::{Ledger, MemoryLedger};
use settled_ledger_file::{FileLedger, FileLedgerOptions};
use tempfile::TempDir;

/// A ledger, which any number of processes can open.
pub enum Backend {
    /// One that all processes share; of a server, its connections outlive them.
    Shared(Arc<dyn Ledger>),
    /// A directory.
    File(TempDir),
}

/// Where a test's ledgers are.
#[derive(Clone)]
pub enum Place {
    Memory,
    File,
    Server(Arc<dyn Ledger>),
}

thread_local! {
    static PLACE: RefCell<Place> = const { RefCell::new(Place::Memory) };
}

impl Backend {
    /// From now on this thread's ledgers are there.
    pub fn set(place: Place) {
        PLACE.set(place);
    }

    /// One that is empty, or holds nothing but what earlier cases have left, whose keys are others.
    pub fn here() -> Backend {
        match PLACE.with_borrow(Place::clone) {
            Place::Memory => Backend::Shared(Arc::new(MemoryLedger::new())),
            Place::File => Backend::File(tempfile::tempdir().unwrap()),
            Place::Server(ledger) => Backend::Shared(ledger),
        }
    }

    pub fn open(&self) -> Arc<dyn Ledger> {
        match self {
            Backend::Shared(ledger) => Arc::clone(ledger),
            Backend::File(directory) => {
                Arc::new(FileLedger::open(directory.path(), FileLedgerOptions::default()).unwrap())
            }
        }
    }
}

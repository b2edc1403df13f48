//! The store of a directory's holder for simulations: on a simulated disk, without threads, by a clock that is given to it.
//!
//! What the store would do by itself it does when it is told to: [`commit`](SimulatedStore::commit) what is queued, and its
//! [`upkeep`](SimulatedStore::upkeep). The code is that of the real one.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use settled::{Change, Draw, Entry, Filter, LedgerError, Liveness, Remains, Renewal, Resource};
use settled_protocol::{Epoch, Key, Time, Version};

use crate::log::disk::FaultDisk;
use crate::options::FileLedgerOptions;
use crate::owners::Owners;
use crate::store::{Run, Store, Ticket};
use crate::sync::lock;
use crate::upkeep::Keeper;

pub use crate::owners::Processes;

/// The ledger as its holder sees it.
pub struct SimulatedStore {
    store: Store,
    keeper: Mutex<Keeper>,
}

impl SimulatedStore {
    /// Opens the ledger on `disk`, or begins one.
    ///
    /// # Errors
    /// As the real one's.
    pub fn open(
        disk: FaultDisk,
        options: &FileLedgerOptions,
        processes: Arc<dyn Processes>,
        now: Arc<dyn Fn() -> Time + Send + Sync>,
    ) -> Result<SimulatedStore, LedgerError> {
        let owners = Arc::new(Owners::simulated(processes));
        let dir = Path::new("simulated");
        let (store, keeper) = Store::on(Arc::new(disk), dir, options, owners, None, Run::Simulated(now))?;
        Ok(SimulatedStore { store, keeper: Mutex::new(keeper) })
    }

    /// Commits all that is queued, as one batch; returns how many writes that were.
    pub fn commit(&self) -> usize {
        self.store.commits().run_queued()
    }

    /// Why it gives the disk up, if a write has failed: it must be opened anew then.
    pub fn failure(&self) -> Option<LedgerError> {
        self.store.tenure().failure()
    }

    /// Accepts nothing more, and lets go of the disk. What is queued is not carried out.
    pub fn close(&self) {
        self.store.close();
    }

    /// How many writes are queued.
    pub fn queued(&self) -> usize {
        self.store.commits().queued()
    }

    /// Compacts and writes snapshots, as far as that is due.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn upkeep(&self) -> Result<(), LedgerError> {
        lock(&self.keeper).work()
    }

    /// See [`settled::Ledger::register`].
    ///
    /// # Errors
    /// As there.
    pub async fn register(&self, lease: Duration) -> Result<Epoch, LedgerError> {
        self.store.register(lease).await
    }

    /// See [`settled::Ledger::renew`].
    ///
    /// # Errors
    /// As there.
    pub async fn renew(&self, epoch: Epoch, lease: Duration) -> Result<Renewal, LedgerError> {
        self.store.renew(epoch, lease).await
    }

    /// See [`settled::Ledger::retire`].
    ///
    /// # Errors
    /// As there.
    pub async fn retire(&self, epoch: Epoch) -> Result<(), LedgerError> {
        self.store.retire(epoch).await
    }

    /// See [`settled::Ledger::liveness`].
    ///
    /// # Errors
    /// As there.
    pub async fn liveness(&self, epoch: Epoch) -> Result<Liveness, LedgerError> {
        self.store.liveness(epoch).await
    }

    /// Carries out a compare-and-set that is named by a token, and perhaps was carried out before (`again`). Returns whether the
    /// ledger held the expected version.
    ///
    /// # Errors
    /// As [`settled::Ledger::compare_and_set`]'s.
    pub async fn compare_and_set(&self, change: &Change, token: u64, again: bool) -> Result<bool, LedgerError> {
        self.store.compare_and_set(change, Ticket { token, again }).await
    }

    /// Forgets, under a token as [`compare_and_set`](SimulatedStore::compare_and_set).
    ///
    /// # Errors
    /// As [`settled::Ledger::forget`]'s.
    pub async fn forget(
        &self,
        key: &Key,
        expected: Version,
        remains: Remains,
        token: u64,
        again: bool,
    ) -> Result<bool, LedgerError> {
        self.store.forget(key, expected, remains, Ticket { token, again }).await
    }

    /// See [`settled::Ledger::get`].
    ///
    /// # Errors
    /// As there.
    pub fn get(&self, key: &Key) -> Result<Option<Entry>, LedgerError> {
        self.store.get(key)
    }

    /// See [`settled::Ledger::scan`].
    ///
    /// # Errors
    /// As there.
    pub fn scan(&self, filter: Filter) -> Result<Vec<Entry>, LedgerError> {
        self.store.scan(filter)
    }

    /// See [`settled::Ledger::line`].
    ///
    /// # Errors
    /// As there.
    pub fn line(&self, resource: &Resource) -> Result<Vec<Entry>, LedgerError> {
        self.store.line(resource)
    }

    /// See [`settled::Ledger::due`].
    ///
    /// # Errors
    /// As there.
    pub fn due(&self, now: Time, after: Option<&Entry>, limit: usize) -> Result<Vec<Entry>, LedgerError> {
        self.store.due(now, after, limit)
    }

    /// See [`settled::Ledger::history`].
    ///
    /// # Errors
    /// As there.
    pub fn history(&self, key: &Key) -> Result<Vec<Change>, LedgerError> {
        self.store.history(key)
    }

    /// See [`settled::Ledger::changed`].
    pub async fn changed(&self, key: &Key, seen: Option<Version>) {
        self.store.changed(key, seen).await;
    }

    /// Takes a token of the retry budget.
    pub fn draw(&self, draw: Draw) -> bool {
        self.store.draw(draw)
    }

    /// The time of all processes on the ledger.
    pub fn time(&self) -> Time {
        self.store.time()
    }

    /// How many segments and keys it has, and how many of those are unsettled.
    pub fn size(&self) -> crate::LedgerSize {
        self.store.size()
    }
}

impl std::fmt::Debug for SimulatedStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SimulatedStore").field("queued", &self.queued()).finish_non_exhaustive()
    }
}

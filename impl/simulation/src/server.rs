//! The ledger's own side: a server that all guards share, or a disk that one of them holds.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use settled::protocol::{Epoch, Time};
use settled::{LedgerError, MemoryLedger};
use settled_ledger_file::FileLedgerOptions;
use settled_ledger_file::log::LogOptions;
use settled_ledger_file::log::disk::{FaultDisk, Faults};
use settled_ledger_file::simulated::{Processes, SimulatedStore};
use tokio::sync::Notify;

use crate::plan::LedgerKind;
use crate::process::Process;
use crate::violation::Property;
use crate::world::World;

/// The ledger's own side.
pub(crate) enum Server {
    /// A server.
    Shared(Arc<MemoryLedger>),
    /// A disk.
    Disk(DiskServer),
}

impl Server {
    pub(crate) fn new(kind: LedgerKind, seed: u64) -> Server {
        match kind {
            LedgerKind::Memory | LedgerKind::Postgres => Server::Shared(Arc::new(MemoryLedger::new())),
            LedgerKind::File => Server::Disk(DiskServer::new(seed)),
        }
    }

    /// The disk, if there is one.
    pub(crate) fn disk(&self) -> Option<&DiskServer> {
        match self {
            Server::Shared(_) => None,
            Server::Disk(disk) => Some(disk),
        }
    }

    /// Lets go of everything.
    pub(crate) fn end(&self) {
        if let Server::Disk(disk) = self {
            disk.seat().place = Place::Free;
        }
    }
}

/// A disk, and who holds the ledger on it.
pub(crate) struct DiskServer {
    pub(crate) disk: FaultDisk,
    seat: Mutex<Seat>,
}

struct Seat {
    place: Place,
    /// The disk is full, but for what it had then and this.
    capacity: Option<u64>,
    /// The holder ends when its disk fails next, rather than giving it up.
    kills: bool,
    /// The host loses its power then.
    power: bool,
    opened: u32,
}

enum Place {
    Free,
    /// Somebody is opening it.
    Opening(Arc<Process>),
    Held(Holder),
}

/// Who holds the ledger.
#[derive(Clone)]
pub(crate) struct Holder {
    pub(crate) process: Arc<Process>,
    pub(crate) store: Arc<SimulatedStore>,
    /// Told when something may have been queued.
    pub(crate) kick: Arc<Notify>,
}

/// How often the holder looks after its log.
const UPKEEP: Duration = Duration::from_millis(250);

impl DiskServer {
    fn new(seed: u64) -> DiskServer {
        let seat = Seat { place: Place::Free, capacity: None, kills: false, power: false, opened: 0 };
        DiskServer { disk: FaultDisk::new(seed), seat: Mutex::new(seat) }
    }

    fn seat(&self) -> MutexGuard<'_, Seat> {
        self.seat.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The process that holds it, or is about to.
    pub(crate) fn holder(&self) -> Option<Arc<Process>> {
        match &self.seat().place {
            Place::Free => None,
            Place::Opening(process) => Some(process.clone()),
            Place::Held(holder) => Some(holder.process.clone()),
        }
    }

    /// Whoever holds it, or this process if nobody does: it then opens it.
    ///
    /// # Errors
    /// If it can't be opened, or another process that is opening it doesn't come to an end.
    pub(crate) async fn held_by(&self, world: &Arc<World>, process: &Arc<Process>) -> Result<Holder, LedgerError> {
        for _ in 0..400 {
            let opens = {
                let mut seat = self.seat();
                match &seat.place {
                    Place::Held(holder) if holder.process.is_alive() => return Ok(holder.clone()),
                    Place::Opening(opening) if opening.is_alive() => false,
                    Place::Held(_) | Place::Opening(_) | Place::Free => {
                        seat.place = Place::Opening(process.clone());
                        true
                    }
                }
            };
            if opens {
                // In a task of its own, so that a caller who gives up doesn't leave it half done.
                let (world, opener) = (world.clone(), process.clone());
                let opening = process.spawn(async move {
                    world.delay(1..=30).await;
                    match &world.server {
                        Server::Disk(disk) => disk.take(&world, &opener),
                        Server::Shared(_) => Err(LedgerError::Unavailable("there is no disk".to_owned())),
                    }
                });
                return opening.await.unwrap_or_else(|_| Err(LedgerError::Unavailable("it was closed".to_owned())));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Err(LedgerError::Unavailable("the process that holds it doesn't answer".to_owned()))
    }

    /// Opens it, and holds it from then on.
    fn take(&self, world: &Arc<World>, process: &Arc<Process>) -> Result<Holder, LedgerError> {
        let opened = self.open(world, process);
        self.seat().place = match &opened {
            Ok(holder) => Place::Held(holder.clone()),
            Err(_) => Place::Free,
        };
        opened
    }

    fn open(&self, world: &Arc<World>, process: &Arc<Process>) -> Result<Holder, LedgerError> {
        self.limit();
        let mut options = FileLedgerOptions::default();
        options.log = LogOptions { segment_bytes: world.plan.segment, preallocate_bytes: world.plan.segment / 4 };
        let clock = {
            let world = Arc::downgrade(world);
            move || world.upgrade().map_or(Time(0), |world| world.time())
        };
        let lives = Arc::new(Lives(Arc::downgrade(world)));
        let store = match SimulatedStore::open(self.disk.clone(), &options, lives, Arc::new(clock)) {
            Ok(store) => Arc::new(store),
            Err(error) => {
                if let LedgerError::Corrupt(why) = &error {
                    world.violated(Property::Opens, format!("the ledger is refused: {why}"));
                }
                return Err(error);
            }
        };
        self.seat().opened += 1;
        world.note(format_args!("guard {} holds the ledger", process.guard));
        let found = store.scan(settled::Filter::All)?;
        if let Some(what) = world.truth(|truth| truth.found(&found)) {
            world.violated(Property::KeepsAcknowledged, what);
        }
        let holder = Holder { process: process.clone(), store, kick: Arc::new(Notify::new()) };
        process.spawn(commit(world.clone(), holder.clone()));
        process.spawn(keep_up(world.clone(), holder.clone()));
        Ok(holder)
    }

    /// From now on files may take so many bytes more.
    pub(crate) fn fill(&self, left: Option<u64>) {
        let used: usize = self.disk.names().iter().filter_map(|name| Some(self.disk.bytes(name)?.len())).sum();
        self.seat().capacity = left.map(|left| used as u64 + left);
        self.limit();
    }

    fn limit(&self) {
        let mut seat = self.seat();
        seat.kills = false;
        self.disk.set_faults(Faults { capacity: seat.capacity, ..Faults::default() });
    }

    /// Whether a holder's disk has failed a write, and it has left it to the next one, which may be the same process. A holder
    /// that is to be killed then doesn't come to that.
    pub(crate) fn is_given_up(&self, world: &World, holder: &Holder) -> bool {
        let mut seat = self.seat();
        if holder.store.failure().is_none() || seat.kills {
            return false;
        }
        let held = matches!(&seat.place, Place::Held(now) if Arc::ptr_eq(&now.store, &holder.store));
        if held {
            seat.place = Place::Free;
        }
        drop(seat);
        holder.store.close();
        if held {
            world.fault("holder gave the disk up");
        }
        true
    }

    /// Sets a fault of the disk, besides that it may be full.
    pub(crate) fn fail(&self, faults: Faults, power: bool) {
        let capacity = {
            let mut seat = self.seat();
            seat.kills = faults.stop_after.is_some();
            seat.power = power;
            seat.capacity
        };
        self.disk.set_faults(Faults { capacity, ..faults });
    }

    /// Whether the host loses its power now that the disk has failed.
    pub(crate) fn takes_power(&self) -> bool {
        std::mem::take(&mut self.seat().power)
    }
}

/// Commits what is queued, after as long as a sync takes.
async fn commit(world: Arc<World>, holder: Holder) {
    loop {
        if holder.store.queued() == 0 {
            // What one write leads to is queued without a word.
            let _ = tokio::time::timeout(Duration::from_millis(100), holder.kick.notified()).await;
        }
        world.delay(1..=4).await;
        let Some(disk) = world.server.disk() else { return };
        if disk.is_given_up(&world, &holder) {
            return;
        }
        let before = disk.disk.counts();
        if holder.store.commit() > 0 {
            let after = disk.disk.counts();
            world.note(format_args!("guard {} has committed ({before:?} to {after:?})", holder.process.guard));
        }
    }
}

/// Compacts and writes snapshots.
async fn keep_up(world: Arc<World>, holder: Holder) {
    loop {
        tokio::time::sleep(UPKEEP).await;
        if world.server.disk().is_none_or(|disk| disk.is_given_up(&world, &holder)) {
            return;
        }
        let before = holder.store.size().segments;
        match holder.store.upkeep() {
            Ok(()) if holder.store.size().segments < before => world.coverage(|coverage| coverage.step("compacted")),
            Ok(()) => {}
            Err(error) => {
                world.note(format_args!("upkeep failed: {error}"));
                tokio::time::sleep(Duration::from_secs(5)).await;
            }
        }
    }
}

/// Who lives, as locks on files would say.
struct Lives(std::sync::Weak<World>);

impl Processes for Lives {
    fn lives(&self, owner: Epoch) -> bool {
        self.0.upgrade().and_then(|world| world.owner(owner)).is_some_and(|process| process.is_alive())
    }

    fn living(&self) -> Vec<Epoch> {
        self.0.upgrade().map(|world| world.living()).unwrap_or_default()
    }
}

//! A device: acts at once and offline, keeps what it did until the server has it, and shows the state that all will agree on.

mod entry;
mod error;
mod remote;
mod replica;
mod rounds;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use settled_ledger_file::log::disk::{Disk, FsDisk};
use settled_ledger_file::log::{DirLock, Log, LogOptions};
use settled_protocol::merge::{Change, Merged, Name, OpId, Value, View};
use settled_protocol::record::Millis;

use crate::schema::{Schema, Unfit};
use crate::wire::{Cursor, Pulled, Sent, Upload, Uploaded};
use entry::Entry;
use replica::Replica;

pub use error::DeviceError;
pub use remote::{Remote, RemoteError};
pub use replica::Refused;
pub use rounds::{Progress, RoundError, Rounds, Synced};

/// A wall clock, in milliseconds since 1970.
pub type WallClock = Arc<dyn Fn() -> Millis + Send + Sync>;

/// How a device is opened.
#[derive(Clone)]
pub struct DeviceOptions {
    /// Its name, when it is opened for the first time; without, one is drawn. No two devices may have the same one.
    pub name: Option<Name>,
    /// How long to wait for another process that has it open.
    pub patience: Duration,
    /// Its wall clock.
    pub clock: WallClock,
    /// Its log is rewritten, as the state that it leads to, once it has so many bytes, and four times as many as the last time.
    pub compact_at: u64,
}

impl Default for DeviceOptions {
    /// A name that is drawn, 10 s, this machine's clock, 4 MiB.
    fn default() -> Self {
        let clock: WallClock =
            Arc::new(|| SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as Millis));
        Self { name: None, patience: Duration::from_secs(10), clock, compact_at: 4 << 20 }
    }
}

/// A device, with its queue and its replica in a directory.
///
/// What a call has returned of is on the disk: a kill or a loss of power loses nothing of it.
pub struct Device {
    schema: Schema,
    clock: WallClock,
    compact_at: u64,
    inner: Mutex<Inner>,
    /// Released when the device is dropped, after its log.
    _lock: Option<DirLock>,
}

struct Inner {
    log: Log,
    replica: Replica,
    /// The size of the log at which it is rewritten.
    compact_at: u64,
}

impl Device {
    /// Opens the device in this directory, or makes one. Without a schema, with the one that it had.
    ///
    /// # Errors
    /// [`DeviceError`] if another process has it, its files can't be read or written, the schema can't follow the one it had, or it had
    /// none and is given none.
    pub fn open(
        directory: &Path,
        schema: impl Into<Option<Schema>>,
        options: DeviceOptions,
    ) -> Result<Self, DeviceError> {
        let schema = schema.into();
        if schema.is_none() && !directory.exists() {
            return Err(DeviceError::NoSchema);
        }
        let deadline = Instant::now() + options.patience;
        let lock = loop {
            if let Some(lock) = DirLock::try_acquire(directory)? {
                break lock;
            }
            if Instant::now() >= deadline {
                return Err(DeviceError::InUse { directory: directory.to_owned() });
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let unusable = |error| DeviceError::Directory { directory: directory.to_owned(), error };
        let disk = FsDisk::open(directory).map_err(unusable)?;
        let mut device = Self::on(Arc::new(disk), schema, options)?;
        device._lock = Some(lock);
        Ok(device)
    }

    /// Opens the device on this disk, which nobody else has.
    ///
    /// # Errors
    /// As [`open`](Device::open).
    pub fn on(
        disk: Arc<dyn Disk>,
        schema: impl Into<Option<Schema>>,
        options: DeviceOptions,
    ) -> Result<Self, DeviceError> {
        let given = schema.into();
        let mut replica = None;
        let log_options = LogOptions { segment_bytes: options.compact_at.max(1 << 16), preallocate_bytes: 1 << 16 };
        let (mut log, _) = Log::open(disk, log_options, |_, frame| {
            let entry = Entry::read(frame)?;
            Replica::fold(&mut replica, entry);
            Ok(())
        })?;
        let known = replica.as_ref().map(|replica: &Replica| replica.schema.clone());
        let schema = given.or(known).ok_or(DeviceError::NoSchema)?;
        let replica = match replica {
            Some(replica) => replica,
            None => {
                let name = options.name.map_or_else(drawn_name, Ok)?;
                let begun = Entry::Begun { name, schema: schema.clone() };
                log.append(&[&begun.write()])?;
                let mut replica = None;
                Replica::fold(&mut replica, begun);
                replica.ok_or(DeviceError::Unreadable)?
            }
        };
        let compact_at = options.compact_at;
        let inner = Mutex::new(Inner { log, replica, compact_at });
        let device = Self { schema, clock: options.clock, compact_at, inner, _lock: None };
        device.follow_schema()?;
        Ok(device)
    }

    /// Takes over a later schema, with what was pulled and not understood before.
    fn follow_schema(&self) -> Result<(), DeviceError> {
        let mut inner = self.inner();
        let known = &inner.replica.schema;
        if *known != self.schema {
            self.schema.follows(known)?;
            self.record(&mut inner, Entry::Schema(self.schema.clone()))?;
        }
        Ok(())
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> Name {
        self.inner().replica.name.clone()
    }

    /// Does something, now: it shows at once, is on the disk when this returns, and reaches everybody else by and by.
    ///
    /// # Errors
    /// [`DeviceError::Unfit`] if the schema does not allow it; others if it could not be written: then it has not been done.
    pub fn act(&self, target: Name, change: Change) -> Result<OpId, DeviceError> {
        let ids = self.act_all([(target, change)])?;
        ids.first().copied().ok_or(DeviceError::Unreadable)
    }

    /// Does several things, all of them or none.
    ///
    /// # Errors
    /// As [`act`](Device::act).
    pub fn act_all(&self, changes: impl IntoIterator<Item = (Name, Change)>) -> Result<Vec<OpId>, DeviceError> {
        let mut inner = self.inner();
        let now = (self.clock)();
        let mut made = Vec::new();
        let mut clock = inner.replica.clock();
        for (target, change) in changes {
            self.schema.check(&target, &change)?;
            let op_id = OpId::version_7(now, random()?);
            let operation = settled_protocol::merge::Operation {
                op_id,
                device: inner.replica.name.clone(),
                time: clock.tick(now),
                target,
                change,
            };
            made.push(Sent { operation, after: inner.replica.confirmed });
        }
        let ids = made.iter().map(|sent| sent.operation.op_id).collect();
        if !made.is_empty() {
            self.record(&mut inner, Entry::Made(made))?;
        }
        Ok(ids)
    }

    /// Removes an element from an add-wins set, as far as this device has seen it added. `fields` leads to the set, from the target.
    ///
    /// # Errors
    /// As [`act`](Device::act).
    pub fn remove(&self, target: Name, fields: &[Name], value: Value) -> Result<OpId, DeviceError> {
        let state = self.state(&target);
        let mut set = state.as_ref();
        for field in fields {
            set = match set {
                Some(Merged::Map(of)) => of.get(field),
                _ => None,
            };
        }
        let observed = set.map(|set| set.additions(&value)).unwrap_or_default();
        let change = fields
            .iter()
            .rev()
            .fold(Change::Remove { value, observed }, |change, field| Change::Field(field.clone(), Box::new(change)));
        self.act(target, change)
    }

    /// A target's state, with what this device did and the server does not have yet. `None` if nothing is known of it.
    #[must_use]
    pub fn view(&self, target: &Name) -> Option<View> {
        self.state(target).map(|state| state.view())
    }

    fn state(&self, target: &Name) -> Option<Merged> {
        self.inner().replica.overlaid(&self.schema, |name| name == target).remove(target)
    }

    /// All targets.
    #[must_use]
    pub fn views(&self) -> BTreeMap<Name, View> {
        let states = self.inner().replica.overlaid(&self.schema, |_| true);
        states.into_iter().map(|(name, state)| (name, state.view())).collect()
    }

    /// How many operations the server has not acknowledged.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.inner().replica.pending.len()
    }

    /// What the server has refused. It shows nowhere any more.
    #[must_use]
    pub fn refused(&self) -> Vec<Refused> {
        self.inner().replica.refused.clone()
    }

    /// Drops what was refused up to now, once somebody has seen it.
    ///
    /// # Errors
    /// If that can't be written.
    pub fn forget_refused(&self) -> Result<(), DeviceError> {
        self.record(&mut self.inner(), Entry::RefusedSeen)
    }

    /// The cursor up to which it has what the server has.
    #[must_use]
    pub fn cursor(&self) -> Cursor {
        self.inner().replica.cursor
    }

    /// The operation that it has seen at that cursor, by which a server that was restored from an older copy is told.
    #[must_use]
    pub fn last(&self) -> Option<OpId> {
        self.inner().replica.last
    }

    /// Its schema.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// What to send to the server next: up to `most` of its operations, after `skip` that it holds. `None` if there is nothing. Asking
    /// changes nothing: until an answer is [recorded](Device::uploaded), the same is to be sent again.
    #[must_use]
    pub fn upload(&self, skip: usize, most: usize) -> Option<Upload> {
        let inner = self.inner();
        let operations: Vec<_> = inner.replica.pending.values().skip(skip).take(most.max(1)).cloned().collect();
        (!operations.is_empty()).then(|| Upload {
            device: inner.replica.name.clone(),
            schema: self.schema.version,
            now: (self.clock)(),
            operations,
        })
    }

    /// Records what the server has answered. A second record of the same changes nothing.
    ///
    /// # Errors
    /// If it can't be written: then it is to be sent again.
    pub fn uploaded(&self, uploaded: &Uploaded) -> Result<(), DeviceError> {
        self.record(&mut self.inner(), Entry::Uploaded(uploaded.answers.clone()))
    }

    /// Records what was pulled from the server. Operations that it has already change nothing.
    ///
    /// # Errors
    /// If it can't be written: then it is to be pulled again.
    pub fn pulled(&self, pulled: &Pulled) -> Result<(), DeviceError> {
        let mut inner = self.inner();
        // An answer that another one has overtaken.
        let late = pulled.operations.first().is_some_and(|first| first.cursor != inner.replica.cursor + 1);
        if pulled.operations.is_empty() || late {
            return Ok(());
        }
        self.record(&mut inner, Entry::Pulled { operations: pulled.operations.clone(), cursor: pulled.cursor })
    }

    /// Drops all that it has pulled, to pull it from the beginning again: the server was restored from an older copy, and what it has
    /// lost is to be gone here, too. What is pending stays.
    ///
    /// # Errors
    /// If that can't be written.
    pub fn start_over(&self) -> Result<(), DeviceError> {
        self.record(&mut self.inner(), Entry::StartedOver)
    }

    fn record(&self, inner: &mut Inner, entry: Entry) -> Result<(), DeviceError> {
        inner.log.append(&[&entry.write()])?;
        inner.replica.apply(entry);
        self.compact(inner)
    }

    /// Replaces a long log by the state that it leads to.
    fn compact(&self, inner: &mut Inner) -> Result<(), DeviceError> {
        let reader = inner.log.reader();
        if reader.end() - reader.begin() < inner.compact_at {
            return Ok(());
        }
        let whole = Entry::Whole(Box::new(inner.replica.clone())).write();
        let at = inner.log.append(&[&whole])?.first().copied().ok_or(DeviceError::Unreadable)?;
        // What stands before it in its file is overwritten by it, when the log is read.
        if let Some(base) = reader.segments().into_iter().filter(|base| *base <= at).max() {
            inner.log.trimmer().remove_before(base)?;
        }
        inner.compact_at = self.compact_at.max(4 * whole.len() as u64);
        Ok(())
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // What a panic may have left undone is not in the log, and the log is what counts.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<Unfit> for DeviceError {
    fn from(unfit: Unfit) -> Self {
        DeviceError::Unfit(unfit)
    }
}

fn random() -> Result<u128, DeviceError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| DeviceError::Random(error.to_string()))?;
    Ok(u128::from_le_bytes(bytes))
}

fn drawn_name() -> Result<Name, DeviceError> {
    Name::new(format!("device-{:016x}", random()? as u64)).map_err(|error| DeviceError::Random(error.to_string()))
}

//! Faults that a test asks for, on a real directory: compiled in under the feature `fault-points` only, and absent from every
//! other build.
//!
//! Every operation that changes something or makes it durable is a fault point before and after it (`before-write`,
//! `after-write` and so on: see [`settled::fault`]). `SETTLED_DISK_FAULT` says what goes wrong, as a list separated by commas
//! of `OPERATION:WHEN:FAULT`:
//!
//! * `OPERATION`: `create`, `open`, `write`, `fsync`, `rename`, `remove`, `truncate`, `syncdir`, or `any` of them;
//! * `WHEN`: `3` is the third one of this process, `3+` the third one and all that follow, `*` all;
//! * `FAULT`: `EIO`, `ENOSPC`, `EROFS`, `EMFILE`, `EDQUOT` (nothing is done, and that is returned); `short` (a write takes half
//!   of what it is given, at least one byte; other operations are not affected); `torn` (a write takes half, and fails with
//!   EIO); `lost` (a sync fails with EIO, and what was written to its file since the last one is gone, as when the operating
//!   system drops the pages); `slow` (it takes 200 ms longer).
//!
//! A fault that is not understood is refused when the ledger is opened: a test must not pass because of a mistyped fault. When
//! `SETTLED_DISK_LOG` names a file, each fault that took place is appended to it as `OPERATION NUMBER FAULT`.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use nix::errno::Errno;
use settled::fault;

use super::{Disk, DiskFile, Displaced};

const SLOW: Duration = Duration::from_millis(200);

const OPERATIONS: [&str; 8] = ["create", "open", "write", "fsync", "rename", "remove", "truncate", "syncdir"];

/// A disk with the faults that the environment asks for.
pub(crate) fn wrap(disk: Arc<dyn Disk>) -> io::Result<Arc<dyn Disk>> {
    static PLAN: OnceLock<Result<Arc<Plan>, String>> = OnceLock::new();
    let plan = PLAN.get_or_init(|| Plan::parse(&std::env::var("SETTLED_DISK_FAULT").unwrap_or_default()).map(Arc::new));
    match plan {
        Ok(plan) => Ok(Arc::new(Injected { disk, plan: Arc::clone(plan) })),
        Err(why) => Err(io::Error::new(io::ErrorKind::InvalidInput, format!("SETTLED_DISK_FAULT: {why}"))),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Error(Errno),
    Short,
    Torn,
    Lost,
    Slow,
}

#[derive(Debug)]
struct Rule {
    operation: String,
    from: u64,
    to: u64,
    fault: Fault,
    named: String,
}

/// What goes wrong, and what was done so far.
#[derive(Debug, Default)]
struct Plan {
    rules: Vec<Rule>,
    done: [AtomicU64; OPERATIONS.len()],
    all: AtomicU64,
}

impl Plan {
    fn parse(text: &str) -> Result<Plan, String> {
        let rules = text.split(',').filter(|rule| !rule.is_empty()).map(Rule::parse);
        Ok(Plan { rules: rules.collect::<Result<_, _>>()?, ..Plan::default() })
    }

    /// Counts an operation; the fault that it meets.
    fn meets(&self, operation: &'static str) -> Option<Fault> {
        let place = OPERATIONS.iter().position(|known| *known == operation)?;
        let number = self.done.get(place)?.fetch_add(1, Ordering::SeqCst) + 1;
        let of_all = self.all.fetch_add(1, Ordering::SeqCst) + 1;
        let rule = self.rules.iter().find(|rule| {
            let number = if rule.operation == "any" { of_all } else { number };
            (rule.operation == operation || rule.operation == "any") && (rule.from..=rule.to).contains(&number)
        })?;
        if let Some(path) = std::env::var_os("SETTLED_DISK_LOG") {
            let log = OpenOptions::new().create(true).append(true).open(path);
            let line = format!("{operation} {number} {}\n", rule.named);
            // A fault that can't be told of still has to take place.
            let _ = log.and_then(|mut log| log.write_all(line.as_bytes()));
        }
        Some(rule.fault)
    }

    /// Does an operation that is done whole or not at all.
    fn whole<T>(&self, operation: &'static str, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        fault::point(&format!("before-{operation}"));
        match self.meets(operation) {
            Some(Fault::Error(errno)) => return Err(errno.into()),
            Some(Fault::Lost | Fault::Torn) => return Err(Errno::EIO.into()),
            Some(Fault::Slow) => std::thread::sleep(SLOW),
            Some(Fault::Short) | None => {}
        }
        let done = act();
        fault::point(&format!("after-{operation}"));
        done
    }
}

impl Rule {
    fn parse(text: &str) -> Result<Rule, String> {
        let mut parts = text.split(':');
        let (Some(operation), Some(when), Some(named), None) = (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(format!("`{text}` is not OPERATION:WHEN:FAULT"));
        };
        if operation != "any" && !OPERATIONS.contains(&operation) {
            return Err(format!("there is no operation `{operation}`"));
        }
        let number = |text: &str| text.parse().map_err(|_| format!("`{when}` is not N, N+ or *"));
        let (from, to) = match when.strip_suffix('+') {
            _ if when == "*" => (1, u64::MAX),
            Some(from) => (number(from)?, u64::MAX),
            None => (number(when)?, number(when)?),
        };
        let fault = match named {
            "EIO" => Fault::Error(Errno::EIO),
            "ENOSPC" => Fault::Error(Errno::ENOSPC),
            "EROFS" => Fault::Error(Errno::EROFS),
            "EMFILE" => Fault::Error(Errno::EMFILE),
            "EDQUOT" => Fault::Error(Errno::EDQUOT),
            "short" => Fault::Short,
            "torn" => Fault::Torn,
            "lost" => Fault::Lost,
            "slow" => Fault::Slow,
            _ => return Err(format!("there is no fault `{named}`")),
        };
        Ok(Rule { operation: operation.to_owned(), from, to, fault, named: named.to_owned() })
    }
}

struct Injected {
    disk: Arc<dyn Disk>,
    plan: Arc<Plan>,
}

impl Injected {
    fn file(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(InjectedFile { file, plan: Arc::clone(&self.plan), unsynced: Mutex::default() })
    }
}

impl Disk for Injected {
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.plan.whole("create", || self.disk.create(name)).map(|file| self.file(file))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.plan.whole("open", || self.disk.open(name)).map(|file| self.file(file))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.plan.whole("rename", || self.disk.rename(from, to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.plan.whole("remove", || self.disk.remove(name))
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.plan.whole("syncdir", || self.disk.sync_dir())
    }
}

struct InjectedFile {
    file: Arc<dyn DiskFile>,
    plan: Arc<Plan>,
    /// What was there before each write since the last sync, oldest first.
    unsynced: Mutex<Vec<(u64, Vec<u8>)>>,
}

impl InjectedFile {
    /// Writes, and remembers what was there: only a plan with a `lost` sync needs that.
    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        if self.plan.rules.iter().any(|rule| rule.fault == Fault::Lost) {
            let mut before = vec![0; bytes.len()];
            let read = super::read_full_at(&*self.file, &mut before, offset)?;
            before.truncate(read);
            self.unsynced.lock().unwrap_or_else(PoisonError::into_inner).push((offset, before));
        }
        self.file.write_at(bytes, offset)
    }

    /// Undoes what was written since the last sync. A file that has become longer keeps zeros there.
    fn lose(&self) -> io::Result<()> {
        let unsynced = std::mem::take(&mut *self.unsynced.lock().unwrap_or_else(PoisonError::into_inner));
        for (offset, before) in unsynced.into_iter().rev() {
            super::write_all_at(&*self.file, &before, offset)?;
        }
        Ok(())
    }

    fn sync(&self, act: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        fault::point("before-fsync");
        match self.plan.meets("fsync") {
            Some(Fault::Error(errno)) => return Err(errno.into()),
            Some(Fault::Lost) => {
                self.lose()?;
                return Err(Errno::EIO.into());
            }
            Some(Fault::Torn) => return Err(Errno::EIO.into()),
            Some(Fault::Slow) => std::thread::sleep(SLOW),
            Some(Fault::Short) | None => {}
        }
        act()?;
        self.unsynced.lock().unwrap_or_else(PoisonError::into_inner).clear();
        fault::point("after-fsync");
        Ok(())
    }
}

impl DiskFile for InjectedFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        fault::point("before-write");
        let half = bytes.get(..bytes.len().div_ceil(2)).unwrap_or(bytes);
        let written = match self.plan.meets("write") {
            Some(Fault::Error(errno)) => return Err(errno.into()),
            Some(Fault::Torn) => {
                self.write(half, offset)?;
                return Err(Errno::EIO.into());
            }
            Some(Fault::Short) => self.write(half, offset),
            Some(Fault::Slow) => {
                std::thread::sleep(SLOW);
                self.write(bytes, offset)
            }
            Some(Fault::Lost) => return Err(Errno::EIO.into()),
            None => self.write(bytes, offset),
        };
        fault::point("after-write");
        written
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(into, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.sync(|| self.file.sync_data())
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync(|| self.file.sync_all())
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.plan.whole("truncate", || self.file.truncate(len))
    }

    fn in_place(&self, len: u64) -> Result<(), Displaced> {
        self.file.in_place(len)
    }
}

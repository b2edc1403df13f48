//! The ledger as its users see it.

use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use async_trait::async_trait;
use settled::{Change, Draw, Entry, Filter, Ledger, LedgerError, Liveness, Remains, Renewal, Resource, Stored};
use settled_protocol::{Durable, Epoch, Key, Time, Version};
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, sleep};

use crate::error::from_io;
use crate::options::FileLedgerOptions;
use crate::owners::{Owners, Sign};
use crate::path::{self, Found};
use crate::seat::Seat;
use crate::size::LedgerSize;
use crate::store::{Store, Ticket, check_size};
use crate::sync::lock;
use crate::wire::{Reply, Request};

/// How often the files of this process's owners are looked after.
const KEEP_OWNERS: Duration = Duration::from_millis(500);

/// A ledger in a directory of a local disk, for any number of processes on one host.
///
/// The first process to open the directory holds it, and serves the others through a socket in it. When that process ends,
/// however it ends, another one takes its place: calls under way then go on there. What a call does is the same for all of
/// them, and so are the promises of [`Ledger`]. Network file systems are no place for it: their locks and syncs don't keep
/// what these promises rest on.
///
/// A holder whose disk fails a write gives the directory up, and another process takes its place: the log is opened anew, as only
/// that tells what is in it. If there is none, the same process does so, at once the first time, and then ever less often for as
/// long as the disk fails; in between calls are [`Poisoned`](LedgerError::Poisoned). So a ledger whose disk is in order again
/// goes on by itself.
///
/// The directory is its processes' own. A holder acknowledges nothing once the directory or the log's current file is no
/// longer at its path: all its calls are then [`Poisoned`](LedgerError::Poisoned), and so are its guests', until it is restarted.
/// Other files that are
/// removed, the socket and those in `owners`, are made anew.
///
/// An owner that was registered counts as gone once it retires, this value is closed or dropped, or its process has ended. So
/// keep it for as long as something may still be sent.
///
/// The space of what was forgotten is given back while the ledger is used, and the log takes no more than about twice what is
/// kept, and two files. Now and then the holder writes a snapshot of its index, so that the next one needn't read all of the
/// log. If that is gone, or isn't of this log, all of the log is read.
///
/// A store whose answer was lost with the holder is looked for at the next one: it is made once, and its answer is true.
pub struct FileLedger {
    seat: Arc<Seat>,
    owners: Arc<Owners>,
    tokens: Tokens,
    runtime: Mutex<Option<Runtime>>,
}

impl std::fmt::Debug for FileLedger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileLedger").finish_non_exhaustive()
    }
}

impl FileLedger {
    /// Opens the ledger in `dir`, and creates it (with mode 0700) where there is none. Blocks: while it recovers, or while
    /// another process does.
    ///
    /// # Errors
    ///
    /// [`LedgerError::Corrupt`] with the file and the offset if the log is damaged, or with its path if there was one and it
    /// is gone; [`LedgerError::Unavailable`] if the
    /// directory can't be used, or the process that holds it doesn't answer for as long as the options' patience.
    pub fn open(dir: impl AsRef<Path>, options: FileLedgerOptions) -> Result<Self, LedgerError> {
        let dir = &*path::absolute(dir.as_ref())?;
        path::look(dir)?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("settled-ledger-io")
            .enable_all()
            .build()
            .map_err(|e| from_io("start threads for", dir, &e))?;
        let deadline = Instant::now() + options.patience;
        let owners = Arc::new(Owners::new(dir));
        let seat = Arc::new(Seat::new(dir, options, Arc::clone(&owners), runtime.handle().clone()));
        let ledger =
            FileLedger { seat: Arc::clone(&seat), owners, tokens: Tokens::new(), runtime: Mutex::new(Some(runtime)) };
        // The caller may be within a runtime of its own, where waiting for a task of this one isn't allowed otherwise.
        let (done, opened) = mpsc::channel();
        seat.runtime().spawn({
            let seat = Arc::clone(&seat);
            async move { done.send(seat.find(None, deadline).await) }
        });
        let ended = |_| LedgerError::Unavailable("opening it was interrupted".to_owned());
        opened.recv().map_err(ended)??;
        // Ends with the runtime.
        seat.runtime().spawn({
            let seat = Arc::clone(&seat);
            async move {
                loop {
                    sleep(KEEP_OWNERS).await;
                    let seat = Arc::clone(&seat);
                    let _ = tokio::task::spawn_blocking(move || seat.keep_owners()).await;
                }
            }
        });
        Ok(ledger)
    }

    /// Opens the ledger in `dir` with the default options if there is one, to look at it.
    ///
    /// # Errors
    ///
    /// As [`open`](FileLedger::open); also [`LedgerError::Unavailable`] if there is no ledger.
    pub fn open_existing(dir: impl AsRef<Path>) -> Result<Self, LedgerError> {
        let dir = dir.as_ref();
        if path::look(&path::absolute(dir)?)? == Found::None {
            return Err(LedgerError::Unavailable(format!("there is no ledger in `{}`: check the path", dir.display())));
        }
        FileLedger::open(dir, FileLedgerOptions::default())
    }

    /// Whether this process holds the directory, rather than being a guest of another one.
    pub fn is_holder(&self) -> bool {
        self.seat.is_holder()
    }

    /// How large it is.
    ///
    /// # Errors
    ///
    /// [`LedgerError::Unavailable`] if the process that holds the directory doesn't answer.
    pub async fn size(&self) -> Result<LedgerSize, LedgerError> {
        match self.seat.request(Request::Size).await? {
            Reply::Size(size) => Ok(size),
            other => Err(unexpected(&other)),
        }
    }

    /// Finishes the writes that were accepted, ends this process's ownerships, and hands the directory over to another
    /// process. Later calls fail. Blocks for as long as a sync takes. Dropping does the same.
    pub fn close(&self) {
        self.seat.leave();
        self.owners.release();
        if let Some(runtime) = lock(&self.runtime).take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for FileLedger {
    fn drop(&mut self) {
        self.close();
    }
}

#[async_trait]
impl Ledger for FileLedger {
    async fn register(&self, lease: Duration) -> Result<Epoch, LedgerError> {
        // None at all would stand for one that isn't known.
        let lease = lease.max(Duration::from_millis(1));
        let here = match self.seat.store()? {
            Some(store) => unless_over(&store, store.register(lease).await),
            None => None,
        };
        let epoch = match here {
            Some(registered) => registered?,
            // An epoch whose answer was lost is nobody's: the next one is as good.
            None => match self.seat.request(Request::Register { lease }).await? {
                Reply::Epoch(epoch) => epoch,
                other => return Err(unexpected(&other)),
            },
        };
        self.owners.hold(epoch)?;
        let told = self.seat.request(Request::Owns(vec![epoch])).await;
        // Closing may have come in between: it would have missed this one.
        if let Err(error) = self.seat.check_open() {
            self.owners.release();
            return Err(error);
        }
        told.map(|_| epoch)
    }

    async fn renew(&self, epoch: Epoch, lease: Duration) -> Result<Renewal, LedgerError> {
        match self.seat.request(Request::Renew { epoch, lease }).await? {
            Reply::Renewed(renewal) => Ok(renewal),
            other => Err(unexpected(&other)),
        }
    }

    async fn retire(&self, epoch: Epoch) -> Result<(), LedgerError> {
        match self.seat.request(Request::Retire(epoch)).await? {
            Reply::Done => self.owners.give_up(epoch),
            other => return Err(unexpected(&other)),
        }
        Ok(())
    }

    async fn liveness(&self, epoch: Epoch) -> Result<Liveness, LedgerError> {
        if self.owners.sign(epoch)? == Sign::Dead {
            return Ok(Liveness::Gone);
        }
        match self.seat.request(Request::Liveness(epoch)).await? {
            Reply::Liveness(liveness) => Ok(liveness),
            other => Err(unexpected(&other)),
        }
    }

    async fn time(&self) -> Result<Option<Time>, LedgerError> {
        if let Some(store) = self.seat.store()? {
            return Ok(Some(store.time()));
        }
        match self.seat.request(Request::Time).await? {
            Reply::Time(time) => Ok(Some(time)),
            other => Err(unexpected(&other)),
        }
    }

    async fn compare_and_set(&self, change: Change) -> Result<Stored, LedgerError> {
        check_size(&change)?;
        let Ticket { token, mut again } = self.tokens.ticket();
        let record = change.record;
        let mut here = None;
        if let Some(store) = self.seat.store()? {
            here = unless_over(&store, store.compare_and_set(&change, Ticket { token, again }).await);
            again = true;
        }
        let accepted = match here {
            Some(accepted) => accepted?,
            None => {
                let change = Box::new(change);
                accepted(self.seat.request(Request::CompareAndSet { change, token, again }).await?)?
            }
        };
        Ok(match accepted {
            true => Stored::Durable(Durable::attest(&record)),
            false => Stored::Refused,
        })
    }

    async fn get(&self, key: &Key) -> Result<Option<Entry>, LedgerError> {
        if let Some(store) = self.seat.store()? {
            let entry = store.get(key);
            if !store.tenure().is_over() {
                return entry;
            }
        }
        match self.seat.request(Request::Get(key.clone())).await? {
            Reply::Entry(entry) => Ok(entry.map(|entry| *entry)),
            other => Err(unexpected(&other)),
        }
    }

    async fn scan(&self, filter: Filter) -> Result<Vec<Entry>, LedgerError> {
        self.entries(Request::Scan(filter)).await
    }

    async fn line(&self, resource: &Resource) -> Result<Vec<Entry>, LedgerError> {
        self.entries(Request::Line(resource.clone())).await
    }

    async fn due(&self, now: Time, after: Option<&Entry>, limit: usize) -> Result<Vec<Entry>, LedgerError> {
        let after = after.map(|after| Box::new(bare(after)));
        self.entries(Request::Due { now, after, limit: limit as u64 }).await
    }

    async fn history(&self, key: &Key) -> Result<Vec<Change>, LedgerError> {
        match self.seat.request(Request::History(key.clone())).await? {
            Reply::Changes(changes) => Ok(changes),
            other => Err(unexpected(&other)),
        }
    }

    async fn forget(&self, key: &Key, expected: Version, remains: Remains) -> Result<bool, LedgerError> {
        let Ticket { token, mut again } = self.tokens.ticket();
        if let Some(store) = self.seat.store()? {
            let forgotten = store.forget(key, expected, remains, Ticket { token, again }).await;
            if let Some(forgotten) = unless_over(&store, forgotten) {
                return forgotten;
            }
            again = true;
        }
        let request = Request::Forget { key: key.clone(), expected, remains, token, again };
        accepted(self.seat.request(request).await?)
    }

    async fn changed(&self, key: &Key, seen: Option<Version>) -> Result<(), LedgerError> {
        if let Some(store) = self.seat.store()? {
            store.changed(key, seen).await;
            return Ok(());
        }
        let key = key.clone();
        match self.seat.request(Request::Changed { key, seen }).await? {
            Reply::Done => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    async fn draw(&self, draw: Draw) -> Result<bool, LedgerError> {
        if let Some(store) = self.seat.store()? {
            return Ok(store.draw(draw));
        }
        match self.seat.request(Request::Draw(draw)).await? {
            Reply::Drawn(drawn) => Ok(drawn),
            other => Err(unexpected(&other)),
        }
    }
}

impl FileLedger {
    async fn entries(&self, request: Request) -> Result<Vec<Entry>, LedgerError> {
        match self.seat.request(request).await? {
            Reply::Entries(entries) => Ok(entries),
            other => Err(unexpected(&other)),
        }
    }
}

/// What became of a write; `None` if that is for the next holder to say, which finds out by the write's token.
fn unless_over<T>(store: &Store, written: Result<T, LedgerError>) -> Option<Result<T, LedgerError>> {
    match written {
        Err(_) if store.tenure().is_over() => None,
        written => Some(written),
    }
}

/// An entry without its contents.
fn bare(entry: &Entry) -> Entry {
    Entry { asked: bytes::Bytes::new(), sent: None, outcome: None, note: None, ..entry.clone() }
}

fn accepted(reply: Reply) -> Result<bool, LedgerError> {
    match reply {
        Reply::Accepted(accepted) => Ok(accepted),
        other => Err(unexpected(&other)),
    }
}

fn unexpected(reply: &Reply) -> LedgerError {
    let kind = match reply {
        Reply::Epoch(_) => "an epoch",
        Reply::Accepted(_) => "a decision",
        Reply::Entry(_) => "an entry",
        Reply::Entries(_) => "entries",
        Reply::Changes(_) => "changes",
        Reply::Renewed(_) => "a renewal",
        Reply::Liveness(_) => "what it knows of an owner",
        Reply::Time(_) => "a time",
        Reply::Drawn(_) => "a token",
        Reply::Size(_) => "a size",
        Reply::Done => "an end",
        Reply::Failed(_) => "a failure",
    };
    LedgerError::Unavailable(format!(
        "its holder answered with {kind} where something else was asked for: use one version for all processes"
    ))
}

/// Makes the names of this ledger's requests to write.
struct Tokens {
    /// Random, so that two processes don't make the same.
    first: u64,
    next: AtomicU64,
}

impl Tokens {
    fn new() -> Tokens {
        Tokens { first: RandomState::new().hash_one(std::process::id()), next: AtomicU64::new(0) }
    }

    fn ticket(&self) -> Ticket {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        Ticket { token: self.first.wrapping_add(next), again: false }
    }
}

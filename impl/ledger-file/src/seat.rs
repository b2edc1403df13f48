//! This process's place at the directory: its holder, or a guest of the process that holds it; and the change from one to the
//! other.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use settled::LedgerError;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, timeout_at};

use crate::connection::Connection;
use crate::error::from_log;
use crate::log::DirLock;
use crate::log::disk::FileId;
use crate::options::FileLedgerOptions;
use crate::owners::Owners;
use crate::path::{self, Found};
use crate::server::{Server, answer};
use crate::store::Store;
use crate::sync::lock;
use crate::wire::{Reply, Request};

/// The place of this process.
pub(crate) struct Seat {
    dir: PathBuf,
    options: FileLedgerOptions,
    /// The directory, once there is a ledger in it.
    identity: OnceLock<FileId>,
    owners: Arc<Owners>,
    runtime: Handle,
    /// Set once this process has become the holder, which it then remains.
    held: OnceLock<Held>,
    guest: Mutex<Option<Arc<Connection>>>,
    /// Held by the one who looks for a new place.
    moving: tokio::sync::Mutex<()>,
    closed: AtomicBool,
}

struct Held {
    store: Arc<Store>,
    server: Mutex<Option<Server>>,
}

impl Seat {
    pub fn new(dir: &Path, options: FileLedgerOptions, owners: Arc<Owners>, runtime: Handle) -> Seat {
        Seat {
            dir: dir.to_owned(),
            options,
            identity: OnceLock::new(),
            owners,
            runtime,
            held: OnceLock::new(),
            guest: Mutex::default(),
            moving: tokio::sync::Mutex::default(),
            closed: AtomicBool::new(false),
        }
    }

    pub fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// The store, if this process holds the directory.
    pub fn store(&self) -> Result<Option<&Arc<Store>>, LedgerError> {
        self.check_open()?;
        Ok(self.held.get().map(|held| &held.store))
    }

    /// Has a request carried out, here or by the holder, whoever that comes to be.
    pub async fn request(self: &Arc<Self>, mut request: Request) -> Result<Reply, LedgerError> {
        let mut deadline = None;
        loop {
            if let Some(store) = self.store()? {
                let answer = self.runtime.spawn(answer(Arc::clone(store), request));
                return result(answer.await.map_err(|_| closed())?);
            }
            let guest = lock(&self.guest).clone();
            if let Some(guest) = &guest {
                match guest.request(&request).await {
                    Ok(reply) => return result(reply),
                    Err(_lost) => request.mark_again(),
                }
            }
            let deadline = *deadline.get_or_insert_with(|| Instant::now() + self.options.patience);
            // In a task of its own, so that a caller who gives up doesn't leave it half done.
            let moved = self.runtime.spawn(Arc::clone(self).find(guest, deadline));
            moved.await.map_err(|_| closed())??;
        }
    }

    /// Finds a place other than the connection that was lost: as the holder, or as a guest of the holder.
    pub async fn find(self: Arc<Self>, lost: Option<Arc<Connection>>, deadline: Instant) -> Result<(), LedgerError> {
        let late = |why: &str| {
            LedgerError::Unavailable(format!(
                "the process that holds `{}` doesn't answer, and hasn't ended: {why}",
                self.dir.display()
            ))
        };
        let moving = timeout_at(deadline, self.moving.lock()).await;
        let _moving = moving.map_err(|_| late("still looking for another"))?;
        let mut pause = 2;
        let mut why = String::from("no time is left to try");
        loop {
            self.check_open()?;
            let guest = lock(&self.guest).clone();
            let moved =
                guest.is_some_and(|now| now.is_open() && lost.as_ref().is_none_or(|lost| !Arc::ptr_eq(lost, &now)));
            if moved || self.held.get().is_some() {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(late(&why));
            }
            self.check_directory()?;
            let held = DirLock::try_acquire(&self.dir).map_err(|e| from_log(&e, &self.dir))?;
            if let Some(held) = held {
                // Locking creates what isn't there.
                self.check_directory()?;
                return self.take(held).await;
            }
            match timeout_at(deadline, Connection::open(&self.dir, self.silence())).await {
                Ok(Ok(connection)) => {
                    let owners = Request::Owns(self.owners.ours());
                    if !matches!(timeout_at(deadline, connection.request(&owners)).await, Ok(Ok(_))) {
                        "it was lost again".clone_into(&mut why);
                        continue;
                    }
                    self.note_identity();
                    *lock(&self.guest) = Some(Arc::new(connection));
                    return Ok(());
                }
                Ok(Err(error)) => why = error.to_string(),
                Err(_) => why = "it is stopped, or very busy".to_owned(),
            }
            sleep(Duration::from_millis(fastrand::u64(1..=pause))).await;
            pause = (pause * 2).min(100);
        }
    }

    /// Becomes the holder.
    async fn take(&self, lock_held: DirLock) -> Result<(), LedgerError> {
        let (dir, options, owners) = (self.dir.clone(), self.options.clone(), Arc::clone(&self.owners));
        let id = lock_held.id();
        let opening = tokio::task::spawn_blocking(move || Store::open(&dir, &options, owners, lock_held)).await;
        let store = Arc::new(opening.map_err(|e| LedgerError::Unavailable(e.to_string()))??);
        let server = Server::start(&self.dir, id, Arc::clone(&store), &self.runtime)?;
        let _ = self.identity.set(id);
        lock(&self.guest).take();
        let server = Mutex::new(Some(server));
        // Nobody else sets it: only one looks for a place at a time.
        let _ = self.held.set(Held { store, server });
        if self.closed.load(Ordering::SeqCst) {
            self.let_go();
        }
        tracing::debug!(directory = %self.dir.display(), "holds the ledger");
        Ok(())
    }

    fn silence(&self) -> Duration {
        // The holder says that it is alive four times a second.
        (self.options.patience / 2).max(Duration::from_secs(1))
    }

    fn note_identity(&self) {
        if let Ok(identity) = FileId::at(&self.dir) {
            let _ = self.identity.set(identity);
        }
    }

    /// A directory that was replaced holds another ledger, or none: going on there would forget all that was done.
    fn check_directory(&self) -> Result<(), LedgerError> {
        let Some(known) = self.identity.get() else {
            return Ok(());
        };
        match FileId::at(&self.dir) {
            Ok(now) if now == *known && path::look(&self.dir)? == Found::Ledger => Ok(()),
            _ => Err(path::replaced(&self.dir)),
        }
    }

    /// Makes what this process's owners hold anew, where it was taken away and the ledger wasn't.
    pub fn keep_owners(&self) {
        if self.identity.get().is_some() && self.check_directory().is_ok() {
            self.owners.keep();
        }
    }

    fn check_open(&self) -> Result<(), LedgerError> {
        match self.closed.load(Ordering::SeqCst) {
            true => Err(closed()),
            false => Ok(()),
        }
    }

    /// Gives the place up. A holder first finishes what it has accepted.
    pub fn leave(&self) {
        if self.closed.swap(true, Ordering::SeqCst) {
            return;
        }
        lock(&self.guest).take();
        self.let_go();
    }

    fn let_go(&self) {
        if let Some(held) = self.held.get() {
            lock(&held.server).take();
            held.store.close();
        }
    }
}

fn closed() -> LedgerError {
    LedgerError::Unavailable("it was closed".to_owned())
}

fn result(reply: Reply) -> Result<Reply, LedgerError> {
    match reply {
        Reply::Failed(failure) => Err(failure.into()),
        reply => Ok(reply),
    }
}

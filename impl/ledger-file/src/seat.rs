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
use crate::setback::{Now, Setback};
use crate::store::Store;
use crate::sync::lock;
use crate::tenure::Tenure;
use crate::wire::{Reply, Request};

/// The seat of this process.
pub(crate) struct Seat {
    dir: PathBuf,
    options: FileLedgerOptions,
    /// The directory, once there is a ledger in it.
    identity: OnceLock<FileId>,
    owners: Arc<Owners>,
    runtime: Handle,
    place: Mutex<Place>,
    /// Held by the one who looks for a new place.
    moving: tokio::sync::Mutex<()>,
    /// Held while the directory is let go of.
    leaving: Mutex<()>,
    /// Why this process last had to give the directory up.
    setback: Mutex<Option<Setback>>,
    closed: AtomicBool,
}

/// The place of this process.
enum Place {
    None,
    Guest(Arc<Connection>),
    Holder { store: Arc<Store>, server: Server },
}

impl Seat {
    pub fn new(dir: &Path, options: FileLedgerOptions, owners: Arc<Owners>, runtime: Handle) -> Seat {
        Seat {
            dir: dir.to_owned(),
            options,
            identity: OnceLock::new(),
            owners,
            runtime,
            place: Mutex::new(Place::None),
            moving: tokio::sync::Mutex::default(),
            leaving: Mutex::default(),
            setback: Mutex::default(),
            closed: AtomicBool::new(false),
        }
    }

    pub fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Whether this process holds the directory.
    pub fn is_holder(&self) -> bool {
        matches!(&*lock(&self.place), Place::Holder { store, .. } if !store.tenure().is_over())
    }

    /// The store, if this process holds the directory.
    pub fn store(&self) -> Result<Option<Arc<Store>>, LedgerError> {
        self.check_open()?;
        let store = match &*lock(&self.place) {
            Place::Holder { store, .. } if !store.tenure().is_over() => Arc::clone(store),
            _ => return Ok(None),
        };
        store.tenure().check_place()?;
        Ok(Some(store))
    }

    /// Has a request carried out, here or by the holder, whoever that comes to be.
    pub async fn request(self: &Arc<Self>, mut request: Request) -> Result<Reply, LedgerError> {
        let mut deadline = None;
        loop {
            if let Some(store) = self.store()? {
                let answer = self.runtime.spawn(answer(Arc::clone(&store), request.clone()));
                let answer = answer.await.map_err(|_| closed())?;
                if answer.is_certain() || !store.tenure().is_over() {
                    return result(answer);
                }
                request.mark_again();
            }
            let guest = match &*lock(&self.place) {
                Place::Guest(guest) => Some(Arc::clone(guest)),
                Place::None | Place::Holder { .. } => None,
            };
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
            if self.has_place(lost.as_ref()) {
                return Ok(());
            }
            let setback = lock(&self.setback).as_ref().map(|setback| (setback.at(Instant::now()), setback.error()));
            if Instant::now() >= deadline {
                return Err(match setback {
                    Some((Now::Wait | Now::Tell, error)) => error,
                    _ => late(&why),
                });
            }
            self.check_directory()?;
            if !matches!(setback, Some((Now::Wait, _))) {
                let held = DirLock::try_acquire(&self.dir).map_err(|e| from_log(&e, &self.dir))?;
                match (held, setback) {
                    // Nobody else has taken it.
                    (Some(_), Some((Now::Tell, error))) => return Err(error),
                    (Some(held), setback) => {
                        // Locking creates what isn't there.
                        self.check_directory()?;
                        let taken = self.take(held).await;
                        if let (Err(error), Some(_)) = (&taken, setback) {
                            self.set_back(error.clone());
                        }
                        return taken;
                    }
                    (None, _) => {}
                }
            }
            match timeout_at(deadline, Connection::open(&self.dir, self.silence())).await {
                Ok(Ok(connection)) => {
                    let owners = Request::Owns(self.owners.ours());
                    if !matches!(timeout_at(deadline, connection.request(&owners)).await, Ok(Ok(_))) {
                        "it was lost again".clone_into(&mut why);
                        continue;
                    }
                    self.note_identity();
                    *lock(&self.place) = Place::Guest(Arc::new(connection));
                    return Ok(());
                }
                Ok(Err(error)) => why = error.to_string(),
                Err(_) => why = "it is stopped, or very busy".to_owned(),
            }
            sleep(Duration::from_millis(fastrand::u64(1..=pause))).await;
            pause = (pause * 2).min(100);
        }
    }

    /// Whether there is a place other than the connection that was lost.
    fn has_place(&self, lost: Option<&Arc<Connection>>) -> bool {
        match &*lock(&self.place) {
            Place::None => false,
            Place::Guest(now) => now.is_open() && lost.is_none_or(|lost| !Arc::ptr_eq(lost, now)),
            Place::Holder { store, .. } => !store.tenure().is_over(),
        }
    }

    /// Becomes the holder.
    async fn take(self: &Arc<Self>, lock_held: DirLock) -> Result<(), LedgerError> {
        let (dir, options, owners) = (self.dir.clone(), self.options.clone(), Arc::clone(&self.owners));
        let id = lock_held.id();
        let opening = tokio::task::spawn_blocking(move || Store::open(&dir, &options, owners, lock_held)).await;
        let store = Arc::new(opening.map_err(|e| LedgerError::Unavailable(e.to_string()))??);
        let server = Server::start(&self.dir, id, Arc::clone(&store), &self.runtime)?;
        let _ = self.identity.set(id);
        let tenure = Arc::clone(store.tenure());
        *lock(&self.place) = Place::Holder { store, server };
        if self.closed.load(Ordering::SeqCst) {
            self.let_go(None);
        }
        tracing::debug!(directory = %self.dir.display(), "holds the ledger");
        let seat = Arc::downgrade(self);
        self.runtime.spawn(async move {
            let error = tenure.until_failed().await;
            if let Some(seat) = seat.upgrade() {
                // What was accepted is finished first, which blocks.
                let _ = tokio::task::spawn_blocking(move || seat.give_up(&tenure, error)).await;
            }
        });
        Ok(())
    }

    /// Leaves the directory to others, and to this process later, after a write has failed.
    fn give_up(&self, tenure: &Arc<Tenure>, error: LedgerError) {
        tracing::error!(
            directory = %self.dir.display(),
            %error,
            "a write to the ledger failed: another process takes it over, or this one opens it again",
        );
        self.set_back(error);
        self.let_go(Some(tenure));
    }

    fn set_back(&self, error: LedgerError) {
        let mut setback = lock(&self.setback);
        *setback = Some(Setback::after(setback.as_ref(), error, Instant::now()));
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

    /// # Errors
    /// If it was closed.
    pub fn check_open(&self) -> Result<(), LedgerError> {
        match self.closed.load(Ordering::SeqCst) {
            true => Err(closed()),
            false => Ok(()),
        }
    }

    /// Gives the place up. A holder first finishes what it has accepted.
    pub fn leave(&self) {
        if !self.closed.swap(true, Ordering::SeqCst) {
            self.let_go(None);
        }
    }

    /// Lets go of the place; of a holder's if it is this one.
    fn let_go(&self, of: Option<&Arc<Tenure>>) {
        let _leaving = lock(&self.leaving);
        let place = {
            let mut place = lock(&self.place);
            match &*place {
                Place::Holder { store, .. } if of.is_none_or(|of| Arc::ptr_eq(store.tenure(), of)) => {}
                Place::Guest(_) if of.is_none() => {}
                _ => return,
            }
            std::mem::replace(&mut *place, Place::None)
        };
        if let Place::Holder { store, server } = place {
            drop(server);
            store.close();
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

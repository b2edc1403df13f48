//! What the tracer's thread and its owner both know.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::Write;

/// The threads that are traced, and what is wanted of them.
#[derive(Debug, Default)]
pub(super) struct Shared {
    armed: AtomicBool,
    killed: AtomicBool,
    threads: Mutex<BTreeSet<Pid>>,
    struck: Mutex<Option<Write>>,
}

impl Shared {
    fn threads(&self) -> MutexGuard<'_, BTreeSet<Pid>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next watched call is meant.
    pub(super) fn arm(&self) {
        self.armed.store(true, Ordering::SeqCst);
    }

    /// Whether it is.
    pub(super) fn armed(&self) -> bool {
        self.armed.load(Ordering::SeqCst)
    }

    /// Whether all of them are to die, also those that are seen only later: a child that was being made.
    pub(super) fn killed(&self) -> bool {
        self.killed.load(Ordering::SeqCst)
    }

    /// The fault keeps this call from being carried out in full, if it is the first.
    pub(super) fn strike(&self, write: Write) {
        self.struck.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(write);
    }

    /// The first such call.
    pub(super) fn struck(&self) -> Option<Write> {
        self.struck.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// One more is traced.
    pub(super) fn add(&self, thread: Pid) {
        self.threads().insert(thread);
    }

    /// It is gone.
    pub(super) fn remove(&self, thread: Pid) {
        self.threads().remove(&thread);
    }

    /// Kills all of them. A signal to any thread of a process kills the process.
    pub(super) fn kill(&self) {
        self.killed.store(true, Ordering::SeqCst);
        for thread in self.threads().iter() {
            // It can only fail because it is gone already.
            let _ = kill(*thread, Signal::SIGKILL);
        }
    }
}

//! Runs one case on one ledger.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use settled::Ledger;

/// Two views of one empty ledger, as of two processes that use it.
pub struct Views {
    /// One view.
    pub a: Arc<dyn Ledger>,
    /// The other; where a ledger has no more than one view, the same.
    pub b: Arc<dyn Ledger>,
    /// How soon a change must be noticed at the other view.
    pub soon: Duration,
    /// Kept as long as the views: the server, the directory.
    pub keep: Box<dyn Any + Send + Sync>,
}

/// How soon a ledger that tells of changes does so: far below the time after which a wait ends in any case.
pub const SOON: Duration = Duration::from_millis(500);

/// No case takes so long, unless something hangs.
const LONGEST: Duration = Duration::from_secs(90);

/// Runs a case on a new ledger. A case that hangs fails, also if it never pauses.
///
/// # Panics
/// If the case does.
pub fn run<V, C>(views: impl FnOnce() -> V, case: impl FnOnce(Arc<Views>) -> C)
where
    V: Future<Output = Views>,
    C: Future<Output = ()> + Send + 'static,
{
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let views = Arc::new(runtime.block_on(views()));
    let case = runtime.spawn(case(Arc::clone(&views)));
    match runtime.block_on(async { tokio::time::timeout(LONGEST, case).await }) {
        Ok(Ok(())) => {}
        Ok(Err(failed)) => std::panic::resume_unwind(failed.into_panic()),
        Err(_) => {
            runtime.shutdown_background();
            panic!("the case hangs");
        }
    }
}

/// A server that the cases that run at the same time share. It is stopped with the last of them, so that none is left when
/// the tests end.
pub struct Shared<T>(Mutex<Weak<T>>);

impl<T> Shared<T> {
    /// None so far.
    #[allow(clippy::new_without_default)] // only ever a static
    pub const fn new() -> Shared<T> {
        Shared(Mutex::new(Weak::new()))
    }

    /// The one that runs, or a new one.
    pub fn get(&self, start: impl FnOnce() -> T) -> Arc<T> {
        let mut shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let started = Arc::new(start());
            *shared = Arc::downgrade(&started);
            started
        })
    }
}

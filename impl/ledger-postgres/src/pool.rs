//! Connections for transactions that last: one each.

use std::sync::{Arc, Mutex, PoisonError};

use settled::LedgerError;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::JoinHandle;

use crate::lane::{self, Live};
use crate::target::Target;

/// Connections, made when they are needed and kept for the next transaction.
pub(crate) struct Pool {
    target: Arc<Target>,
    free: Semaphore,
    idle: Mutex<Vec<Session>>,
}

/// A connection and the task that drives it.
struct Session {
    live: Live,
    driver: JoinHandle<()>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// A connection in use. It is closed when dropped, and so whatever it had begun is undone, unless it is given back.
pub(crate) struct Lent<'a> {
    pool: &'a Pool,
    session: Session,
    _permit: SemaphorePermit<'a>,
}

impl Pool {
    pub fn new(target: Arc<Target>) -> Pool {
        let free = Semaphore::new(target.options.transactions.max(1));
        Pool { target, free, idle: Mutex::default() }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Session>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection of one's own. Waits for one that is free.
    pub async fn lend(&self) -> Result<Lent<'_>, LedgerError> {
        let closed = |_| LedgerError::Unavailable("it is being closed".to_owned());
        let permit = self.free.acquire().await.map_err(closed)?;
        let kept = loop {
            let kept = self.idle().pop();
            match kept {
                Some(session) if session.live.client.is_closed() => {}
                kept => break kept,
            }
        };
        let session = match kept {
            Some(session) => session,
            None => {
                let (live, wire) = lane::connect(&self.target).await.map_err(LedgerError::Unavailable)?;
                let driver = tokio::spawn(async move {
                    // Its error is that of the requests that wait for an answer.
                    let _ = wire.await;
                });
                Session { live, driver }
            }
        };
        Ok(Lent { pool: self, session, _permit: permit })
    }
}

impl Lent<'_> {
    pub fn live(&mut self) -> &mut Live {
        &mut self.session.live
    }

    /// Keeps the connection for the next transaction.
    pub fn give_back(self) {
        let Lent { pool, session, _permit } = self;
        pool.idle().push(session);
    }
}

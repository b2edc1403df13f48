//! One client's session with a server: the server behind it, and its orderly end.

use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use settled::protocol::State;
use settled::{Filter, task};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::ProxyError;
use crate::flag::Flag;
use crate::relay::Proxy;

/// How long the server's own end may take before it is forced.
const END: Duration = Duration::from_secs(15);

/// How often it is looked, at the end, whether calls are still under way.
const STILL_OUT: Duration = Duration::from_millis(250);

/// The attempts that a session has out at its server, to be waited for at its end.
#[derive(Clone, Debug)]
pub(crate) struct Attempts(Arc<Semaphore>);

/// Enough for any number of attempts, and all of it can be asked for at once.
const ATTEMPTS: u32 = u32::MAX >> 4;

impl Attempts {
    pub(crate) fn new() -> Attempts {
        Attempts(Arc::new(Semaphore::new(usize::try_from(ATTEMPTS).unwrap_or(usize::MAX >> 4))))
    }

    /// Held as long as an attempt is out.
    pub(crate) async fn begin(&self) -> Option<tokio::sync::OwnedSemaphorePermit> {
        self.0.clone().acquire_owned().await.ok()
    }

    async fn none_out(&self) {
        let _ = self.0.acquire_many(ATTEMPTS).await;
    }
}

/// How the server behind a session ended: its last process's status, if it has one and that is known.
pub(crate) type Served = Result<Option<ExitStatus>, ProxyError>;

/// A session with the server behind it.
pub(crate) struct Session {
    /// What takes the client's messages.
    pub(crate) proxy: Arc<Proxy>,
    /// What serves the server behind.
    pub(crate) serving: JoinHandle<Served>,
    pub(crate) keeping: JoinHandle<()>,
    pub(crate) give_up: Flag,
    /// How the server ended, once it has by itself.
    pub(crate) ended: Option<Served>,
}

impl Session {
    /// Resolves when the server behind can't be served any more: it ended at its start, or the session was closed.
    pub(crate) async fn served(&mut self) {
        if self.ended.is_some() {
            return std::future::pending().await;
        }
        self.ended = Some(finished((&mut self.serving).await));
    }

    /// Resolves when every call of this session has been answered and nothing that it has sent is without an outcome.
    pub(crate) async fn idle(&self) {
        self.proxy.places.all_free().await;
        self.proxy.attempts.none_out().await;
    }

    /// What was sent is not waited for any more.
    pub(crate) fn give_up(&self) {
        self.give_up.raise();
    }

    /// Ends the server in an orderly way, by force if that takes too long. No call may be made any more.
    pub(crate) async fn end(self) -> Option<Served> {
        let Session { proxy, mut serving, keeping, give_up, ended } = self;
        proxy.closing.raise();
        let served = match ended {
            Some(served) => Some(served),
            None => {
                let end = async {
                    proxy.server.close().await;
                    (&mut serving).await
                };
                match timeout(END, end).await {
                    Ok(served) => Some(finished(served)),
                    Err(_) => {
                        give_up.raise();
                        timeout(END, &mut serving).await.ok().map(finished)
                    }
                }
            }
        };
        keeping.abort();
        let _ = keeping.await;
        served
    }
}

/// A task that panicked, or was ended from outside, says nothing of the server.
fn finished(joined: Result<Served, tokio::task::JoinError>) -> Served {
    joined.unwrap_or(Ok(None))
}

/// Begins what a session needs to run.
pub(crate) fn begin(
    proxy: Arc<Proxy>,
    serving: impl Future<Output = Served> + Send + 'static,
    give_up: Flag,
) -> Session {
    let serving = task::spawn(serving);
    let keeping = task::spawn(proxy.tools.clone().keep(proxy.server.clone(), proxy.config.clone()));
    Session { proxy, serving, keeping, give_up, ended: None }
}

/// Resolves when nothing that this process has recorded as sent, or as about to be, is without an outcome. What is unknown may
/// stay so: whoever comes next goes on to find out.
pub(crate) async fn nothing_out(engine: &settled::Engine) {
    let epoch = engine.epoch();
    loop {
        sleep(STILL_OUT).await;
        let Ok(entries) = engine.ledger().scan(Filter::Unsettled).await else { continue };
        let is_out = entries.iter().any(|entry| match entry.record.state() {
            State::Dispatched(sent) => sent.owner() == epoch,
            State::Created => entry.by == epoch,
            _ => false,
        });
        if !is_out {
            return;
        }
    }
}

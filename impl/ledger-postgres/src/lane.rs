//! One connection that is kept: made again when it is lost.

use std::sync::Arc;
use std::time::Duration;

use settled::LedgerError;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Connection, Error, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::{from_postgres, text};
use crate::server;
use crate::target::Target;

/// The waits between attempts to connect are random, up to a limit that doubles from the first to the second of these.
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// The half of a connection that carries its messages.
pub(crate) type Wire = Connection<Socket, <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream>;

/// A connection that works, as far as is known.
pub(crate) struct Live {
    pub client: Client,
    broken: Notify,
}

impl Live {
    /// Nothing comes from it any more: it is to be given up.
    pub fn give_up(&self) {
        self.broken.notify_one();
    }

    /// Waits for an answer for as long as this; then the connection is given up.
    pub async fn within<T>(
        &self,
        limit: Duration,
        answer: impl Future<Output = Result<T, Error>> + Send,
    ) -> Result<Result<T, Error>, LedgerError> {
        timeout(limit, answer).await.map_err(|_| {
            self.give_up();
            LedgerError::Unavailable(format!("the server gave no answer within {limit:?}"))
        })
    }
}

#[derive(Clone)]
enum State {
    Down(Arc<str>),
    Up(Arc<Live>),
}

/// A connection that is kept.
pub(crate) struct Lane {
    state: watch::Receiver<State>,
    keeper: JoinHandle<()>,
    patience: Duration,
    timeout: Duration,
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

impl Lane {
    pub fn open(target: Arc<Target>) -> Lane {
        let (patience, timeout) = (target.options.patience, target.options.timeout);
        let (tell, state) = watch::channel(State::Down("no connection has been made yet".into()));
        let keeper = tokio::spawn(async move {
            let mut failures = 0;
            loop {
                match connect(&target).await {
                    Ok((live, wire)) => {
                        failures = 0;
                        let live = Arc::new(live);
                        tell.send_replace(State::Up(Arc::clone(&live)));
                        let why = tokio::select! {
                            ended = wire => ended.err().map_or_else(|| "it was closed".to_owned(), |e| text(&e)),
                            () = live.broken.notified() => "the server did not answer".to_owned(),
                        };
                        tracing::warn!(reason = %why, "a connection to the ledger was lost");
                        tell.send_replace(State::Down(format!("the connection was lost: {why}").into()));
                    }
                    Err(error) => {
                        tracing::debug!(%error, "can't connect to the ledger");
                        tell.send_replace(State::Down(error.into()));
                    }
                }
                sleep(backoff(failures)).await;
                failures += 1;
            }
        });
        Lane { state, keeper, patience, timeout }
    }

    /// The connection, or an error if there has been none for as long as the ledger's patience.
    pub async fn live(&self) -> Result<Arc<Live>, LedgerError> {
        let mut state = self.state.clone();
        let until = Instant::now() + self.patience;
        let up = |state: &State| matches!(state, State::Up(live) if !live.client.is_closed());
        let found = match timeout_at(until, state.wait_for(up)).await {
            Ok(Ok(found)) => found.clone(),
            _ => self.state.borrow().clone(),
        };
        match found {
            State::Up(live) => Ok(live),
            State::Down(why) => Err(LedgerError::Unavailable(why.to_string())),
        }
    }

    /// Asks the server something, within the time limits.
    pub async fn ask<T, F>(&self, question: impl FnOnce(Arc<Live>) -> F + Send) -> Result<T, LedgerError>
    where
        F: Future<Output = Result<T, Error>> + Send,
    {
        let live = self.live().await?;
        live.within(self.timeout, question(Arc::clone(&live))).await?.map_err(|e| from_postgres(&e))
    }
}

/// Full jitter: what many processes lost at the same moment, they don't ask for again at the same moment.
pub(crate) fn backoff(failures: u32) -> Duration {
    let most = FIRST_WAIT.saturating_mul(1 << failures.min(16)).min(LONGEST_WAIT);
    most.mul_f64(fastrand::f64())
}

/// Makes a connection to a server that can be written to.
pub(crate) async fn connect(target: &Target) -> Result<(Live, Wire), String> {
    let limit = target.options.connect_timeout;
    let connecting = async {
        let (client, mut wire) = target.config.connect(target.tls.clone()).await.map_err(|e| text(&e))?;
        // The wire must be driven for the client to get an answer.
        tokio::select! {
            checked = server::check(&client) => checked?,
            ended = &mut wire => return Err(ended.err().map_or_else(|| "it was closed".to_owned(), |e| text(&e))),
        }
        Ok((Live { client, broken: Notify::new() }, wire))
    };
    timeout(limit, connecting).await.unwrap_or_else(|_| Err(format!("no connection was made within {limit:?}")))
}

//! How long a call is waited for: until there is an answer, until its own time is over, or until the client is about to give
//! up. An honest "in progress" in time is better than silence; the work goes on, and a repeat is told what came of it.

use std::sync::Arc;
use std::time::Duration;

use settled::protocol::{Digest, Key, State};
use settled::{Answer, Answered, EngineError, Operation};
use tokio::time::{Instant, interval_at, sleep_until};

use crate::config::Defaults;
use crate::guarded::admission::TooMuch;
use crate::guarded::call::Call;
use crate::guarded::guard::Terms;
use crate::guarded::tool::McpTool;
use crate::relay::Proxy;

/// The largest part of the client's time that is left for the answer's way: a tenth of it, but not more than this.
const WAY: Duration = Duration::from_secs(5);

/// How often, within the client's time, it hears something.
const SIGNS: u32 = 3;

/// How a client that waits is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Patience {
    /// When it is told how things stand; `None`: only when there is an answer.
    pub(crate) until: Option<Instant>,
    /// How often it is told of progress; `None`: never.
    signs: Option<Duration>,
}

impl Patience {
    pub(crate) fn of(terms: &Terms, defaults: &Defaults, call: &Call) -> Patience {
        let keep_alive = defaults.keep_alive && call.progress_token().is_some();
        let client = before_the_client_gives_up(defaults).filter(|_| !keep_alive);
        let until = [terms.call_timeout(), client].into_iter().flatten().min().map(|patience| call.came + patience);
        let signs = defaults.client_timeout.filter(|_| keep_alive).map(|client| client / SIGNS);
        Patience { until, signs }
    }
}

/// After how long a client is about to give up, if somebody says so.
pub(crate) fn before_the_client_gives_up(defaults: &Defaults) -> Option<Duration> {
    defaults.client_timeout.map(|client| client - (client / 10).min(WAY))
}

impl Proxy {
    /// Makes room for the operation of a call, or says why there is none, at the latest when the caller has waited for long
    /// enough.
    pub(crate) async fn admitted(&self, key: &Key, patience: Patience, call: &Call) -> Result<(), TooMuch> {
        let late = || Err(TooMuch::NotCounted("that takes longer than the client waits".to_owned()));
        tokio::select! {
            biased;
            admitted = self.admission.admit(key) => admitted,
            () = at(patience.until) => late(),
            () = self.keep_alive(patience.signs, call) => late(),
        }
    }

    /// The answer, or how things stand when the caller has waited for long enough. `sent`: what the tool is to get.
    pub(crate) async fn answer(
        &self,
        operation: Operation,
        terms: &Terms,
        patience: Patience,
        call: &Call,
        sent: &str,
    ) -> Result<Answered, EngineError> {
        let (key, fingerprint) = (operation.key.clone(), operation.fingerprint);
        let clear = (!terms.confidential().redact.is_empty()).then(|| sent.to_owned());
        let tool = self.tool(&key, terms.declared.clone(), call.context.clone());
        let tool = Arc::new(McpTool { clear, ..tool });
        tokio::select! {
            biased;
            told = self.engine.call(operation, tool) => told,
            () = at(patience.until) => Ok(self.stands(key, fingerprint).await),
            () = self.keep_alive(patience.signs, call) => Ok(self.stands(key, fingerprint).await),
        }
    }

    /// How an operation stands, as an answer. Of one with other arguments nothing is said.
    async fn stands(&self, key: Key, fingerprint: Digest) -> Answered {
        let entry = self.engine.ledger().get(&key).await.ok().flatten();
        let record = entry.as_ref().map(|entry| &entry.record).filter(|record| record.fingerprint() == fingerprint);
        let answer = match record.map(|record| record.state()) {
            Some(State::Unknown { .. } | State::Escalated { .. }) => Answer::Unknown { error: None, replayed: false },
            _ => Answer::InProgress,
        };
        let generation = record.map_or(0, |record| record.generation());
        let created = record.map_or(0, |record| record.created().0);
        Answered { key, generation, created, answer }
    }

    /// Whether it is being found out whether an operation happened, and no person has been asked.
    pub(crate) async fn is_unknown(&self, key: &Key) -> bool {
        let entry = self.engine.ledger().get(key).await.ok().flatten();
        entry.is_some_and(|entry| matches!(entry.record.state(), State::Unknown { .. }))
    }

    /// Tells the client of progress again and again. Never returns.
    async fn keep_alive(&self, every: Option<Duration>, call: &Call) {
        if let (Some(every), Some(token)) = (every, call.progress_token()) {
            let watched = self.book.progress.watch(token);
            let mut signs = interval_at(Instant::now() + every, every);
            loop {
                signs.tick().await;
                if let Some(line) = watched.line() {
                    self.client.send(line).await;
                }
            }
        }
        std::future::pending().await
    }
}

/// Resolves then; never, if there is no such time.
pub(crate) async fn at(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => std::future::pending().await,
    }
}

//! How long a call is waited for: until there is an answer, until its own time is over, or until the client is about to give
//! up. An honest "in progress" in time is better than silence; the work goes on, and a repeat is told what came of it.

use std::sync::Arc;
use std::time::Duration;

use settled::protocol::{Digest, Key, State};
use settled::{Answer, Answered, EngineError, Operation};
use tokio::time::{Instant, interval_at, sleep_until};

use crate::call::Call;
use crate::config::Defaults;
use crate::guard::Terms;
use crate::relay::Proxy;
use crate::tool::McpTool;

/// The largest part of the client's time that is left for the answer's way: a tenth of it, but not more than this.
const WAY: Duration = Duration::from_secs(5);

/// How often, within the client's time, it hears something.
const SIGNS: u32 = 3;

/// How a client that waits is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Patience {
    /// When it is told how things stand; `None`: only when there is an answer.
    until: Option<Instant>,
    /// How often it is told of progress; `None`: never.
    signs: Option<Duration>,
}

impl Patience {
    fn of(terms: &Terms, defaults: &Defaults, call: &Call) -> Patience {
        let keep_alive = defaults.keep_alive && call.progress_token().is_some();
        let client = defaults.client_timeout.filter(|_| !keep_alive).map(|client| client - (client / 10).min(WAY));
        let until = [terms.call_timeout(), client].into_iter().flatten().min().map(|patience| call.came + patience);
        let signs = defaults.client_timeout.filter(|_| keep_alive).map(|client| client / SIGNS);
        Patience { until, signs }
    }
}

impl Proxy {
    /// The answer, or how things stand when the caller has waited for long enough.
    pub(crate) async fn answer(
        &self,
        operation: Operation,
        terms: &Terms,
        call: &Call,
    ) -> Result<Answered, EngineError> {
        let (key, fingerprint) = (operation.key.clone(), operation.fingerprint);
        let patience = Patience::of(terms, &self.config.defaults, call);
        let clear = (!terms.confidential().redact.is_empty()).then(|| call.params.clone());
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

async fn at(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => std::future::pending().await,
    }
}

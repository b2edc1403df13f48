//! The server and what is watched, ready for the next experiment.

use std::time::Duration;

use tokio::process::Command;
use tokio::time::{Instant, sleep, timeout};

use crate::answer::{Answer, short};
use crate::client::{Call, Client, Server, seconds};
use crate::error::AuditError;
use crate::options::{Options, Target};
use crate::state::{Noise, State, changes};
use crate::template::{Fresh, Source};
use crate::watch::Watches;

/// After so many looks at what doesn't come to rest, it isn't waited for any longer.
const MOST_LOOKS: usize = 25;
/// How often an effect is looked for while its answer is on its way.
const GLANCE: Duration = Duration::from_millis(20);

/// Where experiments are made.
pub(crate) struct Stage<'a> {
    pub(crate) options: &'a Options,
    pub(crate) watches: Watches,
    pub(crate) noise: Noise,
    pub(crate) source: Source,
    client: Option<Client>,
}

impl<'a> Stage<'a> {
    /// Opens what is watched, and connects.
    pub(crate) async fn open(options: &'a Options) -> Result<Stage<'a>, AuditError> {
        let mut watches = Watches::open(&options.watch, &options.ignore).await?;
        let source = Source::new(watches.directory())?;
        if let Some(observer) = &options.observer {
            watches.observe(observer.tool.clone(), source.fresh().fill(&observer.arguments)?);
        }
        let client = Some(Client::open(options).await?);
        Ok(Stage { options, watches, noise: Noise::default(), source, client })
    }

    /// The connection; a new one if there is none.
    pub(crate) async fn client(&mut self) -> Result<&Client, AuditError> {
        let client = match self.client.take() {
            Some(client) => client,
            None => Client::open(self.options).await?,
        };
        Ok(self.client.insert(client))
    }

    pub(crate) async fn server(&mut self) -> Result<Server, AuditError> {
        Ok(self.client().await?.server.clone())
    }

    /// One call. A connection that failed in it is given up.
    pub(crate) async fn call(&mut self, call: &Call) -> Result<Answer, AuditError> {
        let answer = self.client().await?.call(call).await;
        if matches!(answer, Answer::None(_)) {
            self.disconnect().await;
        }
        Ok(answer)
    }

    /// Several calls at once, on one connection.
    pub(crate) async fn at_once(&mut self, calls: &[Call]) -> Result<Vec<Answer>, AuditError> {
        let client = self.client().await?;
        let answers = futures_util::future::join_all(calls.iter().map(|call| client.call(call))).await;
        if answers.iter().any(|answer| matches!(answer, Answer::None(_))) {
            self.disconnect().await;
        }
        Ok(answers)
    }

    /// One call whose answer is dropped: over stdio the server is killed, over HTTP the connection is cut, as soon as the effect was
    /// seen or the answer has begun to come.
    pub(crate) async fn call_in_vain(&mut self, call: &Call) -> Result<Answer, AuditError> {
        let before = self.watches.outside().await?;
        self.client().await?;
        let Some(client) = self.client.take() else {
            return Err(AuditError::server("there is no connection"));
        };
        let seen = appears(&self.watches, &self.noise, before);
        let answer = client.call_in_vain(call, seen).await;
        client.kill().await;
        Ok(answer)
    }

    /// Ends the connection; a server that is ours ends with it.
    pub(crate) async fn disconnect(&mut self) {
        if let Some(client) = self.client.take() {
            client.kill().await;
        }
    }

    /// Ends the connection as the protocol says.
    pub(crate) async fn close(&mut self) {
        if let Some(client) = self.client.take() {
            client.close().await;
        }
    }

    /// Whether the server can be killed.
    pub(crate) fn can_restart(&self) -> bool {
        match &self.options.target {
            Target::Command(_) => true,
            Target::Url(remote) => remote.restart.is_some(),
        }
    }

    /// Kills the server and starts it again.
    pub(crate) async fn restart(&mut self) -> Result<(), AuditError> {
        self.disconnect().await;
        if let Target::Url(remote) = &self.options.target
            && let Some(command) = &remote.restart
        {
            run(command, self.options.start).await?;
        }
        let start = Instant::now();
        loop {
            let Err(error) = self.client().await.map(drop) else {
                return Ok(());
            };
            // A server behind HTTP may take a moment to be there again.
            if matches!(self.options.target, Target::Command(_)) || start.elapsed() > self.options.start {
                return Err(error);
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// The state, once nothing changes any more.
    pub(crate) async fn state(&mut self) -> Result<State, AuditError> {
        let mut last = self.look().await?;
        for _ in 0..MOST_LOOKS {
            sleep(self.options.settle).await;
            let now = self.look().await?;
            if changes(&last, &now, &self.noise).is_empty() {
                return Ok(now);
            }
            last = now;
        }
        Err(AuditError::Watch {
            what: self.watches.words().join(", "),
            problem: format!("it doesn't come to rest within {}", seconds(self.options.settle * 25)),
        })
    }

    async fn look(&mut self) -> Result<State, AuditError> {
        self.client().await?;
        match &self.client {
            Some(client) => self.watches.state(client).await,
            None => self.watches.outside().await,
        }
    }

    /// Finds out what changes by itself: while nothing happens, and when the server is started again.
    pub(crate) async fn listen(&mut self) -> Result<(), AuditError> {
        if self.watches.is_empty() {
            return Ok(());
        }
        let mut last = self.look().await?;
        for _ in 0..3 {
            sleep(self.options.settle).await;
            let now = self.look().await?;
            self.noise.add(&last, &now);
            last = now;
        }
        if self.can_restart() {
            self.restart().await?;
            let now = self.look().await?;
            self.noise.add(&last, &now);
        }
        Ok(())
    }

    /// New words.
    pub(crate) fn fresh(&self) -> Fresh {
        self.source.fresh()
    }
}

/// Ends when an effect is to be seen: something has changed, and no longer does.
async fn appears(watches: &Watches, noise: &Noise, before: State) {
    let mut last = before.clone();
    loop {
        sleep(GLANCE).await;
        // What can't be read now may be readable in a moment; the state after the call is what counts.
        let Ok(now) = watches.outside().await else {
            continue;
        };
        if !changes(&before, &now, noise).is_empty() && changes(&last, &now, noise).is_empty() {
            return;
        }
        last = now;
    }
}

async fn run(command: &str, patience: Duration) -> Result<(), AuditError> {
    let wrong = |problem: String| AuditError::Input(format!("--restart: {problem}"));
    let output = Command::new("sh").arg("-c").arg(command).kill_on_drop(true).output();
    let output =
        timeout(patience, output).await.map_err(|_| wrong(format!("not over within {}", seconds(patience))))?;
    let output = output.map_err(|error| wrong(error.to_string()))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(wrong(format!("{}: {}", output.status, short(&String::from_utf8_lossy(&output.stderr), 200)))),
    }
}

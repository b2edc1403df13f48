//! All who take part, measured in turn.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::process::Child;

use crate::disk;
use crate::error::BenchError;
use crate::gateway::Call;
use crate::gateway::client::Client;
use crate::gateway::nginx::{Installed, Nginx};
use crate::load::{Measured, closed_loop, median};
use crate::mcp::process;
use crate::suite::CALLERS;
use crate::usage;

/// What to measure, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `settled` itself: gateway and API.
    pub program: PathBuf,
    /// Below this directory ledgers are written; nothing is left there.
    pub dir: PathBuf,
    /// Each measurement takes this long, and a fifth of it before.
    pub span: Duration,
    /// How often everything is measured; medians count.
    pub rounds: usize,
    /// Ledgers besides the file ledger: their names and URLs.
    pub ledgers: Vec<(String, String)>,
}

/// One contestant with each number of requests in flight.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Who.
    pub name: String,
    /// What was asked for.
    pub call: Call,
    /// The median run of each number of requests in flight.
    pub runs: Vec<Measured>,
}

/// Everything that came out.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Processors.
    pub processors: usize,
    /// Half of the syncs of a record of the same disk took at most this long, in microseconds.
    pub sync: f64,
    /// All who took part.
    pub rows: Vec<Row>,
    /// Who did not, and why.
    pub skipped: Vec<(String, String)>,
}

impl Report {
    /// The row of no proxy.
    pub fn without_proxy(&self) -> Option<&Row> {
        self.rows.first()
    }
}

struct Contestant {
    name: String,
    call: Call,
    client: Arc<Client>,
    all: Vec<Vec<Measured>>,
}

impl Contestant {
    fn new(name: &str, call: Call, client: &Arc<Client>) -> Contestant {
        Contestant { name: name.to_owned(), call, client: client.clone(), all: vec![Vec::new(); CALLERS.len()] }
    }
}

/// Measures everything; `progress` is told what is being measured.
///
/// # Errors
/// If anything that takes part does not work.
pub async fn run(settings: &Settings, progress: impl Fn(&str)) -> Result<Report, BenchError> {
    usage::watch(&settings.dir);
    let sync = disk::syncs(&settings.dir, 1, settings.span, Duration::ZERO).await?.p50;
    let (api, _api) = start(settings, &["bench", "gateway-server"], false).await?;
    let mut skipped = Vec::new();
    let mut contestants = vec![Contestant::new("no proxy", Call::Passed, &client(&api)?)];
    let mut nginxes = Vec::new();
    match Installed::find() {
        Ok(installed) => {
            let bare = Nginx::start(&installed, false, &api, &settings.dir.join("nginx")).await?;
            contestants.push(Contestant::new("nginx", Call::Passed, &client(&bare.url)?));
            nginxes.push(bare);
            match installed.pattern() {
                Ok(()) => {
                    let pattern = Nginx::start(&installed, true, &api, &settings.dir.join("nginx-redis")).await?;
                    contestants.extend(guarded("nginx + Redis", &pattern.url).await?);
                    nginxes.push(pattern);
                }
                Err(why) => skipped.push(("nginx + Redis".to_owned(), why)),
            }
        }
        Err(why) => skipped.push(("nginx".to_owned(), why)),
    }
    let file = settings.dir.join("gateway").display().to_string();
    let ledgers = [("file".to_owned(), file)].into_iter().chain(settings.ledgers.iter().cloned());
    let mut gateways = Vec::new();
    for (name, ledger) in ledgers {
        let words = ["gateway", "--listen", "127.0.0.1:0", "--upstream", &api, "--ledger", &ledger];
        let (url, running) = start(settings, &words, true).await?;
        if gateways.is_empty() {
            contestants.push(Contestant::new("settled", Call::Passed, &client(&url)?));
        }
        contestants.extend(guarded(&format!("settled, {name}"), &url).await?);
        gateways.push(running);
    }
    let rounds = settings.rounds.max(1);
    for round in 0..rounds {
        progress(&format!("round {} of {rounds}", round + 1));
        for contestant in &mut contestants {
            contestant.measure(settings.span).await?;
        }
    }
    for mut running in gateways {
        let _ = running.kill().await;
    }
    for nginx in nginxes {
        nginx.end().await;
    }
    let rows = contestants.into_iter().map(|its| Row {
        name: its.name,
        call: its.call,
        runs: its.all.into_iter().map_while(median).collect(),
    });
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(Report { processors, sync, rows: rows.collect(), skipped })
}

fn client(url: &str) -> Result<Arc<Client>, BenchError> {
    Ok(Arc::new(Client::new(url)?))
}

/// First calls and replays through one that goes by keys.
async fn guarded(name: &str, url: &str) -> Result<[Contestant; 2], BenchError> {
    let client = client(url)?;
    client.prepare().await?;
    Ok([Call::First, Call::Replay].map(|call| Contestant::new(name, call, &client)))
}

/// Starts this program with these words; the URL that it says, on its standard error or its output.
async fn start(settings: &Settings, words: &[&str], by_error: bool) -> Result<(String, Child), BenchError> {
    let program = settings.program.display().to_string();
    let words: Vec<String> = [program.as_str()].iter().chain(words).map(|word| (*word).to_owned()).collect();
    let mut command = process::command(&words)?;
    let mut running = if by_error {
        process::start({
            command.stderr(Stdio::piped());
            command
        })?
    } else {
        process::start({
            command.stdout(Stdio::piped());
            command
        })?
    };
    let url = match (running.stdout.take(), running.stderr.take()) {
        (Some(output), _) => process::url(output).await?,
        (None, Some(said)) => process::url(said).await?,
        (None, None) => return Err(BenchError::Ended("a pipe")),
    };
    Ok((url.trim_end_matches('/').to_owned(), running))
}

impl Contestant {
    /// One round.
    async fn measure(&mut self, span: Duration) -> Result<(), BenchError> {
        let call = self.call;
        for (callers, runs) in CALLERS.into_iter().zip(&mut self.all) {
            let caller = |number| {
                let client = self.client.clone();
                move |_| {
                    let client = client.clone();
                    async move { client.call(call, number).await }
                }
            };
            let measured = closed_loop(callers, span, caller).await;
            runs.push(measured.map_err(|error| BenchError::Other(format!("{}: {error}", self.name)))?);
        }
        Ok(())
    }
}

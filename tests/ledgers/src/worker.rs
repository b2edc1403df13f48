//! A guard as a process: an engine on a ledger, which is told on its standard input what callers ask for, and tells its answers
//! on its standard output. It ends with its input.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, Write};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use settled::{
    Answer as Answered, Engine, EngineOptions, Entry, History, HistoryLine, Ledger, Operation, Recoverable, Tool, fault,
};
use settled_ledger_postgres::{PostgresLedger, PostgresOptions};

use crate::stage::open::{open, stopping};
use crate::stage::wire::{Answer, Line, Request, SCOPE, Said, Settings, Told};
use crate::tools;

/// The longest that work under way may take once the input has ended.
const ENDING: Duration = Duration::from_secs(2);

/// Works until its standard input ends. Its settings are its first argument.
///
/// # Panics
/// If it is asked for something that it doesn't understand.
pub fn run() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(work());
}

/// What each call needs.
#[derive(Clone)]
struct Worker {
    engine: Engine,
    settings: Settings,
    /// Where transactional tools have their effects.
    postgres: Option<Arc<PostgresLedger>>,
}

async fn work() {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .init();
    let settings: Settings = serde_json::from_str(&std::env::args().nth(1).expect("settings")).unwrap();
    let worker = start(settings).await;
    say(&Said::Ready { epoch: worker.engine.epoch().0 });
    tokio::spawn({
        let worker = worker.clone();
        async move {
            let every = Duration::from_millis(worker.settings.maintain);
            let engine = worker.engine.clone();
            engine.maintain(Arc::new(move |entry: &Entry| worker.resolve(entry)), every).await;
        }
    });
    let engine = worker.engine.clone();
    let runtime = tokio::runtime::Handle::current();
    let reading = tokio::task::spawn_blocking(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let worker = worker.clone();
            match serde_json::from_str(&line).unwrap() {
                Line::Call { number, request } => drop(runtime.spawn(async move {
                    say(&Said::Told { number, told: worker.call(request).await });
                })),
                Line::Cancel { number, request } => drop(runtime.spawn(async move {
                    let told = match worker.engine.cancel(&request.key()).await {
                        Ok(true) => told(Answer::Cancelled, ""),
                        Ok(false) => told(Answer::NotCancelled, ""),
                        Err(error) => told(Answer::NotSent, &error.to_string()),
                    };
                    say(&Said::Told { number, told });
                })),
            }
        }
    });
    reading.await.unwrap();
    // Whoever comes next needn't wait for its lease; but it ends in any case.
    let _ = tokio::time::timeout(ENDING, async {
        engine.idle().await;
        engine.retire().await
    })
    .await;
    std::process::exit(0);
}

/// A history whose lines a kill can't take away: each is with the operating system before anything else happens.
struct AtOnce(File);

impl History for AtOnce {
    fn record(&self, line: &HistoryLine) {
        let line = serde_json::to_string(line).unwrap() + "\n";
        // Whatever else may be full, a test's story is not what it is about.
        let _ = (&self.0).write_all(line.as_bytes());
    }
}

/// The ledger may be down just now.
async fn start(settings: Settings) -> Worker {
    loop {
        match try_to_start(&settings).await {
            Ok((engine, postgres)) => return Worker { engine, settings, postgres },
            Err(error) => {
                eprintln!("{error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn try_to_start(settings: &Settings) -> Result<(Engine, Option<Arc<PostgresLedger>>), String> {
    let mut options = EngineOptions {
        lease: Duration::from_millis(settings.lease),
        ledger_patience: Duration::from_secs(3),
        ..EngineOptions::default()
    };
    if let Some(path) = &settings.history {
        let file = OpenOptions::new().create(true).append(true).open(path).map_err(|error| error.to_string())?;
        options.history = Arc::new(AtOnce(file));
    }
    let (ledger, postgres): (Arc<dyn Ledger>, _) = if settings.ledger.starts_with("postgres:") {
        let ledger = PostgresLedger::connect(&settings.ledger, PostgresOptions::default()).await;
        let ledger = Arc::new(ledger.map_err(|error| error.to_string())?);
        (ledger.clone(), Some(ledger))
    } else {
        (open(&settings.ledger).await?, None)
    };
    let ledger = match &settings.stop_at {
        Some(id) => stopping(ledger, id),
        None => ledger,
    };
    let engine = Engine::start(ledger, options).await.map_err(|error| error.to_string())?;
    Ok((engine, postgres))
}

fn say(said: &Said) {
    let line = serde_json::to_string(said).unwrap() + "\n";
    fault::point("before-answer");
    let mut out = std::io::stdout().lock();
    // In one write: a kill cuts no line in two that others would take for whole.
    out.write_all(line.as_bytes()).and_then(|()| out.flush()).unwrap();
    drop(out);
    fault::point("after-answer");
}

fn told(answer: Answer, body: &str) -> Told {
    Told { answer, body: body.to_owned(), replayed: false }
}

impl Worker {
    async fn call(&self, request: Request) -> Told {
        let settings = &self.settings;
        let arguments = serde_json::to_vec(&request).unwrap();
        let mut operation = Operation::new(request.key(), arguments, settings.policy(&request.tool, &request.id));
        operation.resource = request.wanted();
        operation.limits = settings.limits();
        let text = |body: Bytes| String::from_utf8_lossy(&body).into_owned();
        let answered = match self.engine.call(operation, self.tool(&request.tool)).await {
            Ok(answered) => answered.answer,
            Err(error) => return told(Answer::NotSent, &error.to_string()),
        };
        match answered {
            Answered::Done { result, replayed } => Told { answer: Answer::Done, body: text(result), replayed },
            Answered::Failed { error, replayed } => {
                Told { answer: Answer::Failed, body: error.map(text).unwrap_or_default(), replayed }
            }
            Answered::Unknown { error, replayed } => {
                Told { answer: Answer::Unknown, body: error.map(text).unwrap_or_default(), replayed }
            }
            Answered::InProgress => told(Answer::InProgress, ""),
            Answered::Conflict => told(Answer::Conflict, ""),
            Answered::Expired => told(Answer::Expired, ""),
        }
    }

    fn resolve(&self, entry: &Entry) -> Option<Recoverable> {
        (entry.key.scope() == SCOPE).then(|| Recoverable {
            policy: self.settings.policy(entry.key.tool(), entry.key.id()),
            tool: Some(self.tool(entry.key.tool())),
            limits: self.settings.limits(),
        })
    }

    fn tool(&self, name: &str) -> Arc<dyn Tool> {
        match &self.postgres {
            Some(ledger) if name == "transactional" => tools::in_a_transaction(Arc::clone(ledger)),
            _ => tools::at_a_socket(self.settings.tool.clone()),
        }
    }
}

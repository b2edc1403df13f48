//! A guard as a process: an engine on a ledger, which is told on its standard input what callers ask for, and tells its answers
//! on its standard output. It ends with its input.
#![allow(clippy::unwrap_used, clippy::expect_used)] // a part of the tests

use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use settled::protocol::{ErrorClass, Key};
use settled::{
    Answer as Answered, Engine, EngineOptions, Entry, Operation, Outgoing, Question, Recoverable, Seen, Tool, ToolReply,
};
use settled_ledger_tests::stage::open::{open, stopping};
use settled_ledger_tests::stage::wire::{Answer, Ask, Line, Reply, Request, SCOPE, Said, Settings, Told};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .init();
    let settings: Settings = serde_json::from_str(&std::env::args().nth(1).expect("settings")).unwrap();
    let engine = start(&settings).await;
    say(&Said::Ready { epoch: engine.epoch().0 });
    tokio::spawn({
        let (engine, settings) = (engine.clone(), settings.clone());
        async move {
            let every = Duration::from_millis(settings.maintain);
            engine.maintain(Arc::new(move |entry: &Entry| resolve(&settings, entry)), every).await;
        }
    });
    let runtime = tokio::runtime::Handle::current();
    let reading = tokio::task::spawn_blocking(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let (engine, settings) = (engine.clone(), settings.clone());
            match serde_json::from_str(&line).unwrap() {
                Line::Call { number, request } => drop(runtime.spawn(async move {
                    say(&Said::Told { number, told: call(&engine, &settings, request).await });
                })),
                Line::Cancel { number, request } => drop(runtime.spawn(async move {
                    let told = match engine.cancel(&request.key()).await {
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
    std::process::exit(0);
}

/// The ledger may be down just now.
async fn start(settings: &Settings) -> Engine {
    let options = || EngineOptions {
        lease: Duration::from_millis(settings.lease),
        ledger_patience: Duration::from_secs(3),
        ..EngineOptions::default()
    };
    loop {
        let ledger = match open(&settings.ledger).await {
            Ok(ledger) => ledger,
            Err(error) => {
                eprintln!("{error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let ledger = match &settings.stop_at {
            Some(id) => stopping(ledger, id),
            None => ledger,
        };
        match Engine::start(ledger, options()).await {
            Ok(engine) => return engine,
            Err(error) => {
                eprintln!("{error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

fn say(said: &Said) {
    let line = serde_json::to_string(said).unwrap() + "\n";
    let mut out = std::io::stdout().lock();
    // In one write: a kill cuts no line in two that others would take for whole.
    out.write_all(line.as_bytes()).and_then(|()| out.flush()).unwrap();
}

fn told(answer: Answer, body: &str) -> Told {
    Told { answer, body: body.to_owned(), replayed: false }
}

async fn call(engine: &Engine, settings: &Settings, request: Request) -> Told {
    let arguments = serde_json::to_vec(&request).unwrap();
    let mut operation = Operation::new(request.key(), arguments, settings.policy(&request.tool));
    operation.resource = request.wanted();
    operation.limits = settings.limits();
    let text = |body: Bytes| String::from_utf8_lossy(&body).into_owned();
    let answered = match engine.call(operation, tool(settings)).await {
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

fn resolve(settings: &Settings, entry: &Entry) -> Option<Recoverable> {
    (entry.key.scope() == SCOPE).then(|| Recoverable {
        policy: settings.policy(entry.key.tool()),
        tool: Some(tool(settings)),
        limits: settings.limits(),
    })
}

fn tool(settings: &Settings) -> Arc<dyn Tool> {
    Arc::new(Connection { socket: settings.tool.clone() })
}

/// The way to the tool: a connection for each request.
struct Connection {
    socket: PathBuf,
}

impl Connection {
    async fn ask(&self, key: &Key, attempt: u32, arguments: &[u8], sent: Option<&Outgoing>) -> std::io::Result<Reply> {
        let request: Request = serde_json::from_slice(arguments)?;
        let ask = Ask {
            tool: key.tool().to_owned(),
            id: key.id().to_owned(),
            attempt,
            resource: request.resource,
            observe: sent.is_none(),
        };
        let mut connection = UnixStream::connect(&self.socket).await?;
        connection.write_all((serde_json::to_string(&ask)? + "\n").as_bytes()).await?;
        if let Some(outgoing) = sent {
            outgoing.sent();
        }
        let mut reply = String::new();
        connection.read_to_string(&mut reply).await?;
        Ok(serde_json::from_str(&reply)?)
    }
}

#[async_trait]
impl Tool for Connection {
    async fn dispatch(&self, outgoing: &Outgoing) -> ToolReply {
        let attempt = outgoing.attempt.attempt.get();
        match self.ask(&outgoing.key, attempt, &outgoing.arguments, Some(outgoing)).await {
            Ok(Reply::Done(result)) => ToolReply::Result(result.into()),
            Ok(Reply::NotApplied | Reply::Unclear) => ToolReply::Error(ErrorClass::Unproven, Bytes::new()),
            Err(_) => ToolReply::ConnectionLost,
        }
    }

    async fn observe(&self, question: &Question) -> Seen {
        let attempt = question.attempt.attempt.get();
        match self.ask(&question.key, attempt, &question.arguments, None).await {
            Ok(Reply::Done(result)) => Seen::Applied(result.into()),
            Ok(Reply::NotApplied) => Seen::NotApplied,
            Ok(Reply::Unclear) | Err(_) => Seen::Unclear,
        }
    }
}

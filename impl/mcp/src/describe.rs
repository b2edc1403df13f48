//! `settled mcp --describe`: a `settled.toml` for a server, filled in with what the server says of its tools.
//!
//! What it says are claims. So every tool is declared as one that nothing is known about, and the claims stand beside it, to be
//! looked at by somebody who knows the tools. The file is accepted as it is.

mod listing;
mod template;
mod text;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use settled::{Engine, EngineOptions, MemoryLedger};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::ProxyError;
use crate::behind::start::Program;
use crate::config::{Config, UpstreamConfig};
use crate::flag::Flag;
use crate::front::Behind;
use crate::messages::context::{Context, Incoming};
use crate::messages::frame::{Body, Frame, parse};
use crate::messages::incoming;
use crate::messages::lines::{ClientSink, ToClient};
use crate::messages::splice::{self, quoted};
use crate::service::{Service, Upstream};
use crate::upstream::Http;

use listing::{Listed, Listing};

/// How long one answer may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// No server has more pages.
const PAGES: usize = 1000;

/// The revision that is asked for; servers answer with one that they speak.
const REVISION: &str = "2025-11-25";

/// The revision without `initialize`.
const STATELESS: &str = "2026-07-28";

/// What to describe.
pub struct DescribeOptions {
    /// How the server is reached.
    pub behind: Behind,
    /// The name of the server in a file of several, and how that file says it is reached; `None`: it is the only one.
    pub named: Option<(String, UpstreamConfig)>,
}

/// Why a server can't be described.
#[derive(Debug, thiserror::Error)]
pub enum DescribeError {
    /// The server can't be started or reached.
    #[error(transparent)]
    Proxy(#[from] ProxyError),
    /// It does not answer.
    #[error("the server has not answered `{method}` within {} seconds", PATIENCE.as_secs())]
    Silent {
        /// The request.
        method: &'static str,
    },
    /// It has ended.
    #[error("the server has ended before it answered `{method}`: run it by itself to see why")]
    Ended {
        /// The request.
        method: &'static str,
    },
    /// It answers with an error.
    #[error("the server answers `{method}` with an error: {error}")]
    Refused {
        /// The request.
        method: &'static str,
        /// The error's text.
        error: String,
    },
    /// Its list of tools can't be read, or never ends.
    #[error("the server's list of tools can't be read: {0}")]
    List(String),
    /// The file would not be accepted: a defect of this program.
    #[error("the file for this server would not be accepted, which is a defect of this program; please report it: {0}")]
    Defect(String),
}

/// Asks a server what its tools are, and writes a configuration for it.
///
/// # Errors
/// [`DescribeError`]; then nothing is written, also if only a part of the list is missing.
pub async fn describe(options: DescribeOptions) -> Result<String, DescribeError> {
    let DescribeOptions { behind, named } = options;
    let listing = ask(behind).await?;
    let text = template::write(&listing, named.as_ref());
    check(&text, &listing, named.as_ref().map(|(name, _)| name.as_str())).map_err(DescribeError::Defect)?;
    Ok(text)
}

/// Whether the file is accepted, and declares every tool that has a name.
fn check(text: &str, listing: &Listing, server: Option<&str>) -> Result<(), String> {
    let config = Config::parse("settled.toml".as_ref(), text).map_err(|error| error.to_string())?;
    let config = match server {
        Some(name) => config.for_server(name).map_err(|error| error.to_string())?,
        None => config,
    };
    let there = config.tools.iter().map(|(name, tool)| (name, tool.seen));
    match there.eq(listing.tools.iter().map(|(name, tool)| (name, Some(tool.definition())))) {
        true => Ok(()),
        false => Err("it declares other tools than the server has".to_owned()),
    }
}

async fn ask(behind: Behind) -> Result<Listing, DescribeError> {
    let ledger = Arc::new(MemoryLedger::new());
    let engine = Engine::start(ledger, EngineOptions::default()).await;
    let engine = engine.map_err(|error| DescribeError::Defect(error.to_string()))?;
    let upstream = match behind {
        Behind::Command(command, env) => {
            let mut command = command.into_iter();
            let program = command.next().ok_or(ProxyError::NoCommand)?;
            let starts = Arc::new(Program { program: program.clone(), arguments: command.collect(), env });
            Upstream::Process { program, starts }
        }
        Behind::Starts(starts) => Upstream::Process { program: "the server".into(), starts },
        Behind::Http(options) => Upstream::Http(Http::open(*options).map_err(ProxyError::from)?),
    };
    let service = Service::new(Arc::new(Config::default()), "describe".to_owned(), engine, upstream)?;
    let (client, answers) = ClientSink::new();
    let closing = Flag::default();
    let mut session = service.open(None, client, closing.clone())?;
    let (say, messages) = mpsc::channel(incoming::LINES);
    let reading = settled::task::spawn(session.proxy.clone().read_client(messages));
    let mut asker = Asker { say, answers, context: Arc::default(), number: 0 };
    let told = tokio::select! {
        biased;
        told = asker.list() => told,
        () = session.served() => Err(DescribeError::Ended { method: "tools/list" }),
    };
    closing.raise();
    reading.abort();
    match (told, session.end().await) {
        // Why it ended at its start is more than that it has.
        (Err(DescribeError::Ended { .. }), Some(Err(error))) => Err(error.into()),
        (told, _) => told,
    }
}

/// A client that wants to know the tools, and nothing else.
struct Asker {
    say: mpsc::Sender<Incoming>,
    answers: mpsc::Receiver<ToClient>,
    context: Arc<Context>,
    number: u64,
}

impl Asker {
    async fn list(&mut self) -> Result<Listing, DescribeError> {
        let client = json!({ "name": "settled", "version": env!("CARGO_PKG_VERSION") });
        let params = json!({ "protocolVersion": REVISION, "capabilities": {}, "clientInfo": client });
        let (server, meta) = match self.request("initialize", &params.to_string()).await {
            Ok(result) => {
                self.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
                (splice::get(&result, "serverInfo").map(str::to_owned), None)
            }
            // A server that knows no sessions: each request says what an `initialize` would.
            Err(DescribeError::Refused { .. }) => {
                let meta = json!({
                    "io.modelcontextprotocol/protocolVersion": STATELESS,
                    "io.modelcontextprotocol/clientInfo": client,
                    "io.modelcontextprotocol/clientCapabilities": {},
                });
                let params = json!({ "_meta": meta }).to_string();
                let found = self.request("server/discover", &params).await?;
                (splice::get(&found, "serverInfo").map(str::to_owned), Some(meta))
            }
            Err(error) => return Err(error),
        };
        let mut listing = Listing::of(server.as_deref());
        let mut cursor: Option<String> = None;
        for _ in 0..PAGES {
            let members: Vec<String> = [
                cursor.as_deref().map(|cursor| format!("\"cursor\":{}", quoted(cursor))),
                meta.as_ref().map(|meta| format!("\"_meta\":{meta}")),
            ]
            .into_iter()
            .flatten()
            .collect();
            let page = self.request("tools/list", &format!("{{{}}}", members.join(","))).await?;
            let tools = splice::get(&page, "tools").and_then(splice::elements);
            let tools = tools.ok_or_else(|| DescribeError::List("a page has no `tools`".to_owned()))?;
            tools.into_iter().for_each(|tool| listing.add(tool));
            match splice::get_string(&page, "nextCursor") {
                None => return Ok(listing),
                next if next == cursor => {
                    return Err(DescribeError::List("a page names itself as the next one".to_owned()));
                }
                next => cursor = next,
            }
        }
        Err(DescribeError::List(format!("it has more than {PAGES} pages")))
    }

    async fn say(&self, line: &str) {
        // Whoever waits for an answer notices that nobody listens.
        let _ = self.say.send(Incoming::bare(line.to_owned().into(), &self.context)).await;
    }

    /// A request's result. What the server asks or tells meanwhile is answered, or not listened to.
    async fn request(&mut self, method: &'static str, params: &str) -> Result<String, DescribeError> {
        self.number += 1;
        let own = self.number.to_string();
        self.say(&format!(r#"{{"jsonrpc":"2.0","id":{own},"method":"{method}","params":{params}}}"#)).await;
        loop {
            let message = timeout(PATIENCE, self.answers.recv()).await;
            let message = message.map_err(|_| DescribeError::Silent { method })?;
            let ToClient { line, told } = message.ok_or(DescribeError::Ended { method })?;
            if let Some(told) = told {
                let _ = told.send(true);
            }
            match parse(&line) {
                Frame::Response { id, body: Body::Result(result) } if id == own => return Ok(result.to_owned()),
                Frame::Response { id, body: Body::Error(error) } if id == own => {
                    return Err(DescribeError::Refused { method, error: error.to_owned() });
                }
                Frame::Request { id, method, .. } => {
                    let body = match &*method {
                        "ping" => "\"result\":{}".to_owned(),
                        _ => format!("\"error\":{}", json!({ "code": -32601, "message": "Method not found" })),
                    };
                    self.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},{body}}}"#)).await;
                }
                _ => {}
            }
        }
    }
}

/// The tools by their names.
type Tools = BTreeMap<String, Listed>;

#[cfg(test)]
mod tests;

//! An MCP client that sends exactly what it is told to, once: libraries for clients send again, resume streams and give ids by
//! themselves, and an audit is about just that.

mod http;
mod process;
mod stdio;

use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use self::http::Http;
use self::stdio::Stdio;
use crate::answer::{Answer, Missing, short};
use crate::error::AuditError;
use crate::options::{Options, Target};
use crate::tool::Tool;

/// The revision that is asked for; any that the server answers with is spoken.
const REVISION: &str = "2025-11-25";
/// The revision without sessions, for servers that know no `initialize`.
const STATELESS: &str = "2026-07-28";
/// More tools than this are not listed.
const MOST_TOOLS: usize = 10_000;
/// More than this a single message may not have.
pub(crate) const MOST_BYTES: usize = 16 * 1024 * 1024;

/// A connection to the server.
pub(crate) struct Client {
    link: Link,
    next: AtomicU64,
    /// For a call, and for anything else.
    patience: [Duration; 2],
    stateless: bool,
    pub(crate) server: Server,
}

enum Link {
    Stdio(Stdio),
    Http(Http),
}

/// What the server says of itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) revision: String,
    /// It applies a call's idempotency key once (SEP-3182).
    pub(crate) takes_keys: bool,
}

/// One call of a tool.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) tool: String,
    pub(crate) arguments: Value,
    /// The idempotency key.
    pub(crate) key: Option<String>,
    /// The JSON-RPC id, if it is not to be a fresh one.
    pub(crate) id: Option<u64>,
}

impl Client {
    /// Starts the server or connects to it, and opens the session.
    pub(crate) async fn open(options: &Options) -> Result<Client, AuditError> {
        let link = match &options.target {
            Target::Command(command) => Link::Stdio(Stdio::start(command)?),
            Target::Url(remote) => Link::Http(Http::new(remote)?),
        };
        let patience = [options.timeout, options.start];
        let mut client =
            Client { link, next: AtomicU64::new(1), patience, stateless: false, server: Server::default() };
        client.initialize().await?;
        Ok(client)
    }

    async fn initialize(&mut self) -> Result<(), AuditError> {
        let about = json!({ "name": "settled-audit", "version": env!("CARGO_PKG_VERSION") });
        let params = json!({ "protocolVersion": REVISION, "capabilities": {}, "clientInfo": about });
        let result = match self.ask("initialize", params).await {
            Answer::Success(result) => result,
            Answer::Error(error) => match self.discover().await {
                Some(result) => result,
                None => {
                    return Err(AuditError::server(format!("`initialize` failed: {}", Answer::Error(error).text())));
                }
            },
            other => return Err(AuditError::server(format!("`initialize`: {}", other.text()))),
        };
        let text = |pointer: &str| result.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let revision = if self.stateless { STATELESS.to_owned() } else { text("/protocolVersion") };
        self.server = Server {
            name: text("/serverInfo/name"),
            version: text("/serverInfo/version"),
            takes_keys: result.pointer("/capabilities/tools/idempotency") == Some(&Value::Bool(true)),
            revision,
        };
        if self.stateless {
            return Ok(());
        }
        if let Link::Http(http) = &self.link {
            http.speak(&self.server.revision);
        }
        let said = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        let sent = match &self.link {
            Link::Stdio(stdio) => stdio.say(&said).await,
            Link::Http(http) => timeout(self.patience[1], http.say(&said)).await.unwrap_or(Ok(())),
        };
        sent.map_err(|missing| AuditError::server(missing.to_string()))
    }

    /// The way in of servers without sessions.
    async fn discover(&mut self) -> Option<Value> {
        self.stateless = true;
        if let Link::Http(http) = &self.link {
            http.speak(STATELESS);
        }
        match self.ask("server/discover", json!({})).await {
            Answer::Success(result) => Some(result),
            _ => None,
        }
    }

    /// All tools, page by page.
    pub(crate) async fn tools(&self) -> Result<Vec<Tool>, AuditError> {
        let wrong = |problem: &dyn Display| AuditError::server(format!("`tools/list`: {problem}"));
        let mut tools = Vec::new();
        let mut params = json!({});
        loop {
            let result = match self.ask("tools/list", params).await {
                Answer::Success(result) => result,
                other => return Err(wrong(&other.text())),
            };
            let page = result.get("tools").cloned().ok_or_else(|| wrong(&"an answer without `tools`"))?;
            let page: Vec<Tool> = serde_json::from_value(page).map_err(|error| wrong(&error))?;
            let is_empty = page.is_empty();
            tools.extend(page);
            if tools.len() > MOST_TOOLS {
                return Err(wrong(&format!("more than {MOST_TOOLS} tools")));
            }
            match result.get("nextCursor").and_then(Value::as_str) {
                Some(cursor) if !is_empty => params = json!({ "cursor": cursor }),
                _ => return Ok(tools),
            }
        }
    }

    /// Makes one call, and waits for its answer.
    pub(crate) async fn call(&self, call: &Call) -> Answer {
        let (id, message) = self.message(call);
        self.send(id, &message, self.patience[0]).await
    }

    /// Makes one call, and doesn't take its answer: ends once the answer has begun to come, or `seen` has ended. Over HTTP the
    /// connection is cut then; a server over stdio is for the caller to kill. Whether there was an answer to drop.
    pub(crate) async fn call_in_vain(&self, call: &Call, seen: impl Future<Output = ()>) -> Answer {
        let (id, message) = self.message(call);
        let answered = async {
            let answer = match &self.link {
                Link::Stdio(stdio) => stdio.request(id, &message).await.map(drop),
                Link::Http(http) => http.request_in_vain(id, &message).await,
            };
            answer.err().unwrap_or(Missing::Dropped)
        };
        tokio::select! {
            missing = timeout(self.patience[0], answered) => {
                Answer::None(missing.unwrap_or_else(|_| Missing::Timeout(seconds(self.patience[0]))))
            }
            () = seen => Answer::None(Missing::Dropped),
        }
    }

    /// Ends the connection, and the server where it is ours: at once, as a crash would.
    pub(crate) async fn kill(self) {
        if let Link::Stdio(stdio) = self.link {
            stdio.kill().await;
        }
    }

    /// Ends the connection as the protocol says.
    pub(crate) async fn close(self) {
        match self.link {
            Link::Stdio(stdio) => stdio.close().await,
            Link::Http(http) => http.close().await,
        }
    }

    async fn ask(&self, method: &str, params: Value) -> Answer {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": self.with_meta(params) });
        self.send(id, &message, self.patience[1]).await
    }

    async fn send(&self, id: u64, message: &Value, patience: Duration) -> Answer {
        let answered = async {
            match &self.link {
                Link::Stdio(stdio) => stdio.request(id, message).await,
                Link::Http(http) => http.request(id, message).await,
            }
        };
        match timeout(patience, answered).await {
            Ok(Ok(response)) => Answer::of(response),
            Ok(Err(missing)) => Answer::None(missing),
            Err(_) => Answer::None(self.silence(patience)),
        }
    }

    /// Why nothing came, as far as it is known.
    fn silence(&self, patience: Duration) -> Missing {
        let within = seconds(patience);
        match &self.link {
            Link::Stdio(stdio) => match stdio.garbage() {
                Some(line) => Missing::Unreadable(format!(
                    "no answer within {within}; its standard output has what is no JSON-RPC message: `{}`",
                    short(&line, 80)
                )),
                None => Missing::Timeout(within),
            },
            Link::Http(_) => Missing::Timeout(within),
        }
    }

    fn message(&self, call: &Call) -> (u64, Value) {
        let id = call.id.unwrap_or_else(|| self.next.fetch_add(1, Ordering::Relaxed));
        let mut params = json!({ "name": call.tool, "arguments": call.arguments });
        if let Some(key) = &call.key {
            params["idempotencyKey"] = json!(key);
        }
        (id, json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": self.with_meta(params) }))
    }

    /// Without a session, every request says what the session would have said.
    fn with_meta(&self, mut params: Value) -> Value {
        if self.stateless {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": STATELESS,
                "io.modelcontextprotocol/clientInfo": { "name": "settled-audit", "version": env!("CARGO_PKG_VERSION") },
                "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        params
    }
}

/// The answer to a request of the server: an audit offers nothing but its being there.
fn reply(request: &Value) -> Option<Value> {
    let id = request.get("id").filter(|id| !id.is_null())?;
    let reply = match request.get("method").and_then(Value::as_str)? {
        "ping" => json!({ "jsonrpc": "2.0", "id": id, "result": {} }),
        method => {
            let message = format!("{method}: not offered by this client");
            json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32601, "message": message } })
        }
    };
    Some(reply)
}

/// A time for reading.
pub(crate) fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs_f64())
}

//! A scripted MCP client on rmcp: `rmcp_client SCENARIO -- COMMAND [ARG…] | URL`. Scenarios, environment and output are those
//! of `tests/clients/README.md`, as far as they are here.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::{Duration, Instant};

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientConfig, ClientRequest, Implementation, JsonObject, ProtocolVersion,
};
use rmcp::service::{PeerRequestOptions, RoleClient, RunningService};
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientLifecycleMode, ClientServiceExt, ServiceError};
use serde_json::{Value, json};
use tokio::process::Command;

const RETRIES: usize = 5;
const STATELESS: &str = "2026-07-28";

type Connection = RunningService<RoleClient, ClientConfig>;

struct Client {
    target: Vec<String>,
    connection: Option<Connection>,
    connections: u32,
    attempts: Vec<Value>,
}

fn milliseconds(name: &str, otherwise: u64) -> Duration {
    Duration::from_millis(std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise))
}

fn impatient() -> Duration {
    milliseconds("CLIENT_TIMEOUT_MS", 700)
}

fn patient() -> Duration {
    milliseconds("CLIENT_PATIENCE_MS", 30_000)
}

fn error(name: &str, code: Option<i64>, message: &str) -> Value {
    json!({ "name": name, "code": code, "message": message, "data": null })
}

/// The versions that rmcp speaks are constants, so a revision is read as a message would be.
fn version(revision: &str) -> ProtocolVersion {
    serde_json::from_value(json!(revision)).expect("a revision of MCP")
}

impl Client {
    async fn connect(&mut self) -> Result<(), Value> {
        self.connections += 1;
        let revision = std::env::var("CLIENT_REVISION").unwrap_or_else(|_| "2025-11-25".to_owned());
        let info = ClientConfig::new(Default::default(), Implementation::new("settled-test-client", "1.0.0"))
            .with_protocol_version(version(&revision));
        let mode = if revision == STATELESS {
            ClientLifecycleMode::Discover { preferred_versions: vec![version(&revision)] }
        } else {
            ClientLifecycleMode::Initialize
        };
        let opened = async {
            match self.target.as_slice() {
                [_, program, arguments @ ..] => {
                    let mut command = Command::new(program);
                    command.args(arguments).kill_on_drop(true);
                    let transport = TokioChildProcess::new(command).expect("the server's program starts");
                    info.serve_with_lifecycle(transport, mode).await
                }
                [url] => {
                    let transport = StreamableHttpClientTransport::from_uri(url.as_str());
                    info.serve_with_lifecycle(transport, mode).await
                }
                [] => unreachable!("the command line was checked"),
            }
        };
        match tokio::time::timeout(patient(), opened).await {
            Ok(Ok(connection)) => {
                self.connection = Some(connection);
                Ok(())
            }
            Ok(Err(failure)) => Err(error("ClientInitializeError", None, &failure.to_string())),
            Err(_) => Err(error("Timeout", None, "the session was not opened in time")),
        }
    }

    async fn disconnect(&mut self) {
        if let Some(mut connection) = self.connection.take() {
            let _ = connection.close_with_timeout(Duration::from_secs(3)).await;
        }
    }

    /// One call, connecting first if there is no connection. Whether it was answered.
    async fn attempt(&mut self, cents: u64, timeout: Duration) -> bool {
        let start = Instant::now();
        let connected = if self.connection.is_some() { Ok(()) } else { self.connect().await };
        let answer = match (connected, &self.connection) {
            (Ok(()), Some(connection)) => call(connection, cents, timeout).await,
            (Err(failure), _) => Err(failure),
            (Ok(()), None) => unreachable!("it is connected"),
        };
        self.record(cents, start, answer)
    }

    fn record(&mut self, cents: u64, start: Instant, answer: Result<Value, Value>) -> bool {
        let (result, error) = match answer {
            Ok(result) => (result, Value::Null),
            Err(error) => (Value::Null, error),
        };
        let answered = error.is_null();
        let ms = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.attempts.push(json!({
            "attempt": self.attempts.len() + 1, "connection": self.connections, "arguments": arguments(cents),
            "ms": ms, "result": result, "error": error,
        }));
        answered
    }

    /// The last call got no answer, or an error of the tool.
    fn last_failed(&self) -> bool {
        let last = self.attempts.last();
        last.is_some_and(|last| !last["error"].is_null() || last["result"]["isError"] == json!(true))
    }

    async fn scenario(&mut self, name: &str) -> bool {
        match name {
            "once" => {
                self.attempt(500, patient()).await;
            }
            "timeout-retry" => {
                self.attempt(500, impatient()).await;
                if self.last_failed() {
                    self.attempt(500, patient()).await;
                }
            }
            "crash-retry" => {
                self.attempt(500, patient()).await;
                if self.last_failed() {
                    if self.connection.as_ref().is_some_and(|connection| connection.is_transport_closed()) {
                        self.disconnect().await;
                    }
                    self.attempt(500, patient()).await;
                }
            }
            "reconnect-retry" => {
                let mut round = 0;
                while round <= RETRIES {
                    let answered = self.attempt(500, if round == 0 { impatient() } else { patient() }).await;
                    if answered && (round > 0 || !self.last_failed()) {
                        break;
                    }
                    self.disconnect().await;
                    tokio::time::sleep(milliseconds("CLIENT_PAUSE_MS", 50)).await;
                    round += 1;
                }
            }
            "two-orders" => {
                self.attempt(500, patient()).await;
                self.attempt(700, patient()).await;
            }
            "twice-at-once" => {
                let start = Instant::now();
                let answers = match self.connect().await {
                    Ok(()) => {
                        let connection = self.connection.as_ref().expect("it is connected");
                        let (one, two) =
                            tokio::join!(call(connection, 500, patient()), call(connection, 500, patient()));
                        [one, two]
                    }
                    Err(failure) => [Err(failure.clone()), Err(failure)],
                };
                for answer in answers {
                    self.record(500, start, answer);
                }
            }
            _ => return false,
        }
        true
    }
}

fn arguments(cents: u64) -> Value {
    json!({ "customer": "alice", "cents": cents })
}

async fn call(connection: &Connection, cents: u64, timeout: Duration) -> Result<Value, Value> {
    let tool = std::env::var("TOOL").unwrap_or_else(|_| "charge".to_owned());
    let arguments: JsonObject = serde_json::from_value(arguments(cents)).expect("an object");
    let params = CallToolRequestParams::new(tool).with_arguments(arguments);
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
    let answer = match connection.send_request_with_option(request, PeerRequestOptions::with_timeout(timeout)).await {
        Ok(handle) => handle.await_response().await,
        Err(failure) => Err(failure),
    };
    match answer {
        Ok(result) => Ok(serde_json::to_value(result).expect("results are JSON")),
        Err(ServiceError::McpError(failure)) => {
            let mut seen = error("McpError", Some(failure.code.0.into()), &failure.message);
            seen["data"] = failure.data.unwrap_or_default();
            Err(seen)
        }
        Err(ServiceError::Timeout { .. }) => Err(error("Timeout", Some(-32001), "no answer in time")),
        Err(failure) => Err(error("ConnectionLost", None, &failure.to_string())),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    // A workspace that builds its HTTP clients without a provider of cryptography has to name one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut words = std::env::args().skip(1);
    let scenario = words.next().unwrap_or_default();
    let target: Vec<String> = words.collect();
    let is_target = match target.as_slice() {
        [url] => url.starts_with("http"),
        [dashes, _, ..] => dashes == "--",
        [] => false,
    };
    let mut client = Client { target, connection: None, connections: 0, attempts: Vec::new() };
    if !is_target || !client.scenario(&scenario).await {
        eprintln!("usage: rmcp_client SCENARIO -- COMMAND [ARG…] | URL");
        std::process::exit(2);
    }
    let seen = json!({
        "client": "rmcp", "scenario": scenario, "connections": client.connections, "attempts": client.attempts,
        "error": null,
    });
    println!("{seen}");
    client.disconnect().await;
}

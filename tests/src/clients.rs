//! The public MCP clients and servers, and what a client saw.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use crate::running::{Ended, Running};
use crate::stage::Stage;

fn tests(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// A path below the checkout's target directory, where `tests/clients/install` puts what it installs.
fn installed(path: &str) -> OsString {
    let path = tests("..").join("target/clients").join(path);
    assert!(path.exists(), "{} is missing: run tests/clients/install", path.display());
    path.into()
}

fn python() -> OsString {
    installed("python/bin/python")
}

fn python2() -> OsString {
    installed("python2/bin/python")
}

/// A program of this package: cargo builds it with the tests of this package, and puts it beside their directory.
pub(crate) fn program(name: &str) -> OsString {
    let test = std::env::current_exe().expect("the running test");
    let path = test.ancestors().nth(2).expect("the test lies in a profile's directory").join(name);
    assert!(path.exists(), "{} is missing: cargo build -p settled-tests --bins", path.display());
    path.into()
}

fn node() -> OsString {
    let modules = tests("clients/node/node_modules");
    assert!(modules.exists(), "{} is missing: run tests/clients/install", modules.display());
    "node".into()
}

/// An MCP server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// The TypeScript SDK's.
    Node,
    /// The Python SDK's, 1.x.
    Python,
    /// The Python SDK's, 2.x.
    Python2,
    /// `tests/servers/charge.py`, without an SDK: starts quickly, deduplicates, and dies where it is told to.
    Quick,
    /// `tests/servers/echo.py`: writes down what it gets, says what it is told to.
    Echo,
}

impl Server {
    /// Its command.
    pub fn command(self) -> Vec<OsString> {
        match self {
            Server::Node => vec![node(), tests("clients/node/server.mjs").into()],
            Server::Python => vec![python(), tests("clients/python/server.py").into()],
            Server::Python2 => vec![python2(), tests("clients/python2/server.py").into()],
            Server::Quick => vec![python(), tests("servers/charge.py").into()],
            Server::Echo => vec![python(), tests("servers/echo.py").into()],
        }
    }

    /// How its script's name ends.
    pub fn word(self) -> &'static str {
        match self {
            Server::Node => "node/server.mjs",
            Server::Python => "python/server.py",
            Server::Python2 => "python2/server.py",
            Server::Quick => "servers/charge.py",
            Server::Echo => "servers/echo.py",
        }
    }
}

/// A scripted client on a public SDK.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Client {
    /// The TypeScript SDK's, 1.30.0.
    Node,
    /// The TypeScript SDK's, the latest 1.x.
    NodeCurrent,
    /// The TypeScript SDK's, 2.x.
    Node2,
    /// The Python SDK's, 1.x.
    Python,
    /// The Python SDK's, 2.x.
    Python2,
    /// rmcp's.
    Rmcp,
    /// LangGraph's default retry policy around langchain-mcp-adapters. It has one scenario only.
    LangGraph,
    /// The MCP client of openai-agents, which repeats calls by itself. It has the scenarios `once` and `two-orders`.
    Agents,
}

/// What a client is to talk to.
#[derive(Clone, Debug)]
pub enum Target {
    /// A server that it starts.
    Command(Vec<OsString>),
    /// A server over HTTP.
    Url(String),
}

impl Client {
    /// The error code of a call that got no answer in time.
    pub fn timeout_code(self) -> i64 {
        match self {
            Client::Python => 408,
            _ => -32001,
        }
    }

    fn command(self, scenario: &str, target: &Target) -> Vec<OsString> {
        let mut argv = match self {
            Client::Node | Client::NodeCurrent | Client::Node2 => vec![node(), tests("clients/node/client.mjs").into()],
            Client::Python => vec![python(), tests("clients/python/client.py").into()],
            Client::Python2 => vec![python2(), tests("clients/python2/client.py").into()],
            Client::Rmcp => vec![program("rmcp_client")],
            Client::LangGraph => vec![python(), tests("clients/python/langgraph_retry.py").into()],
            Client::Agents => vec![python(), tests("clients/python/agents_retry.py").into()],
        };
        if self != Client::LangGraph {
            argv.push(scenario.into());
        }
        match target {
            Target::Command(server) => {
                argv.push("--".into());
                argv.extend_from_slice(server);
            }
            Target::Url(url) => argv.push(url.into()),
        }
        argv
    }

    fn environment(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Client::NodeCurrent => &[("CLIENT_SDK", "1.32.2")],
            Client::Node2 => &[("CLIENT_SDK", "2.4.0")],
            _ => &[],
        }
    }
}

/// What a client printed last.
#[derive(Debug, Deserialize)]
#[serde(default)]
#[derive(Default)]
pub struct Run {
    /// How often it started the command.
    pub connections: u32,
    /// Its calls.
    pub attempts: Vec<Attempt>,
    /// What stopped the scenario itself.
    pub error: Option<Value>,
    /// The orders of `loop` that no retry confirmed.
    pub gave_up: Vec<u64>,
    /// LangGraph: how often its node ran.
    pub node_runs: u32,
    /// LangGraph: what the tool returned to each run.
    pub returned: Vec<Value>,
}

/// One call of a client.
#[derive(Debug, Deserialize)]
pub struct Attempt {
    /// The SDK's result.
    pub result: Option<Value>,
    /// Or its error.
    pub error: Option<Value>,
}

impl Attempt {
    /// The text of the first block.
    pub fn text(&self) -> &str {
        self.result.as_ref().and_then(|result| result.pointer("/content/0/text")?.as_str()).unwrap_or_default()
    }

    /// All texts.
    pub fn texts(&self) -> String {
        let blocks = self.result.as_ref().and_then(|result| result.get("content")?.as_array());
        blocks.into_iter().flatten().filter_map(|block| block.get("text")?.as_str()).collect::<Vec<_>>().join("\n")
    }

    /// The tool's answer is an error.
    pub fn is_error(&self) -> bool {
        self.result.as_ref().is_some_and(|result| result.get("isError") == Some(&Value::Bool(true)))
    }

    /// It was answered, and not by an error.
    pub fn is_success(&self) -> bool {
        self.result.is_some() && !self.is_error()
    }

    /// The code of the error.
    pub fn code(&self) -> Option<i64> {
        self.error.as_ref()?.get("code")?.as_i64()
    }

    /// The proxy's mark.
    pub fn mark(&self) -> &Value {
        self.result.as_ref().and_then(|result| result.get("_meta")?.get("io.settled/status")).unwrap_or(&Value::Null)
    }
}

/// A script that carries out jobs with clients of HTTP APIs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiClient {
    /// httpx and openai.
    Python,
    /// fetch and openai.
    Node,
}

impl Stage {
    /// Starts a script of HTTP clients; it takes jobs from its input.
    pub fn start_api_client(&self, client: ApiClient) -> Running {
        self.start(&match client {
            ApiClient::Python => [python(), tests("clients/python/api_client.py").into()],
            ApiClient::Node => [node(), tests("clients/node/api_client.mjs").into()],
        })
    }

    /// Starts a client's scenario on a command.
    pub fn start_client(&self, client: Client, scenario: &str, command: &[OsString]) -> Running {
        self.start_client_on(client, scenario, &Target::Command(command.to_vec()))
    }

    /// Starts a client's scenario on a target.
    pub fn start_client_on(&self, client: Client, scenario: &str, target: &Target) -> Running {
        self.start_with(&client.command(scenario, target), client.environment())
    }

    /// Runs a client's scenario on a command to its end.
    #[track_caller]
    pub fn client(&self, client: Client, scenario: &str, command: &[OsString]) -> Run {
        self.client_on(client, scenario, &Target::Command(command.to_vec()))
    }

    /// Runs a client's scenario on a target to its end.
    #[track_caller]
    pub fn client_on(&self, client: Client, scenario: &str, target: &Target) -> Run {
        let mut running = self.start_client_on(client, scenario, target);
        running.close_input();
        Run::read(&running.wait())
    }
}

impl Run {
    /// From what a client printed.
    ///
    /// # Panics
    /// If it ended badly, or the scenario was stopped by an error.
    #[track_caller]
    pub fn read(ended: &Ended) -> Run {
        let run = Run::of(ended);
        assert!(run.error.is_none(), "the scenario was stopped: {ended:#?}");
        run
    }

    /// From what a client printed, whatever stopped the scenario.
    ///
    /// # Panics
    /// If it ended badly.
    #[track_caller]
    pub fn of(ended: &Ended) -> Run {
        assert!(ended.status.success(), "the client failed: {ended:#?}");
        let last = ended.lines.last().expect("the client prints what it saw");
        serde_json::from_str(last).expect("the client prints JSON")
    }

    /// The codes of the errors of all attempts.
    pub fn codes(&self) -> Vec<Option<i64>> {
        self.attempts.iter().map(Attempt::code).collect()
    }

    /// The first texts of all attempts.
    pub fn texts(&self) -> Vec<&str> {
        self.attempts.iter().map(Attempt::text).collect()
    }
}

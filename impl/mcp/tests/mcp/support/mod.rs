#![allow(dead_code)]
//! A client on in-memory pipes, in front of a proxy, in front of a scripted server.

pub mod front;
pub mod http;
pub mod http_server;
pub mod slow_ledger;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use settled::{Engine, EngineOptions, MemoryLedger};
use settled_mcp::{Config, Ended, ProxyError, ProxyOptions};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;

pub const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18", "capabilities":{},"clientInfo":{"name":"c","version":"1.0"}}}"#;
pub const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// The server's two files, and the ledger; several clients can share them.
#[derive(Clone)]
pub struct World {
    dir: Arc<tempfile::TempDir>,
    pub ledger: Arc<MemoryLedger>,
}

impl World {
    pub fn new() -> World {
        World { dir: Arc::new(tempfile::tempdir().unwrap()), ledger: Arc::new(MemoryLedger::new()) }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn lines(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.file(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Every line that any server process got.
    pub fn log(&self) -> Vec<String> {
        self.lines("log")
    }

    /// What its observers answer from now on, instead of what is true; empty: the truth.
    pub fn observers_say(&self, instead: &str) {
        std::fs::write(self.file("effects.observer"), instead).unwrap();
    }

    /// An effect that no proxy knows of.
    pub fn add_effect(&self, effect: &str) {
        std::fs::write(self.file("effects"), format!("{effect}\n")).unwrap();
    }

    /// Where the server writes down what it gets.
    pub fn log_file(&self) -> String {
        self.file("log").display().to_string()
    }

    /// Where effects are written down.
    pub fn effects_file(&self) -> String {
        self.file("effects").display().to_string()
    }

    /// How many calls of a tool the server got.
    pub fn calls(&self, tool: &str) -> usize {
        let call = format!(r#""name":"{tool}""#);
        self.log().iter().filter(|line| line.contains("tools/call") && line.contains(&call)).count()
    }

    /// Waits until the only operation in the ledger is in that state.
    pub async fn becomes(&self, state: &str) {
        let ledger: Arc<dyn settled::Ledger> = self.ledger.clone();
        let waiting = async {
            loop {
                let entries = ledger.scan(settled::Filter::All).await.unwrap();
                if entries.iter().any(|entry| entry.record.state().name() == state) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(Duration::from_secs(20), waiting).await.unwrap_or_else(|_| panic!("not {state} in time"));
    }

    /// The addresses of all operations in the ledger.
    pub async fn addresses(&self) -> Vec<String> {
        let ledger: Arc<dyn settled::Ledger> = self.ledger.clone();
        let entries = ledger.scan(settled::Filter::All).await.unwrap();
        entries.iter().map(|entry| entry.key.to_string()).collect()
    }

    /// The states of all operations in the ledger.
    pub async fn ledger_states(&self) -> Vec<&'static str> {
        let ledger: Arc<dyn settled::Ledger> = self.ledger.clone();
        let entries = ledger.scan(settled::Filter::All).await.unwrap();
        entries.iter().map(|entry| entry.record.state().name()).collect()
    }

    /// Every effect.
    pub fn effects(&self) -> Vec<String> {
        self.lines("effects")
    }

    /// Starts a proxy and a client that has said nothing yet.
    pub async fn connect(&self, config: &str, mode: &str) -> Client {
        self.connect_to(config, self.command(mode)).await
    }

    fn command(&self, mode: &str) -> Vec<OsString> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/support/server.py");
        let (log, effects) = (self.file("log"), self.file("effects"));
        ["python3".into(), script.into(), log.into(), effects.into(), mode.into()].to_vec()
    }

    pub async fn connect_to(&self, config: &str, command: Vec<OsString>) -> Client {
        self.connect_on(self.ledger.clone(), config, command).await
    }

    /// As [`open`](Self::open), on another ledger.
    pub async fn open_on(&self, ledger: Arc<dyn settled::Ledger>, config: &str) -> Client {
        let mut client = self.connect_on(ledger, config, self.command("")).await;
        client.say(INITIALIZE).await;
        client.answer().await;
        client.say(INITIALIZED).await;
        client
    }

    async fn connect_on(&self, ledger: Arc<dyn settled::Ledger>, config: &str, command: Vec<OsString>) -> Client {
        let config = Config::parse("settled.toml".as_ref(), config).unwrap();
        let engine = Engine::start(ledger, EngineOptions::default()).await.unwrap();
        let (to_proxy, stdin) = tokio::io::duplex(1 << 16);
        let (stdout, from_proxy) = tokio::io::duplex(1 << 16);
        let proxy = tokio::spawn(settled_mcp::run(ProxyOptions { config, command, engine }, stdin, stdout));
        Client { to_proxy: Some(to_proxy), from_proxy: BufReader::new(from_proxy), proxy }
    }

    /// And has opened its session.
    pub async fn open(&self, config: &str) -> Client {
        self.open_in(config, "").await.0
    }

    /// And has opened its session with a server of that kind: the client, and what `initialize` was answered with.
    pub async fn open_in(&self, config: &str, mode: &str) -> (Client, Value) {
        let mut client = self.connect(config, mode).await;
        client.say(INITIALIZE).await;
        let answer = client.answer().await;
        assert!(answer["result"]["serverInfo"].is_object(), "{answer}");
        client.say(INITIALIZED).await;
        (client, answer["result"].clone())
    }
}

pub struct Client {
    to_proxy: Option<DuplexStream>,
    from_proxy: BufReader<DuplexStream>,
    proxy: JoinHandle<Result<Ended, ProxyError>>,
}

impl Client {
    pub async fn say(&mut self, line: impl AsRef<[u8]>) {
        let pipe = self.to_proxy.as_mut().unwrap();
        pipe.write_all(line.as_ref()).await.unwrap();
        pipe.write_all(b"\n").await.unwrap();
    }

    pub async fn call(&mut self, id: &str, tool: &str, arguments: &str) {
        self.call_with(id, &format!(r#"{{"name":"{tool}","arguments":{arguments}}}"#)).await;
    }

    pub async fn call_with(&mut self, id: &str, params: &str) {
        self.say(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#)).await;
    }

    /// The next line.
    pub async fn hear(&mut self) -> String {
        let mut line = String::new();
        let read = timeout(Duration::from_secs(20), self.from_proxy.read_line(&mut line)).await;
        read.expect("an answer in time").unwrap();
        line.trim_end_matches('\n').to_owned()
    }

    /// The next line, parsed.
    pub async fn answer(&mut self) -> Value {
        let line = self.hear().await;
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// A call and its answer.
    pub async fn ask(&mut self, id: &str, tool: &str, arguments: &str) -> Value {
        self.call(id, tool, arguments).await;
        let answer = self.answer().await;
        assert_eq!(answer["id"], serde_json::from_str::<Value>(id).unwrap(), "{answer}");
        answer
    }

    /// Whether the proxy says nothing for a while.
    pub async fn silence(&mut self, millis: u64) -> bool {
        let mut line = String::new();
        let read = self.from_proxy.read_line(&mut line);
        timeout(Duration::from_millis(millis), read).await.is_err()
    }

    pub fn close_input(&mut self) {
        self.to_proxy = None;
    }

    /// Closes, reads what is left, and waits for the proxy's end.
    pub async fn end(mut self) -> (Vec<String>, Result<Ended, ProxyError>) {
        self.close_input();
        let mut rest = Vec::new();
        loop {
            let line = self.hear().await;
            if line.is_empty() {
                break;
            }
            rest.push(line);
        }
        let ended = timeout(Duration::from_secs(30), self.proxy).await.expect("the proxy ends").unwrap();
        (rest, ended)
    }

    /// Waits for the proxy to end by itself.
    pub async fn wait(self) -> Result<Ended, ProxyError> {
        timeout(Duration::from_secs(30), self.proxy).await.expect("the proxy ends").unwrap()
    }

    /// Goes away without reading.
    pub async fn vanish(self) -> Result<Ended, ProxyError> {
        drop((self.to_proxy, self.from_proxy));
        timeout(Duration::from_secs(30), self.proxy).await.expect("the proxy ends").unwrap()
    }
}

/// The mark of an answer.
pub fn mark(answer: &Value) -> &Value {
    let of_result = &answer["result"]["_meta"]["io.settled/status"];
    if of_result.is_null() { &answer["error"]["data"]["io.settled/status"] } else { of_result }
}

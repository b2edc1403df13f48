#![allow(dead_code)]
//! Clients over HTTP, in front of the proxy, in front of a server within this process.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use settled::{Engine, EngineOptions, MemoryLedger};
use settled_mcp::{Behind, Config, EndBy, FrontOptions, Fronted, ProxyError, StartServer, Started, serve_front};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, duplex};
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// Long enough for a loaded machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// What all processes of the server share.
#[derive(Default)]
pub struct Server {
    pub lines: Mutex<Vec<String>>,
    pub effects: AtomicUsize,
    pub started: AtomicUsize,
    pub alive: AtomicUsize,
    /// Calls with `"wait": true` wait for it.
    pub open: watch::Sender<bool>,
    /// Knows no revision but those with sessions.
    pub is_old: bool,
}

impl Server {
    pub fn log(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    /// How many lines hold all of these.
    pub fn got(&self, parts: &[&str]) -> usize {
        self.log().iter().filter(|line| parts.iter().all(|part| line.contains(part))).count()
    }

    pub fn effects(&self) -> usize {
        self.effects.load(Ordering::SeqCst)
    }

    pub async fn until(&self, what: &str, holds: impl Fn(&Server) -> bool) {
        let waiting = async {
            while !holds(self) {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("{what}: never; it got {:#?}", self.log()));
    }
}

struct Starts(Arc<Server>);

impl StartServer for Starts {
    fn start(&self) -> io::Result<Started> {
        let server = self.0.clone();
        server.started.fetch_add(1, Ordering::SeqCst);
        server.alive.fetch_add(1, Ordering::SeqCst);
        let (input, stdin) = duplex(1 << 16);
        let (stdout, output) = duplex(1 << 16);
        let ends = Arc::new(Notify::new());
        let told = ends.clone();
        let mut process = tokio::spawn(process(server.clone(), stdin, stdout));
        let ended = async move {
            tokio::select! {
                _ = &mut process => {}
                () = told.notified() => process.abort(),
            }
            server.alive.fetch_sub(1, Ordering::SeqCst);
            Ok(std::process::ExitStatus::default())
        };
        Ok(Started {
            input: Box::new(input),
            output: Box::new(output),
            ended: Box::pin(ended),
            end: Box::new(move |_: EndBy| ends.notify_one()),
        })
    }
}

type Out = Arc<tokio::sync::Mutex<DuplexStream>>;

async fn say(out: &Out, message: Value) {
    let _ = out.lock().await.write_all(format!("{message}\n").as_bytes()).await;
}

async fn process(server: Arc<Server>, stdin: DuplexStream, stdout: DuplexStream) {
    let out: Out = Arc::new(tokio::sync::Mutex::new(stdout));
    let mut lines = BufReader::new(stdin).lines();
    let answers: Arc<Mutex<HashMap<String, mpsc::UnboundedSender<Value>>>> = Arc::default();
    // As many servers do, it ends at the end of its input, whatever is under way.
    let mut calls = tokio::task::JoinSet::new();
    while let Ok(Some(line)) = lines.next_line().await {
        server.lines.lock().unwrap().push(line.clone());
        let message: Value = serde_json::from_str(&line).unwrap();
        for message in message.as_array().cloned().unwrap_or_else(|| vec![message]) {
            let Some(method) = message["method"].as_str() else {
                if let Some(waiting) = answers.lock().unwrap().get(&message["id"].to_string()) {
                    let _ = waiting.send(message.clone());
                }
                continue;
            };
            let (id, params) = (message["id"].clone(), message["params"].clone());
            let result = match method {
                "initialize" => json!({
                    "protocolVersion": params["protocolVersion"],
                    "capabilities": { "tools": {} },
                    "serverInfo": { "name": "s", "version": "1" },
                }),
                "server/discover" if !server.is_old => {
                    json!({ "supportedVersions": ["2026-07-28"], "resultType": "complete" })
                }
                "ping" => json!({}),
                "tools/list" => json!({ "tools": [
                    { "name": "read", "annotations": { "readOnlyHint": true } },
                    { "name": "charge", "annotations": { "destructiveHint": true, "idempotentHint": false } },
                    { "name": "plain" },
                ] }),
                "tools/call" => {
                    calls.spawn(call(server.clone(), out.clone(), answers.clone(), id, params));
                    continue;
                }
                "subscriptions/listen" => {
                    let meta = json!({ "io.modelcontextprotocol/subscriptionId": id });
                    let of = |method: &str| json!({ "jsonrpc": "2.0", "method": method, "params": { "_meta": meta } });
                    say(&out, of("notifications/subscriptions/acknowledged")).await;
                    say(&out, of("notifications/tools/list_changed")).await;
                    continue;
                }
                "notifications/emit" => {
                    let params = json!({ "level": "info", "data": params["text"] });
                    say(&out, json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": params })).await;
                    continue;
                }
                method if method.starts_with("notifications/") => continue,
                _ => {
                    let error = json!({ "code": -32601, "message": "Method not found" });
                    say(&out, json!({ "jsonrpc": "2.0", "id": id, "error": error })).await;
                    continue;
                }
            };
            say(&out, json!({ "jsonrpc": "2.0", "id": id, "result": result })).await;
        }
    }
}

async fn call(
    server: Arc<Server>,
    out: Out,
    answers: Arc<Mutex<HashMap<String, mpsc::UnboundedSender<Value>>>>,
    id: Value,
    params: Value,
) {
    let arguments = &params["arguments"];
    let mut text = arguments["say"].as_str().unwrap_or("done").to_owned();
    for step in 1..=arguments["progress"].as_u64().unwrap_or(0) {
        let progress = json!({ "progressToken": params["_meta"]["progressToken"], "progress": step });
        say(&out, json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": progress })).await;
    }
    if arguments["wait"] == true {
        let mut open = server.open.subscribe();
        let _ = open.wait_for(|open| *open).await;
    }
    if arguments["ask"] == true {
        let (waiting, mut answer) = mpsc::unbounded_channel();
        answers.lock().unwrap().insert(r#""asked""#.to_owned(), waiting);
        say(&out, json!({ "jsonrpc": "2.0", "id": "asked", "method": "roots/list" })).await;
        text = answer.recv().await.unwrap()["result"].to_string();
    }
    if let Some(size) = arguments["size"].as_u64() {
        text = "x".repeat(usize::try_from(size).unwrap());
    }
    if params["name"] != "read" {
        text = format!("{text} {}", server.effects.fetch_add(1, Ordering::SeqCst) + 1);
    }
    let result = json!({ "content": [{ "type": "text", "text": text }] });
    say(&out, json!({ "jsonrpc": "2.0", "id": id, "result": result })).await;
}

/// The proxy.
pub struct Front {
    pub url: String,
    pub address: std::net::SocketAddr,
    pub server: Arc<Server>,
    pub http: reqwest::Client,
    pub ledger: Arc<MemoryLedger>,
    tell: mpsc::UnboundedSender<()>,
    served: JoinHandle<Result<(), ProxyError>>,
}

pub async fn front(config: &str) -> Front {
    front_of(config, Server::default()).await
}

pub async fn front_of(config: &str, server: Server) -> Front {
    let server = Arc::new(server);
    let config = Config::parse("settled.toml".as_ref(), &format!("scope = 'test'\n{config}")).unwrap();
    let behind = Behind::Starts(Arc::new(Starts(server.clone())));
    front_with(vec![Fronted { name: None, config, behind }], server).await
}

pub async fn front_with(servers: Vec<Fronted>, server: Arc<Server>) -> Front {
    let ledger = Arc::new(MemoryLedger::new());
    let engine = Engine::start(ledger.clone(), EngineOptions::default()).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, told) = mpsc::unbounded_channel();
    let config = &servers[0].config;
    let options = FrontOptions { http: config.http.clone(), limits: config.limits, servers, engine };
    let served = tokio::spawn(serve_front(options, listener, told));
    // Another test may have done so.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let http = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().unwrap();
    Front { url: format!("http://{address}/mcp"), address, server, http, ledger, tell, served }
}

/// The same server twice, by name.
pub fn named(names: &[&str], config: &str) -> (Vec<Fronted>, Arc<Server>) {
    let server = Arc::new(Server::default());
    let servers = names.iter().map(|name| {
        let config = Config::parse("settled.toml".as_ref(), &format!("scope = '{name}'\n{config}")).unwrap();
        Fronted { name: Some((*name).to_owned()), config, behind: Behind::Starts(Arc::new(Starts(server.clone()))) }
    });
    (servers.collect(), server)
}

impl Front {
    pub fn post(&self, body: impl Into<reqwest::Body>) -> reqwest::RequestBuilder {
        self.http
            .post(&self.url)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .body(body)
    }

    /// As of revision 2026-07-28.
    pub fn modern(&self, id: Value, method: &str, params: Value) -> reqwest::RequestBuilder {
        let (body, name) = modern(id, method, params);
        let request =
            self.post(body).header("mcp-protocol-version", "2026-07-28").header("mcp-method", method.to_owned());
        match name {
            Some(name) => request.header("mcp-name", name),
            None => request,
        }
    }

    pub async fn open(&self, revision: &str) -> Client<'_> {
        self.open_as(revision, None).await
    }

    pub async fn open_as(&self, revision: &str, authorization: Option<&str>) -> Client<'_> {
        let authorization = authorization.map(str::to_owned);
        let mut client = Client { front: self, session: String::new(), revision: revision.to_owned(), authorization };
        let params =
            json!({ "protocolVersion": revision, "capabilities": {}, "clientInfo": { "name": "c", "version": "1" } });
        let body = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        let mut request = self.post(body.to_string());
        if let Some(authorization) = &client.authorization {
            request = request.header("authorization", authorization);
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        client.session = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        let answer: Value = response.json().await.unwrap();
        assert_eq!(answer["result"]["protocolVersion"], revision, "{answer}");
        let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        let response = client.post(initialized.to_string()).send().await.unwrap();
        assert_eq!(response.status(), 202);
        client
    }

    /// A POST on a connection that is cut when it is dropped.
    pub fn raw(&self, headers: &[(&str, &str)], body: &str) -> std::net::TcpStream {
        use std::io::Write;
        let mut stream = std::net::TcpStream::connect(self.address).unwrap();
        let host = format!("{}", self.address);
        let length = body.len().to_string();
        let accept = "application/json, text/event-stream";
        let always =
            [("host", &*host), ("content-type", "application/json"), ("accept", accept), ("content-length", &length)];
        let lines: String = always.iter().chain(headers).map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        stream.write_all(format!("POST /mcp HTTP/1.1\r\n{lines}\r\n{body}").as_bytes()).unwrap();
        stream
    }

    /// Stands for a signal.
    pub fn tell(&self) {
        self.tell.send(()).unwrap();
    }

    pub async fn ended(self) -> Result<(), ProxyError> {
        timeout(PATIENCE, self.served).await.expect("it ends").unwrap()
    }
}

pub fn modern(id: Value, method: &str, mut params: Value) -> (String, Option<String>) {
    let meta = params.as_object_mut().unwrap().entry("_meta").or_insert(json!({}));
    meta["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
    meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
    let name = params["name"].as_str().map(str::to_owned);
    (json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string(), name)
}

/// A client with a session.
pub struct Client<'a> {
    pub front: &'a Front,
    pub session: String,
    pub revision: String,
    pub authorization: Option<String>,
}

impl Client<'_> {
    fn with(&self, request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
        let request = request.header("mcp-session-id", &self.session).header("mcp-protocol-version", &self.revision);
        match &self.authorization {
            Some(authorization) => request.header("authorization", authorization),
            None => request,
        }
    }

    pub fn post(&self, body: impl Into<reqwest::Body>) -> reqwest::RequestBuilder {
        self.with(self.front.post(body))
    }

    /// As [`Front::raw`].
    pub fn raw(&self, body: &str) -> std::net::TcpStream {
        let headers = [("mcp-session-id", &*self.session), ("mcp-protocol-version", &*self.revision)];
        self.front.raw(&headers, body)
    }

    pub fn get(&self) -> reqwest::RequestBuilder {
        self.with(self.front.http.get(&self.front.url).header("accept", "text/event-stream"))
    }

    pub fn delete(&self) -> reqwest::RequestBuilder {
        self.with(self.front.http.delete(&self.front.url))
    }

    pub async fn listen(&self, last: Option<&str>) -> Events {
        let request = self.get();
        let request = match last {
            Some(last) => request.header("last-event-id", last),
            None => request,
        };
        Events::of(request.send().await.unwrap())
    }

    pub async fn call(&self, id: impl Into<Value>, tool: &str, arguments: Value) -> reqwest::Response {
        self.post(call_text(id, tool, arguments)).send().await.unwrap()
    }

    /// A call that is answered at once, and its answer.
    pub async fn ask(&self, id: impl Into<Value>, tool: &str, arguments: Value) -> Value {
        let response = self.call(id, tool, arguments).await;
        assert_eq!((response.status().as_u16(), kind(&response)), (200, "application/json".to_owned()));
        response.json().await.unwrap()
    }
}

pub fn call_text(id: impl Into<Value>, tool: &str, arguments: Value) -> String {
    let mut params = json!({ "name": tool, "arguments": arguments });
    if let Some(token) = params["arguments"].as_object_mut().unwrap().remove("token") {
        params["_meta"] = json!({ "progressToken": token });
    }
    json!({ "jsonrpc": "2.0", "id": id.into(), "method": "tools/call", "params": params }).to_string()
}

pub fn kind(response: &reqwest::Response) -> String {
    response.headers()["content-type"].to_str().unwrap().to_owned()
}

pub fn text_of(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

/// An event as it came.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Event {
    pub id: Option<String>,
    pub retry: Option<String>,
    pub data: Option<String>,
}

impl Event {
    pub fn message(&self) -> Value {
        serde_json::from_str(self.data.as_deref().unwrap()).unwrap()
    }
}

/// The events of a response.
pub struct Events {
    response: reqwest::Response,
    text: String,
}

impl Events {
    pub fn of(response: reqwest::Response) -> Events {
        assert_eq!((response.status().as_u16(), kind(&response)), (200, "text/event-stream".to_owned()));
        Events { response, text: String::new() }
    }

    /// The next event; `None` at the end.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.text = rest;
                let mut found = Event::default();
                for line in event.lines() {
                    let (name, value) = line.split_once(':').unwrap();
                    let value = Some(value.strip_prefix(' ').unwrap_or(value).to_owned());
                    match name {
                        "id" => found.id = value,
                        "retry" => found.retry = value,
                        "data" => found.data = value,
                        _ => {}
                    }
                }
                if found != Event::default() {
                    return Some(found);
                }
                continue;
            }
            match timeout(PATIENCE, self.response.chunk()).await.expect("an event in time").unwrap() {
                Some(bytes) => self.text.push_str(std::str::from_utf8(&bytes).unwrap()),
                None => return None,
            }
        }
    }

    /// The next message.
    pub async fn message(&mut self) -> Value {
        loop {
            let event = self.next().await.expect("a message");
            if event.data.as_deref().is_some_and(|data| !data.is_empty()) {
                return event.message();
            }
        }
    }

    /// All that is left.
    pub async fn rest(mut self) -> Vec<Event> {
        let mut rest = Vec::new();
        while let Some(event) = self.next().await {
            rest.push(event);
        }
        rest
    }
}

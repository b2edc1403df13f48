//! An HTTP/1.1 server whose every byte is under a test's control: what it does with each request is a script.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// A request that has arrived whole.
#[derive(Clone, Debug)]
pub struct Heard {
    pub method: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: String,
    /// Which connection it came on.
    pub connection: usize,
}

impl Heard {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The message in it; null if there is none.
    pub fn message(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    /// The message's method, or the request's.
    pub fn what(&self) -> String {
        self.message()["method"].as_str().map_or_else(|| self.method.clone(), str::to_owned)
    }

    /// The tool that is called.
    pub fn tool(&self) -> String {
        self.message()["params"]["name"].as_str().unwrap_or_default().to_owned()
    }

    pub fn id(&self) -> Value {
        self.message()["id"].clone()
    }

    /// A result with this id.
    pub fn result(&self, result: Value) -> String {
        json!({ "jsonrpc": "2.0", "id": self.id(), "result": result }).to_string()
    }
}

/// The connection that a request came on.
pub struct Wire {
    stream: TcpStream,
    read: Vec<u8>,
}

/// What a script gives back: the connection, if it is to be used again.
pub type Kept = Option<Wire>;

impl Wire {
    pub async fn raw(&mut self, text: impl AsRef<[u8]>) {
        // A client that has gone is none of the script's business.
        let _ = self.stream.write_all(text.as_ref()).await;
    }

    /// A whole answer.
    pub async fn answer(mut self, status: u16, headers: &[(&str, &str)], body: &str) -> Kept {
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let head = format!("HTTP/1.1 {status} X\r\n{headers}content-length: {}\r\n\r\n", body.len());
        self.raw(head + body).await;
        Some(self)
    }

    pub async fn json(self, body: &str) -> Kept {
        self.answer(200, &[("content-type", "application/json")], body).await
    }

    pub async fn status(self, status: u16) -> Kept {
        self.answer(status, &[], "").await
    }

    /// Begins a stream of events.
    pub async fn events(&mut self, headers: &[(&str, &str)]) {
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let head =
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n";
        self.raw(format!("{head}{headers}\r\n")).await;
    }

    pub async fn event(&mut self, text: &str) {
        self.raw(format!("{:x}\r\n{text}\r\n", text.len())).await;
    }

    /// Ends a stream of events as it should.
    pub async fn end(mut self) -> Kept {
        self.raw("0\r\n\r\n").await;
        Some(self)
    }

    /// Cuts the connection with a reset.
    pub async fn reset(self) -> Kept {
        #[allow(deprecated)]
        let _ = self.stream.set_linger(Some(Duration::ZERO));
        None
    }

    /// Resolves when the other side has closed.
    pub async fn closed(&mut self) {
        let mut byte = [0];
        while !matches!(self.stream.read(&mut byte).await, Ok(0) | Err(_)) {}
    }

    /// The next request on this connection.
    async fn next(&mut self, connection: usize) -> Option<Heard> {
        let head = loop {
            if let Some(at) = self.read.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            self.more().await?;
        };
        let text = String::from_utf8_lossy(&self.read[..head]).into_owned();
        let mut lines = text.split("\r\n");
        let mut words = lines.next()?.split(' ').map(str::to_owned);
        let (method, path) = (words.next()?, words.next()?);
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let heard = Heard { method, path, headers, body: String::new(), connection };
        let length: usize = heard.header("content-length").map_or(0, |length| length.parse().unwrap());
        assert!(heard.header("transfer-encoding").is_none(), "its length is known");
        while self.read.len() < head + length {
            self.more().await?;
        }
        let body = String::from_utf8_lossy(&self.read[head..head + length]).into_owned();
        self.read.drain(..head + length);
        Some(Heard { body, ..heard })
    }

    async fn more(&mut self) -> Option<()> {
        let mut piece = vec![0; 1 << 16];
        let read = self.stream.read(&mut piece).await.ok().filter(|read| *read > 0)?;
        self.read.extend_from_slice(&piece[..read]);
        Some(())
    }
}

type Script = dyn Fn(Server, Heard, Wire) -> Pin<Box<dyn Future<Output = Kept> + Send>> + Send + Sync;

/// A server, and what it remembers.
#[derive(Clone)]
pub struct Server {
    pub url: String,
    inner: Arc<Inner>,
}

struct Inner {
    heard: Mutex<Vec<Heard>>,
    effects: Mutex<Vec<Value>>,
    news: Notify,
    connections: AtomicUsize,
    sessions: AtomicUsize,
    /// Sessions with a lower number have ended.
    first_session: AtomicUsize,
    down: AtomicBool,
}

impl Server {
    /// Starts one on a free port.
    pub async fn start<F, Fut>(script: F) -> Server
    where
        F: Fn(Server, Heard, Wire) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Kept> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Server::on(listener, script)
    }

    /// Starts one on this listener.
    pub fn on<F, Fut>(listener: TcpListener, script: F) -> Server
    where
        F: Fn(Server, Heard, Wire) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Kept> + Send + 'static,
    {
        let inner = Inner {
            heard: Mutex::default(),
            effects: Mutex::default(),
            news: Notify::new(),
            connections: AtomicUsize::new(0),
            sessions: AtomicUsize::new(0),
            first_session: AtomicUsize::new(1),
            down: AtomicBool::new(false),
        };
        let server = Server { url: format!("http://{}/mcp", listener.local_addr().unwrap()), inner: Arc::new(inner) };
        let script: Arc<Script> = Arc::new(move |server, heard, wire| Box::pin(script(server, heard, wire)));
        let accepting = server.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let connection = accepting.inner.connections.fetch_add(1, Ordering::SeqCst);
                let _ = stream.set_nodelay(true);
                tokio::spawn(accepting.clone().serve(Wire { stream, read: Vec::new() }, connection, script.clone()));
            }
        });
        server
    }

    async fn serve(self, mut wire: Wire, connection: usize, script: Arc<Script>) {
        while let Some(heard) = wire.next(connection).await {
            self.inner.heard.lock().unwrap().push(heard.clone());
            self.inner.news.notify_waiters();
            match script(self.clone(), heard, wire).await {
                Some(kept) => wire = kept,
                None => return,
            }
        }
    }

    /// What a well-behaved server does.
    pub async fn usually(self, heard: Heard, wire: Wire) -> Kept {
        if let Some(id) = heard.header("mcp-session-id") {
            let number: usize = id.trim_start_matches('s').parse().unwrap();
            if number < self.inner.first_session.load(Ordering::SeqCst) {
                let body = r#"{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}"#;
                return wire.answer(404, &[("content-type", "application/json")], body).await;
            }
        }
        match heard.what().as_str() {
            "GET" => wire.status(405).await,
            "DELETE" => wire.status(200).await,
            "initialize" => {
                let session = format!("s{}", self.inner.sessions.fetch_add(1, Ordering::SeqCst) + 1);
                let version = heard.message()["params"]["protocolVersion"].clone();
                let result = json!({ "protocolVersion": version, "capabilities": {}, "serverInfo": {"name": "s"} });
                let headers = [("content-type", "application/json"), ("mcp-session-id", session.as_str())];
                wire.answer(200, &headers, &heard.result(result)).await
            }
            "tools/list" => wire.json(&heard.result(json!({ "tools": tools() }))).await,
            "tools/call" => {
                let result = self.effect(&heard);
                wire.json(&heard.result(result)).await
            }
            "ping" => wire.json(&heard.result(json!({}))).await,
            _ => wire.status(202).await,
        }
    }

    /// The effect of a call, and its result.
    pub fn effect(&self, heard: &Heard) -> Value {
        let mut effects = self.inner.effects.lock().unwrap();
        effects.push(heard.message()["params"]["arguments"].clone());
        json!({ "content": [{ "type": "text", "text": format!("effect {}", effects.len()) }] })
    }

    pub fn effects(&self) -> usize {
        self.inner.effects.lock().unwrap().len()
    }

    /// Every session up to now has ended.
    pub fn end_sessions(&self) {
        self.inner.first_session.store(self.inner.sessions.load(Ordering::SeqCst) + 1, Ordering::SeqCst);
    }

    /// Whether a script should fail; for the script to ask.
    pub fn is_down(&self) -> bool {
        self.inner.down.load(Ordering::SeqCst)
    }

    pub fn set_down(&self, down: bool) {
        self.inner.down.store(down, Ordering::SeqCst);
    }

    /// Everything heard, in order.
    pub fn heard(&self) -> Vec<Heard> {
        self.inner.heard.lock().unwrap().clone()
    }

    /// Everything heard of this kind: a message's method, or `GET` or `DELETE`.
    pub fn all(&self, what: &str) -> Vec<Heard> {
        self.heard().into_iter().filter(|heard| heard.what() == what).collect()
    }

    /// The calls of a tool.
    pub fn calls(&self, tool: &str) -> usize {
        self.all("tools/call").iter().filter(|heard| heard.tool() == tool).count()
    }

    /// Waits until so many requests of that kind have come.
    pub async fn hears(&self, what: &str, times: usize) {
        let waiting = async {
            loop {
                let news = self.inner.news.notified();
                if self.all(what).len() >= times {
                    return;
                }
                // A wake-up between the two lines above is not lost for long.
                let _ = tokio::time::timeout(Duration::from_millis(50), news).await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(60), waiting).await;
        waited.unwrap_or_else(|_| panic!("{what} came {} times", self.all(what).len()));
    }
}

fn tools() -> Value {
    json!([
        { "name": "read", "annotations": { "readOnlyHint": true } },
        { "name": "charge", "annotations": { "destructiveHint": true, "idempotentHint": false } },
        { "name": "plain" },
    ])
}

//! A server that counts its effects, a gateway in front of it, and a client that writes requests as they are.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use settled::{Engine, EngineOptions, Ledger, MemoryLedger};
use settled_gateway::config::InFlight;
use settled_gateway::{Config, GatewayOptions, Told};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;

type Body = UnsyncBoxBody<Bytes, std::io::Error>;

/// A server that counts.
#[derive(Default)]
pub struct Server {
    counts: Mutex<HashMap<String, u32>>,
    /// The heads that came, in order.
    pub heads: Mutex<Vec<http::request::Parts>>,
    /// `/gated` waits for one of these.
    pub gate: Semaphore0,
    broken: AtomicU32,
}

/// A semaphore without permits.
pub struct Semaphore0(pub Semaphore);

impl Default for Semaphore0 {
    fn default() -> Self {
        Semaphore0(Semaphore::new(0))
    }
}

impl Server {
    /// How many requests to this path had an effect.
    pub fn effects(&self, path: &str) -> u32 {
        self.counts.lock().unwrap().get(path).copied().unwrap_or(0)
    }

    /// The last head that came.
    pub fn last(&self) -> http::request::Parts {
        self.heads.lock().unwrap().last().unwrap().clone()
    }

    async fn answer(&self, request: Request<Incoming>) -> Result<Response<Body>, std::io::Error> {
        let path = request.uri().path().to_owned();
        let (parts, body) = request.into_parts();
        self.heads.lock().unwrap().push(parts.clone());
        let body = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
        let count = {
            let mut counts = self.counts.lock().unwrap();
            let count = counts.entry(path.clone()).or_default();
            *count += 1;
            *count
        };
        let lost = || Err(std::io::Error::other("the answer is lost"));
        match path.as_str() {
            "/lost" => lost(),
            "/lost-once" if self.broken.fetch_add(1, Ordering::SeqCst) == 0 => lost(),
            "/busy-once" if self.broken.fetch_add(1, Ordering::SeqCst) == 0 => {
                Ok(json(StatusCode::TOO_MANY_REQUESTS, "{}".to_owned()))
            }
            "/gated" => {
                self.gate.0.acquire().await.unwrap().forget();
                Ok(json(StatusCode::OK, format!(r#"{{"gated":{count}}}"#)))
            }
            "/echo" => Ok(Response::new(full(body))),
            "/large" => Ok(Response::new(full(vec![b'x'; 300_000]))),
            "/huge" => Ok(Response::new(full(vec![b'x'; 20_000_000]))),
            "/cut" => {
                let frames = [Ok(Frame::data(Bytes::from_static(b"{\"half\":"))), Err(std::io::Error::other("cut"))];
                Ok(Response::new(BodyExt::boxed_unsync(StreamBody::new(futures(frames)))))
            }
            _ => match path.strip_prefix("/status/").and_then(|code| code.parse().ok()) {
                Some(code) => {
                    let mut response =
                        json(StatusCode::from_u16(code).unwrap(), format!(r#"{{"code":{code},"count":{count}}}"#));
                    response.headers_mut().insert("retry-after", http::HeaderValue::from_static("7"));
                    Ok(response)
                }
                None => {
                    let mut response = json(StatusCode::CREATED, format!(r#"{{ "charge": {count} }}"#));
                    let headers = response.headers_mut();
                    headers.insert("x-request-id", http::HeaderValue::from_static("r-1"));
                    headers.append("set-cookie", http::HeaderValue::from_static("session=secret"));
                    headers.insert("connection", http::HeaderValue::from_static("x-hop"));
                    headers.insert("x-hop", http::HeaderValue::from_static("1"));
                    Ok(response)
                }
            },
        }
    }
}

fn futures<const N: usize>(
    frames: [Result<Frame<Bytes>, std::io::Error>; N],
) -> impl futures_util::Stream<Item = Result<Frame<Bytes>, std::io::Error>> {
    futures_util::stream::iter(frames)
}

fn full(body: impl Into<Bytes>) -> Body {
    Full::new(body.into()).map_err(|never| match never {}).boxed_unsync()
}

fn json(status: StatusCode, body: String) -> Response<Body> {
    let mut response = Response::new(full(body));
    *response.status_mut() = status;
    response.headers_mut().insert("content-type", http::HeaderValue::from_static("application/json"));
    response
}

/// Starts a server.
pub async fn server() -> (Arc<Server>, SocketAddr) {
    let server = Arc::new(Server::default());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = server.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let server = serving.clone();
            tokio::spawn(async move {
                let service = service_fn(move |request| {
                    let server = server.clone();
                    async move { server.answer(request).await }
                });
                let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    (server, address)
}

/// A gateway that runs.
pub struct Running {
    pub address: SocketAddr,
    pub tell: mpsc::UnboundedSender<Told>,
    pub ended: JoinHandle<()>,
    pub engine: Engine,
}

/// A ledger.
pub fn ledger() -> Arc<dyn Ledger> {
    Arc::new(MemoryLedger::new())
}

/// What is declared, in front of this server.
pub fn config(upstream: SocketAddr, text: &str) -> Config {
    let config = Config::parse(Path::new("settled.toml"), text).unwrap();
    Config { upstream: Some(format!("http://{upstream}").parse().unwrap()), ..config }
}

/// Starts a gateway.
pub async fn gateway(config: Config, ledger: &Arc<dyn Ledger>) -> Running {
    start(GatewayOptions { engine: engine(&config, ledger).await, config, reload: None }).await
}

/// An engine as the command starts it.
pub async fn engine(config: &Config, ledger: &Arc<dyn Ledger>) -> Engine {
    let patience = (config.gateway.in_flight == InFlight::Conflict).then_some(Duration::ZERO);
    Engine::start(ledger.clone(), EngineOptions { patience, ..EngineOptions::default() }).await.unwrap()
}

/// A gateway on threads of its own, which ends as a process that is killed: when its runtime is shut down.
pub async fn doomed(config: Config, ledger: &Arc<dyn Ledger>) -> (tokio::runtime::Runtime, SocketAddr) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let ledger = ledger.clone();
    let starting = runtime.spawn(async move {
        let lease = Duration::from_secs(1);
        let engine = Engine::start(ledger, EngineOptions { lease, ..EngineOptions::default() }).await.unwrap();
        start(GatewayOptions { engine, config, reload: None }).await.address
    });
    let address = starting.await.unwrap();
    (runtime, address)
}

/// Starts a gateway.
pub async fn start(options: GatewayOptions) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, told) = mpsc::unbounded_channel();
    let engine = options.engine.clone();
    let ended = tokio::spawn(async move { settled_gateway::serve(options, listener, told).await.unwrap() });
    Running { address, tell, ended, engine }
}

/// A server, and a gateway in front of it with this configuration.
pub async fn both(text: &str) -> (Arc<Server>, Running) {
    let (server, upstream) = server().await;
    (server, gateway(config(upstream, text), &ledger()).await)
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Reply {
    /// The only header of this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(header, _)| header.eq_ignore_ascii_case(name));
        let value = found.next().map(|(_, value)| value.as_str());
        assert!(found.next().is_none(), "{name} comes twice");
        value
    }

    /// Its body as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("{:?}", String::from_utf8_lossy(&self.body)))
    }

    /// The name of the problem that it is.
    pub fn problem(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let kind = self.json()["type"].as_str().unwrap().to_owned();
        kind.strip_prefix("urn:settled:").unwrap().to_owned()
    }

    pub fn is_replayed(&self) -> bool {
        self.header("idempotency-replayed") == Some("true")
    }
}

/// Writes a request as it is, and reads one reply.
pub async fn raw(address: SocketAddr, request: impl AsRef<[u8]>) -> Reply {
    let all = raw_all(address, request).await;
    parse(&all).unwrap_or_else(|| panic!("no reply: {:?}", String::from_utf8_lossy(&all)))
}

/// Writes bytes, and reads until the other side closes.
pub async fn raw_all(address: SocketAddr, request: impl AsRef<[u8]>) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_ref()).await.unwrap();
    let mut all = Vec::new();
    // A reset after the reply is the end, too.
    let _ = stream.read_to_end(&mut all).await;
    all
}

/// A reply's parts; `None`: it is not whole.
pub fn parse(all: &[u8]) -> Option<Reply> {
    let mut lines = [httparse::EMPTY_HEADER; 64];
    let mut head = httparse::Response::new(&mut lines);
    let Ok(httparse::Status::Complete(at)) = head.parse(all) else { return None };
    let status = head.code?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let headers: Vec<_> = head.headers.iter().map(|line| (line.name.to_ascii_lowercase(), text(line.value))).collect();
    if status == 100 {
        return parse(&all[at..]);
    }
    let mut rest = &all[at..];
    let is_chunked = headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
    let length = headers.iter().find(|(name, _)| name == "content-length").map(|(_, value)| value.parse().unwrap());
    let body = match (is_chunked, length) {
        (true, _) => {
            let mut body = Vec::new();
            loop {
                let Ok(httparse::Status::Complete((at, size))) = httparse::parse_chunk_size(rest) else { return None };
                rest = &rest[at..];
                if size == 0 {
                    break body;
                }
                body.extend_from_slice(rest.get(..size as usize)?);
                rest = rest.get(size as usize + 2..)?;
            }
        }
        (false, Some(length)) => rest.get(..length)?.to_vec(),
        (false, None) => rest.to_vec(),
    };
    Some(Reply { status, headers, body })
}

/// A POST with this key (as it is written in the header), these headers (with line ends) and this body.
pub fn request(path: &str, key: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    let key = if key.is_empty() { String::new() } else { format!("Idempotency-Key: {key}\r\n") };
    format!(
        "POST {path} HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\nContent-Type: application/json\r\n{key}{headers}Content-Length: \
         {length}\r\n\r\n{body}"
    )
}

/// Posts `{"amount":5}` with a key.
pub async fn post(gateway: &Running, path: &str, key: &str) -> Reply {
    raw(gateway.address, request(path, key, "", r#"{"amount":5}"#)).await
}

/// Gets a page.
pub async fn get(gateway: &Running, path: &str, headers: &str) -> Reply {
    raw(gateway.address, format!("GET {path} HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n{headers}\r\n")).await
}

/// Waits until something holds.
pub async fn until(mut holds: impl FnMut() -> bool) {
    tokio::time::timeout(Duration::from_secs(30), async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("it never held");
}

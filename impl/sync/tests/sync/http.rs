//! The server, over HTTP.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::HeaderValue;
use reqwest::{Client, RequestBuilder};
use serde_json::{Value, json};
use settled_protocol::merge::{Change, Name, OpId};
use settled_sync::Schema;
use settled_sync::server::{self, Origins, ServerOptions, Token};
use settled_sync::store::{Store, StoreError};
use settled_sync::wire::{Cursor, DeviceSeen, Pulled, Target, Targets, Upload, Uploaded};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::common::{Place, name, operation, schema, upload, wall};
use crate::openapi;

/// A server in this process.
struct Server {
    address: SocketAddr,
    client: Client,
    stop: Option<oneshot::Sender<()>>,
    ended: JoinHandle<()>,
    _place: Option<Place>,
}

/// An answer, which was checked against the description.
struct Got {
    status: u16,
    headers: http::HeaderMap,
    body: Value,
}

impl Server {
    async fn start(store: Arc<dyn Store>, options: ServerOptions) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let ended = tokio::spawn(async move {
            let stopped = async move { drop(stopped.await) };
            server::serve(listener, store, options, stopped).await.unwrap();
        });
        let _ = rustls::crypto::ring::default_provider().install_default();
        Server { address, client: Client::new(), stop: Some(stop), ended, _place: None }
    }

    /// On a store of its own.
    async fn fresh(options: ServerOptions) -> Server {
        let place = Place::sqlite();
        let mut server = Server::on(&place, options).await;
        server._place = Some(place);
        server
    }

    async fn on(place: &Place, options: ServerOptions) -> Server {
        Server::start(place.open().await, options).await
    }

    fn get(&self, path: &str) -> RequestBuilder {
        self.client.get(format!("http://{}{path}", self.address))
    }

    fn post(&self, body: impl Into<reqwest::Body>) -> RequestBuilder {
        let request = self.client.post(format!("http://{}/v1/operations", self.address));
        request.header("content-type", "application/json").body(body)
    }
}

async fn got(request: RequestBuilder) -> Got {
    let request = request.build().unwrap();
    let (method, path) = (request.method().to_string(), request.url().path().to_owned());
    let response = Client::new().execute(request).await.unwrap();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let text = response.text().await.unwrap();
    let kind = headers.get("content-type").map(|kind| kind.to_str().unwrap().to_owned()).unwrap_or_default();
    openapi::check(&method, &path, status, &kind, &text);
    Got { status, headers, body: serde_json::from_str(&text).unwrap_or(Value::String(text)) }
}

impl Got {
    /// An error, with its word, that says this of what to do.
    fn is(&self, status: u16, word: &str, says: &str) {
        assert_eq!(
            (self.status, &self.body["type"]),
            (status, &json!(format!("urn:settled:sync:{word}"))),
            "{}",
            self.body
        );
        assert!(self.body["detail"].as_str().unwrap().contains(says), "{}", self.body);
    }
}

fn votes(count: u64) -> String {
    let made: Vec<_> = (0..count).map(|n| operation("a", n, wall(), "votes", Change::Count(1))).collect();
    serde_json::to_string(&upload("a", wall(), &made)).unwrap()
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packed.write_all(text).unwrap();
    packed.finish().unwrap()
}

#[tokio::test]
async fn uploads_and_pulls() {
    let server = Server::fresh(ServerOptions::default()).await;
    let body = votes(1_000);
    let packed = server.post(gzip(body.as_bytes())).header("content-encoding", "gzip");
    let first = got(packed).await;
    assert_eq!((first.status, &first.body["head"], &first.body["most"]), (200, &json!(1_000), &json!(1_000)));
    let again = got(server.post(body)).await;
    assert!(
        again.body["answers"].as_array().unwrap().iter().all(|answer| answer["repeated"] == true),
        "{}",
        again.body
    );
    assert_eq!(got(server.get("/v1/targets/votes")).await.body["view"], 1_000);
    let page = got(server.get("/v1/operations?after=10&limit=5")).await;
    assert_eq!((&page.body["cursor"], &page.body["head"]), (&json!(15), &json!(1_000)));
    let packed = server.get("/v1/operations").header("accept-encoding", "gzip").send().await.unwrap();
    assert_eq!(packed.headers()["content-encoding"], "gzip");
    let pulled: Pulled =
        serde_json::from_reader(flate2::read::GzDecoder::new(&packed.bytes().await.unwrap()[..])).unwrap();
    assert_eq!(pulled.operations.len(), 1_000);
    got(server.get("/v1/operations?after=1001")).await.is(409, "cursor-ahead", "pull again from 0");
    // The same number of operations, but others.
    let page = got(server.get("/v1/operations?after=9&limit=2")).await;
    let [one, two] = [0, 1].map(|place| page.body["operations"][place]["op_id"].as_str().unwrap().to_owned());
    assert_eq!(got(server.get(&format!("/v1/operations?after=10&last={one}"))).await.status, 200);
    got(server.get(&format!("/v1/operations?after=10&last={two}"))).await.is(409, "cursor-ahead", "pull again from 0");
    let slashes = operation("a", 2_000, wall(), "seen/x/ä z", Change::Add(1.into()));
    got(server.post(serde_json::to_vec(&upload("a", wall(), &[slashes])).unwrap())).await;
    for path in ["/v1/targets/seen/x/%C3%A4%20z", "/v1/targets/seen%2Fx%2F%C3%A4%20z"] {
        assert_eq!(got(server.get(path)).await.body["target"], "seen/x/ä z");
    }
    assert_eq!(got(server.get("/v1/targets?prefix=seen/")).await.body["targets"].as_array().unwrap().len(), 1);
    assert_eq!(got(server.get("/v1/devices")).await.body["devices"][0]["applied"], 1_001);
    assert_eq!(got(server.get("/v1/schema")).await.body["kinds"]["votes"], "counter");
    assert_eq!(got(server.get("/v1/health")).await.body["head"], 1_001);
    assert!(got(server.get("/v1/openapi")).await.body.as_str().unwrap().starts_with("openapi: 3.1"));
}

/// What is described is there, and nothing else.
#[tokio::test]
async fn the_routes_are_as_described() {
    let server = Server::fresh(ServerOptions::default()).await;
    let described = openapi::routes();
    for (path, _) in &described {
        for method in ["GET", "POST", "PUT", "DELETE", "PATCH"] {
            let address = format!("http://{}{}", server.address, path.replace("{target}", "votes"));
            let request = server.client.request(method.parse().unwrap(), address);
            let response = request.send().await.unwrap();
            let known = described.contains(&(path.clone(), method.to_owned()));
            assert_eq!(response.status().as_u16() != 405, known, "{method} {path}: {}", response.status());
            if !known {
                let problem: Value = response.json().await.unwrap();
                assert_eq!(problem["type"], "urn:settled:sync:no-method", "{problem}");
            }
        }
    }
    // The other way round: the routes as they are written.
    let written = include_str!("../../src/server/routes.rs");
    for path in written.split('"').filter(|text| text.starts_with("/v1/")) {
        let path = path.replace("{*target}", "{target}");
        assert!(described.iter().any(|(described, _)| *described == path), "{path} is not described");
    }
    let nothing = server.get("/v2/operations").send().await.unwrap();
    assert_eq!(
        (nothing.status().as_u16(), &nothing.headers()["content-type"]),
        (404, &HeaderValue::from_static("application/problem+json"))
    );
}

#[tokio::test]
async fn what_cannot_be_taken_is_refused_with_what_to_do() {
    let options = ServerOptions { most: 3.try_into().unwrap(), ..ServerOptions::default() };
    let server = Server::fresh(options).await;
    got(server.post(votes(4))).await.is(413, "too-large", "at most 3 operations and 4 MiB");
    let spaces = " ".repeat(server::LARGEST_UPLOAD);
    got(server.post(format!("{spaces}{}", votes(1)))).await.is(413, "too-large", "4 MiB");
    let bomb = gzip(format!("{spaces}{}", votes(1)).as_bytes());
    assert!(bomb.len() < 100_000);
    got(server.post(bomb).header("content-encoding", "gzip")).await.is(413, "too-large", "4 MiB");
    let mut broken = gzip(votes(1).as_bytes());
    broken.truncate(broken.len() / 2);
    got(server.post(broken).header("content-encoding", "gzip")).await.is(400, "malformed", "can't be read");
    got(server.post(votes(1)).header("content-encoding", "br")).await.is(415, "unsupported", "gzip");
    let text = server.client.post(format!("http://{}/v1/operations", server.address)).body(votes(1));
    got(text.header("content-type", "text/plain")).await.is(415, "unsupported", "application/json");
    got(server.post("{")).await.is(400, "malformed", "line 1");
    got(server.post(votes(1).replace("\"count\":1", "\"count\":1.5"))).await.is(400, "malformed", "is no upload");
    got(server.post(votes(1).replace("votes", "vo\\u0000tes"))).await.is(400, "malformed", "control characters");
    for query in ["after=-1", "after=x", "limit=x", "wiat=3"] {
        got(server.get(&format!("/v1/operations?{query}"))).await.is(400, "malformed", "openapi");
    }
    got(server.get("/v1/targets?prefix=%00")).await.is(400, "malformed", "control characters");
    got(server.get("/v1/targets/a%0Ab")).await.is(400, "malformed", "control characters");
    got(server.get("/v1/targets/%ff")).await.is(400, "malformed", "");
    got(server.get("/v1/targets/votes")).await.is(404, "no-target", "/v1/targets");
    assert_eq!(got(server.get("/v1/health")).await.body["head"], 0);
}

/// Half an upload, over a connection of its own.
async fn half(server: &Server) -> TcpStream {
    let mut slow = TcpStream::connect(server.address).await.unwrap();
    let head =
        "POST /v1/operations HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{";
    slow.write_all(head.as_bytes()).await.unwrap();
    slow
}

#[tokio::test]
async fn too_many_and_too_slow() {
    let options = ServerOptions { uploads: 1, patience: Duration::from_secs(600), ..ServerOptions::default() };
    let server = Server::fresh(options).await;
    let slow = half(&server).await;
    let busy = loop {
        let busy = got(server.post(votes(1))).await;
        if busy.status != 200 {
            break busy;
        }
    };
    busy.is(429, "busy", "again");
    assert_eq!(busy.headers["retry-after"], "1");
    // Reading goes on.
    assert_eq!(got(server.get("/v1/operations")).await.status, 200);
    drop(slow);
    while got(server.post(votes(1))).await.status != 200 {}

    let options = ServerOptions { patience: Duration::from_millis(50), ..ServerOptions::default() };
    let server = Server::fresh(options).await;
    let mut answer = String::new();
    half(&server).await.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("fewer operations"), "{answer}");
}

#[tokio::test]
async fn a_pull_waits_for_what_is_new() {
    let place = Place::sqlite();
    let server = Server::on(&place, ServerOptions::default()).await;
    assert_eq!(got(server.get("/v1/operations?wait=0")).await.body["operations"], json!([]));
    let waiting = tokio::spawn(got(server.get("/v1/operations?wait=60")));
    // It is waiting, or about to: both have to do.
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    got(server.post(votes(2))).await;
    assert_eq!(waiting.await.unwrap().body["cursor"], 2);
    // What another server on the same store does is heard of, too.
    let waiting = tokio::spawn(got(server.get("/v1/operations?after=2&wait=60")));
    let other = Server::on(&place, ServerOptions::default()).await;
    got(other.post(votes(3))).await;
    assert_eq!(waiting.await.unwrap().body["cursor"], 3);
    // A server that is to stop lets nobody wait, and takes nobody any more.
    let mut server = server;
    let waiting = tokio::spawn(got(server.get("/v1/operations?after=3&wait=60")));
    tokio::time::sleep(Duration::from_millis(50)).await;
    server.stop.take().unwrap().send(()).unwrap();
    assert_eq!(waiting.await.unwrap().body["operations"], json!([]));
    server.ended.await.unwrap();
    assert!(TcpStream::connect(server.address).await.is_err());
}

#[tokio::test]
async fn a_token_is_asked_for() {
    let token = Some(Token::new("0123456789abcdef").unwrap());
    let server = Server::fresh(ServerOptions { token, ..ServerOptions::default() }).await;
    for path in ["/v1/operations", "/v1/targets", "/v1/targets/votes", "/v1/schema", "/v1/devices"] {
        for wrong in [None, Some("Bearer 0123456789abcdeF"), Some("Basic 0123456789abcdef"), Some("0123456789abcdef")] {
            let request = server.get(path);
            let request = wrong.into_iter().fold(request, |request, wrong| request.header("authorization", wrong));
            let refused = got(request).await;
            refused.is(401, "unauthorized", "Bearer");
            assert_eq!(refused.headers["www-authenticate"], "Bearer");
        }
        let right = got(server.get(path).header("authorization", "bearer 0123456789abcdef")).await;
        assert!(matches!(right.status, 200 | 404), "{path}");
    }
    got(server.post(votes(1))).await.is(401, "unauthorized", "Bearer");
    assert_eq!(got(server.get("/v1/health")).await.body["head"], 0);
    assert_eq!(got(server.get("/v1/openapi")).await.status, 200);
}

#[tokio::test]
async fn web_pages_of_allowed_origins_may_speak() {
    let origins = Origins::Of(vec![HeaderValue::from_static("https://app.example")]);
    let token = Some(Token::new("0123456789abcdef").unwrap());
    let server = Server::fresh(ServerOptions { token, origins, ..ServerOptions::default() }).await;
    let preflight = async |origin: &'static str| {
        let request = server.client.request(http::Method::OPTIONS, format!("http://{}/v1/operations", server.address));
        let request = request.header("origin", origin).header("access-control-request-method", "POST");
        request
            .header("access-control-request-headers", "content-type,content-encoding,authorization")
            .send()
            .await
            .unwrap()
    };
    // The preflight shows no token.
    let allowed = preflight("https://app.example").await;
    assert!(allowed.status().is_success());
    assert_eq!(allowed.headers()["access-control-allow-origin"], "https://app.example");
    for (header, names) in [
        ("access-control-allow-headers", ["authorization", "content-type", "content-encoding"].as_slice()),
        ("access-control-allow-methods", &["GET", "POST"]),
    ] {
        let allowed = allowed.headers()[header].to_str().unwrap();
        assert!(names.iter().all(|name| allowed.contains(name)), "{allowed}");
    }
    assert!(!preflight("https://other.example").await.headers().contains_key("access-control-allow-origin"));
    // Errors, too, may be read.
    let refused = got(server.get("/v1/operations").header("origin", "https://app.example")).await;
    refused.is(401, "unauthorized", "Bearer");
    assert_eq!(refused.headers["access-control-allow-origin"], "https://app.example");
    assert_eq!(refused.headers["access-control-expose-headers"], "retry-after");
    let closed = Server::fresh(ServerOptions::default()).await;
    let answer = got(closed.get("/v1/operations").header("origin", "https://app.example")).await;
    assert!(!answer.headers.contains_key("access-control-allow-origin"));
    let anybody = ServerOptions { origins: Origins::Anybody, ..ServerOptions::default() };
    let open = Server::fresh(anybody).await;
    let answer = got(open.get("/v1/health").header("origin", "https://x.example")).await;
    assert_eq!(answer.headers["access-control-allow-origin"], "*");
}

/// A store that has gone.
struct Gone(watch::Sender<Cursor>);

fn gone<T>() -> Result<T, StoreError> {
    Err(StoreError::Unavailable("the disk is full".to_owned()))
}

#[async_trait]
impl Store for Gone {
    async fn apply(&self, _: Upload, _: u64) -> Result<Uploaded, StoreError> {
        gone()
    }
    async fn operations(&self, _: Cursor, _: usize) -> Result<Pulled, StoreError> {
        gone()
    }
    async fn at(&self, _: Cursor) -> Result<Option<OpId>, StoreError> {
        gone()
    }
    async fn target(&self, _: &Name) -> Result<Option<Target>, StoreError> {
        gone()
    }
    async fn targets(&self, _: &str, _: &str, _: usize) -> Result<Targets, StoreError> {
        gone()
    }
    async fn devices(&self, _: &str, _: usize) -> Result<Vec<DeviceSeen>, StoreError> {
        gone()
    }
    async fn head(&self) -> Result<Cursor, StoreError> {
        gone()
    }
    fn heard(&self) -> watch::Receiver<Cursor> {
        self.0.subscribe()
    }
    fn schema(&self) -> Arc<Schema> {
        Arc::new(schema())
    }
}

#[tokio::test]
async fn a_store_that_has_gone_is_told_of() {
    let server = Server::start(Arc::new(Gone(watch::Sender::new(0))), ServerOptions::default()).await;
    let upload = got(server.post(votes(1))).await;
    upload.is(503, "unavailable", "the disk is full. Nothing that was acknowledged is lost");
    assert!(upload.headers.contains_key("retry-after"));
    for path in ["/v1/operations", "/v1/targets", "/v1/targets/x", "/v1/devices", "/v1/health"] {
        got(server.get(path)).await.is(503, "unavailable", "again later");
    }
    assert_eq!(name("x").as_str(), "x");
}

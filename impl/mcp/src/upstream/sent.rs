//! What leaves, and when: with a server that hears it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use http::{HeaderMap, HeaderValue};
use settled::protocol::{Key, Policy, ToolKind};
use settled::{Engine, EngineOptions, MemoryLedger, Operation, Outgoing, Permit, Tool, ToolReply};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::link::Link;
use super::{Http, HttpOptions};
use crate::behind::server::{Note, Own, ServerHandle};
use crate::behind::supervisor::{FENCED, Wiring};
use crate::book::{Book, OwnReply};
use crate::config::Config;
use crate::flag::Flag;
use crate::listed::tools::Tools;
use crate::messages::context::{Context, Incoming};
use crate::messages::lines::{Lines, write_to_client};
use crate::session::Served;

#[path = "../../tests/mcp/support/http_server.rs"]
#[allow(dead_code)]
mod http_server;

use http_server::Server;

const SOON: Duration = Duration::from_secs(60);

/// A link, and the client's end of it.
struct Linked {
    server: ServerHandle,
    serving: JoinHandle<Served>,
    give_up: Flag,
    hears: Lines<tokio::io::DuplexStream>,
}

fn link(options: HttpOptions) -> Linked {
    let (near, far) = tokio::io::duplex(1 << 20);
    let (closing, give_up) = (Flag::default(), Flag::default());
    let (client, _writing) = write_to_client(near, closing.clone());
    let wiring = Wiring {
        config: Arc::new(Config::parse("settled.toml".as_ref(), "").unwrap()),
        book: Arc::new(Book::new(1)),
        client,
        tools: Arc::new(Tools::new()),
        closing,
        give_up: give_up.clone(),
        longest: 1 << 20,
    };
    let (server, link) = Link::new(Http::open(options).unwrap(), wiring);
    Linked { server, serving: tokio::spawn(link.run()), give_up, hears: Lines::new(far, 1 << 20) }
}

fn with(name: &'static str, value: &'static str) -> Arc<Context> {
    let mut pass = HeaderMap::new();
    pass.insert(name, HeaderValue::from_static(value));
    Arc::new(Context { pass, ..Context::default() })
}

async fn call(server: &ServerHandle, permit: Option<Permit>, written: impl FnOnce()) -> OwnReply {
    let own = Own { method: "tools/call", params: r#"{"name":"pay"}"#, permit, context: &Arc::default() };
    timeout(SOON, server.send(own, written)).await.expect("an answer")
}

/// Keeps the permit of the attempt that it is to send.
#[derive(Default)]
struct Keeps(Mutex<Option<Permit>>);

#[async_trait]
impl Tool for Keeps {
    async fn dispatch(&self, outgoing: &Outgoing) -> ToolReply {
        *self.0.lock().unwrap() = Some(outgoing.permit());
        ToolReply::Result("ok".into())
    }
}

async fn usual() -> Server {
    Server::start(|server: Server, heard, wire| server.usually(heard, wire)).await
}

fn options(server: &Server) -> HttpOptions {
    HttpOptions::new(server.url.parse().unwrap())
}

#[tokio::test]
async fn a_call_is_not_sent_once_its_permit_has_ended() {
    let engine = Engine::start(Arc::new(MemoryLedger::new()), EngineOptions::default()).await.unwrap();
    let tool = Arc::new(Keeps::default());
    let key = Key::new("test", "charge", "order 7").unwrap();
    engine.call(Operation::new(key, "{}", Policy::new(ToolKind::Opaque)), tool.clone()).await.unwrap();
    let permit = tool.0.lock().unwrap().take();

    let server = usual().await;
    let linked = link(options(&server));
    let written = AtomicBool::new(false);
    let write = || written.store(true, Ordering::SeqCst);
    assert!(matches!(call(&linked.server, permit.clone(), write).await, OwnReply::Result(_)));
    assert!(written.swap(false, Ordering::SeqCst) && server.effects() == 1);
    engine.retire().await.unwrap();
    assert_eq!(call(&linked.server, permit, write).await, OwnReply::NotSent(FENCED.to_owned()));
    assert!(!written.load(Ordering::SeqCst));
    assert_eq!((server.calls("pay"), server.effects()), (1, 1), "it reached the server");
    linked.server.close().await;
    linked.serving.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_call_has_left_when_it_was_written_and_an_answer_may_never_come() {
    let server = Server::start(|_: Server, _, mut wire| async move {
        wire.closed().await;
        None
    })
    .await;
    let linked = link(options(&server));
    let (tell, told) = tokio::sync::oneshot::channel();
    let handle = linked.server.clone();
    let calling = tokio::spawn(async move {
        call(&handle, None, || {
            let _ = tell.send(());
        })
        .await
    });
    timeout(SOON, told).await.expect("it has left").unwrap();
    server.hears("tools/call", 1).await;
    // Whoever ends now does not know what came of it.
    linked.give_up.raise();
    assert_eq!(calling.await.unwrap(), OwnReply::Lost);
    linked.serving.await.unwrap().unwrap();
}

#[tokio::test]
async fn what_came_with_a_message_goes_with_it_and_the_proxys_own_requests_use_the_last() {
    let server = usual().await;
    let mut linked = link(options(&server));
    let line = |n: u32| format!(r#"{{"jsonrpc":"2.0","id":{n},"method":"ping"}}"#);
    for (n, authorization) in [(1, "Bearer one"), (2, "Bearer two")] {
        let message = Incoming::bare(line(n).into(), &with("authorization", authorization));
        assert!(linked.server.pass(message, Note::Requests(vec![(n.to_string(), None)])).await);
        linked.hears.next().await.unwrap();
    }
    assert!(matches!(linked.server.request("tools/list", "{}").await, OwnReply::Result(_)));
    let own = Own { method: "ping", params: "{}", permit: None, context: &with("authorization", "Bearer of its call") };
    assert!(matches!(linked.server.send(own, || {}).await, OwnReply::Result(_)));
    let sent: Vec<_> = server.heard().iter().map(|heard| heard.header("authorization").unwrap().to_owned()).collect();
    assert_eq!(sent, ["Bearer one", "Bearer two", "Bearer two", "Bearer of its call"]);
    linked.server.close().await;
    linked.serving.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_refusal_is_noted_for_a_client_over_http() {
    let challenge = r#"Bearer resource_metadata="https://a/.well-known/x""#;
    let server = Server::start(move |_: Server, _, wire| async move {
        let headers = [("www-authenticate", challenge), ("content-type", "text/plain"), ("set-cookie", "a=b")];
        wire.answer(401, &headers, "who are you?").await
    })
    .await;
    let mut linked = link(options(&server));
    let context = with("authorization", "Bearer old");
    let line = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let message = Incoming::bare(line.into(), &context);
    assert!(linked.server.pass(message, Note::Requests(vec![("1".to_owned(), None)])).await);
    let line = format!("{:?}", linked.hears.next().await.unwrap());
    assert!(line.contains("401") && line.contains("resource_metadata") && line.contains("not run"), "{line}");
    let refusal = context.refused.take().expect("it is noted");
    assert_eq!((refusal.status.as_u16(), &*refusal.body), (401, &b"who are you?"[..]));
    assert_eq!(refusal.headers.get("www-authenticate").unwrap(), challenge);
    assert_eq!(refusal.headers.get("set-cookie"), None);
    assert!(context.refused.take().is_none());
    linked.server.close().await;
    linked.serving.await.unwrap().unwrap();
}

mod over_tls {
    use bytes::Bytes;
    use h2::Reason;
    use http::Response;
    use rcgen::{CertifiedKey, generate_simple_self_signed};
    use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
    use tokio_rustls::TlsAcceptor;

    use super::*;

    /// An HTTP/2 server that refuses every stream but those of the first `accepts` calls, and shakes hands once it is told to.
    /// How it is reached, and what it got.
    async fn server(dir: &std::path::Path, accepts: usize, begin: Flag) -> (HttpOptions, Arc<Mutex<Vec<String>>>) {
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let ca = dir.join("ca.pem");
        std::fs::write(&ca, cert.pem()).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://localhost:{}/mcp", listener.local_addr().unwrap().port());
        let heard = Arc::new(Mutex::new(Vec::new()));
        let hears = heard.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (hears, acceptor, begin) = (hears.clone(), acceptor.clone(), begin.clone());
                tokio::spawn(async move {
                    begin.raised().await;
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let mut connection = h2::server::handshake(stream).await.unwrap();
                    while let Some(Ok((mut request, mut respond))) = connection.accept().await {
                        // What ends within its text is no message.
                        let Some(Ok(body)) = request.body_mut().data().await else { continue };
                        let text = String::from_utf8_lossy(&body).into_owned();
                        let id = serde_json::from_str::<serde_json::Value>(&text).unwrap()["id"].clone();
                        let count = {
                            let mut heard = hears.lock().unwrap();
                            heard.push(text);
                            heard.len()
                        };
                        if count > accepts {
                            respond.send_reset(Reason::REFUSED_STREAM);
                            continue;
                        }
                        let head = Response::builder().header("content-type", "application/json").body(()).unwrap();
                        let mut sender = respond.send_response(head, false).unwrap();
                        let answer = serde_json::json!({ "jsonrpc": "2.0", "id": id, "result": {} }).to_string();
                        sender.send_data(Bytes::from(answer), true).unwrap();
                    }
                });
            }
        });
        (HttpOptions { ca: Some(ca), ..HttpOptions::new(url.parse().unwrap()) }, heard)
    }

    fn begun() -> Flag {
        let begun = Flag::default();
        begun.raise();
        begun
    }

    #[tokio::test]
    async fn a_call_that_nobody_waits_for_any_more_is_not_sent_when_a_connection_is_there_at_last() {
        let dir = tempfile::tempdir().unwrap();
        let begin = Flag::default();
        let (options, heard) = server(dir.path(), 9, begin.clone()).await;
        let linked = link(options);
        let given_up = timeout(Duration::from_millis(300), linked.server.request("tools/call", r#"{"first":1}"#)).await;
        assert!(given_up.is_err(), "{given_up:?}");
        let (server, asking) = (linked.server.clone(), begin.clone());
        let second = tokio::spawn(async move { server.request("tools/call", r#"{"second":1}"#).await });
        asking.raise();
        assert_eq!(timeout(SOON, second).await.unwrap().unwrap(), OwnReply::Result("{}".to_owned()));
        let heard = heard.lock().unwrap().clone();
        assert!(heard.len() == 1 && heard[0].contains("second"), "{heard:?}");
        linked.server.close().await;
        linked.serving.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_refused_stream_was_not_processed_and_is_not_sent_again_here() {
        let dir = tempfile::tempdir().unwrap();
        let (options, heard) = server(dir.path(), 1, begun()).await;
        let linked = link(options);
        assert_eq!(call(&linked.server, None, || {}).await, OwnReply::Result("{}".to_owned()));
        let refused = call(&linked.server, None, || {}).await;
        assert!(matches!(refused, OwnReply::NotSent(_)), "{refused:?}");
        assert_eq!(heard.lock().unwrap().len(), 2);
        linked.server.close().await;
        linked.serving.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_certificate_that_is_not_trusted_means_that_nothing_was_sent() {
        let dir = tempfile::tempdir().unwrap();
        let (options, heard) = server(dir.path(), 1, begun()).await;
        let linked = link(HttpOptions { ca: None, ..options });
        let reply = call(&linked.server, None, || {}).await;
        assert!(matches!(&reply, OwnReply::NotSent(why) if why.contains("certificate")), "{reply:?}");
        assert!(heard.lock().unwrap().is_empty());
        linked.server.close().await;
        linked.serving.await.unwrap().unwrap();
    }

    #[test]
    fn certificates_that_are_none_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ca.pem");
        std::fs::write(&path, "nothing").unwrap();
        let options = HttpOptions::new("https://a/mcp".parse().unwrap());
        let error = Http::open(HttpOptions { ca: Some(path), ..options }).unwrap_err().to_string();
        assert!(error.contains("no certificate"), "{error}");
    }
}

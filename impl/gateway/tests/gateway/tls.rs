//! A server behind TLS and HTTP/2, and what its refusals prove.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use h2::Reason;
use http::Response;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use settled_gateway::Config;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::support::*;

/// An HTTP/2 server that refuses the streams whose body is `refuse`, and resets those whose body is `reset`. Writes its
/// certificate to a file; the bodies that it got.
async fn server(ca: &Path) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(ca, cert.pem()).unwrap();
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
    let address = listener.local_addr().unwrap();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hears = heard.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (hears, acceptor) = (hears.clone(), acceptor.clone());
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let Ok(mut connection) = h2::server::handshake(stream).await else { return };
                while let Some(Ok((mut request, mut respond))) = connection.accept().await {
                    let Some(Ok(body)) = request.body_mut().data().await else { continue };
                    let text = String::from_utf8_lossy(&body).into_owned();
                    hears.lock().unwrap().push(text.clone());
                    match text.as_str() {
                        "refuse" => respond.send_reset(Reason::REFUSED_STREAM),
                        "reset" => respond.send_reset(Reason::INTERNAL_ERROR),
                        _ => {
                            let mut sender = respond.send_response(Response::new(()), false).unwrap();
                            sender.send_data(Bytes::from(format!("got {text}")), true).unwrap();
                        }
                    }
                }
            });
        }
    });
    (address, heard)
}

fn behind(address: SocketAddr, ca: Option<&Path>) -> Config {
    let upstream = format!("https://localhost:{}", address.port()).parse().unwrap();
    Config { upstream: Some(upstream), upstream_ca: ca.map(Path::to_owned), ..Config::default() }
}

#[tokio::test]
async fn a_server_that_is_trusted() {
    let directory = tempfile::tempdir().unwrap();
    let ca = directory.path().join("ca.pem");
    let (address, heard) = server(&ca).await;
    let gateway = gateway(behind(address, Some(&ca)), &ledger()).await;
    let ask = |key: &str, body: &str| raw(gateway.address, request("/a", key, "", body));
    let first = ask("\"k\"", "one").await;
    assert_eq!((first.status, first.body.as_slice()), (200, &b"got one"[..]));
    assert!(ask("\"k\"", "one").await.is_replayed());
    assert_eq!(ask("", "two").await.body, b"got two");
    // A refused stream was not run; any other reset proves nothing.
    for _ in 0..2 {
        assert_eq!(ask("\"refused\"", "refuse").await.problem(), "not-sent");
        assert_eq!(ask("\"reset\"", "reset").await.problem(), "unknown");
    }
    assert_eq!(*heard.lock().unwrap(), ["one", "two", "refuse", "reset", "refuse"]);
}

#[tokio::test]
async fn a_server_that_is_not_trusted_gets_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let ca = directory.path().join("ca.pem");
    let (address, heard) = server(&ca).await;
    let ledger = ledger();
    let doubting = gateway(behind(address, None), &ledger).await;
    let ask = |gateway: &Running| raw(gateway.address, request("/a", "\"k\"", "", "one"));
    let reply = ask(&doubting).await;
    assert_eq!((reply.status, reply.problem().as_str()), (503, "not-sent"));
    assert_eq!(heard.lock().unwrap().len(), 0);
    let trusting = gateway(behind(address, Some(&ca)), &ledger).await;
    assert_eq!(ask(&trusting).await.body, b"got one", "the key is free");
}

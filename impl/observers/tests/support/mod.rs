#![allow(dead_code)]
//! An observer as it would be declared, and a small HTTP server.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use settled_observers::{Condition, Given, Http, Observer, Reading, Secret, Source, Verdict, Way};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

pub const SOON: Duration = Duration::from_secs(10);

pub fn given(arguments: &str) -> Given<'_> {
    Given { key: "the key", attempt: 2, scope: None, arguments }
}

pub fn reading(applied: Vec<Condition>, not_applied: Vec<Condition>) -> Reading {
    Reading { applied, not_applied, sealed: Vec::new(), result: None }
}

pub fn conditions(value: Value, source: Source) -> Vec<Condition> {
    Condition::parse(value, source).unwrap()
}

pub fn http(url: &str, headers: &[(&str, &str)]) -> Observer {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), Secret::new(*value)));
    let way = Way::Http(Http::parse(url, headers).unwrap());
    Observer::open(&way, reading(Http::applied(), Http::not_applied()), Duration::from_secs(3)).unwrap()
}

#[track_caller]
pub fn unclear(verdict: &Verdict) -> &str {
    match verdict {
        Verdict::Unclear(reason) => reason,
        other => panic!("{other:?}"),
    }
}

/// A server that answers every request with one answer, whatever that is, and writes the requests down.
pub struct Server {
    pub address: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// The answer is written as it is; then the connection is closed, after `pause`.
    pub async fn saying(answer: impl Into<Vec<u8>>, pause: Duration) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let (seen, answer) = (requests.clone(), answer.into());
        tokio::spawn(async move {
            while let Ok((mut connection, _)) = listener.accept().await {
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    match connection.read_u8().await {
                        Ok(byte) => request.push(byte),
                        Err(_) => break,
                    }
                }
                seen.lock().unwrap().push(String::from_utf8_lossy(&request).into_owned());
                let _ = connection.write_all(&answer).await;
                tokio::time::sleep(pause).await;
            }
        });
        Server { address, requests }
    }

    pub async fn answering(status: &str, body: &str) -> Server {
        let length = body.len();
        Server::saying(
            format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"),
            Duration::ZERO,
        )
        .await
    }

    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

//! The client: a connection for each request in flight, kept alive.

use std::sync::atomic::{AtomicU64, Ordering};

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};

use crate::error::BenchError;
use crate::gateway::{Call, server};
use crate::suite::CALLERS;

const BODY: &str = r#"{"customer":"alice","cents":4200,"note":"an order of books"}"#;

/// Requests to one URL.
#[derive(Debug)]
pub struct Client {
    client: reqwest::Client,
    url: String,
    next: AtomicU64,
}

impl Client {
    /// One for the server behind this URL.
    ///
    /// # Errors
    /// If it can't be made.
    pub fn new(url: &str) -> Result<Client, BenchError> {
        // The workspace builds its HTTP clients without a provider of cryptography; a second one is refused, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().build().map_err(failed)?;
        Ok(Client { client, url: format!("{url}{}", server::PATH), next: AtomicU64::new(0) })
    }

    /// Uses the keys of the replays for the first time.
    ///
    /// # Errors
    /// If a request is not answered as it should be.
    pub async fn prepare(&self) -> Result<(), BenchError> {
        for caller in 0..CALLERS.into_iter().max().unwrap_or_default() {
            self.send(Some(replayed(caller))).await?;
        }
        Ok(())
    }

    /// Makes a call for this caller.
    ///
    /// # Errors
    /// If it is not answered as it should be.
    pub async fn call(&self, call: Call, caller: usize) -> Result<(), BenchError> {
        let key = match call {
            Call::Passed => None,
            Call::First => Some(format!("\"first-{}\"", self.next.fetch_add(1, Ordering::Relaxed))),
            Call::Replay => Some(replayed(caller)),
        };
        let headers = self.send(key).await?;
        if headers.contains_key("idempotency-replayed") == (call == Call::Replay) {
            return Ok(());
        }
        Err(BenchError::Answer(format!("a {} that is none", call.name())))
    }

    async fn send(&self, key: Option<String>) -> Result<HeaderMap, BenchError> {
        let mut request =
            self.client.post(&self.url).header(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let answer = request.body(BODY).send().await.map_err(failed)?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        let body = answer.text().await.map_err(failed)?;
        if status.is_success() && body == server::ANSWER {
            return Ok(headers);
        }
        Err(BenchError::Answer(format!("{status} {body}")))
    }
}

fn replayed(caller: usize) -> String {
    format!("\"replay-{caller}\"")
}

fn failed(error: reqwest::Error) -> BenchError {
    BenchError::Other(format!("HTTP: {error}"))
}

//! A client over Streamable HTTP: a connection for each call in flight, kept alive.

use std::sync::atomic::{AtomicU64, Ordering};

use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};

use crate::error::BenchError;
use crate::mcp::{Tool, messages};

/// A session with a server.
#[derive(Debug)]
pub struct Session {
    client: reqwest::Client,
    url: String,
    headers: HeaderMap,
    next: AtomicU64,
}

impl Session {
    /// Opens one.
    ///
    /// # Errors
    /// If the server does not answer.
    pub async fn open(url: &str) -> Result<Session, BenchError> {
        // The workspace builds its HTTP clients without a provider of cryptography; a second one is refused, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().build().map_err(failed)?;
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        let mut session = Session { client, url: url.to_owned(), headers, next: AtomicU64::new(2) };
        let opened = session.post(messages::initialize()).await?;
        if let Some(id) = opened.headers().get("mcp-session-id").cloned() {
            session.headers.insert("mcp-session-id", id);
        }
        expect_answer(opened, 0).await?;
        session.headers.insert("mcp-protocol-version", HeaderValue::from_static(messages::REVISION));
        session.post(messages::INITIALIZED.to_owned()).await?.bytes().await.map_err(failed)?;
        expect_answer(session.post(messages::LIST.to_owned()).await?, 1).await?;
        Ok(session)
    }

    async fn post(&self, body: String) -> Result<reqwest::Response, BenchError> {
        let request = self.client.post(&self.url).headers(self.headers.clone()).body(body);
        let response = request.send().await.map_err(failed)?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        Err(BenchError::Answer(format!("{status} {}", response.text().await.unwrap_or_default())))
    }

    /// Makes a call.
    ///
    /// # Errors
    /// If it is not answered as it should be.
    pub async fn call(&self, tool: Tool) -> Result<(), BenchError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        expect_answer(self.post(messages::call(id, tool, id)).await?, id).await
    }
}

fn failed(error: reqwest::Error) -> BenchError {
    BenchError::Other(format!("HTTP: {error}"))
}

/// The answer is JSON, or the last event of a stream.
async fn expect_answer(response: reqwest::Response, id: u64) -> Result<(), BenchError> {
    let body = response.text().await.map_err(failed)?;
    let messages = body.lines().map(|line| line.strip_prefix("data:").unwrap_or(line).trim());
    for message in messages {
        if messages::answered(message)? == Some(id) {
            return Ok(());
        }
    }
    Err(BenchError::Answer(format!("something else: {body}")))
}

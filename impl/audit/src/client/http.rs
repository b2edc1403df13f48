//! MCP over Streamable HTTP. Nothing is sent again and no stream is resumed: each request is one delivery.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, StatusCode};
use reqwest::{Client, RequestBuilder, Response};
use serde_json::Value;
use sse_stream::SseStream;
use url::Url;

use super::{MOST_BYTES, reply};
use crate::answer::{Missing, short};
use crate::error::AuditError;
use crate::options::Remote;

const SESSION: &str = "mcp-session-id";
const REVISION: &str = "mcp-protocol-version";

/// A connection to a server behind HTTP.
#[derive(Clone)]
pub(super) struct Http {
    client: Client,
    url: Url,
    headers: HeaderMap,
    session: Arc<Mutex<HeaderMap>>,
}

impl Http {
    pub(super) fn new(remote: &Remote) -> Result<Http, AuditError> {
        let unusable = |error: String| AuditError::Input(format!("{}: {error}", remote.url));
        let tls = settled_http::tls::client(remote.ca.as_deref()).map_err(|error| unusable(error.to_string()))?;
        // A connection for each request: one that is cut must take no other with it, and one from before a restart is of no use.
        let client = Client::builder()
            .tls_backend_preconfigured(tls)
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .pool_max_idle_per_host(0)
            .build()
            .map_err(|error| unusable(error.to_string()))?;
        let headers = remote.headers.iter().cloned().collect();
        Ok(Http { client, url: remote.url.clone(), headers, session: Arc::default() })
    }

    /// Says with each request which revision is spoken.
    pub(super) fn speak(&self, revision: &str) {
        if let Ok(value) = HeaderValue::from_str(revision) {
            self.session.lock().unwrap_or_else(PoisonError::into_inner).insert(REVISION, value);
        }
    }

    pub(super) async fn say(&self, message: &Value) -> Result<(), Missing> {
        let response = self.post(message).send().await.map_err(failed)?;
        match response.status() {
            status if status.is_success() => Ok(()),
            status => Err(Missing::Connection(format!("{status} to a notification"))),
        }
    }

    pub(super) async fn request(&self, id: u64, message: &Value) -> Result<Value, Missing> {
        let response = self.post(message).send().await.map_err(failed)?;
        if let Some(session) = response.headers().get(SESSION) {
            self.session.lock().unwrap_or_else(PoisonError::into_inner).insert(SESSION, session.clone());
        }
        match is_stream(&response) {
            true => self.await_event(id, response).await,
            false => whole(response).await,
        }
    }

    /// Sends a request, and cuts the connection as soon as its answer begins to come.
    pub(super) async fn request_in_vain(&self, id: u64, message: &Value) -> Result<(), Missing> {
        let response = self.post(message).send().await.map_err(failed)?;
        if is_stream(&response) {
            self.await_event(id, response).await?;
        }
        Ok(())
    }

    /// Ends the session, if there is one.
    pub(super) async fn close(&self) {
        const PATIENCE: Duration = Duration::from_secs(3);
        let session = self.session.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if session.contains_key(SESSION) {
            let request = self.client.delete(self.url.clone()).headers(self.headers.clone()).headers(session);
            // A server may refuse it: then it keeps the session as long as it likes.
            let _ = request.timeout(PATIENCE).send().await;
        }
    }

    fn post(&self, message: &Value) -> RequestBuilder {
        let session = self.session.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut request = self.client.post(self.url.clone()).headers(self.headers.clone()).headers(session);
        // Servers of the revision without sessions route by these.
        let text = |pointer: &str| message.pointer(pointer).and_then(Value::as_str);
        for (name, value) in [("mcp-method", text("/method")), ("mcp-name", text("/params/name"))] {
            if let Some(value) = value.and_then(|value| HeaderValue::from_str(value).ok()) {
                request = request.header(name, value);
            }
        }
        if let Some(key) = text("/params/idempotencyKey") {
            request = request.header("idempotency-key", format!("\"{key}\""));
        }
        request
            .header(ACCEPT, "application/json, text/event-stream")
            .header(CONTENT_TYPE, "application/json")
            .body(message.to_string())
    }

    async fn await_event(&self, id: u64, response: Response) -> Result<Value, Missing> {
        let mut events = SseStream::from_bytes_stream(response.bytes_stream());
        while let Some(event) = events.next().await {
            let event = event.map_err(|error| Missing::Connection(error.to_string()))?;
            let Some(data) = event.data.filter(|data| !data.is_empty()) else {
                continue;
            };
            let message: Value = serde_json::from_str(&data)
                .map_err(|_| Missing::Unreadable(format!("an event that is no JSON: `{}`", short(&data, 80))))?;
            if message.get("method").is_none() && message.get("id").and_then(Value::as_u64) == Some(id) {
                return Ok(message);
            }
            if let Some(reply) = reply(&message) {
                let this = self.clone();
                tokio::spawn(async move { this.say(&reply).await });
            }
        }
        Err(Missing::Connection("the stream ended without the answer".to_owned()))
    }
}

fn is_stream(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    response.status() == StatusCode::OK && kind.is_some_and(|kind| kind.starts_with("text/event-stream"))
}

/// An answer in one piece. An error can come with any status.
async fn whole(response: Response) -> Result<Value, Missing> {
    let status = response.status();
    let mut body = Vec::new();
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        body.extend_from_slice(&chunk.map_err(failed)?);
        if body.len() > MOST_BYTES {
            return Err(Missing::Unreadable(format!("an answer of more than {MOST_BYTES} bytes")));
        }
    }
    match serde_json::from_slice::<Value>(&body) {
        Ok(message) if message.get("result").is_some() || message.get("error").is_some() => Ok(message),
        _ => {
            let text = short(&String::from_utf8_lossy(&body), 80);
            Err(Missing::Unreadable(format!("{status}, and no JSON-RPC message: `{text}`")))
        }
    }
}

/// What failed, without the address: that can hold what is secret.
fn failed(error: reqwest::Error) -> Missing {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    Missing::Connection(text)
}

//! The server, over HTTP.

use std::io::Write;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use reqwest::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use reqwest::{Client, RequestBuilder, StatusCode, Url};
use serde::de::DeserializeOwned;

use settled_protocol::merge::OpId;

use crate::wire::{Cursor, Problem, Pulled, Upload, Uploaded};

/// What of an upload is worth compressing.
const COMPRESS_FROM: usize = 1024;

/// How to reach a server.
#[derive(Clone, Debug)]
pub struct Remote {
    client: Client,
    base: Url,
    authorization: Option<HeaderValue>,
}

/// Why the server did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// The address is none.
    #[error("`{0}` is no address of a server: http://HOST:PORT or https://HOST")]
    Address(String),
    /// The token can't be sent.
    #[error("the token has characters that can't be sent in a header")]
    Token,
    /// It can't be reached, or its answer did not arrive whole. It may have done what it was asked.
    #[error("the server can't be reached: {0}")]
    Unreachable(String),
    /// It is busy, or its store is not available.
    #[error("the server is busy ({status}): {why}")]
    Busy {
        /// The HTTP status.
        status: u16,
        /// When to ask again, if it says so.
        after: Option<Duration>,
        /// What it says.
        why: String,
    },
    /// It has less than it had: it was restored from an older copy.
    #[error("the server has less than it had: {0}")]
    CursorAhead(String),
    /// It refuses the request.
    #[error("the server refuses ({status}): {why}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// What it says.
        why: String,
    },
    /// What answered is no sync server.
    #[error("what answers there is no sync server: {0}")]
    Foreign(String),
}

impl RemoteError {
    /// Whether the same request may succeed later.
    #[must_use]
    pub fn passes(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Busy { .. })
    }
}

impl Remote {
    /// The server at this address, with a bearer token if it wants one.
    ///
    /// # Errors
    /// If the address or the token can't be one.
    pub fn new(base: &str, token: Option<&str>) -> Result<Self, RemoteError> {
        let mut base = Url::parse(base).map_err(|_| RemoteError::Address(base.to_owned()))?;
        if !matches!(base.scheme(), "http" | "https") {
            return Err(RemoteError::Address(base.to_string()));
        }
        if !base.path().ends_with('/') {
            base.set_path(&format!("{}/", base.path()));
        }
        let authorization = token.map(|token| HeaderValue::from_str(&format!("Bearer {token}"))).transpose();
        let mut authorization = authorization.map_err(|_| RemoteError::Token)?;
        if let Some(secret) = &mut authorization {
            secret.set_sensitive(true);
        }
        // Another part of the program may have chosen one already, which serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder().connect_timeout(Duration::from_secs(10)).build();
        let client = client.map_err(|error| RemoteError::Unreachable(error.to_string()))?;
        Ok(Self { client, base, authorization })
    }

    /// Sends operations.
    ///
    /// # Errors
    /// [`RemoteError`]; unless it refuses, the server may have applied them.
    pub async fn upload(&self, upload: &Upload) -> Result<Uploaded, RemoteError> {
        let json = serde_json::to_vec(upload).map_err(|error| RemoteError::Foreign(error.to_string()))?;
        let request = self.client.post(self.url("v1/operations", &[])?).header(CONTENT_TYPE, "application/json");
        let request = if json.len() < COMPRESS_FROM {
            request.body(json)
        } else {
            let mut to = GzEncoder::new(Vec::new(), Compression::fast());
            let body = to.write_all(&json).and_then(|()| to.finish());
            let body = body.map_err(|error| RemoteError::Foreign(error.to_string()))?;
            request.header(CONTENT_ENCODING, "gzip").body(body)
        };
        self.answer(request.timeout(Duration::from_secs(60))).await
    }

    /// Asks for what the server has after a cursor, at which `last` was seen; waits for so long if there is nothing.
    ///
    /// # Errors
    /// [`RemoteError`]; [`RemoteError::CursorAhead`] if the server has something else there, or nothing.
    pub async fn pull(
        &self,
        after: Cursor,
        last: Option<OpId>,
        limit: usize,
        wait: Duration,
    ) -> Result<Pulled, RemoteError> {
        let numbers = [("after", after), ("limit", limit as u64), ("wait", wait.as_secs())];
        let mut query: Vec<_> = numbers.iter().map(|(name, value)| (*name, value.to_string())).collect();
        query.extend(last.map(|last| ("last", last.to_string())));
        let request = self.client.get(self.url("v1/operations", &query)?);
        self.answer(request.timeout(wait + Duration::from_secs(60))).await
    }

    fn url(&self, path: &str, query: &[(&str, String)]) -> Result<Url, RemoteError> {
        let mut url = self.base.join(path).map_err(|_| RemoteError::Address(self.base.to_string()))?;
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        Ok(url)
    }

    async fn answer<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, RemoteError> {
        let request = match &self.authorization {
            Some(authorization) => request.header(AUTHORIZATION, authorization.clone()),
            None => request,
        };
        let unreachable = |error: reqwest::Error| RemoteError::Unreachable(chain(&error));
        let response = request.send().await.map_err(unreachable)?;
        let status = response.status();
        let after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let body = response.bytes().await.map_err(unreachable)?;
        if status.is_success() {
            return serde_json::from_slice(&body).map_err(|error| RemoteError::Foreign(error.to_string()));
        }
        let problem = serde_json::from_slice::<Problem>(&body).ok();
        let why = problem.as_ref().map_or_else(|| status.to_string(), |problem| problem.detail.clone());
        let ahead = problem.is_some_and(|problem| problem.kind == "urn:settled:sync:cursor-ahead");
        let number = status.as_u16();
        Err(match status {
            StatusCode::CONFLICT if ahead => RemoteError::CursorAhead(why),
            StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT => {
                RemoteError::Busy { status: number, after: after.map(Duration::from_secs), why }
            }
            _ if status.is_server_error() => {
                RemoteError::Busy { status: number, after: after.map(Duration::from_secs), why }
            }
            _ => RemoteError::Refused { status: number, why },
        })
    }
}

/// An error with its causes, which say what the outermost one leaves out.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

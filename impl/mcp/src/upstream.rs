//! A server behind Streamable HTTP (Model Context Protocol, revisions 2025-03-26 to 2026-07-28).
//!
//! Every message is one POST, and none is ever posted twice once a byte of it may have left (`gate`). What is certain then,
//! and only that, is told:
//!
//! | what happened | what it proves of a call |
//! | --- | --- |
//! | no such host, connection refused, TLS failed, connecting timed out | it was not sent |
//! | the server refused the stream (HTTP/2 `REFUSED_STREAM`) | it was not run |
//! | a JSON-RPC answer with the call's id, under any status | what that answer says |
//! | a status that stands for "not run" (below), without such an answer | it was not run |
//! | 404 to a request of a session | the session has ended and it was not run; a new session is opened |
//! | a stream of events that ends before the answer | nothing yet: it is resumed where the server gave events ids |
//! | any other status, 5xx and redirects among them; a reset; another content type; an empty answer | nothing |
//!
//! Redirects are never followed: a server may have run what it then redirects. These statuses stand for "not run" unless
//! configured otherwise (`http_not_run`), because servers give them before a handler sees the message:
//! 400 (wrong session, revision, or JSON), 401 and 403 (authorization, origin), 404 and 405 (no such endpoint), 406 and 415
//! (content types), 411, 413, 414 and 431 (sizes), 421 (another host's connection), 429 (rate limits).
//! A server whose tools themselves answer with one of them must be declared so.

pub(crate) mod answers;
pub(crate) mod flights;
pub(crate) mod gate;
pub(crate) mod headers;
pub(crate) mod link;
pub(crate) mod listen;
pub(crate) mod opened;
pub(crate) mod params;
pub(crate) mod post;
pub(crate) mod proves;
pub(crate) mod reopen;
#[cfg(test)]
mod sent;
mod tls;

use std::collections::HashMap;
use std::error::Error;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use reqwest::redirect::Policy;
use settled::protocol::Digest;
use url::Url;

/// How long connecting may take, the TLS handshake included.
const CONNECT: Duration = Duration::from_secs(10);

/// How long a connection is kept for the next message: shorter than what common servers allow (5 s), so that a message is
/// seldom written to a connection that the server is just closing, and then of an unknown fate.
const IDLE: Duration = Duration::from_secs(3);

/// After how long of silence it is asked whether the other side is still there.
const STILL_THERE: Duration = Duration::from_secs(20);

/// How many authorizations are remembered as accepted.
const ACCEPTED: usize = 4096;

/// The longest body of a [`Http::fetch`].
const FETCHED: usize = 1 << 20;

/// How a server behind HTTP is reached.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// Its MCP endpoint.
    pub url: Url,
    /// A file of certificates (PEM) that are trusted besides those that this machine trusts.
    pub ca: Option<PathBuf>,
    /// The statuses that stand for "not run", if there is no JSON-RPC answer.
    pub not_run: Vec<u16>,
    /// Headers of every request, for example an API key. What came with a message goes before them.
    pub headers: HeaderMap,
}

impl HttpOptions {
    /// The statuses that stand for "not run" if nothing is configured; the [module](self) says why.
    pub const NOT_RUN: [u16; 13] = [400, 401, 403, 404, 405, 406, 411, 413, 414, 415, 421, 429, 431];

    /// The server at this URL, with nothing configured.
    pub fn new(url: Url) -> HttpOptions {
        HttpOptions { url, ca: None, not_run: Self::NOT_RUN.to_vec(), headers: HeaderMap::new() }
    }

    /// The scope of the keys of this server's calls, unless one is configured: its host, and a digest of its address.
    pub fn scope(&self) -> String {
        let mut url = self.url.clone();
        url.set_fragment(None);
        crate::guarded::guard::scope_of(url.host_str().unwrap_or("server"), [url.as_str().as_bytes()], "".as_ref())
    }
}

/// Why a server can't be reached over HTTP at all.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    /// The address is of another kind.
    #[error(
        "the server's address must be `https://…` or `http://…` with a host and without a user name or password: {0}"
    )]
    Address(String),
    /// The certificates can't be used.
    #[error("the certificates in {} can't be used: {problem}", path.display())]
    Ca {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A status that does not exist, or that is an answer.
    #[error("`http_not_run` holds {0}: it takes statuses from 300 to 599")]
    Status(u16),
    /// HTTP can't be used here.
    #[error("HTTP can't be used: {0}")]
    Client(String),
}

/// A server behind HTTP, for all sessions with it.
#[derive(Debug)]
pub(crate) struct Http {
    client: reqwest::Client,
    url: Url,
    not_run: Vec<u16>,
    fixed: HeaderMap,
    accepted: Accepted,
}

/// When each authorization was last accepted, by its digest.
#[derive(Debug, Default)]
struct Accepted(Mutex<HashMap<Digest, Instant>>);

impl Http {
    /// Gets ready; nothing is sent yet.
    ///
    /// # Errors
    /// [`UpstreamError`].
    pub(crate) fn open(options: HttpOptions) -> Result<Arc<Http>, UpstreamError> {
        let HttpOptions { mut url, ca, not_run, headers } = options;
        url.set_fragment(None);
        let has_user = !url.username().is_empty() || url.password().is_some();
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() || has_user {
            let _ = (url.set_username(""), url.set_password(None));
            return Err(UpstreamError::Address(url.to_string()));
        }
        if let Some(status) = not_run.iter().find(|status| !(300..600).contains(*status)) {
            return Err(UpstreamError::Status(*status));
        }
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(tls::client(ca.as_deref())?)
            .user_agent(concat!("settled/", env!("CARGO_PKG_VERSION")))
            .redirect(Policy::none())
            // One message is at most one delivery (rule 1).
            .retry(reqwest::retry::never())
            .connect_timeout(CONNECT)
            .pool_idle_timeout(IDLE)
            .tcp_nodelay(true)
            .tcp_keepalive(STILL_THERE)
            .http2_keep_alive_interval(STILL_THERE)
            .http2_keep_alive_timeout(STILL_THERE)
            .build()
            .map_err(|error| UpstreamError::Client(chain(error)))?;
        Ok(Arc::new(Http { client, url, not_run, fixed: headers, accepted: Accepted::default() }))
    }

    /// Whether the server has done something for exactly this authorization within that time, and has not refused it since.
    pub(crate) fn accepted_within(&self, authorization: Option<&HeaderValue>, within: Duration) -> bool {
        // Whoever brings none is let in with the configured one.
        let authorization = authorization.or(self.fixed.get(AUTHORIZATION));
        let accepted = self.accepted.0.lock().unwrap_or_else(PoisonError::into_inner);
        accepted.get(&digest(authorization)).is_some_and(|at| at.elapsed() <= within)
    }

    /// Remembers what an answer says of the authorization that it was asked with.
    fn heard(&self, sent: &HeaderMap, status: StatusCode) {
        let refused = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        let authorization = digest(sent.get(AUTHORIZATION));
        let mut accepted = self.accepted.0.lock().unwrap_or_else(PoisonError::into_inner);
        if refused {
            accepted.remove(&authorization);
        } else if status.is_success() {
            if accepted.len() >= ACCEPTED && !accepted.contains_key(&authorization) {
                let oldest = accepted.iter().min_by_key(|(_, at)| **at).map(|(digest, _)| *digest);
                oldest.map(|digest| accepted.remove(&digest));
            }
            accepted.insert(authorization, Instant::now());
        }
    }

    /// The path of its MCP endpoint.
    pub(crate) fn path(&self) -> &str {
        self.url.path()
    }

    /// A request to the server's origin, but to another path of it, for what is no message.
    ///
    /// # Errors
    /// In words.
    pub(crate) async fn fetch(
        &self,
        method: Method,
        path_and_query: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<(StatusCode, HeaderMap, Bytes), String> {
        let url = self.url.join(path_and_query).map_err(|error| error.to_string())?;
        if url.origin() != self.url.origin() {
            return Err("it is not a path of the server".to_owned());
        }
        let mut request = reqwest::Request::new(method, url);
        *request.headers_mut() = headers;
        if !body.is_empty() {
            *request.body_mut() = Some(body.into());
        }
        let fetched = async {
            let response = self.client.execute(request).await.map_err(chain)?;
            let (status, headers) = (response.status(), response.headers().clone());
            let body = answers::whole(response, FETCHED).await.map_err(|error| error.to_string())?;
            Ok((status, headers, body))
        };
        let fetched = tokio::time::timeout(CONNECT * 3, fetched).await;
        fetched.unwrap_or_else(|_| Err("the server does not answer".to_owned()))
    }
}

fn digest(authorization: Option<&HeaderValue>) -> Digest {
    let (there, text) = authorization.map_or((&b"0"[..], &b""[..]), |value| (&b"1"[..], value.as_bytes()));
    Digest::of_parts(&[there, text])
}

/// An error with its causes. A URL can carry secrets, so it is left out.
pub(crate) fn chain(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(url: &str, not_run: &[u16]) -> Result<Arc<Http>, UpstreamError> {
        Http::open(HttpOptions { not_run: not_run.to_vec(), ..HttpOptions::new(Url::parse(url).unwrap()) })
    }

    #[test]
    fn addresses_that_can_not_be_used_are_refused_without_showing_secrets() {
        for url in ["ftp://a/b", "http://user:secret@a/b", "data:text/plain,x"] {
            let error = open(url, &[]).unwrap_err().to_string();
            assert!(error.contains("address") && !error.contains("secret"), "{error}");
        }
        assert!(matches!(open("http://a/b", &[200]), Err(UpstreamError::Status(200))));
        open("https://a/b#c", &[307]).unwrap();
    }

    #[test]
    fn an_authorization_is_accepted_until_it_is_refused() {
        let http = open("http://a/b", &[]).unwrap();
        let (one, two) = (HeaderValue::from_static("Bearer 1"), HeaderValue::from_static("Bearer 2"));
        let sent = HeaderMap::from_iter([(AUTHORIZATION, one.clone())]);
        let minute = Duration::from_secs(60);
        assert!(!http.accepted_within(Some(&one), minute));
        http.heard(&sent, StatusCode::OK);
        assert!(http.accepted_within(Some(&one), minute));
        assert!(!http.accepted_within(Some(&two), minute) && !http.accepted_within(None, minute));
        http.heard(&HeaderMap::new(), StatusCode::BAD_REQUEST);
        assert!(!http.accepted_within(None, minute), "it may not have been looked at");
        http.heard(&sent, StatusCode::BAD_GATEWAY);
        assert!(http.accepted_within(Some(&one), minute), "that says nothing");
        http.heard(&sent, StatusCode::UNAUTHORIZED);
        assert!(!http.accepted_within(Some(&one), minute));
    }

    #[test]
    fn whoever_brings_no_authorization_has_the_configured_one() {
        let headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static("Bearer fixed"))]);
        let http =
            Http::open(HttpOptions { headers: headers.clone(), ..HttpOptions::new("http://a/b".parse().unwrap()) });
        let http = http.unwrap();
        http.heard(&headers, StatusCode::OK);
        assert!(http.accepted_within(None, Duration::from_secs(60)));
        assert!(!http.accepted_within(Some(&HeaderValue::from_static("Bearer 1")), Duration::from_secs(60)));
    }

    #[test]
    fn each_address_has_a_scope_of_its_own() {
        let scope = |url: &str| HttpOptions::new(Url::parse(url).unwrap()).scope();
        assert!(scope("https://mcp.example/a").starts_with("mcp.example-"));
        assert_ne!(scope("https://mcp.example/a"), scope("https://mcp.example/b"));
        assert_eq!(scope("https://mcp.example/a#x"), scope("https://mcp.example/a"));
    }
}

//! The server behind the gateway.
//!
//! | what happened | what it proves of a guarded request |
//! | --- | --- |
//! | no such host, connection refused, TLS failed, connecting timed out | it was not sent |
//! | the connection ended before any of the body was given to it | it was not sent |
//! | the server refused the stream (HTTP/2 `REFUSED_STREAM`) | it was not run |
//! | any other end before the answer was whole | nothing |
//!
//! Nothing here is ever sent twice: the client's own retries are off, and a guarded body leaves at most once (`gate`).

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use http::uri::{PathAndQuery, Scheme};
use http::{HeaderMap, HeaderValue, Request, Response, Uri, Version};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use settled_http::tls::{self, TlsError};

use crate::connect::Within;
use crate::gate::{Gate, Sent, Watch};
use crate::payload::Payload;

/// How long a connection is kept for the next request: shorter than what common servers allow (5 s), so that a request is
/// seldom written to a connection that the server is just closing, and then of an unknown fate.
const IDLE: Duration = Duration::from_secs(3);

/// After how long of silence it is asked whether the other side is still there.
const STILL_THERE: Duration = Duration::from_secs(20);

/// The server behind the gateway.
#[derive(Debug)]
pub(crate) struct Upstream {
    client: Client<Within, Payload>,
    base: Uri,
    fixed: HeaderMap,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    /// It was certainly not sent, or not run.
    NotSent(String),
    /// It was not sent, because it may not be any more.
    Withheld,
    /// It may have been carried out.
    Lost(String),
}

impl Upstream {
    /// `fixed`: headers of every request, which replace those of the caller.
    pub(crate) fn new(
        base: Uri,
        ca: Option<&Path>,
        fixed: HeaderMap,
        connecting: Duration,
    ) -> Result<Upstream, TlsError> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(STILL_THERE));
        tcp.set_keepalive_interval(Some(STILL_THERE));
        tcp.set_keepalive_retries(Some(3));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls::client(ca)?)
            .https_or_http()
            .enable_http1()
            .enable_http2()
            .wrap_connector(tcp);
        let client = Client::builder(TokioExecutor::new())
            // One request is at most one delivery (rule 1).
            .retry_canceled_requests(false)
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .timer(TokioTimer::new())
            .http2_keep_alive_interval(STILL_THERE)
            .http2_keep_alive_timeout(STILL_THERE)
            .build(Within { connector, time: connecting });
        Ok(Upstream { client, base, fixed })
    }

    /// Its host, with the port if it has one.
    pub(crate) fn authority(&self) -> &str {
        self.base.authority().map_or("upstream", |authority| authority.as_str())
    }

    /// Whether the gateway itself brings all of these headers.
    pub(crate) fn brings(&self, names: &HeaderValue) -> bool {
        let names = names.to_str().unwrap_or_default();
        names.split(", ").all(|name| self.fixed.contains_key(name))
    }

    /// The address of a target there.
    fn uri(&self, target: &str) -> Result<Uri, http::Error> {
        let before = self.base.path().trim_end_matches('/');
        let path: PathAndQuery = format!("{before}{target}").parse()?;
        Uri::builder()
            .scheme(self.base.scheme().cloned().unwrap_or(Scheme::HTTP))
            .authority(self.authority())
            .path_and_query(path)
            .build()
    }

    /// Sends a request of which nothing has to be known afterwards.
    pub(crate) async fn pass(&self, target: &str, request: Request<Payload>) -> Result<Response<Incoming>, NoAnswer> {
        self.send(target, request).await.map_err(|failed| match failed {
            Failed::Before(words) => NoAnswer::NotSent(words),
            Failed::Perhaps { words, .. } => NoAnswer::Lost(words),
        })
    }

    /// Sends a guarded request, once. The answer has begun when this returns.
    pub(crate) async fn once(
        &self,
        target: &str,
        request: Request<Gate>,
        watch: &Watch,
    ) -> Result<Response<Incoming>, NoAnswer> {
        let sent = self.send(target, request.map(|gate| gate.map_err(Into::into).boxed_unsync())).await;
        sent.map_err(|failed| match (failed, watch.close()) {
            (Failed::Before(words), _) => NoAnswer::NotSent(words),
            (Failed::Perhaps { .. }, Sent::Withheld) => NoAnswer::Withheld,
            (Failed::Perhaps { words, .. }, Sent::Nothing) => NoAnswer::NotSent(words),
            (Failed::Perhaps { words, refused: true }, _) => NoAnswer::NotSent(words),
            (Failed::Perhaps { words, refused: false }, Sent::Perhaps) => NoAnswer::Lost(words),
        })
    }

    async fn send(&self, target: &str, mut request: Request<Payload>) -> Result<Response<Incoming>, Failed> {
        *request.uri_mut() = self.uri(target).map_err(|error| Failed::Before(format!("its target: {error}")))?;
        // Which one is spoken is between the gateway and the upstream.
        *request.version_mut() = Version::HTTP_11;
        let headers = request.headers_mut();
        for name in self.fixed.keys() {
            headers.remove(name);
        }
        headers.extend(self.fixed.iter().map(|(name, value)| (name.clone(), value.clone())));
        self.client.request(request).await.map_err(|error| {
            let words = chain(&error);
            match error.is_connect() {
                true => Failed::Before(words),
                false => Failed::Perhaps { words, refused: is_refused_stream(&error) },
            }
        })
    }
}

/// Why a request was not answered.
enum Failed {
    /// Nothing of it was sent.
    Before(String),
    /// It was sent, perhaps in part.
    Perhaps {
        words: String,
        /// The server said that it did not process it.
        refused: bool,
    },
}

/// Whether the server said that it did not process the request (RFC 9113, section 8.7).
fn is_refused_stream(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<h2::Error>() {
            return error.is_remote() && error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
        }
        cause = error.source();
    }
    false
}

/// An error with its causes.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
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

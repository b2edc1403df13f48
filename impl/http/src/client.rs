//! The guard in a client: a reqwest middleware.

mod error;
mod request;
mod tool;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::Extensions;
use reqwest::{Request, Response, ResponseBuilderExt, Url};
use reqwest_middleware::{Middleware, Next};
use settled::{Answer, Engine, Operation, Recoverable};

pub use self::error::ClientError;
pub use self::request::GuardedRequest;
use self::tool::HttpTool;
use crate::{fingerprint, message};

/// Adds credentials to a request that is about to be sent.
pub type Credentials = dyn Fn(&mut Request) + Send + Sync;

/// Sends requests that carry a [`GuardedRequest`] at most once, and answers every repeat of them with the recorded answer,
/// across retries of the caller and restarts of its process. Other requests are passed on.
///
/// ```no_run
/// # async fn example(engine: settled::Engine) -> Result<(), Box<dyn std::error::Error>> {
/// use settled::protocol::{Key, Policy, ToolKind};
/// use settled_http::{GuardMiddleware, GuardedRequest};
///
/// let guard = GuardMiddleware::new(engine, reqwest::Client::builder())?;
/// let client = reqwest_middleware::ClientBuilder::new(reqwest::Client::new()).with(guard).build();
/// let operation = GuardedRequest::new(Key::new("shop", "charge", "order 7")?, Policy::new(ToolKind::Opaque));
/// let response = client
///     .post("https://payments.example/charges")
///     .body("{\"cents\":4200}")
///     .with_extension(operation)
///     .send()
///     .await?;
/// # Ok(()) }
/// ```
///
/// It sends guarded requests by a client of its own, whose retries and redirects are switched off (rule 1), so middleware
/// that comes after it does not see them. What is recorded of a request leaves out its credentials: headers that are marked
/// as sensitive, `Authorization`, `Proxy-Authorization` and `Cookie`.
#[derive(Clone)]
pub struct GuardMiddleware {
    engine: Engine,
    client: reqwest::Client,
    credentials: Option<Arc<Credentials>>,
}

/// In the extensions of a guarded request's response: whether it was recorded before, and nothing was sent for this call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replayed(pub bool);

impl fmt::Debug for GuardMiddleware {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuardMiddleware").field("engine", &self.engine).finish_non_exhaustive()
    }
}

impl GuardMiddleware {
    /// Guards by this engine. Guarded requests are sent by a client that is built from `client`, with retries and redirects
    /// switched off.
    ///
    /// # Errors
    /// If the client can't be built.
    pub fn new(engine: Engine, client: reqwest::ClientBuilder) -> Result<GuardMiddleware, reqwest::Error> {
        Ok(GuardMiddleware { engine, client: sends_once(client)?, credentials: None })
    }

    /// Adds credentials to every guarded request just before it is sent. A request that had credentials of its own can only
    /// be sent again after a crash if this adds them anew.
    #[must_use]
    pub fn credentials(mut self, add: impl Fn(&mut Request) + Send + Sync + 'static) -> GuardMiddleware {
        self.credentials = Some(Arc::new(add));
        self
    }

    /// How to take requests further that earlier processes left, for [`Engine::maintain`]: what is recorded of them is sent
    /// under the terms of `like`.
    pub fn recoverable(&self, like: &GuardedRequest) -> Recoverable {
        let tool = HttpTool { middleware: self.clone(), terms: like.clone(), live: None };
        Recoverable { policy: like.policy, tool: Some(Arc::new(tool)), limits: like.limits }
    }

    async fn guarded(&self, request: Request, terms: GuardedRequest) -> Result<Response, ClientError> {
        let body = match request.body() {
            None => Bytes::new(),
            Some(body) => Bytes::copy_from_slice(body.as_bytes().ok_or(ClientError::Streaming)?),
        };
        let url = request.url().clone();
        let key = terms.key.clone();
        let operation = Operation {
            fingerprint: fingerprint::of_call(request.method(), &url, request.headers(), &body),
            resource: terms.resource.clone(),
            limits: terms.limits,
            ..Operation::new(key.clone(), request::write(&request, &body), terms.policy)
        };
        let tool = HttpTool { middleware: self.clone(), terms, live: Some(request) };
        match self.engine.call(operation, Arc::new(tool)).await?.answer {
            Answer::Done { result, replayed } => answer(&result, replayed, &url),
            Answer::Failed { error: Some(error), replayed } if message::read_response(&error).is_ok() => {
                answer(&error, replayed, &url)
            }
            Answer::Failed { error, .. } => Err(ClientError::Failed { key, error: error.as_ref().map(text) }),
            Answer::Unknown { error, .. } => Err(ClientError::Unknown {
                key,
                status: error.and_then(|error| message::read_response(&error).ok()).map(|answer| answer.status),
            }),
            Answer::InProgress => Err(ClientError::InProgress(key)),
            Answer::Conflict => Err(ClientError::Conflict(key)),
            Answer::Expired => Err(ClientError::Expired(key)),
        }
    }
}

#[async_trait::async_trait]
impl Middleware for GuardMiddleware {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> reqwest_middleware::Result<Response> {
        match extensions.get::<GuardedRequest>().cloned() {
            Some(terms) => self.guarded(request, terms).await.map_err(reqwest_middleware::Error::middleware),
            None => next.run(request, extensions).await,
        }
    }
}

/// A client that sends what it is given once (rule 1).
pub(crate) fn sends_once(client: reqwest::ClientBuilder) -> Result<reqwest::Client, reqwest::Error> {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Somebody else may have been faster: then theirs is used.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    client.retry(reqwest::retry::never()).redirect(reqwest::redirect::Policy::none()).build()
}

fn text(body: &Bytes) -> String {
    String::from_utf8_lossy(body).into_owned()
}

/// A recorded answer as a response. What is no HTTP message is a person's word that it happened.
fn answer(stored: &Bytes, replayed: bool, url: &Url) -> Result<Response, ClientError> {
    let mut response = http::Response::builder().url(url.clone()).extension(Replayed(replayed));
    let body = match message::read_response(stored) {
        Ok(answer) => {
            response = response.status(answer.status);
            if let Some(headers) = response.headers_mut() {
                *headers = answer.headers;
            }
            answer.body
        }
        Err(_) => stored.clone(),
    };
    response.body(body).map(Response::from).map_err(|error| ClientError::Response(error.to_string()))
}

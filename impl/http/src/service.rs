//! The guard in front of a service: a tower layer.

mod answer;
mod describe;
mod tool;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use http_body::Body;
use http_body_util::{BodyExt, Either, Full, Limited};
use settled::{Engine, Operation, Tool};
use settled_protocol::Key;
use tower::BoxError;
use tower_layer::Layer;
use tower_service::Service;

pub use self::answer::REPLAYED;
pub use self::describe::{Describe, Described, KeyRule, Route};
use self::tool::{Live, ServiceTool};
use crate::problem::Problem;
use crate::{fingerprint, idempotency_key, message};

/// Guards the requests that `describe` says: the inner service carries out each of them once, and every repeat is told what
/// it answered then, byte for byte, marked by [`REPLAYED`].
///
/// | the request | is answered |
/// | --- | --- |
/// | with a new key | by the service |
/// | with a key that was answered | by the recorded answer, `Idempotency-Replayed: true` |
/// | without a key where one is required, or with one that can't be read | 400 |
/// | whose body is too large | 413 |
/// | with a key that was used with another request | 422 |
/// | with a key that is being carried out | by that answer once it is there, or 409 with `Retry-After` ([`patience`](settled::EngineOptions::patience)) |
/// | whose outcome is not known (the service answered 408 or 5xx, or failed, or the process ended) | 502 |
/// | with a key whose result is no longer kept | 410 |
/// | while the ledger is not available | 503 with `Retry-After`; nothing was done |
///
/// A 425 or 429 of the service means that it did nothing: it is passed on, and not recorded as the operation's answer. A
/// [`Route`] can declare other meanings. Answers are sent once they are whole and recorded; trailers are left out.
pub struct GuardLayer<D> {
    engine: Engine,
    describe: Arc<D>,
}

/// The service that [`GuardLayer`] makes.
pub struct GuardService<S, D> {
    inner: S,
    engine: Engine,
    describe: Arc<D>,
}

impl<D: Describe> GuardLayer<D> {
    /// Guards by this engine what `describe` says.
    pub fn new(engine: Engine, describe: D) -> GuardLayer<D> {
        GuardLayer { engine, describe: Arc::new(describe) }
    }
}

/// The tool that carries a route's recorded requests out, for [`settled::Recoverable`]: it sends them to the service again as
/// they were recorded, without credentials.
pub fn recovery_tool<S, B, R>(service: S, route: &Route) -> Arc<dyn Tool>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    B: From<Bytes> + Send + 'static,
    R: Body + Send + 'static,
    R::Data: Send,
    R::Error: Into<BoxError>,
{
    Arc::new(ServiceTool::new(service, route, None))
}

impl<D> Clone for GuardLayer<D> {
    fn clone(&self) -> Self {
        GuardLayer { engine: self.engine.clone(), describe: self.describe.clone() }
    }
}

impl<S: Clone, D> Clone for GuardService<S, D> {
    fn clone(&self) -> Self {
        GuardService { inner: self.inner.clone(), engine: self.engine.clone(), describe: self.describe.clone() }
    }
}

impl<D> std::fmt::Debug for GuardLayer<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GuardLayer").field("engine", &self.engine).finish_non_exhaustive()
    }
}

impl<S, D> std::fmt::Debug for GuardService<S, D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GuardService").field("engine", &self.engine).finish_non_exhaustive()
    }
}

impl<S, D> Layer<S> for GuardLayer<D> {
    type Service = GuardService<S, D>;

    fn layer(&self, inner: S) -> Self::Service {
        GuardService { inner, engine: self.engine.clone(), describe: self.describe.clone() }
    }
}

type Answering<R, E> = Pin<Box<dyn Future<Output = Result<Response<Either<R, Full<Bytes>>>, E>> + Send>>;

impl<S, D, B, R> Service<Request<B>> for GuardService<S, D>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    D: Describe,
    B: Body + From<Bytes> + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    type Response = Response<Either<R, Full<Bytes>>>;
    type Error = S::Error;
    type Future = Answering<R, S::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The clone may not be ready; what was polled ready is used up here.
        let spare = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, spare);
        let engine = self.engine.clone();
        let (parts, body) = request.into_parts();
        let described = self.describe.describe(&parts);
        Box::pin(async move {
            let (route, key) = match described {
                Described::PassOn => return passed_on(&mut inner, Request::from_parts(parts, body)).await,
                Described::Guard(route) => match idempotency_key::parse(&parts.headers, route.syntax) {
                    Ok(Some(key)) => (route, key),
                    Ok(None) if route.key == KeyRule::Optional => {
                        return passed_on(&mut inner, Request::from_parts(parts, body)).await;
                    }
                    Ok(None) => return Ok(own(Problem::KeyMissing.response())),
                    Err(error) => return Ok(own(Problem::KeyInvalid(&error.to_string()).response())),
                },
            };
            Ok(own(guarded(&engine, inner, *route, &key, parts, body).await))
        })
    }
}

async fn passed_on<S, B, R>(inner: &mut S, request: Request<B>) -> Result<Response<Either<R, Full<Bytes>>>, S::Error>
where
    S: Service<Request<B>, Response = Response<R>>,
{
    inner.call(request).await.map(|response| response.map(Either::Left))
}

fn own<R>(response: Response<Bytes>) -> Response<Either<R, Full<Bytes>>> {
    response.map(|body| Either::Right(Full::new(body)))
}

/// A request with a key, from its body to its answer.
async fn guarded<S, B, R>(engine: &Engine, inner: S, route: Route, key: &str, parts: Parts, body: B) -> Response<Bytes>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    B: Body + From<Bytes> + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
    R: Body + Send + 'static,
    R::Data: Send,
    R::Error: Into<BoxError>,
{
    let body = match Limited::new(body, route.max_request).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            return Problem::TooLarge(route.max_request).response();
        }
        Err(_) => return Problem::BodyIncomplete.response(),
    };
    let key = match Key::new(&*route.scope, &*route.name, key) {
        Ok(key) => key,
        Err(error) => return Problem::KeyInvalid(&error.to_string()).response(),
    };
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
    let operation = Operation {
        fingerprint: fingerprint::of_request(&parts.method, &parts.uri, &parts.headers, &body),
        resource: route.resource.clone(),
        limits: route.limits,
        ..Operation::new(key, message::write_request(&parts.method, target, &parts.headers, &body), route.policy)
    };
    let tool = ServiceTool::new(inner, &route, Some(Live { parts, body }));
    match engine.call(operation, Arc::new(tool)).await {
        Ok(answered) => answer::response(answered.answer),
        Err(error) => {
            tracing::error!(%error, "a request was not carried out");
            Problem::Unavailable.response()
        }
    }
}

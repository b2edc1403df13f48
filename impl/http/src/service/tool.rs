//! The inner service, as the engine's tool.

use std::marker::PhantomData;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use async_trait::async_trait;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use settled::{Outgoing, Tool, ToolReply};
use settled_protocol::{ErrorClass, Policy};
use tower::{BoxError, ServiceExt};
use tower_service::Service;

use super::Route;
use crate::classify::{Class, Declared, Means};
use crate::message;

/// The request as it came, with all that the stored form leaves out.
pub(super) struct Live {
    pub(super) parts: Parts,
    pub(super) body: Bytes,
}

/// Sends requests to a service: the one that just came, or what was stored of an earlier one.
pub(super) struct ServiceTool<S, B> {
    // Locked only to be cloned: services need not be `Sync`.
    service: Mutex<S>,
    live: Option<Live>,
    policy: Policy,
    declared: Declared,
    max_response: usize,
    keep: fn(&HeaderName, &HeaderValue) -> bool,
    takes: PhantomData<fn(B)>,
}

impl<S, B> ServiceTool<S, B> {
    pub(super) fn new(service: S, route: &Route, live: Option<Live>) -> ServiceTool<S, B> {
        ServiceTool {
            service: Mutex::new(service),
            live,
            policy: route.policy,
            declared: route.declared.clone(),
            max_response: route.max_response,
            keep: route.keep,
            takes: PhantomData,
        }
    }
}

#[async_trait]
impl<S, B, R> Tool for ServiceTool<S, B>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    B: From<Bytes> + Send + 'static,
    R: Body + Send + 'static,
    R::Data: Send,
    R::Error: Into<BoxError>,
{
    async fn dispatch(&self, outgoing: &Outgoing) -> ToolReply {
        let request = match &self.live {
            Some(live) => Request::from_parts(live.parts.clone(), live.body.clone().into()),
            None => match stored(&outgoing.arguments) {
                Some(request) => request,
                None => return ToolReply::Error(ErrorClass::NotRun, Bytes::from_static(b"no request is recorded")),
            },
        };
        let service = self.service.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let response = match service.oneshot(request).await {
            Ok(response) => response,
            Err(error) => {
                tracing::warn!(key = %outgoing.key, error = error.into(), "the service failed");
                return ToolReply::ConnectionLost;
            }
        };
        self.reply(outgoing, response).await
    }
}

impl<S, B> ServiceTool<S, B> {
    async fn reply<R>(&self, outgoing: &Outgoing, response: Response<R>) -> ToolReply
    where
        R: Body + Send + 'static,
        R::Data: Send,
        R::Error: Into<BoxError>,
    {
        let (parts, body) = response.into_parts();
        let class = self.class(parts.status, &parts.headers);
        let body = match Limited::new(body, self.max_response).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => {
                return class.into_reply(message::not_kept(class == Class::Done, parts.status), &self.policy);
            }
            Err(error) => {
                tracing::warn!(key = %outgoing.key, error, "the service's answer broke off");
                return ToolReply::ConnectionLost;
            }
        };
        let answer = message::write_response(parts.status, &parts.headers, &body, self.keep);
        class.into_reply(answer, &self.policy)
    }

    /// An answer of the service itself is an answer, also if it refuses: it is kept and replayed.
    fn class(&self, status: StatusCode, headers: &http::HeaderMap) -> Class {
        let means = self.declared.means(status).unwrap_or(match status.as_u16() {
            408 => Means::Nothing,
            425 | 429 => Means::Busy,
            200..=499 => Means::Done,
            _ => Means::Rejected,
        });
        means.class(headers, SystemTime::now())
    }
}

fn stored<B: From<Bytes>>(arguments: &Bytes) -> Option<Request<B>> {
    let stored = message::read_request(arguments).ok()?;
    let mut request = Request::new(B::from(stored.body));
    *request.method_mut() = stored.method;
    *request.uri_mut() = stored.target.parse().ok()?;
    *request.headers_mut() = stored.headers;
    Some(request)
}

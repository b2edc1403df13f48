//! What becomes of a request.

use std::net::IpAddr;
use std::sync::Arc;

use http::header::{HOST, UPGRADE};
use http::{HeaderMap, Method, Request, Response, Version};
use hyper::body::Incoming;
use settled_http::idempotency_key::{self, KeyHeaderError, Syntax};
use settled_http::problem::Problem;

use crate::config::Key;
use crate::gateway::Gateway;
use crate::payload::{Payload, whole};
use crate::{documentation, guarded, operations, pages, pass, refusal};

/// Where the gateway's own pages are.
pub(crate) const OWN: &str = "/.settled/";

/// Requests that were not refused at once.
const REQUESTS: &str = "settled_gateway_requests_total";

/// Says what the figures mean.
pub(crate) fn describe() {
    metrics::describe_counter!(REQUESTS, "requests that were guarded or passed on");
    metrics::describe_counter!(crate::tool::TOKENS, "tokens that calls cost, as the API says, by route and kind");
}

/// What all requests that go on have.
pub(crate) struct Came {
    /// The path and query.
    pub(crate) target: String,
    /// Whose connection it came on.
    pub(crate) from: Option<IpAddr>,
}

/// Answers a request.
pub(crate) async fn respond(
    gateway: &Arc<Gateway>,
    request: Request<Incoming>,
    from: Option<IpAddr>,
) -> Response<Payload> {
    let mut response = decide(gateway, request, from).await;
    documentation::link(&mut response);
    response
}

async fn decide(gateway: &Arc<Gateway>, request: Request<Incoming>, from: Option<IpAddr>) -> Response<Payload> {
    let setup = gateway.setup();
    let Some(target) = request.uri().path_and_query().map(|target| target.as_str().to_owned()) else {
        return whole(refusal::bad("The target of the request is not a path."));
    };
    let path = request.uri().path();
    if let Some(page) = path.strip_prefix(OWN) {
        return whole(match page.strip_prefix("operations/") {
            Some(_) => operations::answer(gateway, &setup, &request).await,
            None => pages::answer(gateway, request.method(), page).await,
        });
    }
    if *request.method() == Method::CONNECT || !target.starts_with('/') {
        return whole(refusal::bad("This gateway serves one server: it takes paths, and no tunnels."));
    }
    if request.version() == Version::HTTP_11 && request.headers().get_all(HOST).iter().count() != 1 {
        return whole(refusal::bad("A request of HTTP/1.1 has one Host header."));
    }
    if wants_another_protocol(request.headers()) {
        return whole(refusal::upgrade());
    }
    if gateway.draining.is_raised() {
        return whole(refusal::draining());
    }
    let route = match setup.routes.find(request.method(), path) {
        Ok(route) => route.filter(|route| route.config.key != Key::Ignore).cloned(),
        Err(_) => return whole(refusal::ambiguous()),
    };
    let principal = setup.principal(request.headers());
    let Some(place) = gateway.places.take(principal, setup.limits.in_flight_per_principal) else {
        return whole(refusal::too_many());
    };
    let came = Came { target, from };
    let Some(route) = route else {
        count("passed");
        return pass::pass(&setup, request, came, place).await;
    };
    match idempotency_key::parse(request.headers(), Syntax::Lenient) {
        Ok(Some(key)) if key.len() > setup.limits.key_bytes => {
            whole(Problem::KeyInvalid(&KeyHeaderError::TooLong.to_string()).response())
        }
        Ok(Some(key)) => {
            count("guarded");
            guarded::guarded(gateway, setup, route, &key, request, came, place).await
        }
        Ok(None) if route.config.key == Key::Required => whole(Problem::KeyMissing.response()),
        Ok(None) => {
            count("passed");
            pass::pass(&setup, request, came, place).await
        }
        Err(error) => whole(Problem::KeyInvalid(&error.to_string()).response()),
    }
}

fn count(how: &'static str) {
    metrics::counter!(REQUESTS, "how" => how).increment(1);
}

/// An offer to go on with HTTP/2 can be left alone; anything else would not be HTTP.
fn wants_another_protocol(headers: &HeaderMap) -> bool {
    let offers =
        headers.get_all(UPGRADE).iter().filter_map(|value| value.to_str().ok()).flat_map(|text| text.split(','));
    let mut others = offers.map(str::trim).filter(|offer| !offer.is_empty() && !offer.eq_ignore_ascii_case("h2c"));
    others.next().is_some()
}

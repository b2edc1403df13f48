//! The gateway's own pages: whether it lives, whether it is ready, what its errors mean.

use std::time::Duration;

use bytes::Bytes;
use http::header::CACHE_CONTROL;
use http::{HeaderValue, Method, Response, StatusCode};
use tokio::time::timeout;

use crate::documentation;
use crate::gateway::Gateway;
use crate::refusal;

/// How long the ledger may take to say something.
const LEDGER: Duration = Duration::from_secs(2);

pub(crate) async fn answer(gateway: &Gateway, method: &Method, page: &str) -> Response<Bytes> {
    if !matches!(page, "healthz" | "readyz" | documentation::PAGE) {
        return refusal::not_found();
    }
    if !matches!(*method, Method::GET | Method::HEAD) {
        return refusal::method();
    }
    if page == documentation::PAGE {
        return documentation::page();
    }
    let good = page == "healthz" || is_ready(gateway).await;
    let status = if good { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = status;
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Whether requests with keys can be carried out.
async fn is_ready(gateway: &Gateway) -> bool {
    let asking = gateway.engine.ledger().liveness(gateway.engine.epoch());
    !gateway.draining.is_raised() && matches!(timeout(LEDGER, asking).await, Ok(Ok(_)))
}

//! Asking what became of a request whose answer was lost.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde_json::Value;
use settled::{Question, Seen};
use settled_http::message::{self, StoredRequest};
use settled_observers::{Given, Observer, Verdict};

/// Marks an answer that is what an observer saw, because the upstream's own was lost.
pub(crate) const OBSERVED: HeaderName = HeaderName::from_static("idempotency-observed");

/// Asks. `key`: what the upstream was given as the key.
pub(crate) async fn ask(observer: &Observer, question: &Question, key: &str, request: &Bytes) -> Seen {
    let verdict = match message::read_request(request) {
        Ok(request) => {
            let arguments = arguments(&request);
            let attempt = question.attempt.attempt.get();
            observer.ask(&Given { key, attempt, scope: None, arguments: &arguments }).await
        }
        Err(error) => Verdict::Unclear(error.to_string()),
    };
    verdict.seen(question, answer)
}

/// What templates can name of a request: `method`, `path`, `segments`, `query`, and `body`, as JSON text, so that no number
/// loses digits.
fn arguments(request: &StoredRequest) -> String {
    let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let text = |text: &str| Value::from(text).to_string();
    let body = str::from_utf8(&request.body).ok();
    let json = body.filter(|body| serde_json::from_str::<serde::de::IgnoredAny>(body).is_ok());
    let body = json.map_or_else(|| text(&String::from_utf8_lossy(&request.body)), str::to_owned);
    format!(
        r#"{{"method":{},"path":{},"segments":{},"query":{},"body":{body}}}"#,
        text(request.method.as_str()),
        text(path),
        serde_json::json!(segments),
        text(query)
    )
}

/// What the caller is told of what was seen.
fn answer(observed: &Value) -> Bytes {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(OBSERVED, HeaderValue::from_static("true"));
    message::write_response(StatusCode::OK, &headers, observed.to_string().as_bytes(), message::is_kept)
}

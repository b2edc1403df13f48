//! Where clients look for how to be authorized: that is for the server behind to say.

use bytes::Bytes;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, Method, Response, StatusCode};

use crate::front::Front;
use crate::front::payload::Payload;
use crate::front::reply::{BAD_REQUEST, Problem, with_type};

/// RFC 9728, "OAuth 2.0 Protected Resource Metadata".
pub(crate) const METADATA: &str = "/.well-known/oauth-protected-resource";

/// Asks the server behind, at its own place for what was asked for at ours.
pub(crate) async fn metadata(front: &Front, parts: &Parts) -> Result<Response<Payload>, Problem> {
    if parts.method != Method::GET {
        return Err(Problem::method("GET"));
    }
    let nothing = || Problem::new(StatusCode::NOT_FOUND, BAD_REQUEST, "no server here says how to be authorized");
    let rest = parts.uri.path().strip_prefix(METADATA).unwrap_or_default();
    // Without a path, it is about the only server there is.
    let of_all = rest.is_empty() || rest == "/";
    let service = if of_all { (front.services.len() == 1).then_some(0) } else { front.service_at(rest) };
    let http = service.and_then(|service| front.services.get(service)?.http()).ok_or_else(nothing)?;
    let path = if of_all { METADATA.to_owned() } else { format!("{METADATA}{}", http.path().trim_end_matches('/')) };
    let mut headers = HeaderMap::new();
    if let Some(accept) = parts.headers.get(ACCEPT) {
        headers.insert(ACCEPT, accept.clone());
    }
    let (status, headers, body) = http.fetch(Method::GET, &path, headers, Bytes::new()).await.map_err(|why| {
        Problem::new(StatusCode::BAD_GATEWAY, BAD_REQUEST, format!("the server behind can't be asked: {why}"))
    })?;
    let content_type = headers.get(CONTENT_TYPE).cloned().unwrap_or(crate::front::reply::JSON);
    let mut response = with_type(status, content_type, Payload::Text(body));
    if let Some(control) = headers.get(CACHE_CONTROL) {
        response.headers_mut().insert(CACHE_CONTROL, control.clone());
    }
    Ok(response)
}

//! Which revision of the protocol a request is of, and whether its headers say what it says.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, StatusCode};
use serde_json::json;

use crate::front::reply::Problem;
use crate::messages::frame::Frame;
use crate::messages::splice;
use crate::upstream::headers::{METHOD, NAME, REVISION, STATELESS};

/// The revisions with sessions. The first two have no Streamable HTTP of their own, but can be negotiated over it.
const WITH_SESSIONS: [&str; 5] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", "2024-10-07"];

/// The only revision with batches.
pub(crate) const BATCHES: &str = "2025-03-26";

/// The first revision whose streams begin with an event to come back with.
pub(crate) const PRIMED: &str = "2025-11-25";

/// Headers and message do not agree (revision 2026-07-28, "Server Validation").
const HEADER_MISMATCH: i64 = -32020;

/// The revision is not known (revision 2026-07-28, "Protocol Version Negotiation").
const UNSUPPORTED: i64 = -32022;

/// Where a request says of which revision it is.
const IN_META: &str = "io.modelcontextprotocol/protocolVersion";

/// The prefix and the suffix of a header's value that is encoded (revision 2026-07-28, "Value Encoding").
const ENCODED: (&str, &str) = ("=?base64?", "?=");

/// How a request is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    /// Within a session (revisions up to 2025-11-25).
    Sessions,
    /// By itself (revision 2026-07-28).
    Stateless,
}

/// The value of a header that may come once.
pub(crate) fn once<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Problem> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Problem::bad(format!("the header {name} comes more than once")));
    }
    match value.to_str() {
        Ok(text) => Ok(Some(text.trim())),
        Err(_) => Err(Problem::bad(format!("the header {name} is not plain text"))),
    }
}

/// How a request without a message is served.
pub(crate) fn of_headers(headers: &HeaderMap) -> Result<Era, Problem> {
    match once(headers, &REVISION)? {
        None => Ok(Era::Sessions),
        Some(revision) if WITH_SESSIONS.contains(&revision) => Ok(Era::Sessions),
        Some(STATELESS) => Ok(Era::Stateless),
        Some(other) => Err(unsupported(other)),
    }
}

/// How a message is served.
pub(crate) fn of_message(headers: &HeaderMap, frame: &Frame<'_>) -> Result<Era, Problem> {
    let Frame::Request { id, method, params } = frame else { return of_headers(headers) };
    let in_meta =
        params.and_then(|params| splice::get(params, "_meta")).and_then(|meta| splice::get_string(meta, IN_META));
    if method == "initialize" && in_meta.is_none() {
        // It opens a session, whatever revision the client would rather speak.
        return Ok(Era::Sessions);
    }
    let in_header = once(headers, &REVISION).map_err(|problem| problem.of(id))?;
    match (in_header, in_meta.as_deref()) {
        (Some(header), Some(meta)) if header != meta => {
            let problem = format!("Header mismatch: MCP-Protocol-Version is '{header}', but the message says '{meta}'");
            Err(mismatch(id, problem))
        }
        (None, Some(_)) => Err(mismatch(id, "Header mismatch: MCP-Protocol-Version is missing".to_owned())),
        (Some(STATELESS), None) => {
            let problem = format!(
                "Header mismatch: MCP-Protocol-Version is '{STATELESS}', but the message has no `{IN_META}` in `_meta`"
            );
            Err(mismatch(id, problem))
        }
        (Some(STATELESS), Some(_)) => {
            headers_repeat(headers, method, *params).map_err(|problem| mismatch(id, problem))?;
            Ok(Era::Stateless)
        }
        _ => of_headers(headers).map_err(|problem| problem.of(id)),
    }
}

/// Revision 2026-07-28, "Standard Request Headers".
fn headers_repeat(headers: &HeaderMap, method: &str, params: Option<&str>) -> Result<(), String> {
    repeats(headers, &METHOD, "Mcp-Method", Some(method))?;
    let named = match method {
        "tools/call" | "prompts/get" => "name",
        "resources/read" => "uri",
        _ => return Ok(()),
    };
    let name = params.and_then(|params| splice::get_string(params, named));
    repeats(headers, &NAME, "Mcp-Name", name.as_deref())
}

fn repeats(headers: &HeaderMap, header: &HeaderName, shown: &str, said: Option<&str>) -> Result<(), String> {
    let mut values = headers.get_all(header).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return Err(format!("Header mismatch: {shown} must come exactly once"));
    };
    let value = value.to_str().map_err(|_| format!("Header mismatch: {shown} has characters that it can't have"))?;
    let decoded = decoded(value).ok_or_else(|| format!("Header mismatch: {shown} is not encoded as it says"))?;
    match said {
        Some(said) if said == decoded => Ok(()),
        said => {
            let said = said.unwrap_or_default();
            Err(format!("Header mismatch: {shown} is '{value}', but the message says '{said}'"))
        }
    }
}

fn decoded(value: &str) -> Option<String> {
    match value.strip_prefix(ENCODED.0).and_then(|rest| rest.strip_suffix(ENCODED.1)) {
        None => Some(value.to_owned()),
        Some(encoded) => String::from_utf8(STANDARD.decode(encoded).ok()?).ok(),
    }
}

fn mismatch(id: &str, message: String) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, HEADER_MISMATCH, message).of(id)
}

fn unsupported(requested: &str) -> Problem {
    let mut supported = vec![STATELESS];
    supported.extend(WITH_SESSIONS);
    let message = format!("Unsupported protocol version: {requested} (supported: {})", supported.join(", "));
    Problem::new(StatusCode::BAD_REQUEST, UNSUPPORTED, message)
        .data(json!({ "supported": supported, "requested": requested }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::frame::parse;

    fn headers(lines: &[(&str, &str)]) -> HeaderMap {
        let parsed = lines.iter().map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap()));
        parsed.collect()
    }

    const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"世","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;

    #[test]
    fn names_are_compared_decoded() {
        let of = |name: &str| {
            let headers =
                headers(&[("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", name)]);
            of_message(&headers, &parse(CALL.as_bytes())).map_err(|problem| problem.response().status())
        };
        assert_eq!(of("=?base64?5LiW?="), Ok(Era::Stateless));
        for wrong in ["=?base64?5Li?=", "=?base64?!!?=", "x", "=?BASE64?5LiW?="] {
            assert_eq!(of(wrong), Err(StatusCode::BAD_REQUEST), "{wrong}");
        }
    }

    #[test]
    fn what_a_header_that_is_missing_means() {
        let none = HeaderMap::new();
        assert_eq!(of_headers(&none).unwrap(), Era::Sessions);
        assert!(of_message(&none, &parse(CALL.as_bytes())).is_err());
        let plain = r#"{"id":1,"method":"ping"}"#;
        assert_eq!(of_message(&none, &parse(plain.as_bytes())).unwrap(), Era::Sessions);
        let new = headers(&[("mcp-protocol-version", "2026-07-28")]);
        assert!(of_message(&new, &parse(plain.as_bytes())).is_err());
        let initialize = r#"{"id":1,"method":"initialize","params":{}}"#;
        assert_eq!(of_message(&new, &parse(initialize.as_bytes())).unwrap(), Era::Sessions);
        assert!(of_headers(&headers(&[("mcp-protocol-version", "1900-01-01")])).is_err());
    }
}

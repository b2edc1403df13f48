//! The headers of a message on its way to a server behind HTTP.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::config::is_the_proxys_own;
use crate::messages::context::Context;
use crate::messages::frame::{Frame, parse};
use crate::messages::splice;
use crate::upstream::opened::Opened;

/// Names the session (revisions 2025-03-26 to 2025-11-25, "Session Management").
pub(crate) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// Names the revision (from 2025-06-18 on, "Protocol Version Header").
pub(crate) const REVISION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The last event that arrived of a stream (revisions 2025-03-26 to 2025-11-25, "Resumability and Redelivery").
pub(crate) const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
/// The method of a request (revision 2026-07-28, "Standard Request Headers").
pub(crate) const METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// What it is about.
pub(crate) const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// The first revision without sessions and without streams that can be resumed.
pub(crate) const STATELESS: &str = "2026-07-28";

/// What a message says that its headers repeat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    method: Option<String>,
    /// What it is about.
    name: Option<String>,
    /// The revision that it names itself.
    pub(crate) revision: Option<String>,
}

impl Said {
    /// What one message says; a batch says nothing (its revision has no such headers).
    pub(crate) fn of(line: &[u8]) -> Said {
        let (method, params) = match parse(line) {
            Frame::Request { method, params, .. } | Frame::Notification { method, params } => (method, params),
            _ => return Said::default(),
        };
        let revision = params
            .and_then(|params| splice::get(params, "_meta"))
            .and_then(|meta| splice::get_string(meta, "io.modelcontextprotocol/protocolVersion"));
        let named_by = match &*method {
            "tools/call" | "prompts/get" => Some("name"),
            "resources/read" | "resources/subscribe" | "resources/unsubscribe" => Some("uri"),
            "tasks/get" | "tasks/update" | "tasks/cancel" => Some("taskId"),
            _ => None,
        };
        let name = named_by.and_then(|member| splice::get_string(params?, member));
        Said { method: Some(method.into_owned()), name, revision }
    }

    /// Whether it asks for the list of tools.
    pub(crate) fn lists_tools(&self) -> bool {
        self.method.as_deref() == Some("tools/list")
    }

    /// The tool, and the parameters, of a call whose arguments may have to be repeated in headers.
    pub(crate) fn repeats(&self, line: &[u8], context: &Context, opened: Option<&Opened>) -> Option<(String, String)> {
        if self.method.as_deref() != Some("tools/call") || !is_stateless(self.revision(context, opened)) {
            return None;
        }
        let Frame::Request { params: Some(params), .. } = parse(line) else { return None };
        Some((self.name.clone()?, params.to_owned()))
    }

    /// The revision that a message is sent under: the one that it names, else the one that its client names, else the one that
    /// was agreed on.
    pub(crate) fn revision<'a>(&'a self, context: &'a Context, opened: Option<&'a Opened>) -> Option<&'a str> {
        let named = self.revision.as_deref().or(context.revision.as_deref());
        named.or_else(|| opened.and_then(|opened| opened.revision.as_deref()))
    }
}

/// Whether a revision has no sessions. Revisions are dates, so they compare as text.
pub(crate) fn is_stateless(revision: Option<&str>) -> bool {
    revision.is_some_and(|revision| revision >= STATELESS)
}

/// The headers of a POST.
pub(crate) fn of_message(said: &Said, context: &Context, opened: Option<&Opened>, fixed: &HeaderMap) -> HeaderMap {
    let mut headers = passed(context, fixed);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    // What is compressed all the same is refused: nobody asked for it.
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    let revision = said.revision(context, opened);
    let stateless = is_stateless(revision);
    set(&mut headers, REVISION, revision.map(encoded));
    if stateless {
        set(&mut headers, METHOD, said.method.as_deref().map(encoded));
        set(&mut headers, NAME, said.name.as_deref().map(encoded));
    } else {
        set(&mut headers, SESSION, opened.and_then(|opened| opened.id.clone()));
    }
    headers
}

/// The headers of a request that has no message in it.
pub(crate) fn without_message(context: &Context, opened: Option<&Opened>, fixed: &HeaderMap) -> HeaderMap {
    let mut headers = passed(context, fixed);
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    set(&mut headers, REVISION, opened.and_then(|opened| opened.revision.as_deref()).map(encoded));
    set(&mut headers, SESSION, opened.and_then(|opened| opened.id.clone()));
    headers
}

fn set(headers: &mut HeaderMap, name: HeaderName, value: Option<HeaderValue>) {
    if let Some(value) = value {
        headers.insert(name, value);
    }
}

/// The configured headers, and over them those that came with the message.
fn passed(context: &Context, fixed: &HeaderMap) -> HeaderMap {
    let mut headers = fixed.clone();
    for name in context.pass.keys().filter(|name| !is_the_proxys_own(name)) {
        headers.remove(name);
        for value in context.pass.get_all(name) {
            headers.append(name, value.clone());
        }
    }
    headers
}

/// A value as the header can carry it (revision 2026-07-28, "Value Encoding").
pub(crate) fn encoded(value: &str) -> HeaderValue {
    let is_plain = value.bytes().all(|byte| (0x20..=0x7e).contains(&byte))
        && value.trim_matches([' ', '\t']) == value
        && !(value.starts_with("=?base64?") && value.ends_with("?="));
    let wrapped = || format!("=?base64?{}?=", STANDARD.encode(value));
    let text = if is_plain { value.to_owned() } else { wrapped() };
    // Base64 and printable ASCII are always valid.
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
        headers.get(name).map(|value| value.to_str().unwrap())
    }

    #[test]
    fn values_are_encoded_as_the_specification_shows() {
        for (value, expected) in [
            ("us-west1", "us-west1"),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
            ("a b", "a b"),
        ] {
            assert_eq!(encoded(value).to_str().unwrap(), expected);
        }
    }

    #[test]
    fn a_stateless_request_repeats_what_it_says() {
        let line = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pay","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
        let opened = Opened::new(1, Some(HeaderValue::from_static("s")), Some("2025-06-18".to_owned()));
        let headers = of_message(&Said::of(line), &Context::default(), Some(&opened), &HeaderMap::new());
        assert_eq!(text(&headers, &METHOD), Some("tools/call"));
        assert_eq!(text(&headers, &NAME), Some("pay"));
        assert_eq!(text(&headers, &REVISION), Some("2026-07-28"));
        assert_eq!(text(&headers, &SESSION), None);
    }

    #[test]
    fn an_older_request_names_its_session_and_the_agreed_revision() {
        let line = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pay"}}"#;
        let opened = Opened::new(1, Some(HeaderValue::from_static("s")), Some("2025-06-18".to_owned()));
        let headers = of_message(&Said::of(line), &Context::default(), Some(&opened), &HeaderMap::new());
        assert_eq!((text(&headers, &METHOD), text(&headers, &NAME)), (None, None));
        assert_eq!((text(&headers, &REVISION), text(&headers, &SESSION)), (Some("2025-06-18"), Some("s")));
    }

    #[test]
    fn what_came_with_a_message_goes_with_it_but_for_what_belongs_to_the_connection() {
        let mut fixed = HeaderMap::new();
        fixed.insert("authorization", HeaderValue::from_static("Bearer fixed"));
        fixed.insert("x-api-key", HeaderValue::from_static("k"));
        let mut context = Context::default();
        context.pass.insert("authorization", HeaderValue::from_static("Bearer caller"));
        context.pass.insert("host", HeaderValue::from_static("evil"));
        context.pass.insert("mcp-session-id", HeaderValue::from_static("of somebody else"));
        context.pass.insert("content-length", HeaderValue::from_static("0"));
        let headers = of_message(&Said::default(), &context, None, &fixed);
        assert_eq!(headers.get("authorization").unwrap(), "Bearer caller");
        assert_eq!(headers.get("x-api-key").unwrap(), "k");
        for name in ["host", "mcp-session-id", "content-length"] {
            assert_eq!(headers.get(name), None, "{name}");
        }
    }
}

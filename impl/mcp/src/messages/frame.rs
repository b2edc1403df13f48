//! A thin envelope over one line: enough to route it, and nothing that would have to be written back.

use std::borrow::Cow;

use crate::messages::splice;

/// What a line is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Frame<'a> {
    /// Something that expects an answer.
    Request {
        /// The id's own text.
        id: &'a str,
        /// The method.
        method: Cow<'a, str>,
        /// The parameters' text.
        params: Option<&'a str>,
    },
    /// Something that expects none.
    Notification {
        /// The method.
        method: Cow<'a, str>,
        /// The parameters' text.
        params: Option<&'a str>,
    },
    /// An answer.
    Response {
        /// The id's own text.
        id: &'a str,
        /// What it says.
        body: Body<'a>,
    },
    /// Several messages at once (revision 2025-03-26).
    Batch(Vec<&'a str>),
    /// JSON, but none of the above.
    Other,
    /// Not JSON, or not UTF-8.
    Broken {
        /// A lenient server could still take it for a tool call.
        may_call: bool,
        /// The request id's own text, if there can be no mistake about it.
        id: Option<String>,
    },
}

/// What an answer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body<'a> {
    /// The result's text.
    Result(&'a str),
    /// The error's text.
    Error(&'a str),
}

/// Reads a line without its end.
pub(crate) fn parse(line: &[u8]) -> Frame<'_> {
    match str::from_utf8(line).ok().and_then(splice::valid) {
        Some(text) => parse_valid(text),
        None => {
            let lossy = String::from_utf8_lossy(line);
            Frame::Broken { may_call: unescaped(&lossy).contains("tools/call"), id: only_id(&lossy) }
        }
    }
}

/// The text with JSON's escapes of ASCII characters resolved, as a lenient parser would.
fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        plain.push_str(&rest[..at]);
        let escape = &rest[at + 1..];
        let code =
            escape.strip_prefix('u').and_then(|hex| hex.get(..4)).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        (rest, plain) = match (code, escape.strip_prefix('/')) {
            (Some(code), _) if code.is_ascii() => (&escape[5..], plain + char::from(code).encode_utf8(&mut [0; 4])),
            (_, Some(after)) => (after, plain + "/"),
            _ => (escape, plain),
        };
    }
    plain + rest
}

/// The value of the only member called `id` anywhere in a line that can't be parsed.
fn only_id(text: &str) -> Option<String> {
    let (_, after) = text.split_once("\"id\"")?;
    if after.contains("\"id\"") {
        return None;
    }
    let value = after.trim_start().strip_prefix(':')?.trim_start();
    let end = match value.strip_prefix('"') {
        Some(inner) => inner.find('"')? + 2,
        None => value.find(|c: char| !c.is_ascii_digit() && c != '-')?,
    };
    let id = value.get(..end)?;
    splice::valid(id).filter(|id| !id.contains('\\')).map(str::to_owned)
}

/// Reads a message that is known to be valid JSON.
pub(crate) fn parse_valid(text: &str) -> Frame<'_> {
    if let Some(elements) = splice::elements(text) {
        return Frame::Batch(elements);
    }
    let Some(members) = splice::members(text) else {
        return Frame::Other;
    };
    let find = |name| splice::find(&members, name).map(|member| member.value);
    let id = find("id");
    if let Some(method) = find("method") {
        // A method that is no text names nothing.
        let Ok(method) = serde_json::from_str::<String>(method) else {
            return Frame::Other;
        };
        let (method, params) = (Cow::Owned(method), find("params"));
        return match id {
            Some(id) => Frame::Request { id, method, params },
            None => Frame::Notification { method, params },
        };
    }
    match (id, find("result"), find("error")) {
        (Some(id), _, Some(error)) if error != "null" => Frame::Response { id, body: Body::Error(error) },
        (Some(id), Some(result), _) => Frame::Response { id, body: Body::Result(result) },
        (Some(id), None, Some(error)) => Frame::Response { id, body: Body::Error(error) },
        _ => Frame::Other,
    }
}

/// A request id that can be compared: `1` and `1.0` are the same, `1` and `"1"` are not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct IdKey(Vec<u8>);

impl IdKey {
    /// From the id's own text.
    pub(crate) fn new(raw: &str) -> IdKey {
        IdKey(settled_protocol::canonicalize(raw.as_bytes()).unwrap_or_else(|_| raw.as_bytes().to_vec()))
    }
}

/// The request that a cancel names.
pub(crate) fn cancelled_id(params: Option<&str>) -> Option<IdKey> {
    splice::get(params?, "requestId").map(IdKey::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_told_apart() {
        let line = br#" {"jsonrpc":"2.0","id":1.0,"method":"tools\/call","params":{"a":1e400}} "#;
        let Frame::Request { id, method, params } = parse(line) else { panic!("a request") };
        assert_eq!((id, &*method, params), ("1.0", "tools/call", Some(r#"{"a":1e400}"#)));
        assert!(matches!(parse(br#"{"method":"x"}"#), Frame::Notification { params: None, .. }));
        assert!(matches!(parse(br#"{"id":1,"result":null}"#), Frame::Response { body: Body::Result("null"), .. }));
        assert!(matches!(parse(br#"{"id":"a","error":{}}"#), Frame::Response { body: Body::Error("{}"), .. }));
        assert_eq!(parse(b"[1, {}]"), Frame::Batch(vec!["1", "{}"]));
        assert_eq!(parse(b"17"), Frame::Other);
        assert_eq!(parse(br#"{"method":5,"id":1}"#), Frame::Other);
        assert_eq!(parse(b""), Frame::Broken { may_call: false, id: None });
        assert_eq!(parse(b"hello"), Frame::Broken { may_call: false, id: None });
    }

    #[test]
    fn what_a_lenient_server_could_run_is_noticed() {
        let broken = |line: &[u8]| match parse(line) {
            Frame::Broken { may_call, id } => (may_call, id),
            other => panic!("{other:?}"),
        };
        assert_eq!(broken(br#"{"method":"tools/call","params":{"x":NaN}}"#), (true, None));
        assert_eq!(broken(b"{\"method\":\"tools/call\",\"x\":\"\xff\"}"), (true, None));
        for method in ["tools\\u002fcall", "tools\\/call", "\\u0074ools/call", "to\\u006Fls\\/call"] {
            let line = format!(r#"{{"method":"{method}","params":{{"x":NaN}},"id":7}}"#);
            assert_eq!(broken(line.as_bytes()), (true, Some("7".to_owned())), "{line}");
        }
        assert_eq!(broken(br#"{"method":"tools/call","id":"a b","x":NaN}"#).1, Some("\"a b\"".to_owned()));
        // Whose id is it? Nobody's answer is better than another's.
        assert_eq!(broken(br#"{"method":"tools/call","id":1,"params":{"arguments":{"id":2,"x":NaN}}}"#).1, None);
        assert_eq!(broken(br#"{"method":"ping","id":1,"x":"\u00"#), (false, Some("1".to_owned())));
        // Lone surrogates are valid JSON, also in names.
        let odd = br#"{"id":1,"method":"tools/call","\ud800":"\udfff"}"#;
        assert!(matches!(parse(odd), Frame::Request { .. }));
        // Of two members of one name the last counts, as everywhere.
        let twice = br#"{"id":1,"method":"ping","method":"tools/call"}"#;
        assert!(matches!(parse(twice), Frame::Request { method, .. } if method == "tools/call"));
    }

    #[test]
    fn ids_are_compared_by_value() {
        assert_eq!(IdKey::new("1"), IdKey::new("1.0"));
        assert_eq!(IdKey::new(r#""ab""#), IdKey::new(r#""a\u0062""#));
        assert_ne!(IdKey::new("1"), IdKey::new(r#""1""#));
        assert_eq!(cancelled_id(Some(r#"{"requestId":7,"reason":"x"}"#)), Some(IdKey::new("7")));
        assert_eq!(cancelled_id(None), None);
    }

    #[test]
    fn ten_megabytes_and_great_depth() {
        let big = format!(r#"{{"id":1,"method":"m","params":"{}"}}"#, "x".repeat(10 << 20));
        assert!(matches!(parse(big.as_bytes()), Frame::Request { .. }));
        let deep = format!(r#"{{"id":1,"method":"m","params":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
        assert!(matches!(parse(deep.as_bytes()), Frame::Request { .. }));
    }
}

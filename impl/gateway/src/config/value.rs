//! Single values of the configuration.

use std::time::Duration;

use http::uri::{Authority, Scheme};
use http::{HeaderName, StatusCode, Uri};
use serde::Deserialize;

use super::ConflictStatus;

/// A span of time, such as `30s`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Span(pub(super) Duration);

impl TryFrom<String> for Span {
    type Error = String;

    fn try_from(text: String) -> Result<Span, String> {
        match humantime::parse_duration(&text) {
            Ok(span) if span.is_zero() => Err("must be longer than nothing: write a span of time such as `30s`".into()),
            Ok(span) => Ok(Span(span)),
            Err(error) => Err(format!("`{text}` is not a span of time ({error}): write one such as `30s` or `24h`")),
        }
    }
}

/// A number of bytes: a number, or a text such as `64KiB`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "serde_json::Value")]
pub(super) struct Size(pub(super) usize);

impl TryFrom<serde_json::Value> for Size {
    type Error = String;

    fn try_from(value: serde_json::Value) -> Result<Size, String> {
        let bytes = match &value {
            serde_json::Value::Number(number) => number.as_u64(),
            serde_json::Value::String(text) => parse_bytes(text),
            _ => None,
        };
        let bytes = bytes.filter(|bytes| (1..=1 << 40).contains(bytes)).and_then(|bytes| usize::try_from(bytes).ok());
        bytes.map(Size).ok_or_else(|| {
            format!("{value} is not a number of bytes: write one such as `1048576`, `\"64MiB\"` or `\"512KiB\"`")
        })
    }
}

fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits)?;
    let factor = match unit.trim_start() {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// A count of at least one.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "u32")]
pub(super) struct Count(pub(super) u32);

impl TryFrom<u32> for Count {
    type Error = String;

    fn try_from(count: u32) -> Result<Count, String> {
        if count == 0 { Err("must be at least 1".into()) } else { Ok(Count(count)) }
    }
}

/// The name of a header.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Name(pub(super) HeaderName);

impl TryFrom<String> for Name {
    type Error = String;

    fn try_from(text: String) -> Result<Name, String> {
        HeaderName::try_from(text.as_str()).map(Name).map_err(|_| format!("`{text}` can't be the name of a header"))
    }
}

/// The upstream's address: scheme, host, and perhaps a path that goes before every path.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Upstream(pub(super) Uri);

impl TryFrom<String> for Upstream {
    type Error = String;

    fn try_from(text: String) -> Result<Upstream, String> {
        let wrong = || {
            "the upstream must be `https://HOST` or `http://HOST`, perhaps with a port and a path, and without a user name, a \
             password or a query"
                .to_owned()
        };
        let uri: Uri = text.trim_end_matches('/').parse().map_err(|_| wrong())?;
        let scheme = uri.scheme().is_some_and(|scheme| *scheme == Scheme::HTTP || *scheme == Scheme::HTTPS);
        let host = uri.authority().map(Authority::as_str).filter(|authority| !authority.contains('@'));
        if !scheme || host.is_none() || uri.query().is_some() {
            return Err(wrong());
        }
        Ok(Upstream(uri))
    }
}

/// A scope.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Scope(pub(super) String);

impl TryFrom<String> for Scope {
    type Error = String;

    fn try_from(text: String) -> Result<Scope, String> {
        if text.contains('~') || text.len() > 200 {
            return Err("a scope has up to 200 bytes, none of them `~`".into());
        }
        settled_protocol::Key::new(&*text, "x", "x").map(|_| Scope(text)).map_err(|error| error.to_string())
    }
}

/// A status.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "u16")]
pub(super) struct Code(pub(super) StatusCode);

impl TryFrom<u16> for Code {
    type Error = String;

    fn try_from(code: u16) -> Result<Code, String> {
        let status = StatusCode::from_u16(code).ok().filter(|_| (200..600).contains(&code));
        status.map(Code).ok_or_else(|| format!("{code} is not the status of an answer: write one from 200 to 599"))
    }
}

/// 422 or 409.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "u16")]
pub(super) struct ConflictCode(pub(super) ConflictStatus);

impl TryFrom<u16> for ConflictCode {
    type Error = String;

    fn try_from(code: u16) -> Result<ConflictCode, String> {
        match code {
            422 => Ok(ConflictCode(ConflictStatus::Unprocessable)),
            409 => Ok(ConflictCode(ConflictStatus::Conflict)),
            other => Err(format!("{other} can't be the status of a conflict: write 422 or 409")),
        }
    }
}

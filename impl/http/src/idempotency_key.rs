//! The `Idempotency-Key` request header (draft-ietf-httpapi-idempotency-key-header).

use http::{HeaderMap, HeaderName};
use sfv::{BareItem, Item, Parser};

/// The header's name.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The longest key, in characters.
pub const MAX_KEY: usize = 255;

/// How the header may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Syntax {
    /// As the draft says: a structured field, an item that is a string (`"8e03978e"`).
    #[default]
    Strict,
    /// Also without the quotation marks (`8e03978e`), as many clients send it.
    Lenient,
}

/// What is wrong with the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyHeaderError {
    /// It comes more than once.
    #[error("the Idempotency-Key header comes more than once; send one key with a request")]
    Repeated,
    /// It is not what the syntax asks for.
    #[error("the Idempotency-Key header is not a string in quotation marks, such as \"8e03978e-40d5-43dd-bc93\"")]
    NotAString,
    /// The key is empty.
    #[error("the key in the Idempotency-Key header is empty; send one that names this operation")]
    Empty,
    /// The key is longer than [`MAX_KEY`].
    #[error("the key in the Idempotency-Key header has more than {MAX_KEY} characters; shorten it")]
    TooLong,
}

/// The request's key; `None` if it has none.
///
/// # Errors
/// If the header is there but is not one key.
pub fn parse(headers: &HeaderMap, syntax: Syntax) -> Result<Option<String>, KeyHeaderError> {
    let mut lines = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(line) = lines.next() else {
        return Ok(None);
    };
    if lines.next().is_some() {
        return Err(KeyHeaderError::Repeated);
    }
    let key = match Parser::new(line.as_bytes()).parse::<Item>() {
        Ok(Item { bare_item: BareItem::String(key), .. }) => key.as_str().to_owned(),
        _ if syntax == Syntax::Lenient => bare(line.as_bytes())?.to_owned(),
        _ => return Err(KeyHeaderError::NotAString),
    };
    match key.len() {
        0 => Err(KeyHeaderError::Empty),
        1..=MAX_KEY => Ok(Some(key)),
        _ => Err(KeyHeaderError::TooLong),
    }
}

/// A key without quotation marks: visible ASCII that can't be meant as another structured field.
fn bare(line: &[u8]) -> Result<&str, KeyHeaderError> {
    let text = line.trim_ascii();
    let ours = |byte: &u8| byte.is_ascii_graphic() && !b"\"',;()\\".contains(byte);
    let binary = text.len() > 1 && text.starts_with(b":") && text.ends_with(b":");
    if !text.iter().all(ours) || text.starts_with(b"?") || binary {
        return Err(KeyHeaderError::NotAString);
    }
    str::from_utf8(text).map_err(|_| KeyHeaderError::NotAString)
}

/// The header's value for a key of visible ASCII and spaces; `None` for any other.
pub fn value(key: &str) -> Option<http::HeaderValue> {
    if !key.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) {
        return None;
    }
    let escaped = key.replace('\\', "\\\\").replace('"', "\\\"");
    http::HeaderValue::from_str(&format!("\"{escaped}\"")).ok()
}

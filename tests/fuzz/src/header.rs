//! The `Idempotency-Key` header, and keys in their text form.

use http::{HeaderMap, HeaderValue};
use settled_http::idempotency_key::{IDEMPOTENCY_KEY, KeyHeaderError, MAX_KEY, Syntax, parse, value};
use settled_protocol::Key;

/// Any header: never a panic; what is read back is what was written; what is strict is lenient too.
pub fn idempotency_key(bytes: &[u8]) {
    if let Ok(header) = HeaderValue::from_bytes(bytes) {
        let mut headers = HeaderMap::new();
        headers.insert(IDEMPOTENCY_KEY, header.clone());
        let (strict, lenient) = (parse(&headers, Syntax::Strict), parse(&headers, Syntax::Lenient));
        if strict != Err(KeyHeaderError::NotAString) {
            assert_eq!(strict, lenient, "of {header:?}");
        }
        if let Ok(Some(key)) = &lenient {
            assert!((1..=MAX_KEY).contains(&key.len()));
            // The same key, however it came.
            headers.insert(IDEMPOTENCY_KEY, value(key).expect("what came can be written"));
            assert_eq!(parse(&headers, Syntax::Strict).as_ref(), Ok(&Some(key.clone())));
        }
        headers.append(IDEMPOTENCY_KEY, header);
        assert_eq!(parse(&headers, Syntax::Lenient), Err(KeyHeaderError::Repeated));
    }
    if let Some(header) = str::from_utf8(bytes).ok().and_then(value) {
        let mut headers = HeaderMap::new();
        headers.insert(IDEMPOTENCY_KEY, header);
        let expected = match bytes.len() {
            0 => Err(KeyHeaderError::Empty),
            1..=MAX_KEY => Ok(Some(String::from_utf8(bytes.to_vec()).unwrap())),
            _ => Err(KeyHeaderError::TooLong),
        };
        assert_eq!(parse(&headers, Syntax::Strict), expected);
    }
}

/// Any text as a key: what is read is written the same way. Any three parts: what is written is read back.
pub fn key(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(key) = text.parse::<Key>() {
        assert_eq!(key.to_string(), text, "one text for a key");
    }
    let mut parts = text.splitn(3, '\u{1}');
    let mut part = || parts.next().unwrap_or("x");
    if let Ok(key) = Key::new(part(), part(), part()) {
        let written = key.to_string();
        assert!(written.bytes().all(|byte| byte.is_ascii_graphic()));
        assert_eq!(written.parse::<Key>().as_ref(), Ok(&key));
        let json = serde_json::to_string(&key).unwrap();
        assert_eq!(serde_json::from_str::<Key>(&json).unwrap(), key);
    }
}

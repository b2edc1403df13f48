//! The `Idempotency-Key` header.

use http::{HeaderMap, HeaderValue};
use serde_json::Value;
use settled_http::idempotency_key::{IDEMPOTENCY_KEY, KeyHeaderError, Syntax, parse, value};

fn lines(lines: &[&str]) -> HeaderMap {
    lines.iter().map(|line| (IDEMPOTENCY_KEY, HeaderValue::from_bytes(line.as_bytes()).unwrap())).collect()
}

#[test]
fn golden_cases() {
    let cases: Value = serde_json::from_str(include_str!("idempotency_key_cases.json")).unwrap();
    let cases = cases["cases"].as_array().unwrap();
    assert!(cases.len() >= 28);
    for case in cases {
        let written: Vec<&str> = case["field_lines"].as_array().unwrap().iter().map(|l| l.as_str().unwrap()).collect();
        let Ok(headers) = written
            .iter()
            .map(|line| HeaderValue::from_bytes(line.as_bytes()).map(|value| (IDEMPOTENCY_KEY, value)))
            .collect::<Result<HeaderMap, _>>()
        else {
            // Such a line never gets through a server's parser.
            assert_eq!((&case["strict"], &case["lenient"]), (&Value::Null, &Value::Null), "{written:?}");
            continue;
        };
        for (syntax, expected) in [(Syntax::Strict, &case["strict"]), (Syntax::Lenient, &case["lenient"])] {
            assert_eq!(parse(&headers, syntax).ok().flatten().as_deref(), expected.as_str(), "{syntax:?} {written:?}");
        }
    }
}

#[test]
fn what_is_wrong_is_said() {
    let wrong = |written: &[&str]| parse(&lines(written), Syntax::Lenient).unwrap_err();
    assert_eq!(wrong(&["\"a\"", "\"a\""]), KeyHeaderError::Repeated);
    assert_eq!(wrong(&["a b"]), KeyHeaderError::NotAString);
    assert_eq!(wrong(&["\"\""]), KeyHeaderError::Empty);
    assert_eq!(wrong(&[&"x".repeat(256)]), KeyHeaderError::TooLong);
    assert_eq!(parse(&HeaderMap::new(), Syntax::Strict), Ok(None));
}

#[test]
fn what_is_written_is_read() {
    for key in ["k1", "a\"b\\c", "with space"] {
        let headers = HeaderMap::from_iter([(IDEMPOTENCY_KEY, value(key).unwrap())]);
        assert_eq!(parse(&headers, Syntax::Strict), Ok(Some(key.to_owned())));
    }
    assert_eq!(value("é"), None);
}

//! The canonical form and the fingerprint: against golden cases, RFC 8785's own numbers, and serde_json.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use proptest::prelude::*;
use serde_json::Value;
use serde_json::value::RawValue;
use settled_protocol::canonical::{MAX_DEPTH, MAX_EXPONENT, Reason, canonicalize};
use settled_protocol::fingerprint::{Digest, DigestError, fingerprint};

fn canonical(json: &str) -> String {
    String::from_utf8(canonicalize(json.as_bytes()).expect(json)).unwrap()
}

fn refused(json: impl AsRef<[u8]>) -> (usize, Reason) {
    let error = canonicalize(json.as_ref()).unwrap_err();
    (error.offset, error.reason)
}

fn golden() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/cases/fingerprint.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn golden_canonical_forms_and_digests() {
    let golden = golden();
    let cases = golden["canonical"].as_array().unwrap();
    assert!(!cases.is_empty());
    for case in cases {
        let json = case["json"].as_str().unwrap();
        assert_eq!(canonical(json), case["canonical"], "{json}");
        let digest = fingerprint(json.as_bytes()).unwrap();
        assert_eq!(digest.to_string(), case["sha256"], "{json}");
    }
}

#[test]
fn golden_pairs() {
    let golden = golden();
    let cases = golden["equal"].as_array().unwrap();
    assert!(!cases.is_empty());
    for case in cases {
        let print = |side: &str| fingerprint(case[side].as_str().unwrap().as_bytes()).unwrap();
        assert_eq!(print("a") == print("b"), case["same"].as_bool().unwrap(), "{case}");
    }
}

#[test]
fn numbers_of_rfc_8785_appendix_b() {
    for (bits, expected) in [
        (0x0000000000000000, "0"),
        (0x8000000000000000, "0"),
        (0x0000000000000001, "5e-324"),
        (0x8000000000000001, "-5e-324"),
        (0x7fefffffffffffff, "1.7976931348623157e+308"),
        (0xffefffffffffffff, "-1.7976931348623157e+308"),
        (0x4340000000000000, "9007199254740992"),
        (0xc340000000000000, "-9007199254740992"),
        (0x4430000000000000, "295147905179352830000"),
        (0x44b52d02c7e14af5, "9.999999999999997e+22"),
        (0x44b52d02c7e14af6, "1e+23"),
        (0x44b52d02c7e14af7, "1.0000000000000001e+23"),
        (0x444b1ae4d6e2ef4e, "999999999999999700000"),
        (0x444b1ae4d6e2ef4f, "999999999999999900000"),
        (0x444b1ae4d6e2ef50, "1e+21"),
        (0x3eb0c6f7a0b5ed8c, "9.999999999999997e-7"),
        (0x3eb0c6f7a0b5ed8d, "0.000001"),
        (0x41b3de4355555553, "333333333.3333332"),
        (0x41b3de4355555554, "333333333.33333325"),
        (0x41b3de4355555555, "333333333.3333333"),
        (0x41b3de4355555556, "333333333.3333334"),
        (0x41b3de4355555557, "333333333.33333343"),
        (0xbecbf647612f3696, "-0.0000033333333333333333"),
        (0x43143ff3c1cb0959, "1424953923781206.2"),
    ] {
        assert_eq!(canonical(&format!("{:e}", f64::from_bits(bits))), expected);
    }
}

/// Below a power of two doubles are twice as dense, so the nearest short decimal may belong to another double.
#[test]
fn powers_of_two_survive() {
    for exponent in -1074..=1023 {
        let double = 2f64.powi(exponent);
        let text = canonical(&format!("{double:e}"));
        assert_eq!(text.parse(), Ok(double), "2^{exponent}");
    }
}

#[test]
fn numbers_that_a_double_cannot_hold_are_exact() {
    for (json, expected) in [
        ("9007199254740992", "9007199254740992"),
        ("9007199254740993.000", "9007199254740993"),
        ("-90071992547409930e-1", "-9007199254740993"),
        ("9007199254740992.5", "9007199254740992.5"),
        ("9007199254740991.00001", "9007199254740991"),
        ("123456789012345678901", "123456789012345678901"),
        ("1234567890123456789012", "1.234567890123456789012e+21"),
        ("123456789012345678901.25", "123456789012345678901.25"),
        ("10e399", "1e+400"),
        ("-0.00012e404", "-1.2e+400"),
        ("1e-400", "1e-400"),
        ("0.00250e-397", "2.5e-400"),
        // Half of the smallest double rounds to zero (ties to even), anything above does not.
        ("2e-324", "2e-324"),
        ("3e-324", "5e-324"),
        ("1e-324", "1e-324"),
        ("-0e5", "0"),
        ("-0.000", "0"),
    ] {
        assert_eq!(canonical(json), expected, "{json}");
    }
}

#[test]
fn exponents_are_bounded_and_cost_nothing() {
    let most = format!("1e+{MAX_EXPONENT}");
    assert_eq!(canonical(&most), most);
    assert_eq!(canonical(&format!("0.1e{}", MAX_EXPONENT + 1)), most);
    assert_eq!(canonical(&format!("10e{}", MAX_EXPONENT - 1)), most);
    let least = format!("1e-{MAX_EXPONENT}");
    assert_eq!(canonical(&least), least);
    assert_eq!(canonical(&format!("10e-{}", MAX_EXPONENT + 1)), least);
    assert_eq!(canonical("1e999999999999"), "1e+999999999999");

    let endless = "9".repeat(10_000);
    for json in [
        format!("1e{}", MAX_EXPONENT + 1),
        format!("1e-{}", MAX_EXPONENT + 1),
        format!("10e{MAX_EXPONENT}"),
        format!("1e{endless}"),
        format!("-1e-{endless}"),
    ] {
        assert_eq!(refused(format!("[{json}]")), (1, Reason::Exponent));
    }
    assert_eq!(canonical(&format!("0e{endless}")), "0");
    assert_eq!(canonical(&format!("-0.0e-{endless}")), "0");

    let zeros = "0".repeat(100_000);
    assert_eq!(canonical(&format!("0.{zeros}15e100000")), "0.15");
    assert_eq!(canonical(&format!("25{zeros}e-100001")), "2.5");
}

#[test]
fn strings() {
    assert_eq!(canonical(r#""\b\f\n\r\t\/\\\"\u001F\u007f\u0041""#), "\"\\b\\f\\n\\r\\t/\\\\\\\"\\u001f\u{7f}A\"");
    assert_eq!(canonical(r#""\uD83D\uDE00""#), "\"😀\"");
    assert_eq!(
        canonical(r#"["\uD800","\uDFff","\ude00\ud83d","\ud800x"]"#),
        r#"["\ud800","\udfff","\ude00\ud83d","\ud800x"]"#
    );
    assert_ne!(fingerprint(br#""\ud800""#), fingerprint(br#""\ud801""#));
    assert_ne!(fingerprint(br#""\ud800""#), fingerprint("\"\u{fffd}\"".as_bytes()));
}

#[test]
fn names() {
    // U+FB33 is below U+1F600 as a code point and in UTF-8, but above its first surrogate.
    assert_eq!(
        canonical(r#"{"\ufb33":1,"😀":2,"\ud800":3,"":4,"ab":5,"a":6}"#),
        "{\"\":4,\"a\":6,\"ab\":5,\"\\ud800\":3,\"😀\":2,\"\u{fb33}\":1}"
    );
    assert_eq!(
        canonical(r#"{"a":{"x":1},"b":[2],"\u0061":[{"z":1,"z":2,"y":[]}],"c":{}}"#),
        r#"{"a":[{"y":[],"z":2}],"b":[2],"c":{}}"#
    );
}

#[test]
fn refusals_say_where_and_why() {
    use Reason::*;
    let value = "a value";
    for (json, offset, reason) in [
        ("", 0, Incomplete(value)),
        (" \n", 2, Incomplete(value)),
        ("\u{feff}1", 0, ByteOrderMark),
        ("1 \u{feff}", 2, TrailingData),
        ("1 2", 2, TrailingData),
        ("[1]]", 3, TrailingData),
        ("\u{a0}1", 0, Expected(value)),
        ("[1,]", 3, Expected(value)),
        ("[,1]", 1, Expected(value)),
        ("[1 2]", 3, Expected("a comma or ]")),
        ("[1}", 2, Expected("a comma or ]")),
        ("[1", 2, Incomplete("a comma or ]")),
        ("[", 1, Incomplete(value)),
        ("{", 1, Incomplete("a member's name in double quotes")),
        ("{a:1}", 1, Expected("a member's name in double quotes")),
        ("{\"a\":1,}", 7, Expected("a member's name in double quotes")),
        ("{\"a\" 1}", 5, Expected("a colon")),
        ("{\"a\":}", 5, Expected(value)),
        ("{\"a\":1]", 6, Expected("a comma or }")),
        ("\"a", 2, Incomplete("the string's closing quote")),
        ("\"\\\"", 3, Incomplete("the string's closing quote")),
        ("\"a\n\"", 2, ControlCharacter),
        ("\"\0\"", 1, ControlCharacter),
        ("\"é\\x\"", 3, Escape),
        ("\"\\u12g4\"", 1, Escape),
        ("\"\\u+123\"", 1, Escape),
        ("\"\\u12", 1, Escape),
        ("\"\\", 1, Escape),
        ("nul", 3, Incomplete("null")),
        ("nulL", 3, Expected("null")),
        ("True", 0, Expected(value)),
        ("NaN", 0, Expected(value)),
        ("+1", 0, Expected(value)),
        (".5", 0, Expected(value)),
        ("-", 1, Incomplete("a digit")),
        ("-a", 1, Expected("a digit")),
        ("01", 0, LeadingZero),
        ("-00", 1, LeadingZero),
        ("1.", 2, Incomplete("a digit")),
        ("1.e1", 2, Expected("a digit")),
        ("1e", 2, Incomplete("a digit")),
        ("1e+", 3, Incomplete("a digit")),
        ("1e--1", 3, Expected("a digit")),
        ("0x1", 1, TrailingData),
        ("/**/1", 0, Expected(value)),
    ] {
        assert_eq!(refused(json), (offset, reason), "{json:?}");
    }
    assert_eq!(refused(b"\"a\xff\""), (2, NotUtf8));
    assert_eq!(refused(b"\"\xed\xa0\x80\""), (1, NotUtf8));
    assert_eq!(
        canonicalize(b"[1").unwrap_err().to_string(),
        "not usable as JSON: the document ends where a comma or ] should follow; send it whole (at byte 2)"
    );
}

#[test]
fn depth_is_bounded() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let nested = |depth: usize| format!("{}0{}", open.repeat(depth), close.repeat(depth));
        assert_eq!(canonical(&nested(MAX_DEPTH)), nested(MAX_DEPTH));
        let offset = open.len() * MAX_DEPTH;
        assert_eq!(refused(nested(MAX_DEPTH + 1)), (offset, Reason::TooDeep));
        assert_eq!(refused(open.repeat(1_000_000)), (offset, Reason::TooDeep));
    }
    // Closed containers do not count.
    let wide = format!("[{}[]]", "[],".repeat(1_000));
    assert_eq!(canonical(&wide), wide);
}

#[test]
fn digests() {
    let digest = Digest::of(b"abc");
    let hex = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(digest.to_string(), hex);
    assert_eq!(format!("{digest:?}"), "Digest(ba7816bf8f01…)");
    assert_eq!(hex.parse(), Ok(digest));
    assert_eq!(hex.to_uppercase().parse(), Ok(digest));
    assert_eq!(Digest::from_bytes(*digest.as_bytes()), digest);
    assert_eq!("ba78".parse::<Digest>(), Err(DigestError::Length(4)));
    let wrong = hex.replacen("16", "1g", 1);
    assert_eq!(wrong.parse::<Digest>(), Err(DigestError::NotHexadecimal(5)));
    let accented = format!("é{}", &hex[2..]);
    assert_eq!(accented.parse::<Digest>(), Err(DigestError::NotHexadecimal(0)));

    assert_eq!(Digest::of_parts(&[b"ab", b""]), Digest::of(b"\0\0\0\0\0\0\0\x02ab\0\0\0\0\0\0\0\0"));
    assert_ne!(Digest::of_parts(&[b"a", b"bc"]), Digest::of_parts(&[b"ab", b"c"]));
    assert_ne!(Digest::of_parts(&[]), Digest::of_parts(&[b""]));
}

#[cfg(feature = "serde")]
#[test]
fn digests_are_hexadecimal_in_json() {
    let digest = Digest::of(b"abc");
    let json = serde_json::to_string(&digest).unwrap();
    assert_eq!(json, format!("\"{digest}\""));
    assert_eq!(serde_json::from_str::<Digest>(&json).unwrap(), digest);
    assert!(serde_json::from_str::<Digest>("\"ba78\"").is_err());
}

/// A document to be written in more than one way.
#[derive(Debug, Clone)]
enum Doc {
    Word(&'static str),
    Int(i64),
    Double(f64),
    Text(String),
    Array(Vec<Doc>),
    Object(Vec<(String, Doc)>),
}

fn doc() -> impl Strategy<Value = Doc> {
    let leaf = prop_oneof![
        prop::sample::select(vec!["null", "true", "false"]).prop_map(Doc::Word),
        any::<i64>().prop_map(Doc::Int),
        (-1000i64..1000).prop_map(Doc::Int),
        prop::num::f64::NORMAL.prop_map(Doc::Double),
        any::<String>().prop_map(Doc::Text),
    ];
    leaf.prop_recursive(5, 60, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Doc::Array),
            prop::collection::btree_map(any::<String>(), inner, 0..6)
                .prop_map(|members| Doc::Object(members.into_iter().collect())),
        ]
    })
}

/// Draws that decide between ways to write the same document.
struct Style<'a>(std::iter::Cycle<std::slice::Iter<'a, u8>>);

impl Style<'_> {
    fn draw(&mut self, below: usize) -> usize {
        usize::from(*self.0.next().unwrap()) % below
    }

    fn space(&mut self, out: &mut String) {
        out.push_str(["", "", " ", "\n\t", "\r\n  "][self.draw(5)]);
    }

    fn text(&mut self, text: &str, out: &mut String) {
        out.push('"');
        for char in text.chars() {
            if char < ' ' || char == '"' || char == '\\' || self.draw(4) == 0 {
                for unit in char.encode_utf16(&mut [0; 2]) {
                    out.push_str(&match self.draw(2) {
                        0 => format!("\\u{unit:04x}"),
                        _ => format!("\\u{unit:04X}"),
                    });
                }
            } else {
                out.push(char);
            }
        }
        out.push('"');
    }

    fn write(&mut self, doc: &Doc, out: &mut String) {
        self.space(out);
        match doc {
            Doc::Word(word) => out.push_str(word),
            Doc::Int(int) => out.push_str(&match self.draw(4) {
                0 => format!("{int}.00"),
                1 if *int != 0 => format!("{int}0e-1"),
                2 => format!("{int}E+0"),
                _ => format!("{int}"),
            }),
            Doc::Double(double) => out.push_str(&match self.draw(3) {
                0 => format!("{double:e}"),
                1 => format!("{double:E}"),
                _ => format!("{double}"),
            }),
            Doc::Text(text) => self.text(text, out),
            Doc::Array(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    out.push_str(if at == 0 { "" } else { "," });
                    self.write(item, out);
                }
                self.space(out);
                out.push(']');
            }
            Doc::Object(members) => {
                let mut members: Vec<_> = members.iter().collect();
                for at in 1..members.len() {
                    let other = self.draw(at + 1);
                    members.swap(at, other);
                }
                out.push('{');
                for (at, (name, value)) in members.into_iter().enumerate() {
                    out.push_str(if at == 0 { "" } else { "," });
                    self.space(out);
                    self.text(name, out);
                    self.space(out);
                    out.push(':');
                    self.write(value, out);
                }
                self.space(out);
                out.push('}');
            }
        }
        self.space(out);
    }
}

fn written(doc: &Doc, draws: &[u8]) -> String {
    let mut out = String::new();
    Style(draws.iter().cycle()).write(doc, &mut out);
    out
}

/// Equal as JSON, up to the last digits of a double, which serde_json's default parser may miss.
fn alike(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            a == b || ((a - b) / a).abs() < 1e-14 || (a - b).abs() < 1e-300
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| alike(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| alike(a, b)))
        }
        (a, b) => a == b,
    }
}

/// Bytes that often are JSON, or nearly.
fn json_like() -> impl Strategy<Value = Vec<u8>> {
    let token = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\"a\"",
        "\"b\":",
        "\\",
        "\\u00",
        "\\ud83d",
        "\\ude00",
        "\\n",
        "0",
        "1",
        "-",
        "23",
        ".",
        "e",
        "E+",
        "e-9",
        "99999999999",
        "true",
        "null",
        "fals",
        " ",
        "\n",
        "\u{feff}",
        "é",
        "😀",
        "\u{1}",
    ]);
    let mutated = (doc(), prop::collection::vec(any::<u8>(), 1..40), any::<(u16, u8, u8)>()).prop_map(
        |(doc, draws, (at, byte, how))| {
            let mut bytes = written(&doc, &draws).into_bytes();
            let at = usize::from(at) % bytes.len();
            match how % 4 {
                0 => bytes[at] = byte,
                1 => bytes.truncate(at),
                2 => bytes.insert(at, byte % 0x80),
                _ => {}
            }
            bytes
        },
    );
    prop_oneof![
        prop::collection::vec(token, 0..12).prop_map(|tokens| tokens.concat().into_bytes()),
        mutated,
        prop::collection::vec(any::<u8>(), 0..60),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    /// Any bytes: no panic; valid exactly when serde_json says so; the canonical form is its own canonical form.
    #[test]
    fn any_bytes(bytes in json_like()) {
        // Skipping a value checks the grammar without serde_json's limits on numbers and surrogates.
        let valid = std::str::from_utf8(&bytes)
            .is_ok_and(|text| serde_json::from_str::<&RawValue>(text).is_ok());
        match canonicalize(&bytes) {
            Ok(once) => {
                prop_assert!(valid);
                prop_assert_eq!(canonicalize(&once), Ok(once.clone()));
                if let Ok(value) = serde_json::from_slice::<Value>(&bytes) {
                    let again: Value = serde_json::from_slice(&once).unwrap();
                    prop_assert!(alike(&value, &again), "{value} became {again}");
                }
            }
            Err(error) => {
                prop_assert!(error.offset <= bytes.len());
                prop_assert!(!valid || matches!(error.reason, Reason::Exponent), "{error}");
            }
        }
    }

    /// White space, member order, escapes and the spelling of numbers do not matter.
    #[test]
    fn spelling_never_matters(
        doc in doc(),
        one in prop::collection::vec(any::<u8>(), 1..60),
        other in prop::collection::vec(any::<u8>(), 1..60),
    ) {
        let (one, other) = (written(&doc, &one), written(&doc, &other));
        prop_assert_eq!(canonical(&one), canonical(&other));
        prop_assert_eq!(fingerprint(one.as_bytes()), fingerprint(other.as_bytes()));
    }

    /// The canonical form of a double reads as that double, and is the only one for it.
    #[test]
    fn doubles_survive(double in prop::num::f64::ANY.prop_filter("finite", |double| double.is_finite())) {
        let text = canonical(&format!("{double:e}"));
        prop_assert_eq!(text.parse::<f64>().unwrap(), double);
        if double.abs() < 9e15 {
            prop_assert_eq!(canonical(&format!("{double:.1100}")), text);
        }
    }

    /// Integers of any size survive digit by digit.
    #[test]
    fn integers_survive(int in any::<i128>()) {
        let text = canonical(&int.to_string());
        match text.split_once("e+") {
            None => prop_assert_eq!(text, int.to_string()),
            Some((digits, exponent)) => {
                let sign = usize::from(int < 0);
                let width = exponent.parse::<usize>().unwrap() + 1 + sign;
                let digits = digits.replace('.', "");
                prop_assert_eq!(format!("{digits:0<width$}"), int.to_string());
            }
        }
    }

    #[test]
    fn digests_read_back(bytes in any::<[u8; 32]>()) {
        let digest = Digest::from_bytes(bytes);
        prop_assert_eq!(digest.to_string().parse(), Ok(digest));
    }
}

//! Keys, their text form, and ids made of several parts.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use proptest::prelude::*;
use settled_protocol::fingerprint::Digest;
use settled_protocol::key::{Key, KeyError, MAX_PART_BYTES, MAX_READABLE_BYTES, ParseKeyError, Part, composite_id};

fn key(scope: &str, tool: &str, id: &str) -> Key {
    Key::new(scope, tool, id).unwrap()
}

#[test]
fn parts_are_checked() {
    let key = key("tenant", "charge", "order-1");
    assert_eq!((key.scope(), key.tool(), key.id()), ("tenant", "charge", "order-1"));
    assert_eq!(Key::new("", "b", "c"), Err(KeyError::Empty(Part::Scope)));
    assert_eq!(Key::new("a", "", "c"), Err(KeyError::Empty(Part::Tool)));
    assert_eq!(Key::new("a", "b", ""), Err(KeyError::Empty(Part::Id)));
    // The limit is in bytes: é has two.
    let longest = "é".repeat(MAX_PART_BYTES / 2);
    assert!(Key::new(longest.as_str(), longest.as_str(), longest.as_str()).is_ok());
    let (part, bytes) = (Part::Tool, MAX_PART_BYTES + 1);
    assert_eq!(Key::new("a", longest + "a", "c"), Err(KeyError::TooLong { part, bytes }));
    let part = Part::Id;
    for control in ['\0', '\n', '\u{7f}', '\u{85}'] {
        assert_eq!(Key::new("a", "b", format!("é{control}")), Err(KeyError::ControlCharacter { part, offset: 2 }));
    }
}

#[test]
fn text_form() {
    for (key, text) in [
        (key("tenant", "charge", "order-1"), "tenant/charge/order-1"),
        (key("a/b", "100%", "x y"), "a%2Fb/100%25/x%20y"),
        (key("é", "\u{202e}", "😀"), "%C3%A9/%E2%80%AE/%F0%9F%98%80"),
        (key("~!", "3:a|b,1:c", "\"{}\""), "~!/3:a|b,1:c/\"{}\""),
    ] {
        assert_eq!(key.to_string(), text);
        assert_eq!(text.parse(), Ok(key));
    }
}

#[test]
fn only_the_text_form_is_read() {
    use ParseKeyError::*;
    let part = Part::Tool;
    for (text, error) in [
        ("", Parts(1)),
        ("a/b", Parts(2)),
        ("a/b/c/d", Parts(4)),
        ("a//c", Key(KeyError::Empty(Part::Tool))),
        ("a/b%/c", Escape { part, offset: 1 }),
        ("a/b%2/c", Escape { part, offset: 1 }),
        ("a/%2f/c", Escape { part, offset: 0 }),
        ("a/%+1/c", Escape { part, offset: 0 }),
        ("a/%41/c", Escape { part, offset: 0 }),
        ("a/x y/c", Unescaped { part, offset: 1 }),
        ("a/é/c", Unescaped { part, offset: 0 }),
        ("a/%C3/c", NotUtf8(part)),
        ("a/%0A/c", Key(KeyError::ControlCharacter { part, offset: 0 })),
    ] {
        assert_eq!(text.parse::<settled_protocol::key::Key>(), Err(error), "{text}");
    }
}

#[test]
fn digest_keeps_parts_apart() {
    assert_eq!(key("ab", "c", "d").digest(), Digest::of(b"\0\0\0\0\0\0\0\x02ab\0\0\0\0\0\0\0\x01c\0\0\0\0\0\0\0\x01d"));
    assert_ne!(key("ab", "c", "d").digest(), key("a", "bc", "d").digest());
}

#[test]
fn composite_ids() {
    assert_eq!(composite_id(["a|b", "c"]), "3:a|b,1:c");
    assert_eq!(composite_id(["a", "b|c"]), "1:a,3:b|c");
    assert_eq!(composite_id(["é", ""]), "2:é,0:");
    assert_ne!(composite_id(["1:a,1:b"]), composite_id(["a", "b"]));

    let hashed = |parts: &[&str]| {
        let bytes: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
        format!("sha256:{}", Digest::of_parts(&bytes))
    };
    assert_eq!(composite_id([]), hashed(&[]));
    assert_eq!(composite_id(["a\nb", "c"]), hashed(&["a\nb", "c"]));
    // "252:" and the part take exactly the most.
    let longest = "x".repeat(MAX_READABLE_BYTES - 4);
    assert_eq!(composite_id([longest.as_str()]), format!("252:{longest}"));
    let longer = longest + "x";
    assert_eq!(composite_id([longer.as_str()]), hashed(&[&longer]));
}

/// Reads a readable composite id back into its parts.
fn parts_of(mut id: &str) -> Vec<String> {
    let mut parts = Vec::new();
    loop {
        let (length, rest) = id.split_once(':').unwrap();
        let (part, rest) = rest.split_at(length.parse().unwrap());
        parts.push(part.to_owned());
        match rest.strip_prefix(',') {
            Some(rest) => id = rest,
            None if rest.is_empty() => return parts,
            None => panic!("{rest:?} follows a part"),
        }
    }
}

#[cfg(feature = "serde")]
#[test]
fn deserializing_checks_the_parts() {
    let key = key("a/b", "é", "c");
    let json = serde_json::to_string(&key).unwrap();
    assert_eq!(json, r#"{"scope":"a/b","tool":"é","id":"c"}"#);
    assert_eq!(serde_json::from_str::<Key>(&json).unwrap(), key);
    let error = serde_json::from_str::<Key>(r#"{"scope":"a","tool":"","id":"c"}"#).unwrap_err();
    assert!(error.to_string().contains("the key's tool is empty"), "{error}");
}

proptest! {
    #[test]
    fn text_form_reads_back(scope in "\\PC{1,40}", tool in "[ -~]{1,20}", id in "[%/a\u{301}é😀]{1,20}") {
        let key = key(&scope, &tool, &id);
        let text = key.to_string();
        prop_assert!(text.bytes().all(|byte| byte.is_ascii_graphic()));
        prop_assert_eq!(text.parse(), Ok(key));
    }

    /// Whatever is read is written the same: a key has one text form.
    #[test]
    fn any_text(text in "([a%2F0/ é]|%2F|%25|%20|%C3%A9){0,12}|[a-c]{1,2}/[a-c]{1,2}/[a-c]{1,2}|.*") {
        if let Ok(key) = text.parse::<Key>() {
            prop_assert_eq!(key.to_string(), text);
        }
    }

    #[test]
    fn composite_ids_are_injective_and_fit(parts in prop::collection::vec("[a1:,|é]{0,6}|.{0,40}|[a-z]{0,300}", 0..6)) {
        let id = composite_id(parts.iter().map(String::as_str));
        prop_assert!(Key::new("scope", "tool", id.as_str()).is_ok());
        match id.strip_prefix("sha256:") {
            Some(digest) => {
                let bytes: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
                prop_assert_eq!(digest.parse(), Ok(Digest::of_parts(&bytes)));
            }
            None => prop_assert_eq!(parts_of(&id), parts),
        }
    }
}

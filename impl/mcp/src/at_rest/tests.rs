use super::*;
use crate::config::Config;
use crate::guarded::keys::{Rule, derive};
use proptest::prelude::*;

struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        Place { dir: tempfile::tempdir().unwrap() }
    }

    /// The secrets of a configuration with these keys, each a file of one repeated byte.
    fn secrets(&self, current: u8, old: &[u8], digests: u8) -> Secrets {
        let file = |byte: u8| {
            let path = self.dir.path().join(byte.to_string());
            std::fs::write(&path, [byte; 32]).unwrap();
            path
        };
        let config = EncryptionConfig {
            key_file: file(current),
            old_key_files: old.iter().map(|byte| file(*byte)).collect(),
            digest_key_file: file(digests),
        };
        Secrets::open(Some(&config)).unwrap()
    }
}

fn confidential(lines: &str) -> Confidential {
    let text = format!("[encryption]\nkey_file = 'k'\n[tools.t]\n{lines}");
    Config::parse("settled.toml".as_ref(), &text).unwrap().tools["t"].confidential.clone()
}

fn key() -> Key {
    Key::new("s", "t", "key:1").unwrap()
}

const PARAMS: &str = r#"{ "name":"t", "arguments" : {"card":{"number":"4111 1111","exp":"1/30"},"list":[{"pin":1},{"pin" : 2.50}],"n":1e400},"_meta":{"token":"tok"},"inputResponses":{"a":"4111 1111"} }"#;

#[test]
fn what_is_kept_hides_the_parts_and_is_read_again_byte_for_byte() {
    let place = Place::new();
    let secrets = place.secrets(1, &[], 1);
    let terms = confidential("encrypt = ['card.number', '/list/pin']");
    let kept = secrets.keep(&key(), PARAMS, &terms).unwrap();
    let text = str::from_utf8(&kept).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text.replace("1e400", "1")).unwrap();
    assert_eq!(value["arguments"]["card"]["number"], "(encrypted)");
    assert_eq!(value["arguments"]["card"]["exp"], "1/30");
    assert_eq!(value["arguments"]["list"][1]["pin"], "(encrypted)");
    assert!(!text.contains("4111") && !text.contains("2.50") && text.contains("tok"), "{text}");
    assert_eq!(secrets.read(&key(), text).unwrap(), PARAMS);
    assert_ne!(kept, secrets.keep(&key(), PARAMS, &terms).unwrap(), "no two are alike");

    let all = confidential("encrypt = ['*']");
    let kept = secrets.keep(&key(), PARAMS, &all).unwrap();
    let text = str::from_utf8(&kept).unwrap();
    assert!(!text.contains("1/30") && !text.contains("tok") && text.contains(r#""name":"t""#), "{text}");
    assert_eq!(secrets.read(&key(), text).unwrap(), PARAMS);
    // Nothing confidential: as it is.
    assert_eq!(secrets.keep(&key(), PARAMS, &Confidential::default()).unwrap(), PARAMS);
    assert_eq!(Secrets::default().read(&key(), PARAMS).unwrap(), PARAMS);
}

#[test]
fn what_is_redacted_is_gone() {
    let place = Place::new();
    let secrets = place.secrets(1, &[], 1);
    let terms = confidential("redact = ['card.number']\nencrypt = ['list']");
    let kept = secrets.keep(&key(), PARAMS, &terms).unwrap();
    let text = str::from_utf8(&kept).unwrap();
    assert!(!text.contains("4111") && text.contains("(redacted "), "{text}");
    assert_eq!(secrets.read(&key(), text), Err(Unreadable::Redacted));
    let shown = secrets.read_what_is_there(&key(), text);
    assert!(shown.contains("2.50") && shown.contains("(redacted ") && !shown.contains(MEMBER), "{shown}");
    // The same value has the same digest, whatever its spelling; another key, another one.
    let word = |secrets: &Secrets, number: &str| {
        let params = format!(r#"{{"name":"t","arguments":{{"card":{{"number":{number}}}}}}}"#);
        let kept = secrets.keep(&key(), &params, &terms).unwrap();
        let value: serde_json::Value = serde_json::from_slice(&kept).unwrap();
        value["arguments"]["card"]["number"].clone()
    };
    assert_eq!(word(&secrets, "1"), word(&secrets, "1.0"));
    assert_ne!(word(&secrets, "1"), word(&secrets, "2"));
    assert_ne!(word(&secrets, "1"), word(&place.secrets(1, &[], 2), "1"));
}

#[test]
fn members_of_one_name_are_all_hidden() {
    let secrets = Place::new().secrets(1, &[], 1);
    let terms = confidential("encrypt = ['pin']");
    let twice = r#"{"name":"t","arguments":{"pin":1234},"arguments":{"pin":5678,"p\u0069n":9012}}"#;
    let kept = secrets.keep(&key(), twice, &terms).unwrap();
    let text = str::from_utf8(&kept).unwrap();
    assert!(["1234", "5678", "9012"].iter().all(|pin| !text.contains(pin)), "{text}");
    assert_eq!(secrets.read(&key(), text).unwrap(), twice);
}

#[test]
fn answers() {
    let secrets = Place::new().secrets(1, &[], 1);
    let terms = confidential("encrypt = ['pin']");
    let body = Bytes::from_static(br#"{"result":{"content":[],"pin":1234}}"#);
    let kept = secrets.keep_answer(&key(), body.clone(), &terms);
    assert!(!String::from_utf8_lossy(&kept).contains("1234"));
    assert_eq!(secrets.read_answer(&key(), &kept).unwrap(), body);
    assert_eq!(secrets.keep_answer(&key(), body.clone(), &Confidential::default()), body);
    // What was kept in clear, or written by a person, is what it is.
    assert_eq!(secrets.read_answer(&key(), &body).unwrap(), body);
    let other = Key::new("s", "t", "key:2").unwrap();
    assert_eq!(secrets.read_answer(&other, &kept), Err(Unreadable::Damaged));
}

#[test]
fn keys_that_are_missing_wrong_or_old() {
    let place = Place::new();
    let secrets = place.secrets(1, &[], 1);
    let terms = confidential("encrypt = ['card']");
    let kept = secrets.keep(&key(), PARAMS, &terms).unwrap();
    let text = str::from_utf8(&kept).unwrap();
    let error = place.secrets(2, &[], 1).read(&key(), text).unwrap_err();
    assert!(matches!(&error, Unreadable::NoSuchKey(_)) && error.to_string().contains("`old_key_files`"), "{error}");
    assert!(matches!(Secrets::default().read(&key(), text), Err(Unreadable::NoSuchKey(_))));
    let rotated = place.secrets(2, &[3, 1], 1);
    assert_eq!(rotated.read(&key(), text).unwrap(), PARAMS);
    assert_eq!((secrets.lacks(&kept), rotated.lacks(&kept)), (None, None));
    assert!(matches!(place.secrets(2, &[], 1).lacks(&kept), Some(Lacks::Key(_))));
    assert!(matches!(place.secrets(1, &[], 2).lacks(&kept), Some(Lacks::DigestKey(_))));
    assert_eq!(secrets.lacks(&Bytes::from(PARAMS)), None);
    // Any change, and any other place, is noticed.
    let moved = Key::new("s", "t", "key:2").unwrap();
    assert_eq!(secrets.read(&moved, text), Err(Unreadable::Damaged));
    assert_eq!(secrets.read(&key(), &text.replace("tok", "tik")), Err(Unreadable::Damaged));
    let at = text.find("\"data\":\"").unwrap() + 60;
    let flipped = if &text[at..=at] == "A" { "B" } else { "A" };
    assert_eq!(secrets.read(&key(), &format!("{}{flipped}{}", &text[..at], &text[at + 1..])), Err(Unreadable::Damaged));
    assert!(is_forged(text) && !is_forged(PARAMS));
}

#[test]
fn digests_that_nobody_can_guess() {
    let place = Place::new();
    let terms = confidential("encrypt = ['pin']");
    let of = |secrets: &Secrets, params: &str| {
        let found = derive("s", "t", params, None, Rule::default()).unwrap();
        secrets.renamed(found, &terms).unwrap()
    };
    let (one, other) = (place.secrets(1, &[], 1), place.secrets(1, &[], 2));
    let params = r#"{"name":"t","arguments":{"pin":1234}}"#;
    let plain = derive("s", "t", params, None, Rule::default()).unwrap();
    let found = of(&one, params);
    assert_ne!(found.fingerprint, plain.fingerprint);
    assert!(found.key.id().starts_with("keyed:") && !found.key.id().contains(plain.key.id()), "{}", found.key);
    assert_eq!(found, of(&one, r#"{"name":"t","arguments":{"pin":1234.0}}"#));
    assert_ne!(found.key, of(&other, params).key);
    assert_ne!(found.fingerprint, of(&other, params).fingerprint);
    // Another key for what is encrypted changes nothing: a call is recognised as before.
    assert_eq!(found, of(&place.secrets(3, &[1], 1), params));
    let own = r#"{"name":"t","arguments":{"pin":1234},"idempotencyKey":"k"}"#;
    assert_eq!(of(&one, own).key.id(), "key:k");
    assert_eq!(one.renamed(plain.clone(), &Confidential::default()).unwrap(), plain);
}

fn any_value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![Just("1e400".to_owned()), Just(r#""\ud800""#.to_owned()), ".{0,8}".prop_map(|t| quoted(&t))];
    leaf.prop_recursive(3, 16, 4, |inner| {
        let name = prop_oneof![Just("pin".to_owned()), Just("card".to_owned()), ".{0,3}"];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[ {}]", items.join(" ,"))),
            prop::collection::vec((name, inner), 0..4).prop_map(|members| {
                let members: Vec<_> =
                    members.iter().map(|(name, value)| format!("{} :{value}", quoted(name))).collect();
                format!("{{{}}}", members.join(", "))
            }),
        ]
    })
}

proptest! {
    /// Whatever a client sends: what is kept is JSON, and is read again as it came.
    #[test]
    fn any_parameters(arguments in any_value(), meta in any_value()) {
        let secrets = Place::new().secrets(1, &[], 1);
        let params = format!(r#"{{"name":"t","arguments":{arguments},"_meta":{meta}}}"#);
        for terms in ["encrypt = ['pin', 'card.pin']", "encrypt = ['*']", "encrypt = ['/card/0']"] {
            let kept = secrets.keep(&key(), &params, &confidential(terms)).unwrap();
            let text = str::from_utf8(&kept).unwrap();
            prop_assert!(splice::valid(text).is_some(), "{}", text);
            prop_assert_eq!(secrets.read(&key(), text).unwrap(), params.as_str());
        }
    }
}

use proptest::prelude::*;

use super::*;
use crate::Config;

fn of(params: &str) -> CallKey {
    derive("shop", "charge", params, None, Rule::default()).unwrap()
}

/// As declared by these lines of `[tools.t]`.
fn declared(lines: &str, params: &str) -> Result<CallKey, NoKey> {
    let config = Config::parse("settled.toml".as_ref(), &format!("[tools.t]\n{lines}")).unwrap();
    let tool = &config.tools["t"];
    derive("shop", "t", params, None, Rule { key: tool.key.as_ref(), ephemeral: &tool.ephemeral })
}

#[test]
fn the_callers_own_key_comes_first() {
    let params = r#"{"name":"charge","arguments":{"a":1},"idempotencyKey":"k"}"#;
    let by_param = of(params);
    assert_eq!((by_param.origin, by_param.key.id(), by_param.own.as_deref()), (Origin::Parameter, "key:k", Some("k")));
    let by_meta = of(r#"{"arguments":{"a":1},"_meta":{"io.settled/idempotency-key":"m","progressToken":1}}"#);
    assert_eq!((by_meta.origin, by_meta.key.id()), (Origin::Meta, "key:m"));
    assert_eq!(by_param.fingerprint, by_meta.fingerprint);
    let by_header = derive("s", "t", r#"{"arguments":{"a":1}}"#, Some("h"), Rule::default()).unwrap();
    assert_eq!((by_header.origin, by_header.key.id()), (Origin::Header, "key:h"));
    for wrong in ["5", "\"\"", "null"] {
        let params = format!(r#"{{"idempotencyKey":{wrong}}}"#);
        assert_eq!(derive("s", "t", &params, None, Rule::default()), Err(NoKey::NotText("idempotencyKey")));
    }
}

#[test]
fn one_key_in_several_places_is_one_key_and_two_are_refused() {
    let both = |param: &str, meta: &str, header: Option<&str>| {
        let params = format!(r#"{{"idempotencyKey":"{param}","_meta":{{"io.settled/idempotency-key":"{meta}"}}}}"#);
        derive("s", "t", &params, header, Rule::default())
    };
    assert_eq!(both("k", "\\u006b", Some("k")).unwrap().origin, Origin::Parameter);
    let (param, meta, header) = ("idempotencyKey", META_KEY, "Idempotency-Key");
    assert_eq!(both("k", "m", None), Err(NoKey::TwoKeys { one: param, other: meta }));
    assert_eq!(both("k", "k", Some("K")), Err(NoKey::TwoKeys { one: param, other: header }));
    let error = both("k", "m", Some("k")).unwrap_err();
    assert_eq!(error.kind(), "idempotency_key_ambiguous");
    assert!(!error.to_string().contains('m') || !error.to_string().contains("`m`"), "no key is quoted: {error}");
}

#[test]
fn derived_keys_ignore_spelling_and_everything_but_arguments() {
    let one = of(r#"{"name":"charge","arguments":{"a":1.0,"b":"\u0041"},"_meta":{"progressToken":7}}"#);
    let two = of(r#"{"arguments":{"b":"A", "a":1},"_meta":{"progressToken":8,"traceparent":"x"}}"#);
    assert_eq!(one, two);
    assert_eq!(of("{}").fingerprint, of(r#"{"arguments":{}}"#).fingerprint);
    assert_ne!(of("{}"), of(r#"{"arguments":null}"#));
    assert_ne!(one, of(r#"{"arguments":{"b":"A","a":2}}"#));
}

#[test]
fn scopes_and_tools_keep_keys_apart() {
    for params in ["{}", r#"{"idempotencyKey":"k"}"#] {
        let key = |scope, tool| derive(scope, tool, params, None, Rule::default()).unwrap().key;
        assert_eq!((key("shop", "charge").scope(), key("shop", "charge").tool()), ("shop", "charge"));
        assert_ne!(key("shop", "charge"), key("shop-eu", "charge"));
        assert_ne!(key("shop", "charge"), key("shop", "refund"));
    }
}

#[test]
fn origins_never_collide() {
    let digest = of("{}").key.id().to_owned();
    let forged = format!(r#"{{"idempotencyKey":"{digest}"}}"#);
    assert_ne!(of(&forged).key, of("{}").key);
}

#[test]
fn named_arguments() {
    let by = |params| declared("key = ['order', 'customer']", params);
    let one = by(r#"{"arguments":{"order":7,"customer":"a","note":"x"}}"#).unwrap();
    let two = by(r#"{"arguments":{"customer":"a","order":7.0,"note":"y"}}"#).unwrap();
    assert_eq!((&one.key, one.origin), (&two.key, Origin::Named));
    assert_ne!(one.fingerprint, two.fingerprint);
    assert_eq!(by(r#"{"arguments":{"order":7}}"#), Err(NoKey::Missing("customer".to_owned())));
    assert_eq!(by("{}"), Err(NoKey::Missing("customer".to_owned())));
    // A value can't pretend to be two.
    let sly = by(r#"{"arguments":{"customer":"a\",1:7","order":7}}"#).unwrap();
    assert_ne!(sly.key, one.key);
    let order = declared("key = ['customer', 'order']", r#"{"arguments":{"order":7,"customer":"a"}}"#).unwrap();
    assert_eq!(order.key, one.key, "the order in the file is of no matter");
}

#[test]
fn a_template_names_arguments_and_joins_nothing() {
    let by = |params: &str| declared("key = '{customer.id}:{items.0}:{date}'", params);
    let one = by(r#"{"arguments":{"customer":{"id":"c"},"items":[7,8],"date":"d","note":"x"}}"#).unwrap();
    let two = by(r#"{"arguments":{"date":"d","items":[7.0,9],"customer":{"id":"c","name":"n"}}}"#).unwrap();
    assert_eq!((&one.key, one.origin), (&two.key, Origin::Named));
    assert_ne!(one.fingerprint, two.fingerprint);
    assert!(one.key.id().starts_with("template:"), "{}", one.key);
    let missing = by(r#"{"arguments":{"customer":{},"items":[7],"date":"d"}}"#);
    assert_eq!(missing, Err(NoKey::Missing("customer.id".to_owned())));
    for odd in ["null", "{}", "[1]"] {
        let params = format!(r#"{{"arguments":{{"customer":{{"id":"c"}},"items":[7],"date":{odd}}}}}"#);
        assert_eq!(by(&params), Err(NoKey::NotPlain("date".to_owned())), "{odd}");
    }
    // As an agent may spell them: a text and a number are not the same value.
    let text = by(r#"{"arguments":{"customer":{"id":"c"},"items":["7"],"date":"d"}}"#).unwrap();
    assert_ne!(text.key, one.key);
}

proptest! {
    /// Values that would make the same text are still two keys.
    #[test]
    fn values_of_a_template_never_run_into_each_other(parts in prop::array::uniform3("[a,0-9\"{}:]{0,3}")) {
        let key = |x: String, y: String| {
            let params = serde_json::json!({ "arguments": { "x": x, "y": y } }).to_string();
            declared("key = '{x}:{y}'", &params).unwrap().key
        };
        let [one, two, three] = parts;
        let first = key(format!("{one}:{two}"), three.clone());
        let second = key(one, format!("{two}:{three}"));
        prop_assert_ne!(first, second);
    }
}

#[test]
fn ephemeral_arguments_have_no_part() {
    let by = |params| declared("ephemeral = ['timestamp', '/auth/token', '/items/0/nonce', '/x~1y']", params).unwrap();
    let one = by(r#"{"arguments":{"a":1,"timestamp":5,"auth":{"token":"t","user":"u"},"items":[{"nonce":1,"n":2}]}}"#);
    let two = by(
        r#"{"arguments":{"items":[{"n":2,"nonce":7}],"auth":{"user":"u"},"time\u0073tamp":{"deep":[1]},"x/y":3,"a":1.0}}"#,
    );
    assert_eq!(one, two);
    for other in [
        r#"{"arguments":{"a":1,"auth":{"user":"v"},"items":[{"n":2}]}}"#,
        r#"{"arguments":{"a":1,"auth":{"user":"u","timestamp":1},"items":[{"n":2}]}}"#,
        r#"{"arguments":{"a":1,"auth":{"user":"u"},"items":[{"n":2},{"nonce":1}]}}"#,
    ] {
        assert_ne!(one.key, by(other).key, "{other}");
        assert_ne!(one.fingerprint, by(other).fingerprint, "{other}");
    }
    // Also beside a declared key and the caller's own.
    let lines = "key = ['a']\nephemeral = ['timestamp']";
    let keyed = |time: u32| declared(lines, &format!(r#"{{"arguments":{{"a":1,"timestamp":{time}}}}}"#)).unwrap();
    assert_eq!(keyed(1), keyed(2));
    let own = |time: u32| {
        declared(lines, &format!(r#"{{"arguments":{{"a":1,"timestamp":{time}}},"idempotencyKey":"k"}}"#)).unwrap()
    };
    assert_eq!(own(1), own(2));
}

#[test]
fn all_rounds_are_one_operation() {
    for own in ["", r#","idempotencyKey":"k""#] {
        let first = of(&format!(r#"{{"arguments":{{"a":1}}{own}}}"#));
        let next = of(&format!(r#"{{"arguments":{{"a":1}}{own},"requestState":"s","inputResponses":{{"x":1}}}}"#));
        let again = of(&format!(r#"{{"arguments":{{"a":1}}{own},"inputResponses":{{"x":1.0}},"requestState":"s"}}"#));
        let other = of(&format!(r#"{{"arguments":{{"a":1}}{own},"inputResponses":{{"x":2}},"requestState":"s"}}"#));
        assert_eq!((&first.key, first.fingerprint), (&next.key, next.fingerprint));
        assert_eq!(next, again);
        assert_eq!(first.round, Round::First);
        assert!(next.round != Round::First && next.round != other.round);
    }
}

#[test]
fn odd_keys_and_arguments() {
    let long = of(&format!(r#"{{"idempotencyKey":"{}"}}"#, "x".repeat(5000)));
    assert!(long.key.id().starts_with("keyhash:") && is_callers_own(&long.key));
    assert!(of(r#"{"idempotencyKey":"a\u0000b"}"#).key.id().starts_with("keyhash:"));
    let deep = format!(r#"{{"arguments":{}{}}}"#, "[".repeat(500), "]".repeat(500));
    assert!(matches!(derive("s", "t", &deep, None, Rule::default()), Err(NoKey::NotCanonical { .. })));
    assert!(matches!(derive("s", "", "{}", None, Rule::default()), Err(NoKey::Key(_))));
    assert_ne!(of(r#"{"task":{}}"#).fingerprint, of("{}").fingerprint);
}

//! Which operation a call is: its key and its fingerprint.
//!
//! Only what the caller chose or asked for takes part. Request ids, sessions, progress tokens and trace context differ
//! between a call and its retry, or agree between two calls, so they never do.

use settled_protocol::{CanonicalError, Digest, Key, KeyError, canonicalize, composite_id};

use crate::splice;

/// The caller's own key as a member of `_meta`.
pub(crate) const META_KEY: &str = "io.settled/idempotency-key";

/// Members of a continued multi-round-trip call: it is not a repeat of the call that it continues.
const CONTINUATION: [&str; 2] = ["requestState", "inputResponses"];

/// Where a key comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// `params.idempotencyKey`.
    Parameter,
    /// `params._meta["io.settled/idempotency-key"]`.
    Meta,
    /// The call's arguments, or those that the configuration names.
    Arguments,
}

/// What a call is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CallKey {
    pub(crate) key: Key,
    pub(crate) fingerprint: Digest,
    pub(crate) origin: Origin,
}

/// Why a call has no key: an error to the caller, and nothing is sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoKey {
    #[error("the argument `{0}` is part of this tool's idempotency key: send it")]
    Missing(String),
    #[error("`{0}` must be a string of at least one character")]
    NotText(&'static str),
    #[error("`{member}` can't be compared with later calls: {source}")]
    NotCanonical { member: &'static str, source: CanonicalError },
    #[error("the tool's name can't be part of an idempotency key: {0}")]
    Key(#[from] KeyError),
}

/// The key and fingerprint of a call with these parameters. `fields`: the arguments that the configuration names, sorted.
pub(crate) fn derive(scope: &str, tool: &str, params: &str, fields: Option<&[String]>) -> Result<CallKey, NoKey> {
    let members = splice::members(params).unwrap_or_default();
    let member = |name| splice::find(&members, name).map(|member| member.value);
    let canonical = |name: &'static str, value: &str| {
        canonicalize(value.as_bytes()).map_err(|source| NoKey::NotCanonical { member: name, source })
    };

    let arguments = member("arguments").unwrap_or("{}");
    let canonical_arguments = canonical("arguments", arguments)?;
    let mut round = Vec::new();
    for name in CONTINUATION {
        if let Some(value) = member(name) {
            round.push(name.as_bytes().to_vec());
            round.push(canonical(name, value)?);
        }
    }

    let own_key = match member("idempotencyKey") {
        Some(value) => Some((Origin::Parameter, text("idempotencyKey", value)?)),
        None => match member("_meta").and_then(|meta| splice::get(meta, META_KEY)) {
            Some(value) => Some((Origin::Meta, text(META_KEY, value)?)),
            None => None,
        },
    };
    let own = own_key.is_some();
    let (origin, id) = match (own_key, fields) {
        (Some((origin, own)), _) => (origin, format!("key:{own}")),
        (None, Some(fields)) => (Origin::Arguments, format!("fields:{}", named(fields, arguments)?)),
        (None, None) => (Origin::Arguments, format!("args:{}", Digest::of(&canonical_arguments))),
    };
    let id = if round.is_empty() { id } else { format!("round:{}", digest_of(id.as_bytes(), &round)) };

    // A task is answered with the task's handle, a plain call with the result: one is no repeat of the other.
    if member("task").is_some() {
        round.push(b"task".to_vec());
    }
    let fingerprint =
        if round.is_empty() { Digest::of(&canonical_arguments) } else { digest_of(&canonical_arguments, &round) };

    let key = Key::new(scope, tool, id.as_str()).or_else(|_| {
        // Too long, or with control characters: still a key.
        let kind = if own { "keyhash" } else { "hash" };
        Key::new(scope, tool, format!("{kind}:{}", Digest::of(id.as_bytes())))
    })?;
    Ok(CallKey { key, fingerprint, origin })
}

/// Whether a key is one that the caller gave, rather than one derived from arguments.
pub(crate) fn is_callers_own(key: &Key) -> bool {
    key.id().starts_with("key:") || key.id().starts_with("keyhash:")
}

fn digest_of(first: &[u8], rest: &[Vec<u8>]) -> Digest {
    let parts: Vec<&[u8]> = std::iter::once(first).chain(rest.iter().map(Vec::as_slice)).collect();
    Digest::of_parts(&parts)
}

fn text(name: &'static str, value: &str) -> Result<String, NoKey> {
    serde_json::from_str::<String>(value).ok().filter(|text| !text.is_empty()).ok_or(NoKey::NotText(name))
}

fn named(fields: &[String], arguments: &str) -> Result<String, NoKey> {
    let members = splice::members(arguments).unwrap_or_default();
    let mut parts = Vec::with_capacity(fields.len() * 2);
    for field in fields {
        let value = splice::find(&members, field).ok_or_else(|| NoKey::Missing(field.clone()))?;
        let canonical = canonicalize(value.value.as_bytes())
            .map_err(|source| NoKey::NotCanonical { member: "arguments", source })?;
        parts.push(field.clone());
        // Canonical JSON is UTF-8.
        parts.push(String::from_utf8_lossy(&canonical).into_owned());
    }
    Ok(composite_id(parts.iter().map(String::as_str)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(params: &str) -> CallKey {
        derive("shop", "charge", params, None).unwrap()
    }

    #[test]
    fn the_callers_own_key_comes_first() {
        let params =
            r#"{"name":"charge","arguments":{"a":1},"idempotencyKey":"k","_meta":{"io.settled/idempotency-key":"m"}}"#;
        let by_param = of(params);
        assert_eq!((by_param.origin, by_param.key.id()), (Origin::Parameter, "key:k"));
        let by_meta = of(r#"{"arguments":{"a":1},"_meta":{"io.settled/idempotency-key":"m","progressToken":1}}"#);
        assert_eq!((by_meta.origin, by_meta.key.id()), (Origin::Meta, "key:m"));
        assert_eq!(by_param.fingerprint, by_meta.fingerprint);
        assert_eq!(derive("s", "t", r#"{"idempotencyKey":5}"#, None), Err(NoKey::NotText("idempotencyKey")));
        assert_eq!(derive("s", "t", r#"{"idempotencyKey":""}"#, None), Err(NoKey::NotText("idempotencyKey")));
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
            let key = |scope, tool| derive(scope, tool, params, None).unwrap().key;
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
    fn configured_fields() {
        let fields = ["customer".to_owned(), "order".to_owned()];
        let by = |params| derive("shop", "charge", params, Some(&fields));
        let one = by(r#"{"arguments":{"order":7,"customer":"a","note":"x"}}"#).unwrap();
        let two = by(r#"{"arguments":{"customer":"a","order":7.0,"note":"y"}}"#).unwrap();
        assert_eq!(one.key, two.key);
        assert_ne!(one.fingerprint, two.fingerprint);
        assert_eq!(by(r#"{"arguments":{"order":7}}"#), Err(NoKey::Missing("customer".to_owned())));
        assert_eq!(by("{}"), Err(NoKey::Missing("customer".to_owned())));
        // A value can't pretend to be two.
        let sly = by(r#"{"arguments":{"customer":"a\",1:7","order":7}}"#).unwrap();
        assert_ne!(sly.key, one.key);
    }

    #[test]
    fn a_continuation_is_another_operation() {
        let first = of(r#"{"arguments":{"a":1},"idempotencyKey":"k"}"#);
        let next = of(r#"{"arguments":{"a":1},"idempotencyKey":"k","requestState":"s","inputResponses":{"x":1}}"#);
        let again = of(r#"{"arguments":{"a":1},"idempotencyKey":"k","inputResponses":{"x":1.0},"requestState":"s"}"#);
        assert_ne!(first.key, next.key);
        assert_ne!(first.fingerprint, next.fingerprint);
        assert_eq!(next, again);
    }

    #[test]
    fn odd_keys_and_arguments() {
        let long = of(&format!(r#"{{"idempotencyKey":"{}"}}"#, "x".repeat(5000)));
        assert!(long.key.id().starts_with("keyhash:"));
        assert!(of(r#"{"idempotencyKey":"a\u0000b"}"#).key.id().starts_with("keyhash:"));
        let deep = format!(r#"{{"arguments":{}{}}}"#, "[".repeat(500), "]".repeat(500));
        assert!(matches!(derive("s", "t", &deep, None), Err(NoKey::NotCanonical { .. })));
        assert!(matches!(derive("s", "", "{}", None), Err(NoKey::Key(_))));
        assert_ne!(of(r#"{"task":{}}"#).fingerprint, of("{}").fingerprint);
    }
}

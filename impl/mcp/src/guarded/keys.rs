//! Which operation a call is: its key and its fingerprint.
//!
//! Only what the caller chose or asked for takes part. Request ids, sessions, progress tokens and trace context differ
//! between a call and its retry, or agree between two calls, so they never do. Neither do the members with which a call goes
//! on after the tool has asked for input: all its rounds are one operation, so that at most one of them takes effect.

mod callers;
mod ephemeral;
mod merged;
mod named;

use settled_protocol::{CanonicalError, Digest, Key, KeyError, canonicalize};

use crate::config::{ArgumentPath, KeyFrom};
use crate::messages::splice;

pub(crate) use merged::Merged;

/// The caller's own key as a member of `_meta`.
pub(crate) const META_KEY: &str = "io.settled/idempotency-key";

/// The caller's own key as a parameter (SEP-3182).
pub(crate) const PARAMETER: &str = "idempotencyKey";

/// Members of a call that goes on after the tool has asked for input (revision 2026-07-28, multi-round-trip requests).
const CONTINUATION: [&str; 2] = ["requestState", "inputResponses"];

/// Where a key comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// `params.idempotencyKey`.
    Parameter,
    /// `params._meta["io.settled/idempotency-key"]`.
    Meta,
    /// The HTTP header `Idempotency-Key`.
    Header,
    /// The arguments that the configuration names.
    Named,
    /// All arguments.
    Arguments,
}

impl Origin {
    /// Whether the caller gave it.
    pub(crate) fn is_callers_own(self) -> bool {
        match self {
            Origin::Parameter | Origin::Meta | Origin::Header => true,
            Origin::Named | Origin::Arguments => false,
        }
    }
}

/// What is declared of the keys of a tool's calls.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rule<'a> {
    /// What names the operation; `None`: all arguments.
    pub(crate) key: Option<&'a KeyFrom>,
    /// What has no part in it.
    pub(crate) ephemeral: &'a [ArgumentPath],
}

/// What a call is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CallKey {
    pub(crate) key: Key,
    pub(crate) fingerprint: Digest,
    pub(crate) origin: Origin,
    /// The key as the caller gave it, if it did.
    pub(crate) own: Option<String>,
    /// Which round of it this call is.
    pub(crate) round: Round,
}

/// A round of a call for which the tool may have asked for input before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    /// The first.
    First,
    /// A later one, told apart by what the client answers.
    Later(Digest),
}

/// Why a call has no key: an error to the caller, and nothing is sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoKey {
    #[error("the argument `{0}` is part of this tool's idempotency key: send it")]
    Missing(String),
    #[error("the argument `{0}` is part of this tool's idempotency key: send it as a text, a number, true or false")]
    NotPlain(String),
    #[error("`{0}` must be a string of at least one character")]
    NotText(&'static str),
    #[error("`{one}` and `{other}` give two different idempotency keys: send one key, or the same in both places")]
    TwoKeys { one: &'static str, other: &'static str },
    #[error("`{member}` can't be compared with later calls: {source}")]
    NotCanonical { member: &'static str, source: CanonicalError },
    #[error("`{0}` is a member that only the proxy may write: leave it out")]
    Reserved(&'static str),
    #[error("the tool's name can't be part of an idempotency key: {0}")]
    Key(#[from] KeyError),
}

impl NoKey {
    /// What programs are told of it, as `type` in the error's `data`.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            NoKey::Missing(_) | NoKey::NotPlain(_) => "idempotency_key_argument_missing",
            NoKey::NotText(_) | NoKey::Key(_) | NoKey::Reserved(_) => "idempotency_key_invalid",
            NoKey::TwoKeys { .. } => "idempotency_key_ambiguous",
            NoKey::NotCanonical { .. } => "idempotency_key_not_comparable",
        }
    }
}

/// The key and fingerprint of a call with these parameters. `header`: the value of the HTTP header `Idempotency-Key`.
///
/// # Errors
/// [`NoKey`], and then nothing may be sent.
pub(crate) fn derive(
    scope: &str,
    tool: &str,
    params: &str,
    header: Option<&str>,
    rule: Rule<'_>,
) -> Result<CallKey, NoKey> {
    let members = splice::members(params).unwrap_or_default();
    let member = |name| splice::find(&members, name).map(|member| member.value);

    let arguments = ephemeral::without(member("arguments").unwrap_or("{}"), rule.ephemeral);
    let canonical_arguments = canonical("arguments", &arguments)?;
    let own = callers::key(member(PARAMETER), member("_meta"), header)?;
    let (origin, id) = match (&own, rule.key) {
        (Some((origin, own)), _) => (*origin, format!("key:{own}")),
        (None, Some(from)) => (Origin::Named, named::id(from, &arguments)?),
        (None, None) => (Origin::Arguments, format!("args:{}", Digest::of(&canonical_arguments))),
    };

    // A task is answered with the task's handle, a plain call with the result: one is no repeat of the other.
    let fingerprint = match member("task") {
        Some(_) => Digest::of_parts(&[&canonical_arguments, b"task"]),
        None => Digest::of(&canonical_arguments),
    };
    let key = Key::new(scope, tool, id.as_str()).or_else(|_| {
        // Too long, or with control characters: still a key.
        let kind = if own.is_some() { "keyhash" } else { "hash" };
        Key::new(scope, tool, format!("{kind}:{}", Digest::of(id.as_bytes())))
    })?;
    Ok(CallKey { key, fingerprint, origin, own: own.map(|(_, own)| own), round: round(params)? })
}

/// Which round of its operation a call with these parameters is.
///
/// # Errors
/// [`NoKey::NotCanonical`], if what the client answers can't be compared.
pub(crate) fn round(params: &str) -> Result<Round, NoKey> {
    let members = splice::members(params).unwrap_or_default();
    let mut parts = Vec::new();
    for name in CONTINUATION {
        if let Some(member) = splice::find(&members, name) {
            parts.push(name.as_bytes().to_vec());
            parts.push(canonical(name, member.value)?);
        }
    }
    if parts.is_empty() {
        return Ok(Round::First);
    }
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    Ok(Round::Later(Digest::of_parts(&parts)))
}

/// Whether a key is one that the caller gave, rather than one derived from arguments.
pub(crate) fn is_callers_own(key: &Key) -> bool {
    key.id().starts_with("key:") || key.id().starts_with("keyhash:")
}

fn canonical(member: &'static str, value: &str) -> Result<Vec<u8>, NoKey> {
    canonicalize(value.as_bytes()).map_err(|source| NoKey::NotCanonical { member, source })
}

#[cfg(test)]
mod tests;

//! One `[tools.NAME]` table.

use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use super::{Defaults, Repeats, Wrong, repeats, span};

/// What a declared tool can do, as far as the proxy makes use of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `guard = false`, or `kind = "idempotent"` or `"read-only"`: passed on unguarded.
    Passed,
    /// Nothing can be found out after an unknown outcome: it is held for a person.
    Opaque,
    /// The tool applies a key once, for a limited time.
    Deduplicates {
        /// The argument under which the tool expects the key.
        pass_key_as: String,
        /// How long the tool remembers a key.
        limit: Duration,
        /// The longest pause before sending, plus transit, plus clock skew.
        margin: Duration,
    },
}

/// A declared tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolConfig {
    /// What it can do.
    pub kind: Kind,
    /// The arguments that name the operation; `None`: all of them.
    pub key: Option<Vec<String>>,
    /// What a repeat means; `None`: as the tool's annotations suggest.
    pub repeat: Option<Repeats>,
    /// How long after it ended an operation is still replayed.
    pub window: Duration,
    /// How long an answer is waited for before the outcome counts as unknown.
    pub timeout: Duration,
    /// `errors = "final"`: every error of the tool means that nothing happened.
    pub errors_final: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolTable {
    guard: Option<Spanned<bool>>,
    kind: Option<Spanned<String>>,
    key: Option<Spanned<Vec<String>>>,
    repeat: Option<Spanned<String>>,
    window: Option<Spanned<String>>,
    timeout: Option<Spanned<String>>,
    errors: Option<Spanned<String>>,
    pass_key_as: Option<Spanned<String>>,
    limit: Option<Spanned<String>>,
    margin: Option<Spanned<String>>,
}

enum Named {
    Opaque,
    Deduplicates,
    Passed,
}

pub(super) fn check(name: &str, table: Spanned<ToolTable>, defaults: &Defaults) -> Result<ToolConfig, Wrong> {
    let whole = table.span();
    let table = table.into_inner();
    let field = |member: &str| format!("tools.{name}.{member}");

    let kind = table.kind.as_ref().map(|kind| named(&field("kind"), kind)).transpose()?;
    let passed = match (&table.guard, &kind) {
        (Some(guard), Some(Named::Passed)) if *guard.get_ref() => {
            return Err(Wrong::new(
                guard.span(),
                field("guard"),
                "can't be `true` for a tool that is declared idempotent or read-only: leave out one of the two",
            ));
        }
        (Some(guard), Some(Named::Opaque | Named::Deduplicates)) if !*guard.get_ref() => {
            return Err(Wrong::new(
                guard.span(),
                field("guard"),
                "can't be `false` for a tool of this kind, which only a guarded call makes use of: leave out `kind`",
            ));
        }
        (Some(guard), _) => !*guard.get_ref(),
        (None, kind) => matches!(kind, Some(Named::Passed)),
    };
    if passed {
        refuse_any(
            &field,
            [
                ("key", table.key.as_ref().map(Spanned::span)),
                ("repeat", table.repeat.as_ref().map(Spanned::span)),
                ("window", table.window.as_ref().map(Spanned::span)),
                ("timeout", table.timeout.as_ref().map(Spanned::span)),
                ("errors", table.errors.as_ref().map(Spanned::span)),
            ],
            "has no meaning for a tool that is passed on unguarded: leave it out, or guard the tool",
        )?;
    }
    let deduplicates = matches!(kind, Some(Named::Deduplicates));
    if !deduplicates {
        refuse_any(
            &field,
            [
                ("pass_key_as", table.pass_key_as.as_ref().map(Spanned::span)),
                ("limit", table.limit.as_ref().map(Spanned::span)),
                ("margin", table.margin.as_ref().map(Spanned::span)),
            ],
            "belongs to `kind = \"deduplicates\"`: add that, or leave this out",
        )?;
    }

    let key = table.key.map(|key| check_key(&field("key"), key)).transpose()?;
    let window = table.window.as_ref().map(|value| span(&field("window"), value)).transpose()?;
    let (kind, window) = if deduplicates {
        let pass_key_as = required(
            &whole,
            &field,
            "pass_key_as",
            table.pass_key_as,
            "the argument under which the tool expects the key",
        )?;
        let limit_at =
            required(&whole, &field, "limit", table.limit, "how long the tool remembers a key, such as `24h`")?;
        let limit = span(&field("limit"), &limit_at)?;
        let margin = match &table.margin {
            Some(value) => span(&field("margin"), value)?,
            None => Duration::from_secs(60),
        };
        if margin >= limit {
            let place = table.margin.as_ref().map_or(limit_at.span(), Spanned::span);
            return Err(Wrong::new(
                place,
                field("margin"),
                "must be shorter than `limit`: otherwise nothing could ever be sent again",
            ));
        }
        if pass_key_as.get_ref().is_empty() {
            return Err(Wrong::new(pass_key_as.span(), field("pass_key_as"), "is empty: name an argument of the tool"));
        }
        if key.as_ref().is_some_and(|key| key.contains(pass_key_as.get_ref())) {
            return Err(Wrong::new(
                pass_key_as.span(),
                field("pass_key_as"),
                "is also named in `key`: the key can't be derived from the argument that carries it",
            ));
        }
        if let (Some(window), Some(at)) = (window, &table.window)
            && window < limit
        {
            return Err(Wrong::new(
                at.span(),
                field("window"),
                "must not be shorter than `limit`: the tool would take a new operation for the old one",
            ));
        }
        let window = window.unwrap_or_else(|| defaults.window.max(limit));
        (Kind::Deduplicates { pass_key_as: pass_key_as.into_inner(), limit, margin }, window)
    } else {
        (if passed { Kind::Passed } else { Kind::Opaque }, window.unwrap_or(defaults.window))
    };

    let repeat = table.repeat.map(|value| repeats(&field("repeat"), &value)).transpose()?;
    let timeout = table.timeout.map(|value| span(&field("timeout"), &value)).transpose()?;
    let errors_final = table.errors.map(|value| check_errors(&field("errors"), &value)).transpose()?.is_some();
    // Arguments that are named as a key say what a repeat is: the same operation.
    let by_key = key.as_ref().map(|_| Repeats::Replay);
    Ok(ToolConfig {
        kind,
        repeat: repeat.or(defaults.repeat).or(by_key),
        key,
        window,
        timeout: timeout.unwrap_or(defaults.timeout),
        errors_final,
    })
}

fn named(field: &str, kind: &Spanned<String>) -> Result<Named, Wrong> {
    let wrong = |problem: String| Err(Wrong::new(kind.span(), field, problem));
    match kind.get_ref().as_str() {
        "opaque" => Ok(Named::Opaque),
        "deduplicates" => Ok(Named::Deduplicates),
        "idempotent" | "read-only" => Ok(Named::Passed),
        known @ ("observable" | "sealable" | "transactional") => wrong(format!(
            "`{known}` needs an observer, which the MCP proxy does not offer yet: write `opaque`, `deduplicates`, `idempotent` or `read-only`"
        )),
        other => wrong(format!("`{other}` is not known: write `opaque`, `deduplicates`, `idempotent` or `read-only`")),
    }
}

fn check_key(field: &str, key: Spanned<Vec<String>>) -> Result<Vec<String>, Wrong> {
    let place = key.span();
    let mut names = key.into_inner();
    let count = names.len();
    if names.is_empty() {
        return Err(Wrong::new(
            place,
            field,
            "is empty: name at least one argument, or leave the line out to use them all",
        ));
    }
    if names.iter().any(String::is_empty) {
        return Err(Wrong::new(place, field, "names an argument with an empty name"));
    }
    // Keys must not depend on the order in which the file happens to name the arguments.
    names.sort();
    names.dedup();
    if names.len() < count {
        return Err(Wrong::new(place, field, "names an argument twice"));
    }
    Ok(names)
}

fn check_errors(field: &str, value: &Spanned<String>) -> Result<(), Wrong> {
    match value.get_ref().as_str() {
        "final" => Ok(()),
        other => Err(Wrong::new(
            value.span(),
            field,
            format!(
                "`{other}` is not known: write `final` if every error of the tool means that nothing happened, else leave the line out"
            ),
        )),
    }
}

fn refuse_any<const N: usize>(
    field: &impl Fn(&str) -> String,
    members: [(&str, Option<std::ops::Range<usize>>); N],
    problem: &str,
) -> Result<(), Wrong> {
    match members.into_iter().find_map(|(name, place)| Some((name, place?))) {
        Some((name, place)) => Err(Wrong::new(place, field(name), problem)),
        None => Ok(()),
    }
}

fn required(
    whole: &std::ops::Range<usize>,
    field: &impl Fn(&str) -> String,
    name: &str,
    value: Option<Spanned<String>>,
    what: &str,
) -> Result<Spanned<String>, Wrong> {
    value.ok_or_else(|| {
        Wrong::new(whole.clone(), field(name), format!("is missing: a tool that deduplicates needs it ({what})"))
    })
}

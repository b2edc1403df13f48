//! What a tool declares that it can do: `kind`, and what belongs to each.

use std::time::Duration;

use toml::Spanned;

use super::Wrong;
use super::observe::{self, Observe, Role};
use super::place::{Table, member};
use super::tool::ToolTable;

/// What a declared tool can do, as far as the proxy makes use of it.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// `guard = false`, or `kind = "idempotent"` or `"read-only"`: passed on unguarded.
    Passed,
    /// Nothing can be found out after an unknown outcome: it is held for a person.
    Opaque,
    /// The tool applies a key once, for a limited time.
    Deduplicates {
        /// How long the tool remembers a key.
        limit: Duration,
        /// The longest pause before sending, plus transit, plus clock skew.
        margin: Duration,
    },
    /// Whether a call took effect can be found out.
    Observable {
        /// How long after the last possible send an effect can still appear.
        settling: Duration,
        /// How to find out.
        observe: Box<Observe>,
    },
    /// The tool applies a key once, and can be told never to apply what it has not applied yet.
    Sealable {
        /// How to tell it.
        seal: Box<Observe>,
        /// The argument under which it expects the attempt's number.
        pass_attempt_as: String,
    },
}

/// What `kind` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    Opaque,
    Deduplicates,
    Observable,
    Sealable,
    Passed,
}

pub(super) fn named(field: &str, kind: &Spanned<String>) -> Result<Named, Wrong> {
    let wrong = |problem: String| Err(Wrong::new(kind.span(), field, problem));
    match kind.get_ref().as_str() {
        "opaque" => Ok(Named::Opaque),
        "deduplicates" => Ok(Named::Deduplicates),
        "observable" => Ok(Named::Observable),
        "sealable" => Ok(Named::Sealable),
        "idempotent" | "read-only" => Ok(Named::Passed),
        "transactional" => wrong(
            "`transactional` needs the tool's own database transaction, which a proxy is no part of: write `opaque`, \
             `observable`, `sealable`, `deduplicates`, `idempotent` or `read-only`"
                .to_owned(),
        ),
        other => wrong(format!(
            "`{other}` is not known: write `opaque`, `observable`, `sealable`, `deduplicates`, `idempotent` or `read-only`"
        )),
    }
}

/// Refuses what belongs to another kind.
pub(super) fn refuse_foreign(table: &Table, tool: &ToolTable, kind: Option<Named>) -> Result<(), Wrong> {
    let is = |any: &[Named]| kind.is_some_and(|kind| any.contains(&kind));
    if !is(&[Named::Deduplicates]) {
        let problem = "belongs to `kind = \"deduplicates\"`: add that, or leave this out";
        table.refuse([member("limit", &tool.limit), member("margin", &tool.margin)], problem)?;
    }
    if !is(&[Named::Observable]) {
        let problem = "belongs to `kind = \"observable\"`: add that, or leave this out";
        table.refuse([member("settling", &tool.settling), member("observe", &tool.observe)], problem)?;
    }
    if !is(&[Named::Sealable]) {
        let problem = "belongs to `kind = \"sealable\"`: add that, or leave this out";
        table.refuse([member("pass_attempt_as", &tool.pass_attempt_as), member("seal", &tool.seal)], problem)?;
    }
    Ok(())
}

/// What a tool can do, with everything that belongs to it. `gets_the_key`: `pass_key_as` names an argument.
pub(super) fn check(
    table: &Table,
    name: &str,
    tool: &mut ToolTable,
    named: Option<Named>,
    passed: bool,
    gets_the_key: bool,
) -> Result<Kind, Wrong> {
    match named {
        Some(Named::Deduplicates) => deduplicates(table, tool, gets_the_key),
        Some(Named::Observable) => observable(table, name, tool, gets_the_key),
        Some(Named::Sealable) => sealable(table, name, tool, gets_the_key),
        _ if passed => Ok(Kind::Passed),
        _ => Ok(Kind::Opaque),
    }
}

fn deduplicates(table: &Table, tool: &mut ToolTable, gets_the_key: bool) -> Result<Kind, Wrong> {
    const WHO: &str = "a tool that deduplicates";
    required(table, WHO, "pass_key_as", gets_the_key.then_some(()), KEY)?;
    let limit_at = tool.limit.as_ref().map(Spanned::span);
    let limit = table.span("limit", &tool.limit)?;
    let limit = required(table, WHO, "limit", limit, "how long the tool remembers a key, such as `24h`")?;
    let margin = table.span("margin", &tool.margin)?.unwrap_or(Duration::from_secs(60));
    if margin >= limit {
        let at = tool.margin.as_ref().map(Spanned::span).or(limit_at).unwrap_or_default();
        let problem = "must be shorter than `limit`: otherwise nothing could ever be sent again";
        return Err(table.wrong(at, "margin", problem));
    }
    if let (Some(window), Some(at)) = (table.span("window", &tool.window)?, &tool.window)
        && window < limit
    {
        let problem = "must not be shorter than `limit`: the tool would take a new operation for the old one";
        return Err(table.wrong(at.span(), "window", problem));
    }
    Ok(Kind::Deduplicates { limit, margin })
}

fn observable(table: &Table, name: &str, tool: &mut ToolTable, gets_the_key: bool) -> Result<Kind, Wrong> {
    const WHO: &str = "an observable tool";
    let settling = table.span("settling", &tool.settling)?;
    let what = "how long after it was sent an effect can still appear, such as `30s`";
    let settling = required(table, WHO, "settling", settling, what)?;
    let what = "a table that says how to find out whether a call took effect";
    let observe = required(table, WHO, "observe", tool.observe.take(), what)?;
    let at = observe.span();
    let observe = Box::new(observe::check(table.name(), name, Role::Observe, observe)?);
    if !gets_the_key && observe.ask.uses("$key") {
        let problem = "asks by the key, which the tool is never given, so that nothing would ever be found: add `pass_key_as`, the \
                       argument of the tool that takes the key, or ask by arguments of the call";
        return Err(table.wrong(at, "observe", problem));
    }
    Ok(Kind::Observable { settling, observe })
}

fn sealable(table: &Table, name: &str, tool: &mut ToolTable, gets_the_key: bool) -> Result<Kind, Wrong> {
    const WHO: &str = "a sealable tool";
    required(table, WHO, "pass_key_as", gets_the_key.then_some(()), KEY)?;
    let what = "the argument under which the tool expects the attempt's number";
    let pass_attempt_as = table.text("pass_attempt_as", tool.pass_attempt_as.take(), "an argument of the tool")?;
    let pass_attempt_as = required(table, WHO, "pass_attempt_as", pass_attempt_as, what)?;
    let what = "a table that says how to tell the tool never to apply an attempt";
    let seal = required(table, WHO, "seal", tool.seal.take(), what)?;
    let seal = Box::new(observe::check(table.name(), name, Role::Seal, seal)?);
    Ok(Kind::Sealable { seal, pass_attempt_as })
}

const KEY: &str = "the argument under which the tool expects the key";

fn required<T>(table: &Table, who: &str, name: &str, value: Option<T>, what: &str) -> Result<T, Wrong> {
    value.ok_or_else(|| table.lacks(name, format!("is missing: {who} needs it ({what})")))
}

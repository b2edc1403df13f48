//! One `[tools.NAME]` table.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use settled_observers::Template;
use settled_protocol::Digest;
use toml::Spanned;

use super::answers::{self, Answers};
use super::encryption::{self, Confidential};
use super::file::Around;
use super::key::{self, ArgumentPath, KeyFrom};
use super::kind::{self, Kind, Named};
use super::observe::{Observe, ObserveTable};
use super::place::{Table, member};
use super::retention::{self, Retention};
use super::{Mode, Repeats, Wrong, care, mode, repeats, seen};

/// A declared tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolConfig {
    /// What it can do.
    pub kind: Kind,
    /// Whether its calls are guarded.
    pub mode: Mode,
    /// The digest of its definition when it was declared. With another one, what is declared of it is not relied on.
    pub seen: Option<Digest>,
    /// What of its calls is never kept in clear.
    pub confidential: Confidential,
    /// What names the operation; `None`: all arguments.
    pub key: Option<KeyFrom>,
    /// The arguments that have no part in key and fingerprint.
    pub ephemeral: Vec<ArgumentPath>,
    /// The argument under which the tool expects the key, if it does.
    pub pass_key_as: Option<String>,
    /// What a repeat means; `None`: as the tool's annotations suggest.
    pub repeat: Option<Repeats>,
    /// How long an operation is remembered.
    pub retention: Retention,
    /// How long an attempt's answer is waited for before the outcome counts as unknown.
    pub timeout: Duration,
    /// How long a call waits at all before it is told how things stand; the work goes on. `None`: until there is an answer.
    pub call_timeout: Option<Duration>,
    /// The largest number of attempts; `None`: the default.
    pub attempts: Option<u32>,
    /// No new attempt later than this after the call; `None`: the default.
    pub total: Option<Duration>,
    /// What its answers prove.
    pub answers: Answers,
    /// What a call must have to itself; `None`: nothing.
    pub resource: Option<Template>,
    /// How long a call waits for it before it is given up, unsent; `None`: the default.
    pub queue_timeout: Option<Duration>,
}

impl ToolConfig {
    /// How to find out what became of a call, if there is a way.
    pub fn observe(&self) -> Option<&Observe> {
        match &self.kind {
            Kind::Observable { observe, .. } => Some(observe),
            Kind::Sealable { seal, .. } => Some(seal),
            Kind::Passed | Kind::Opaque | Kind::Deduplicates { .. } => None,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolTable {
    pub(super) guard: Option<Spanned<bool>>,
    pub(super) mode: Option<Spanned<String>>,
    pub(super) seen: Option<Spanned<String>>,
    pub(super) encrypt: Option<Spanned<Vec<String>>>,
    pub(super) redact: Option<Spanned<Vec<String>>>,
    pub(super) kind: Option<Spanned<String>>,
    pub(super) key: Option<Spanned<Value>>,
    pub(super) ephemeral: Option<Spanned<Vec<String>>>,
    pub(super) repeat: Option<Spanned<String>>,
    pub(super) window: Option<Spanned<String>>,
    pub(super) retry_horizon: Option<Spanned<String>>,
    pub(super) expired: Option<Spanned<String>>,
    pub(super) tombstone: Option<Spanned<String>>,
    pub(super) timeout: Option<Spanned<String>>,
    pub(super) call_timeout: Option<Spanned<String>>,
    pub(super) attempts: Option<Spanned<u32>>,
    pub(super) total: Option<Spanned<String>>,
    pub(super) errors: Option<Spanned<String>>,
    pub(super) final_errors: Option<Spanned<Value>>,
    pub(super) busy_errors: Option<Spanned<Value>>,
    pub(super) retry_after_at: Option<Spanned<String>>,
    pub(super) pass_key_as: Option<Spanned<String>>,
    pub(super) pass_attempt_as: Option<Spanned<String>>,
    pub(super) limit: Option<Spanned<String>>,
    pub(super) margin: Option<Spanned<String>>,
    pub(super) settling: Option<Spanned<String>>,
    pub(super) observe: Option<Spanned<ObserveTable>>,
    pub(super) seal: Option<Spanned<ObserveTable>>,
    pub(super) resource: Option<Spanned<String>>,
    pub(super) queue_timeout: Option<Spanned<String>>,
    pub(super) outside: Option<Spanned<bool>>,
    pub(super) irrevocable: Option<Spanned<bool>>,
    pub(super) exclusive: Option<Spanned<bool>>,
    pub(super) opaque: Option<Spanned<String>>,
}

/// `of`: the table that it is in.
pub(super) fn check(
    of: &str,
    name: &str,
    spanned: Spanned<ToolTable>,
    around: &Around<'_>,
) -> Result<ToolConfig, Wrong> {
    let defaults = around.defaults;
    let table = Table::new(format!("{of}.{name}"), spanned.span());
    let mut tool = spanned.into_inner();
    let named = tool.kind.as_ref().map(|kind| kind::named(&table.field("kind"), kind)).transpose()?;
    let passed = is_passed(&table, &tool, named)?;
    if passed {
        let problem = "has no meaning for a tool that is passed on unguarded: leave it out, or guard the tool";
        table.refuse(guarded_only(&tool), problem)?;
    }
    kind::refuse_foreign(&table, &tool, named)?;
    let resource = care::check(&table, name, &tool, named)?;

    let key = tool.key.take().map(|key| key::check(&table, key)).transpose()?;
    let ephemeral = key::ephemeral(&table, tool.ephemeral.take(), key.as_ref())?;
    let pass_key_as = key::passed(&table, tool.pass_key_as.take(), key.as_ref())?;
    let kind = kind::check(&table, name, &mut tool, named, passed, pass_key_as.is_some())?;
    let answers = answers::check(&table, &mut tool)?;
    let repeat = tool.repeat.as_ref().map(|value| repeats(&table.field("repeat"), value)).transpose()?;
    // Arguments that are named as a key say what a repeat is: the same operation.
    let by_key = key.as_ref().map(|_| Repeats::Replay);
    let repeat = repeat.or(defaults.repeat).or(by_key);
    let repeat = match &kind {
        Kind::Observable { observe, .. } if !observe.ask.uses("$key") => {
            if repeat == Some(Repeats::NewAfterDelivery) {
                let problem = "can't be `new-after-delivery` for a tool that is observed by arguments: a second, equal call would be \
                               seen as applied as soon as the first one is; ask by `{$key}`, or write `replay`";
                return Err(match &tool.repeat {
                    Some(repeat) => table.wrong(repeat.span(), "repeat", problem),
                    None => table.lacks("repeat", problem),
                });
            }
            Some(Repeats::Replay)
        }
        _ => repeat,
    };
    let timeout = table.span("timeout", &tool.timeout)?.unwrap_or(defaults.timeout);
    let remembers = match &kind {
        Kind::Deduplicates { limit, .. } => Some(*limit),
        _ => None,
    };
    let retention = retention::check(&table, &tool, defaults, timeout, repeat, remembers)?;
    let total = table.span("total", &tool.total)?;
    if let (Some(total), Some(limit), Some(at)) = (total, remembers, &tool.total)
        && total > limit
    {
        let problem = "must not be longer than `limit`: the tool would take a later attempt for a new operation";
        return Err(table.wrong(at.span(), "total", problem));
    }
    let confidential = encryption::check(&table, &mut tool, &kind, resource.as_ref(), around.has_keys)?;
    let mode = tool.mode.as_ref().map(|value| mode::check(&table.field("mode"), value)).transpose()?;
    Ok(ToolConfig {
        kind,
        mode: mode.unwrap_or(around.mode),
        seen: tool.seen.as_ref().map(|value| seen::check(&table, value)).transpose()?,
        confidential,
        key,
        ephemeral,
        pass_key_as,
        repeat,
        retention,
        timeout,
        call_timeout: table.span("call_timeout", &tool.call_timeout)?,
        attempts: table.count("attempts", &tool.attempts)?,
        total,
        answers,
        resource,
        queue_timeout: table.span("queue_timeout", &tool.queue_timeout)?,
    })
}

fn is_passed(table: &Table, tool: &ToolTable, named: Option<Named>) -> Result<bool, Wrong> {
    match (&tool.guard, named) {
        (Some(guard), Some(Named::Passed)) if *guard.get_ref() => Err(table.wrong(
            guard.span(),
            "guard",
            "can't be `true` for a tool that is declared idempotent or read-only: leave out one of the two",
        )),
        (Some(guard), Some(kind)) if kind != Named::Passed && !*guard.get_ref() => Err(table.wrong(
            guard.span(),
            "guard",
            "can't be `false` for a tool of this kind, which only a guarded call makes use of: leave out `kind`",
        )),
        (Some(guard), _) => Ok(!*guard.get_ref()),
        (None, kind) => Ok(kind == Some(Named::Passed)),
    }
}

fn guarded_only(tool: &ToolTable) -> [super::place::Member; 25] {
    [
        member("mode", &tool.mode),
        member("encrypt", &tool.encrypt),
        member("redact", &tool.redact),
        member("key", &tool.key),
        member("ephemeral", &tool.ephemeral),
        member("pass_key_as", &tool.pass_key_as),
        member("repeat", &tool.repeat),
        member("window", &tool.window),
        member("retry_horizon", &tool.retry_horizon),
        member("expired", &tool.expired),
        member("tombstone", &tool.tombstone),
        member("timeout", &tool.timeout),
        member("call_timeout", &tool.call_timeout),
        member("attempts", &tool.attempts),
        member("total", &tool.total),
        member("errors", &tool.errors),
        member("final_errors", &tool.final_errors),
        member("busy_errors", &tool.busy_errors),
        member("retry_after_at", &tool.retry_after_at),
        member("resource", &tool.resource),
        member("queue_timeout", &tool.queue_timeout),
        member("outside", &tool.outside),
        member("irrevocable", &tool.irrevocable),
        member("exclusive", &tool.exclusive),
        member("opaque", &tool.opaque),
    ]
}

//! A protocol's description: what a designer writes in TOML, and what the world is built from.

use serde::{Deserialize, Serialize};
use settled_protocol::{Backoff, Ends, Policy, Repeat, Retry, Rules, ToolKind};

/// A protocol: where keys come from, what is recorded when, what an unknown outcome leads to, what the tool can do,
/// which faults may happen, and how often.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Description {
    /// A short name.
    pub name: String,
    /// What it is, in a sentence.
    pub about: String,
    /// Where it comes from, and what was simplified.
    #[serde(default)]
    pub source: String,
    /// The callers.
    #[serde(default)]
    pub caller: CallerRules,
    /// What stands between callers and tool.
    #[serde(default)]
    pub guard: GuardRules,
    /// What the tool declares and does.
    #[serde(default)]
    pub tool: ToolRules,
    /// How often each fault may happen in one run.
    #[serde(default)]
    pub faults: Faults,
}

/// What callers do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct CallerRules {
    /// How many logical calls are meant (1 to 3).
    pub operations: u8,
    /// How often one logical call may be made in all, retries included (1 to 4).
    pub calls: u8,
    /// Where keys come from.
    pub key: KeySource,
    /// Whether all logical calls have the same arguments.
    pub same_arguments: bool,
    /// What follows when no answer came.
    pub after_silence: AfterSilence,
    /// What follows when the caller is told that it failed.
    pub after_failed: AfterSilence,
}

impl Default for CallerRules {
    fn default() -> Self {
        CallerRules {
            operations: 1,
            calls: 2,
            key: KeySource::Caller,
            same_arguments: false,
            after_silence: AfterSilence::Retry,
            after_failed: AfterSilence::Retry,
        }
    }
}

/// Where a call's key comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeySource {
    /// The caller's own, the same for every retry; a new one after a definite failure.
    Caller,
    /// A new one for every attempt to call.
    PerCall,
    /// The arguments.
    Arguments,
    /// One key, wrongly used for every logical call.
    Reused,
}

/// Whether a caller calls again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AfterSilence {
    /// It calls again.
    Retry,
    /// It leaves it at that.
    Stop,
}

/// What stands between callers and tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct GuardRules {
    /// How many guard processes share the ledger (1 to 3); 0: callers talk to the tool directly.
    pub processes: u8,
    /// When the intent becomes durable.
    pub intent: Intent,
    /// Whether a new operation is created and dispatched in one write, or in two.
    pub start: StartRule,
    /// Whether one dispatch is at most one delivery (rule 1). A transport that duplicates can't promise it.
    pub single_delivery: bool,
    /// The rules of the design that are kept. All of them, unless a protocol is to be shown failing.
    pub rules: Rules,
}

impl Default for GuardRules {
    fn default() -> Self {
        GuardRules {
            processes: 1,
            intent: Intent::BeforeSend,
            start: StartRule::OneWrite,
            single_delivery: true,
            rules: Rules::SOUND,
        }
    }
}

/// When a guard's record of its intent becomes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Intent {
    /// Before the send, as it must.
    BeforeSend,
    /// Acknowledged at once, durable some time later: a crash may lose it.
    Volatile,
    /// Written together with the outcome, after the effect.
    AfterEffect,
}

/// How a new operation is first written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StartRule {
    /// Created and dispatched in one write.
    OneWrite,
    /// Created first, dispatched by a second write.
    TwoWrites,
}

/// What the tool can do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct ToolRules {
    /// Its kind.
    pub kind: Kind,
    /// Whether it declares that its errors mean "it did not happen".
    pub errors_final: bool,
    /// How many attempts an operation may have.
    pub attempts: u8,
    /// How many observations may tell nothing before a person is asked.
    pub checks: u8,
}

impl Default for ToolRules {
    fn default() -> Self {
        ToolRules { kind: Kind::Opaque, errors_final: false, attempts: 2, checks: 2 }
    }
}

/// The tool kinds of the design.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Nothing can be found out about an attempt.
    Opaque,
    /// Can be asked "applied?"; an effect appears at most one unit of the model's time after its request was sent.
    Observable,
    /// Applies once, can be told never to apply.
    Sealable,
    /// Applies a key once, and never forgets one within the run.
    Deduplicates,
    /// Effect and record commit together.
    Transactional,
}

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident : $flag:literal,)*) => {
        /// How often each fault may happen in one run.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
        pub struct Faults {
            $($(#[$doc])* pub $name: u8,)*
        }

        impl Faults {
            /// The names of all faults, as written in TOML and on the command line.
            pub const NAMES: &'static [&'static str] = &[$($flag,)*];

            /// The bound of the fault with this name.
            pub fn bound(&mut self, name: &str) -> Option<&mut u8> {
                match name {
                    $($flag => Some(&mut self.$name),)*
                    _ => None,
                }
            }

            /// Every fault and its bound.
            pub fn list(&self) -> Vec<(&'static str, u8)> {
                vec![$(($flag, self.$name),)*]
            }
        }
    };
}

faults! {
    /// The guard gives up waiting although the answer, or the effect, may still come.
    timeouts: "timeouts",
    /// A guard process is killed and started again; all that was not durable is gone.
    guard_crashes: "guard-crashes",
    /// A guard takes over an operation from an owner that is not dead but paused.
    takeovers: "takeovers",
    /// The tool's process dies after a request reached it and before the effect.
    tool_crashes_before: "tool-crashes-before",
    /// The tool's process dies after the effect and before its answer.
    tool_crashes_after: "tool-crashes-after",
    /// The tool answers with an error after the effect.
    errors_after: "errors-after",
    /// The tool answers with an error instead of the effect.
    errors_before: "errors-before",
    /// The request is refused before the tool runs, and the error proves it.
    rejections: "rejections",
    /// A request is lost on its way to the tool.
    lost_requests: "lost-requests",
    /// An answer of the tool is lost on its way.
    lost_replies: "lost-replies",
    /// The transport delivers a request twice.
    duplicates: "duplicates",
    /// The caller loses an answer that it got and runs its step again.
    reruns: "reruns",
    /// A person decides an unknown operation, truthfully as far as can be seen.
    decisions: "decisions",
}

/// A bound or a combination that a world can't be built from.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct Unbuildable {
    /// The field, as written in TOML.
    pub field: &'static str,
    /// Why, and what is allowed.
    pub reason: String,
}

impl Description {
    /// Checks that a world can be built: all bounds in range, no contradiction.
    ///
    /// # Errors
    /// Names the field and what is allowed.
    pub fn validate(&self) -> Result<(), Unbuildable> {
        let range = |field, value: u8, low: u8, high: u8| {
            if (low..=high).contains(&value) {
                Ok(())
            } else {
                Err(Unbuildable { field, reason: format!("{value} is out of range: {low} to {high} are allowed") })
            }
        };
        if self.name.is_empty() || self.name.chars().any(char::is_control) {
            return Err(Unbuildable { field: "name", reason: "a name in one line is needed".into() });
        }
        range("caller.operations", self.caller.operations, 1, 3)?;
        range("caller.calls", self.caller.calls, 1, 4)?;
        range("guard.processes", self.guard.processes, 0, 3)?;
        range("tool.attempts", self.tool.attempts, 1, 4)?;
        range("tool.checks", self.tool.checks, 1, 4)?;
        for (name, bound) in self.faults.list() {
            range(name, bound, 0, 4)?;
        }
        if self.guard.intent != Intent::BeforeSend && self.guard.processes > 1 {
            return Err(Unbuildable {
                field: "guard.processes",
                reason: "a guard with `intent = \"volatile\"` or `\"after-effect\"` is modelled as one process".into(),
            });
        }
        if self.guard.processes == 0 && matches!(self.tool.kind, Kind::Transactional) {
            return Err(Unbuildable {
                field: "tool.kind",
                reason:
                    "a transactional tool commits with the guard's record, so it needs `guard.processes` of 1 or more"
                        .into(),
            });
        }
        Ok(())
    }

    /// Whether callers talk to the tool directly.
    pub fn is_direct(&self) -> bool {
        self.guard.processes == 0
    }

    /// The core's policy for this protocol's guard.
    pub fn policy(&self) -> Policy {
        let tool = match self.tool.kind {
            Kind::Opaque => ToolKind::Opaque,
            Kind::Observable => ToolKind::Observable { settling: 1 },
            Kind::Sealable => ToolKind::Sealable,
            Kind::Deduplicates => ToolKind::Deduplicates { limit: u64::MAX, margin: 0, remembers_rejections: false },
            Kind::Transactional => ToolKind::Transactional,
        };
        let ends = match self.caller.key {
            KeySource::Arguments => Ends::OnFailure,
            _ => Ends::WithWindow,
        };
        Policy {
            tool,
            errors_final: self.tool.errors_final,
            single_delivery: self.guard.single_delivery,
            repeat: Repeat { ends, window: None },
            retry: Retry {
                attempts: self.tool.attempts.into(),
                total: u64::MAX,
                checks: self.tool.checks.into(),
                backoff: Backoff { base: 0, cap: 0 },
            },
            rules: self.guard.rules,
        }
    }
}

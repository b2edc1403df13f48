//! What a tool declares, and what the caller's repeats mean. The core takes only the steps that these make safe.

use crate::record::{Cause, Handle, Millis, Record, State, Time, Verdict};
use crate::retry::Retry;

#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

/// What a tool can do (the rows of the design's "What may be concluded, and from what").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "kebab-case"))]
pub enum ToolKind {
    /// Changes nothing: may be sent again at any time.
    ReadOnly,
    /// A second application changes nothing, as long as no other operation on its resource came in between.
    Idempotent,
    /// Nothing can be found out: an unknown is held for a person.
    Opaque,
    /// Can be asked "applied?" (rule 6).
    Observable {
        /// How long after the last possible send an effect can still appear, in milliseconds.
        settling: Millis,
    },
    /// Applies an operation once, and can be asked "applied? if not, never apply attempt n" (rule 7).
    Sealable,
    /// Applies a key once, for a limited time (rule 9).
    Deduplicates {
        /// How long the tool remembers a key, in milliseconds.
        limit: Millis,
        /// The longest pause before sending, plus transit, plus clock skew, in milliseconds.
        margin: Millis,
        /// Whether a rejection is remembered under the key as well (rule 2).
        remembers_rejections: bool,
    },
    /// Effect and record commit in one transaction, which checks record, attempt and epoch under the same lock.
    Transactional,
}

/// When an ended operation lets the same key begin a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "kebab-case"))]
pub enum Ends {
    /// Only with its window. For the caller's own keys: every verdict is replayed.
    WithWindow,
    /// With its window, or when it settled without success. For keys derived from arguments, with `repeat = "replay"`.
    OnFailure,
    /// As `OnFailure`, and once an answer has been delivered: `repeat = "new-after-delivery"`.
    OnDelivery,
}

/// What a repeated call with the same key means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct Repeat {
    /// When the operation is over for this key.
    pub ends: Ends,
    /// How long after it settled an operation is replayed, in milliseconds; `None`: for ever.
    pub window: Option<Millis>,
}

impl Repeat {
    /// Every repeat is a replay, for ever.
    pub const ALWAYS_REPLAY: Repeat = Repeat { ends: Ends::WithWindow, window: None };
}

/// The rules of the design that a policy can be made to break.
///
/// [`Rules::SOUND`] is what every real front door uses; nothing in a configuration file can change it. The others exist so
/// that the model shows published designs failing with this very code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(Serialize, Deserialize),
    serde(deny_unknown_fields, default, rename_all = "kebab-case")
)]
pub struct Rules {
    /// Rule "unknown blocks": hold an opaque tool's unknown. `false`: send it again.
    pub hold_unknown: bool,
    /// Rule 2: an error is definite only if the tool declares so. `false`: every error counts as "it did not happen".
    pub doubt_errors: bool,
    /// Rule 6: "not applied" counts only if asked when nothing can be on its way any more. `false`: it always counts.
    pub wait_for_quiet: bool,
    /// The same key with other arguments is a conflict. `false`: it is answered with what was recorded for the first ones.
    pub check_arguments: bool,
    /// Rule 11: a call that was cancelled after its dispatch goes on. `false`: it is settled as failed.
    pub keep_cancelled: bool,
}

impl Rules {
    /// All rules kept.
    pub const SOUND: Rules = Rules {
        hold_unknown: true,
        doubt_errors: true,
        wait_for_quiet: true,
        check_arguments: true,
        keep_cancelled: true,
    };
}

impl Default for Rules {
    fn default() -> Self {
        Rules::SOUND
    }
}

/// Everything that [`step`](Policy::step) needs to know besides the record and the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct Policy {
    /// What the tool can do.
    pub tool: ToolKind,
    /// Whether the tool declares that its errors mean "it did not happen" (`errors = "final"`, rule 2).
    pub errors_final: bool,
    /// Whether one dispatch is at most one delivery: nothing below the guard retries on its own (rule 1).
    pub single_delivery: bool,
    /// What a repeated call means.
    pub repeat: Repeat,
    /// Budgets and waits.
    pub retry: Retry,
    /// Which rules are kept.
    pub rules: Rules,
}

impl Policy {
    /// The policy for a tool of this kind with the caller's own keys: every verdict replayed for ever, default budgets.
    pub fn new(tool: ToolKind) -> Policy {
        Policy {
            tool,
            errors_final: false,
            single_delivery: true,
            repeat: Repeat::ALWAYS_REPLAY,
            retry: Retry::default(),
            rules: Rules::SOUND,
        }
    }

    /// Whether nothing but a person, an observation or a late reply can end an unknown.
    pub(crate) fn holds_unknown(&self) -> bool {
        self.tool == ToolKind::Opaque && self.rules.hold_unknown
    }

    /// Whether a delivered error ends the operation, so that nobody needs to be asked about it.
    pub(crate) fn ends_with_delivered<H>(&self, cause: &Cause<H>) -> bool {
        self.repeat.ends == Ends::OnDelivery && matches!(cause, Cause::Error(_))
    }

    /// Whether the operation is over for its key, so that the next call is a new one (rule 12 and "Keys").
    pub fn is_over<H: Handle>(&self, record: &Record<H>, now: Time) -> bool {
        let State::Settled { verdict, at, delivered, .. } = record.state else {
            return false;
        };
        let windowed = self.repeat.window.is_some_and(|window| now.since(at) > window);
        windowed
            || match self.repeat.ends {
                Ends::WithWindow => false,
                Ends::OnFailure => !matches!(verdict, Verdict::Succeeded(_)),
                Ends::OnDelivery => match (verdict, delivered) {
                    (Verdict::Failed(_), _) | (Verdict::Abandoned(_), None) => true,
                    (Verdict::Succeeded(_), None) => false,
                    (Verdict::Succeeded(_) | Verdict::Abandoned(_), Some(from)) => now >= from,
                },
            }
    }
}

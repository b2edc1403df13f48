//! A step of the core as a history tells it: enough to take it again.

use serde::{Deserialize, Serialize};
use settled_protocol::{Action, Actions, Answer, Digest, Epoch, Event, Policy, Refusal, SealScope, Time, Wait, What};

/// A step that was taken: everything that [`Policy::step`] was given besides the record, and what it asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    /// What the tool declares, as it was applied.
    #[serde(with = "super::compact_policy")]
    pub policy: Policy,
    /// The event's time.
    pub now: Time,
    /// The event's ownership.
    pub by: Epoch,
    /// The event's random draw.
    pub draw: u32,
    /// What happened.
    pub what: What<Digest>,
    /// What was to be done, in order.
    pub actions: Vec<ToDo>,
}

impl Taken {
    /// A step that was taken.
    pub fn new(policy: Policy, event: &Event<Digest>, actions: &Actions<Digest>) -> Taken {
        let Event { now, by, draw, what } = *event;
        Taken { policy, now, by, draw, what, actions: actions.iter().map(ToDo::of).collect() }
    }

    /// The event that was stepped.
    pub fn event(&self) -> Event<Digest> {
        Event { now: self.now, by: self.by, draw: self.draw, what: self.what }
    }
}

/// An action that a step asked for, in short: what it has in common with the record that was stored is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToDo {
    /// To store the record.
    Store,
    /// To forget the record.
    Forget,
    /// To send this attempt.
    Dispatch(u32),
    /// To ask whether an attempt was applied.
    Observe {
        /// The attempt.
        attempt: u32,
        /// Whether "not applied" will count.
        conclusive: bool,
    },
    /// To ask, and to seal.
    Seal {
        /// The attempt.
        attempt: u32,
        /// How much.
        scope: SealScope,
    },
    /// To answer that it happened.
    Done,
    /// To answer that it did not happen and never will.
    Failed,
    /// To answer that it is unknown.
    Unknown,
    /// To answer that it is under way.
    InProgress,
    /// To answer that other arguments were used.
    Conflict,
    /// To answer that the record is no longer kept.
    Expired,
    /// To wait for the attempt under way.
    Wait,
    /// To wait until this time.
    WaitUntil(Time),
    /// To ask a person.
    Escalate,
    /// To refuse, because the outcome is not unknown.
    RefuseNotUnknown,
    /// To refuse, because something may still be on its way.
    RefuseNotQuiet,
}

impl ToDo {
    /// An action in short.
    pub fn of(action: Action<Digest>) -> ToDo {
        match action {
            Action::Store(_) => ToDo::Store,
            Action::Forget(_) => ToDo::Forget,
            Action::Dispatch(dispatch) => ToDo::Dispatch(dispatch.of().attempt.get()),
            Action::Observe { of, conclusive } => ToDo::Observe { attempt: of.attempt.get(), conclusive },
            Action::Seal { of, scope } => ToDo::Seal { attempt: of.attempt.get(), scope },
            Action::Answer(Answer::Done { .. }) => ToDo::Done,
            Action::Answer(Answer::Failed { .. }) => ToDo::Failed,
            Action::Answer(Answer::Unknown { .. }) => ToDo::Unknown,
            Action::Answer(Answer::InProgress) => ToDo::InProgress,
            Action::Answer(Answer::Conflict) => ToDo::Conflict,
            Action::Answer(Answer::Expired) => ToDo::Expired,
            Action::Wait(Wait::ForAttempt) => ToDo::Wait,
            Action::Wait(Wait::Until(time)) => ToDo::WaitUntil(time),
            Action::Escalate => ToDo::Escalate,
            Action::Refuse(Refusal::NotUnknown) => ToDo::RefuseNotUnknown,
            Action::Refuse(Refusal::NotQuiet) => ToDo::RefuseNotQuiet,
        }
    }
}

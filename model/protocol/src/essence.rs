//! What of a record a step can depend on. For models: records that are alike in that are one.

use crate::policy::{Policy, ToolKind};
use crate::record::{Cause, Epoch, Handle, Millis, Record, Sent, State, Time, Version};

impl Policy {
    /// The record with everything that no step under this policy depends on made equal, if models load and store in one
    /// move (so that no version is ever compared).
    ///
    /// Steps respect it: from records with the same essence, each event asks for the same, and leads to records with the
    /// same essence. That is tested over all typed states and events.
    pub fn essence<H: Handle>(&self, record: &Record<H>) -> Record<H> {
        let untimed = self.retry.total == Millis::MAX;
        let sent = |sent: Sent| self.essence_of_sent(sent);
        // Whether it is the owner's own matters only while something of it may still be sent.
        let ownerless = |its: Sent| Sent { owner: Epoch(0), ..sent(its) };
        let waiting = |its: Sent| if self.is_observable() { sent(its) } else { ownerless(its) };
        let state = match record.state {
            State::Created => State::Created,
            State::Dispatched(its) => State::Dispatched(sent(its)),
            State::Unknown { sent: its, cause, checks, quiet } => {
                let checks = checks.min(self.retry.checks);
                State::Unknown { sent: waiting(its), cause: essence_of_cause(cause), checks, quiet }
            }
            State::Escalated { sent: its, cause } => {
                State::Escalated { sent: ownerless(its), cause: essence_of_cause(cause) }
            }
            State::Confirmed { sent: its, outcome } => State::Confirmed { sent: ownerless(its), outcome },
            State::Settled { verdict, sent: its, at, delivered } => State::Settled {
                verdict,
                sent: its.map(ownerless),
                at: if self.repeat.window.is_some() { at } else { Time(0) },
                delivered,
            },
        };
        let created = if untimed { Time(0) } else { record.created };
        Record { version: Version(0), created, state, ..*record }
    }

    fn is_observable(&self) -> bool {
        matches!(self.tool, ToolKind::Observable { .. })
    }

    fn essence_of_sent(&self, sent: Sent) -> Sent {
        let limited = matches!(self.tool, ToolKind::Deduplicates { limit, .. } if limit != u64::MAX);
        Sent { at: Time(0), first: if limited { sent.first } else { Time(0) }, ..sent }
    }
}

/// Which silence it was makes no difference; an error's text does.
fn essence_of_cause<H>(cause: Cause<H>) -> Cause<H> {
    match cause {
        Cause::TimedOut | Cause::ConnectionLost | Cause::OwnerLost => Cause::TimedOut,
        Cause::Error(_) | Cause::Refused(_) => cause,
    }
}

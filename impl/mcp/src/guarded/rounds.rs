//! Rounds: a tool may ask for input before it does anything (`input_required`, revision 2026-07-28), and the client sends the call
//! again with its answers. All rounds of a call are one operation.
//!
//! * A question is no outcome: the attempt that ended with it did not run, so the next round may be sent.
//! * A round is told apart by what the client answers in it. The same answers again are the same round: a retry.
//! * Only while the operation waits for input is a round other than the last one sent. Once an attempt has had an outcome, or
//!   nobody knows whether it had, every round is told that.

use settled_protocol::{Digest, Ends, Policy};

use crate::guarded::keys::{CallKey, Round};

/// The round that an operation has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Last {
    pub(crate) fingerprint: Digest,
    /// `None`: it can't be told which.
    pub(crate) round: Option<Round>,
    /// It ended with a question.
    pub(crate) waits_for_input: bool,
}

/// The policy for a call that may be a later round of an operation.
pub(crate) fn policy(mut policy: Policy, found: &CallKey, last: Option<&Last>) -> Policy {
    if found.round == Round::First {
        return policy;
    }
    let Some(last) = last.filter(|last| last.fingerprint == found.fingerprint) else { return policy };
    let is_same = last.round.as_ref() == Some(&found.round);
    policy.repeat.ends = match policy.repeat.ends {
        // The question counts as a failure, which the caller's own key keeps; but it is not what the key stands for.
        Ends::WithWindow if !is_same && last.waits_for_input => Ends::OnFailure,
        // The same round again is never a new wish, also once its answer has arrived.
        Ends::OnDelivery if is_same => Ends::OnFailure,
        ends => ends,
    };
    policy
}

#[cfg(test)]
mod tests;

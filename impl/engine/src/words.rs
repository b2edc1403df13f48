//! What led to a change, in a word or two: for histories and figures.

use settled_protocol::{Digest, ErrorClass, Loss, Observation, Record, Reply, State, What};

use crate::figures;

/// What led to another attempt.
pub(crate) fn retried_because(what: &What<Digest>, before: Option<&State<Digest>>) -> &'static str {
    match (what, before) {
        (What::Reply { .. }, _) => "busy",
        (What::Observed { observation: Observation::Sealed(_), .. }, _) => "sealed",
        (What::Observed { .. }, _) => "not applied",
        (_, Some(State::Unknown { cause, .. })) => figures::cause_name(cause),
        _ => "resumed",
    }
}

/// What settles an operation, for the figures.
pub(crate) fn settled_by(what: &What<Digest>, was_doubtful: bool) -> &'static str {
    match what {
        What::Reply { .. } if was_doubtful => "late reply",
        What::Reply { .. } => "reply",
        What::Observed { observation: Observation::Sealed(_), .. } => "seal",
        What::Observed { .. } => "observation",
        What::Decide { .. } => "person",
        What::Cancel => "cancel",
        What::Delivered { .. } => "delivery",
        _ => "rule",
    }
}

/// An event in a word or two, as ledgers and histories have it: what led from a state to a record.
pub fn word(what: &What<Digest>, before: Option<&State<Digest>>, after: &Record<Digest>) -> &'static str {
    match what {
        What::Call { .. } => "call",
        What::Resume { .. } if matches!(before, Some(State::Dispatched(_))) => "owner lost",
        What::Resume { .. } if matches!(before, Some(State::Created)) => "sent in its turn",
        What::Resume { .. } if matches!(after.state(), State::Dispatched(_)) => "sent again",
        What::Resume { .. } => "resumed",
        What::Reply { reply: Reply::Result(_), .. } => "result",
        What::Reply { reply: Reply::Error(ErrorClass::Busy, _), .. } => "busy",
        What::Reply { reply: Reply::Error(..), .. } => "error",
        What::Lost { how: Loss::TimedOut, .. } => "timed out",
        What::Lost { how: Loss::ConnectionLost, .. } => "connection lost",
        What::Observed { observation: Observation::Applied(_), .. } => "seen applied",
        What::Observed { observation: Observation::NotApplied, .. } => "seen not applied",
        What::Observed { observation: Observation::Sealed(_), .. } => "sealed",
        What::Observed { observation: Observation::Unclear, .. } => "seen nothing",
        What::Committed { .. } => "committed",
        What::Alerted => "escalated",
        What::Decide { .. } => "decided",
        What::Cancel => "cancelled",
        What::Delivered { .. } => "delivered",
        What::Expire => "expired",
    }
}

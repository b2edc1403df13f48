//! From the core's answers, which hold handles, to callers' answers, which hold the bodies.

use bytes::Bytes;
use settled_protocol as protocol;
use settled_protocol::{Digest, Key, Record, State, Verdict};

use crate::history::Happened;
use crate::ledger::{Entry, LedgerError};
use crate::operation::{Answer, Answered};

/// The bodies of an operation that a driver has just received, and may not be in the ledger yet.
#[derive(Default)]
pub(crate) struct Bodies(Vec<(Digest, Bytes)>);

impl Bodies {
    /// Keeps a body; returns its handle.
    pub(crate) fn keep(&mut self, body: Bytes) -> Digest {
        let handle = Digest::of(&body);
        if !self.0.iter().any(|(known, _)| *known == handle) {
            self.0.push((handle, body));
        }
        handle
    }

    /// The body with this handle: as just received, or from the ledger's entry.
    pub(crate) fn find(&self, handle: Digest, entry: Option<&Entry>) -> Result<Bytes, LedgerError> {
        if let Some((_, body)) = self.0.iter().find(|(known, _)| *known == handle) {
            return Ok(body.clone());
        }
        let stored = entry.and_then(|entry| entry.outcome.as_ref());
        match stored {
            Some(body) if Digest::of(body) == handle => Ok(body.clone()),
            Some(_) => Err(LedgerError::Corrupt("the stored answer is not the one that the record names".into())),
            None => Err(LedgerError::Corrupt("the answer that the record names is missing".into())),
        }
    }

    /// What a change to this record must store as its outcome: the body that the record names, unless it is stored already.
    pub(crate) fn to_store(&self, record: &Record<Digest>, before: Option<&Entry>) -> Option<Bytes> {
        let handle = handle_of(record.state())?;
        let (_, body) = self.0.iter().find(|(known, _)| *known == handle)?;
        let stored = before
            .filter(|entry| entry.record.generation() == record.generation())
            .is_some_and(|entry| entry.outcome.as_ref() == Some(body));
        (!stored).then(|| body.clone())
    }
}

fn handle_of(state: &State<Digest>) -> Option<Digest> {
    let cause_of = |cause: &protocol::Cause<Digest>| match cause {
        protocol::Cause::Error(error) | protocol::Cause::Refused(error) => Some(*error),
        protocol::Cause::TimedOut | protocol::Cause::ConnectionLost | protocol::Cause::OwnerLost => None,
    };
    match state {
        State::Created | State::Dispatched(_) => None,
        State::Unknown { cause, .. } | State::Escalated { cause, .. } => cause_of(cause),
        State::Confirmed { outcome: protocol::Outcome::Succeeded(handle), .. } => Some(*handle),
        State::Confirmed { outcome: protocol::Outcome::Failed(handle), .. } => *handle,
        State::Settled { verdict: Verdict::Succeeded(handle), .. } => Some(*handle),
        State::Settled { verdict: Verdict::Failed(handle), .. } => *handle,
        State::Settled { verdict: Verdict::Abandoned(handle), .. } => *handle,
    }
}

/// What a caller has to do with the operation that it is told about.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    /// Its call began the operation.
    pub(crate) began: bool,
    /// An attempt was sent for its call.
    pub(crate) sent: bool,
}

impl Part {
    /// It only looked on.
    pub(crate) const NONE: Part = Part { began: false, sent: false };
}

/// An answer with its bodies. A body that can't be read leaves "unknown": the operation may well have happened, so an
/// error would be a lie; the damage is logged.
pub(crate) fn spell_out(
    key: &Key,
    entry: Option<&Entry>,
    bodies: &Bodies,
    answer: protocol::Answer<Digest>,
    part: Part,
) -> Answered {
    let body = |handle| bodies.find(handle, entry);
    let bodied = |handle: Option<Digest>| handle.map(body).transpose();
    let spelt = match answer {
        protocol::Answer::Done { result, replayed } => {
            body(result).map(|result| Answer::Done { result, replayed: replayed || !part.began })
        }
        protocol::Answer::Failed { error, replayed } => {
            bodied(error).map(|error| Answer::Failed { error, replayed: replayed || !part.began })
        }
        protocol::Answer::Unknown { error } => {
            bodied(error).map(|error| Answer::Unknown { error, replayed: !part.sent })
        }
        protocol::Answer::InProgress => Ok(Answer::InProgress),
        protocol::Answer::Conflict => Ok(Answer::Conflict),
        protocol::Answer::Expired => Ok(Answer::Expired),
    };
    let answer = spelt.unwrap_or_else(|error| {
        tracing::error!(%key, %error, "an answer can't be given");
        Answer::Unknown { error: None, replayed: !part.sent }
    });
    about(key, entry, answer)
}

/// An answer about the operation of this entry. A conflict says nothing of it, not even when it was asked for.
pub(crate) fn about(key: &Key, entry: Option<&Entry>, answer: Answer) -> Answered {
    let record = entry.map(|entry| &entry.record).filter(|_| !matches!(answer, Answer::Conflict | Answer::Expired));
    Answered {
        key: key.clone(),
        generation: record.map_or(0, Record::generation),
        created: record.map_or(0, |record| record.created().0),
        answer,
    }
}

/// The same answer, for a caller who joined the one who got it.
pub(crate) fn told_again(mut answered: Answered) -> Answered {
    match &mut answered.answer {
        Answer::Done { replayed, .. } | Answer::Failed { replayed, .. } | Answer::Unknown { replayed, .. } => {
            *replayed = true;
        }
        Answer::InProgress | Answer::Conflict | Answer::Expired => {}
    }
    answered
}

/// An answer's line in the history.
pub(crate) fn line(call: u64, answered: &Answered) -> Happened {
    let (answer, body, replayed) = match &answered.answer {
        Answer::Done { result, replayed } => ("done", Some(result), *replayed),
        Answer::Failed { error, replayed } => ("failed", error.as_ref(), *replayed),
        Answer::Unknown { error, replayed } => ("unknown", error.as_ref(), *replayed),
        Answer::InProgress => ("in progress", None, false),
        Answer::Conflict => ("conflict", None, false),
        Answer::Expired => ("expired", None, false),
    };
    Happened::Answered {
        call,
        generation: answered.generation,
        answer: answer.into(),
        digest: body.map(|body| Digest::of(body)),
        replayed,
    }
}

//! The guard: a state machine for each key, whose record the ledger keeps.

use settled_model::machine::{Act, Guard, GuardStep, Stage, View, Write};
use settled_model::world::DEAD;
use settled_protocol::{Answer, Epoch, Event, Observation, Reply, SealScope, Verdict, What};

use crate::Phase;

/// What the guard keeps for one key: as little as its steps depend on, since each different record is another world. So it
/// has no time and no counter, and an owner only while that process may still send something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Record {
    /// This process asks for a reservation.
    Reserving(Epoch),
    /// There is one, and this process confirms it.
    Reserved(Epoch),
    /// It is being cancelled, unless it was confirmed; the latest that was sent is this.
    Cancelling(Phase),
    /// The call took effect: this one. The latest that was sent is this.
    Confirmed(Phase, u8),
    /// The call has no effect and never will. The latest that was sent is this.
    Cancelled(Phase),
}

use Record::{Cancelled, Cancelling, Confirmed, Reserved, Reserving};

impl Record {
    fn latest(self) -> Phase {
        match self {
            Reserving(_) => Phase::Reserve,
            Reserved(_) => Phase::Confirm,
            Cancelling(latest) | Confirmed(latest, _) | Cancelled(latest) => latest,
        }
    }
}

/// Reserves, confirms, and cancels whatever goes wrong before the confirmation is answered.
#[derive(Clone, Copy, Debug)]
pub struct ReservingGuard;

fn only(act: Act) -> GuardStep<Record> {
    GuardStep { write: Write::Nothing, acts: vec![act] }
}

/// A write first: then the act comes after it, or not at all. A crash can fall in between.
fn put(record: Record, act: Act) -> GuardStep<Record> {
    GuardStep { write: Write::Put(record), acts: vec![act] }
}

/// Asking to seal the operation is what cancelling is here.
fn cancel(latest: Phase) -> Act {
    Act::Seal { of: latest.attempt(), scope: SealScope::Operation }
}

impl Guard for ReservingGuard {
    type Record = Record;

    /// Asked with the record as it is in the ledger now, whichever process wrote it, and with any event in any record: answers
    /// come late, twice, and to operations that have ended. `event.by` is the process that steps. What it should not act upon
    /// it answers with nothing.
    fn step(&self, record: Option<&Record>, event: &Event<u8>) -> GuardStep<Record> {
        match (record.copied(), event.what) {
            (None, What::Call { .. }) => put(Reserving(event.by), Act::Send(Phase::Reserve.attempt())),
            (Some(Confirmed(_, result)), What::Call { .. }) => {
                only(Act::Answer(Answer::Done { result, replayed: true }))
            }
            (Some(Cancelled(_)), What::Call { .. }) => {
                only(Act::Answer(Answer::Failed { error: None, replayed: true }))
            }
            (Some(_), What::Call { .. }) => only(Act::Wait),
            (None | Some(Confirmed(..) | Cancelled(_)), _) => GuardStep { write: Write::Nothing, acts: Vec::new() },
            (Some(Reserving(_)), What::Reply { reply: Reply::Result(0), .. }) => {
                put(Reserved(event.by), Act::Send(Phase::Confirm.attempt()))
            }
            (
                Some(open),
                What::Reply { reply: Reply::Result(result @ 1..), .. }
                | What::Observed { observation: Observation::Applied(result), .. },
            ) => put(Confirmed(open.latest(), result), Act::Answer(Answer::Done { result, replayed: false })),
            (Some(Cancelling(latest)), What::Observed { observation: Observation::Sealed(_), .. }) => {
                put(Cancelled(latest), Act::Answer(Answer::Failed { error: None, replayed: false }))
            }
            // The question or its answer died with the process that asked.
            (Some(Cancelling(latest)), What::Resume { .. }) => only(cancel(latest)),
            (Some(open @ (Reserving(_) | Reserved(_))), What::Resume { .. } | What::Cancel) => {
                put(Cancelling(open.latest()), cancel(open.latest()))
            }
            // News of an earlier attempt is no reason to give up the latest.
            (
                Some(open @ (Reserving(_) | Reserved(_))),
                What::Lost { of, .. } | What::Reply { of, reply: Reply::Error(..) },
            ) if of == open.latest().attempt() => put(Cancelling(open.latest()), cancel(open.latest())),
            (Some(_), _) => GuardStep { write: Write::Nothing, acts: Vec::new() },
        }
    }

    /// Tells the world where the record is in its life. From that it knows which events can come next (a `Dispatched` record's
    /// owner may time out, its death or a takeover is a `Resume`; an `Unknown` is resumed by anyone), whether a send was on
    /// record before it went out, which answers count as final, and when the operation has ended.
    fn view(&self, record: &Record) -> View {
        let stage = match *record {
            Reserving(owner) | Reserved(owner) => Stage::Dispatched(owner),
            Cancelling(_) => Stage::Unknown(DEAD),
            Confirmed(_, effect) => Stage::Settled(Verdict::Succeeded(effect)),
            Cancelled(_) => Stage::Settled(Verdict::Failed(None)),
        };
        // No key serves two calls here, so arguments are always 0, and a settled key begins nothing new.
        let attempt = Some(record.latest().attempt());
        View { stage, attempt, generation: 1, arguments: 0, over: false, until: None }
    }

    /// Asked when a process dies (its name becomes [`DEAD`]) and to find worlds that differ only in who is who. Every owner in
    /// the record must go through `name`, and no step may depend on which process it is, only on whether it is the same.
    fn with_owner(&self, record: &Record, name: &dyn Fn(Epoch) -> Epoch) -> Record {
        match *record {
            Reserving(owner) => Reserving(name(owner)),
            Reserved(owner) => Reserved(name(owner)),
            ownerless @ (Cancelling(_) | Confirmed(..) | Cancelled(_)) => ownerless,
        }
    }

    /// The record in words, for traces. Two records that differ must read differently, or a trace shows no change.
    fn say(&self, record: &Record) -> String {
        match record {
            Reserving(_) => "asking for a reservation".to_owned(),
            Reserved(_) => "reserved; to be confirmed".to_owned(),
            Cancelling(_) => "being cancelled".to_owned(),
            Confirmed(_, effect) => format!("confirmed: effect {effect}"),
            Cancelled(_) => "cancelled".to_owned(),
        }
    }
}

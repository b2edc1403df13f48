//! The guard that ships: the protocol core itself.

use settled_protocol::{
    Action, Cause, Durable, Ends, Epoch, Event, Outcome, Policy, Record, State, Time, ToolKind, Verdict,
};

use super::{Act, Guard, GuardStep, Stage, View, Write};

/// The protocol core under a policy: the same `step` that the engine runs.
#[derive(Clone, Copy, Debug)]
pub struct CoreGuard {
    /// The policy.
    pub policy: Policy,
}

impl Guard for CoreGuard {
    type Record = Record<u8>;

    fn step(&self, record: Option<&Record<u8>>, event: &Event<u8>) -> GuardStep<Record<u8>> {
        let step = self.policy.step(record, event);
        let mut write = Write::Nothing;
        let mut proof = None;
        let mut acts = Vec::new();
        for action in step.actions.iter() {
            match action {
                Action::Store(store) => {
                    // Load and store are one move here, so the expected version is always the one in the ledger.
                    proof = Some(Durable::attest(&store.record));
                    write = Write::Put(self.policy.essence(&store.record));
                }
                Action::Forget(_) => write = Write::Forget,
                // Handed out only against the proof, as everywhere; the world sends it after the write, or not at all.
                Action::Dispatch(dispatch) => {
                    acts.extend(proof.and_then(|proof| dispatch.send(&proof).ok()).map(|(of, _)| Act::Send(of)));
                }
                Action::Observe { of, conclusive } => acts.push(Act::Observe { of, conclusive }),
                Action::Seal { of, scope } => acts.push(Act::Seal { of, scope }),
                Action::Answer(answer) => acts.push(Act::Answer(answer)),
                Action::Wait(settled_protocol::Wait::ForAttempt) => acts.push(Act::Wait),
                // The world itself decides when anyone looks again.
                Action::Wait(_) | Action::Refuse(_) => {}
                Action::Escalate => acts.push(Act::Escalate),
            }
        }
        GuardStep { write, acts }
    }

    fn view(&self, record: &Record<u8>) -> View {
        let stage = match *record.state() {
            State::Created => Stage::Created,
            State::Dispatched(sent) => Stage::Dispatched(sent.owner()),
            State::Unknown { sent, .. } => Stage::Unknown(sent.owner()),
            State::Escalated { .. } => Stage::Escalated,
            State::Confirmed { .. } => Stage::Confirmed,
            State::Settled { verdict, .. } => Stage::Settled(verdict),
        };
        let until = match (*record.state(), self.policy.tool) {
            (State::Unknown { quiet: Some(since), .. }, ToolKind::Observable { settling }) => {
                Some(since.after(settling))
            }
            _ => None,
        };
        let untimed = Policy { repeat: settled_protocol::Repeat { window: None, ..self.policy.repeat }, ..self.policy };
        View {
            stage,
            attempt: record.attempt_id(),
            generation: record.generation(),
            arguments: record.fingerprint(),
            until,
            over: self.policy.repeat.ends != Ends::WithWindow && untimed.is_over(record, Time(u64::MAX)),
        }
    }

    fn with_owner(&self, record: &Record<u8>, name: &dyn Fn(Epoch) -> Epoch) -> Record<u8> {
        record.with_owner(name)
    }

    fn say(&self, record: &Record<u8>) -> String {
        // Which silence it was is not kept: no step depends on it (see `Policy::essence`).
        let why = |cause: &Cause<u8>| match cause {
            Cause::TimedOut | Cause::ConnectionLost | Cause::OwnerLost => "no answer",
            Cause::Error(_) => "an error that proves nothing",
            Cause::Refused(_) => "refused, but another attempt may apply",
        };
        match record.state() {
            State::Created => "intent created".to_owned(),
            State::Dispatched(sent) => format!("dispatched, attempt {}", sent.attempt()),
            State::Unknown { sent, cause, quiet, .. } => {
                let quiet = if quiet.is_some() { "; its sender is done" } else { "" };
                format!("unknown, attempt {}: {}{quiet}", sent.attempt(), why(cause))
            }
            State::Escalated { .. } => "escalated".to_owned(),
            State::Confirmed { outcome: Outcome::Succeeded(effect), .. } => format!("confirmed: effect {effect}"),
            State::Confirmed { outcome: Outcome::Failed(_), .. } => "confirmed: failed".to_owned(),
            State::Settled { verdict: Verdict::Succeeded(effect), .. } => {
                format!("settled: succeeded (effect {effect})")
            }
            State::Settled { verdict: Verdict::Failed(_), .. } => "settled: failed".to_owned(),
            State::Settled { verdict: Verdict::Abandoned(_), .. } => "settled: abandoned".to_owned(),
        }
    }
}

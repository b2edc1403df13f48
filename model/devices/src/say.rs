//! States and moves in words.

use settled_explorer::{Readable, Said, Snapshot};

use crate::description::{OpId, Target};
use crate::moves::Move;
use crate::world::{DeviceWorld, Entry, NOTHING, SERVER, State};

impl Readable for DeviceWorld {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn description(&self) -> serde_json::Value {
        serde_json::json!({ "name": self.name, "devices": self.devices, "faults": self.faults })
    }

    fn say(&self, before: &State, what: Move, after: &State) -> Said {
        let server = || Some("server".to_owned());
        let (from, to, kind, text) = match what {
            Move::Skew { device, ahead } => {
                let way = if ahead { "ahead" } else { "behind" };
                (lane(device), None, "clock-skew", format!("its clock is one unit of time {way}"))
            }
            Move::Jump { device, ahead } => {
                let way = if ahead { "ahead" } else { "back" };
                (lane(device), None, "clock-jump", format!("its clock jumps one unit of time {way}"))
            }
            Move::Make { device, later } => {
                let mut made = *before;
                let op = self.next(before, device).unwrap_or_default();
                let circumstances = self.make(&mut made, device, later).map(|()| self.made(&made, op));
                let text = format!("makes operation {} offline{}", self.op(op), circumstances.unwrap_or_default());
                (lane(device), None, "make", text)
            }
            Move::Send(op) => {
                let again = if before.held[SERVER].of(op) > 0 { " again, as it got no answer" } else { "" };
                (lane(self.maker(op)), server(), "send", format!("operation {}{again}", self.op(op)))
            }
            Move::Arrive(op) => {
                let knows = before.is_recorded(op);
                let applies = self.applies(before, op);
                let text = match (knows, before.entry(op) == Entry::Queued) {
                    (true, true) => format!("has applied {} before; acknowledges it", self.op(op)),
                    (true, false) => format!("has applied {} before", self.op(op)),
                    (false, true) => format!("{applies}; acknowledges it"),
                    (false, false) => applies,
                };
                let kind = if knows { "deduplicate" } else { "apply" };
                ("server".into(), Some(lane(self.maker(op))), kind, text)
            }
            Move::LoseReply(op) => {
                let text = if before.is_recorded(op) {
                    format!("has applied {} before; its acknowledgement is lost", self.op(op))
                } else {
                    format!("{}; its acknowledgement is lost", self.applies(before, op))
                };
                ("server".into(), None, "lose-reply", text)
            }
            Move::Crash(op) => {
                let record = match (after.is_recorded(op), self.devices.op_id) {
                    (true, _) => "after the record, before its answer",
                    (false, OpId::Device) => "before the record",
                    (false, OpId::Server) => "before its answer",
                };
                ("server".into(), None, "crash", format!("{}, and dies {record}", self.applies(before, op)))
            }
            Move::LoseRequest(op) => {
                ("network".into(), None, "lose-request", format!("a request with {} is lost", self.op(op)))
            }
            Move::Duplicate(op) => {
                ("network".into(), None, "duplicate", format!("a request with {} is doubled", self.op(op)))
            }
            Move::Restart(device) => {
                (lane(device), None, "restart", "restarts, and sends again what was on its way".to_owned())
            }
            Move::Pull { device, operation } => {
                let own = if self.maker(operation) == device { ", its own" } else { "" };
                ("server".into(), Some(lane(device)), "pull", format!("operation {}{own}", self.op(operation)))
            }
        };
        Said { from, to, kind, text }
    }

    fn snapshot(&self, state: &State) -> Snapshot {
        let devices = 0..self.devices.devices;
        Snapshot {
            callers: devices.map(|device| self.device(state, device)).collect(),
            guards: vec![format!("server: {}", self.replica(state, SERVER))],
            ledger: self
                .operations()
                .filter(|op| state.is_recorded(*op))
                .map(|op| format!("{} is recorded as applied", self.op(op)))
                .collect(),
            network: self
                .operations()
                .filter(|op| state.requests.of(*op) > 0)
                .map(|op| format!("{} on its way to the server{}", self.op(op), times(state.requests.of(op))))
                .collect(),
            effects: self
                .operations()
                .filter(|op| state.held[SERVER].of(*op) > 0)
                .map(|op| format!("{} took effect at the server{}", self.op(op), times(state.held[SERVER].of(op))))
                .collect(),
        }
    }

    fn effects(&self, state: &State) -> Vec<usize> {
        self.operations().map(|op| state.held[SERVER].of(op).into()).collect()
    }
}

impl DeviceWorld {
    /// An operation's name: its device's number and a letter.
    fn op(&self, operation: u8) -> String {
        let letter = if operation.is_multiple_of(self.devices.operations) { 'a' } else { 'b' };
        format!("{}{letter}", self.maker(operation) + 1)
    }

    fn ops(&self, set: u8) -> String {
        let names: Vec<_> = self.operations().filter(|op| set & 1 << op != 0).map(|op| self.op(op)).collect();
        if names.is_empty() { "nothing".into() } else { names.join(", ") }
    }

    /// What the server does with an operation that is new to it.
    fn applies(&self, before: &State, operation: u8) -> String {
        let applies = format!("applies {}", self.op(operation));
        if !self.corrects() {
            return applies;
        }
        let mut after = *before;
        self.date(&mut after, operation);
        let at = usize::from(operation);
        match (after.times[at], after.given[at]) {
            (made, given) if made == given => applies,
            (_, given) => format!("{applies} at event time {}, since its device's clock is off", self.time(given)),
        }
    }

    fn time(&self, time: u8) -> String {
        let (wall, logical) = (time >> 4, time & 0xf);
        match (self.devices.reads_clock(), logical) {
            (true, 0) => format!("{wall}"),
            (true, _) => format!("{wall}+{logical}"),
            (false, _) => format!("{logical}"),
        }
    }

    /// Under which circumstances an operation was made, as far as they matter.
    fn made(&self, state: &State, operation: u8) -> String {
        if self.devices.target == Target::Counter {
            return String::new();
        }
        let time = self.time(state.times[usize::from(operation)]);
        format!(", at event time {time}, after seeing {}", self.ops(state.seen[usize::from(operation)]))
    }

    fn replica(&self, state: &State, replica: usize) -> String {
        let value = self.value(state, replica);
        let shows = match self.devices.target {
            Target::Counter => format!("{value}"),
            Target::Register if value == NOTHING => "nothing".into(),
            Target::Register => self.op(value),
        };
        format!("holds {}; shows {shows}", self.ops(state.held[replica].set()))
    }

    fn device(&self, state: &State, device: u8) -> String {
        let mut line = format!("{}: {}", lane(device), self.replica(state, device.into()));
        let queued = self.operations().filter(|op| self.maker(*op) == device && state.entry(*op) == Entry::Queued);
        let queued = queued.fold(0, |all, op| all | 1 << op);
        if queued != 0 {
            line += &format!("; not acknowledged: {}", self.ops(queued));
        }
        if self.clock_matters(state, device) {
            line += &format!("; its clock says {}", state.wall(device));
        }
        line
    }
}

fn lane(device: u8) -> String {
    format!("device {}", device + 1)
}

fn times(count: u8) -> String {
    if count > 1 { format!(", {count} times") } else { String::new() }
}

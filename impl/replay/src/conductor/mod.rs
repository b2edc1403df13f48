//! The conductor: starts the processes of a replay, is the network between them, and lets each go on when the schedule says so.

mod free;
mod guards;
mod ledger;
mod loose;
mod moves;
mod network;
mod offline;
mod parts;
mod quiet;
mod sends;
mod tool;

use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use settled::protocol::{Epoch, Key, Version};
use settled::{Change, Remains};
use settled_model::Rules;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::devices::Replica;
use crate::judge::Evidence;
use crate::wire::{Frame, FromPart, Gate, Keys, OpAnswer, Reply, Role, Told, Which};

pub use self::offline::Walls;
pub use self::parts::Program;

/// Reality did something else than was expected.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Parted {
    /// What was expected.
    pub expected: String,
    /// What there was instead.
    pub seen: String,
}

/// Something that reached the conductor.
enum Event {
    Greeted(Role, u32, u16, mpsc::UnboundedSender<crate::wire::ToPart>),
    From(Role, u32, FromPart),
    Accepted(u64, Frame, mpsc::UnboundedSender<Option<Reply>>),
    /// The other end of a connection has gone.
    Closed(u64),
    Delivered(u64, Option<Reply>),
    Answered(u64, Option<Reply>),
}

/// A process.
struct Part {
    incarnation: u32,
    child: tokio::process::Child,
    to: Option<mpsc::UnboundedSender<crate::wire::ToPart>>,
    port: u16,
    ready: bool,
    stopped: bool,
}

/// A request or question on its way to the tool.
#[derive(Clone)]
struct InTransit {
    connection: u64,
    frame: Frame,
    which: Which,
    from: u8,
    cut: bool,
}

/// An answer of the tool on its way back.
struct Back {
    connection: u64,
    which: Which,
    from: u8,
    question: bool,
    reply: Option<Reply>,
}

/// A delivery at the tool.
struct AtTool {
    what: InTransit,
    stopped: bool,
    working: bool,
}

/// A caller's latest call of a guard.
struct Calling {
    connection: u64,
    call: crate::wire::Call,
    guard: Option<u8>,
    answer: Option<Reply>,
}

/// A guard that waits for leave to store.
struct Storing {
    guard: u8,
    id: u64,
    change: Box<Change>,
}

/// A guard that waits for leave to forget.
struct Forgetting {
    guard: u8,
    id: u64,
    key: Key,
    expected: Version,
    remains: Remains,
}

/// A guard at a gate.
struct AtGate {
    guard: u8,
    id: u64,
    gate: Gate,
    /// The guard's time when it came there.
    since: u64,
}

/// A guard that wants to know when a record changes.
struct Watching {
    guard: u8,
    id: u64,
    key: Key,
}

/// Why the ledger was asked.
enum Purpose {
    Guard(u8, u32, u64, Option<u8>),
    Line(u8, u32, u64),
    Own,
}

/// How a replay is carried out.
#[derive(Clone, Debug)]
pub struct Options {
    /// How its processes are started.
    pub program: Program,
    /// How long what is expected may take.
    pub patience: Duration,
    /// The ledger's URL; a directory of its own if none is given.
    pub ledger: Option<String>,
    /// Where to keep files; they are removed if it is not given.
    pub keep: Option<PathBuf>,
    /// The program whose `mcp` stands as a guard instead of the engine alone, if any: only where a schedule is gone through
    /// loosely.
    pub proxy: Option<PathBuf>,
    /// Whether guards and ledger make the mistakes that the description declares. Without, a trace that needs them parts.
    pub mistakes: bool,
}

/// A replay under way.
pub struct Stage {
    options: Options,
    rules: Rules,
    keys: Keys,
    directory: PathBuf,
    spec: PathBuf,
    parts: HashMap<Role, Part>,
    incarnations: u32,
    sender: mpsc::UnboundedSender<Event>,
    events: mpsc::UnboundedReceiver<Event>,
    next: u64,
    acks: HashSet<u64>,
    activity: u64,
    lenient: bool,
    log: Option<std::fs::File>,

    connections: HashMap<u64, mpsc::UnboundedSender<Option<Reply>>>,
    calls: HashMap<u8, Calling>,
    calls_made: HashMap<u8, u32>,
    in_transit: Vec<InTransit>,
    back: Vec<Back>,
    at_tool: HashMap<u64, AtTool>,
    storing: Vec<Storing>,
    forgetting: Vec<Forgetting>,
    gates: Vec<AtGate>,
    watching: Vec<Watching>,
    asked: HashMap<u64, Purpose>,
    answers: HashMap<u64, OpAnswer>,
    versions: HashMap<Key, Option<Version>>,
    epochs: HashMap<Epoch, (u8, u32)>,
    lapsed: HashSet<Epoch>,
    blind: HashSet<u8>,
    looks: HashMap<(u8, u8), u64>,
    generations: HashMap<u8, u32>,
    shown: HashMap<u64, (Replica, Vec<u8>)>,
    heard: u64,
    proxies: HashMap<u8, u32>,
    last_asked: HashMap<(u8, u8), u64>,
    told: HashMap<(u8, u32), Told>,
    units: u64,
    offsets: HashMap<u8, i64>,
    /// What the properties are decided on.
    pub evidence: Evidence,
}

impl Stage {
    /// Its keys.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    fn direct(&self) -> bool {
        self.rules.description.is_direct()
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn note(&mut self, text: impl AsRef<str>) {
        if let Some(log) = &mut self.log {
            // What can't be logged has happened all the same.
            let _ = writeln!(log, "{}", text.as_ref());
        }
    }

    /// Waits for something to be so.
    ///
    /// # Errors
    /// If it does not come: within the patience, or (where the schedule need not be followed) once nothing moves any more.
    async fn until<T>(
        &mut self,
        expected: impl FnOnce() -> String,
        mut found: impl FnMut(&mut Stage) -> Option<T>,
    ) -> Result<T, Parted> {
        let deadline = Instant::now() + self.options.patience;
        if self.lenient {
            if let Some(found) = self.until_quiet(&mut found).await {
                return Ok(found);
            }
            return Err(Parted { expected: expected(), seen: self.pending() });
        }
        loop {
            if let Some(found) = found(self) {
                return Ok(found);
            }
            match tokio::time::timeout_at(deadline, self.events.recv()).await {
                Ok(Some(event)) => self.take(event),
                Ok(None) | Err(_) => return Err(Parted { expected: expected(), seen: self.pending() }),
            }
        }
    }

    /// What waits for leave to go on, in words.
    fn pending(&self) -> String {
        let mut all = Vec::new();
        for store in &self.storing {
            let record = &store.change.record;
            let attempt = record.attempt_id().map_or(String::new(), |of| format!(", attempt {}", of.attempt));
            let what = record.state().name();
            all.push(format!(
                "guard {} is about to store “{what}{attempt}” ({})",
                store.guard + 1,
                store.change.key.id()
            ));
        }
        for gate in &self.gates {
            all.push(match &gate.gate {
                Gate::Send(which) => {
                    format!("guard {} is about to send attempt {} (k{})", gate.guard + 1, which.attempt, which.key)
                }
                Gate::Ask(which, _) => {
                    format!("guard {} is about to ask about attempt {} (k{})", gate.guard + 1, which.attempt, which.key)
                }
            });
        }
        for call in self.calls.values() {
            let name = settled_model::call_name(call.call.call);
            match call.answer {
                Some(Reply::Told(told)) => all.push(format!("caller {name} is about to be told “{told}”")),
                _ if call.guard.is_some() => all.push(format!("caller {name} waits")),
                _ => {}
            }
        }
        for message in &self.in_transit {
            all.push(format!("on its way: attempt {} (k{})", message.which.attempt, message.which.key));
        }
        for message in &self.back {
            all.push(format!("on its way back: attempt {} (k{})", message.which.attempt, message.which.key));
        }
        if all.is_empty() { "nothing moves".to_owned() } else { all.join("; ") }
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::From(role, incarnation, message) => {
                if self.parts.get(&role).is_some_and(|part| part.incarnation == incarnation) {
                    self.hear(role, message);
                }
            }
            Event::Greeted(role, incarnation, port, to) => {
                if self.parts.get(&role).is_some_and(|part| part.incarnation == incarnation) {
                    self.greet(role, port, to);
                }
            }
            Event::Accepted(connection, frame, sender) => {
                self.activity += 1;
                self.accept(connection, frame, sender);
            }
            Event::Closed(connection) => {
                self.connections.remove(&connection);
            }
            Event::Delivered(delivery, reply) => {
                self.activity += 1;
                self.delivered(delivery, reply);
            }
            Event::Answered(connection, reply) => {
                self.activity += 1;
                // Where a guard's process has ended, its callers hear nothing.
                let Some(reply) = reply else { return };
                if let Some(calling) = self.calls.values_mut().find(|calling| calling.connection == connection) {
                    calling.answer = Some(reply);
                }
            }
        }
    }

    fn hear(&mut self, role: Role, message: FromPart) {
        if !matches!(message, FromPart::Ack { .. }) {
            self.activity += 1;
        }
        match (role, message) {
            (_, FromPart::Ack { id: u64::MAX }) => self.set_ready(role),
            (_, FromPart::Ack { id }) => drop(self.acks.insert(id)),
            (Role::Guard(guard), FromPart::Child { pid }) => drop(self.proxies.insert(guard, pid)),
            (Role::Guard(guard), FromPart::Op { id, op }) => self.guard_asks(guard, id, op),
            (Role::Guard(guard), FromPart::Gate { id, gate }) => {
                self.note(format!("guard {}: at gate {gate:?}", guard + 1));
                let since = self.clock_units(guard);
                self.gates.push(AtGate { guard, id, gate, since });
            }
            (Role::Guard(guard), FromPart::Entered { key, joined: true }) => {
                *self.looks.entry((guard, key)).or_default() += 1;
            }
            (_, FromPart::Shown { id, replica, queued }) => drop(self.shown.insert(id, (replica, queued))),
            (Role::Device(_), FromPart::Heard) => self.heard += 1,
            (Role::Ledger, FromPart::Answer { id, answer }) => self.ledger_answers(id, answer),
            (Role::Tool | Role::Server, FromPart::Stopped { delivery }) => {
                if let Some(at_tool) = self.at_tool.get_mut(&delivery) {
                    at_tool.stopped = true;
                }
            }
            (Role::Tool, FromPart::Working { delivery }) => self.begins_work(delivery),
            (Role::Callers, FromPart::Told { call, number, told }) => {
                self.note(format!("caller {}: told {told} (call {number})", settled_model::call_name(call)));
                self.told.insert((call, number), told);
            }
            _ => {}
        }
    }
}

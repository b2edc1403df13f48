//! A world's moves and states in words.

use settled_explorer::{Fault, Said, Snapshot};
use settled_protocol::{Answer, ErrorClass, Observation, Reply, SealScope};

use crate::description::AfterSyncError;
use crate::machine::{Situation, Stage};

use super::{Asking, DEAD, Do, Heard, How, Input, Message, Move, Of, Phase, Rules, Storing, Todo, Why, World};

/// How a logical call is called in every output: A, B, C.
pub fn call_name(call: u8) -> String {
    char::from(b'A' + call).to_string()
}

fn caller(call: u8) -> String {
    format!("caller {}", call_name(call))
}

fn guard_name(guard: u8) -> String {
    format!("guard {}", guard + 1)
}

fn attempt(of: Of) -> String {
    match of.generation {
        0 | 1 => format!("attempt {}", of.attempt),
        generation => format!("attempt {} of operation {generation}", of.attempt),
    }
}

fn said(from: String, to: Option<String>, kind: &'static str, text: String) -> Said {
    Said { from, to, kind, text }
}

impl Rules {
    /// What a move is, in words.
    pub(crate) fn say(&self, before: &World, what: Move, after: &World) -> Said {
        match what {
            Move::Call { call, guard, why, .. } => self.say_call(call, guard, why),
            Move::Save { call } => said(caller(call), None, "save", "saves that it was answered".into()),
            Move::Cancel { call } => {
                let to = match before.callers[usize::from(call)].phase {
                    Phase::Waiting { at } if !self.description.is_direct() => guard_name(at),
                    _ => "tool".into(),
                };
                said(caller(call), Some(to), "cancel", "cancels its call".into())
            }
            Move::CrashClient => said(
                "callers".into(),
                None,
                "crash-client",
                "their process is killed and starts again from its last checkpoint".into(),
            ),
            Move::Hear { reply } => said(
                "tool".into(),
                Some(caller(reply.key())),
                "receive",
                format!("the answer arrives: {}", self.say_message(reply)),
            ),
            Move::Guard { guard, input, storing } => {
                let mut what = self.say_guard(before, guard, input, after);
                let but = match storing {
                    Storing::Works => "",
                    Storing::Unreachable => "; but the ledger can’t be reached, and nothing is stored",
                    Storing::Unacknowledged => "; it is stored, but the ledger’s answer gets lost",
                    Storing::Full => "; but the ledger’s disk is full, and nothing is stored",
                    Storing::Unsynced => "; but the ledger’s sync fails",
                    Storing::Torn => "; but power fails in the middle of the write",
                };
                if storing != Storing::Works && what.kind == "take" {
                    what.text = what
                        .text
                        .replace("reads that there is no record for", "would record")
                        .replace("looks up", "would record");
                }
                what.text += but;
                if storing == Storing::Unsynced && self.description.ledger.after_sync_error == AfterSyncError::Stops {
                    what.text += ", and its process ends";
                }
                what
            }
            Move::CrashGuard { guard } => {
                said(guard_name(guard), None, "crash-guard", "is killed and starts again".into())
            }
            Move::SetClock { guard, ahead, jump } => {
                let way = if ahead { "ahead" } else { "back" };
                let text =
                    if jump { format!("its clock jumps {way}") } else { format!("its clock is set wrong: {way}") };
                said(guard_name(guard), None, "clock", text)
            }
            Move::PowerFails => said(
                "ledger".into(),
                None,
                "power-failure",
                "power fails: all guards die, and what was not synced is gone".into(),
            ),
            Move::FailOver => {
                said("ledger".into(), None, "fail-over", "fails over to its replica, which lags behind".into())
            }
            Move::Sync { key } => said("ledger".into(), None, "sync", format!("{} is now safe", self.key_name(key))),
            Move::Forget { key, tool: true } => {
                said("tool".into(), None, "forget", format!("forgets {}: its time is over", self.key_name(key)))
            }
            Move::Forget { key, tool: false } => {
                said("ledger".into(), None, "forget", format!("forgets {}: its time is over", self.key_name(key)))
            }
            Move::Apply { request, how } => self.say_apply(before, request, how, after),
            Move::Finish { working, how } => {
                let text = match how {
                    How::CrashAfter => "dies at the end of its work, before it answers",
                    How::ErrorAfter => "ends its work, and answers with an error",
                    _ => "ends its work",
                };
                let call = match working {
                    Message::Working { call, .. } => caller(call),
                    _ => String::new(),
                };
                said("tool".into(), None, "finish", format!("{text} for {call}"))
            }
            Move::Lose { message } => {
                let (kind, what) = match message {
                    Message::Request { .. } => ("lose-request", "request"),
                    _ => ("lose-reply", "answer"),
                };
                said("network".into(), None, kind, format!("loses the {what}: {}", self.say_message(message)))
            }
            Move::Duplicate { request } => {
                said("network".into(), None, "duplicate", format!("doubles the request: {}", self.say_message(request)))
            }
            Move::Cut { request } => said(
                "network".into(),
                None,
                "cut",
                format!("the connection ends under the request: {}", self.say_message(request)),
            ),
            Move::Look { question } => {
                said("tool".into(), None, "look", format!("answers the question: {}", self.say_message(question)))
            }
            Move::Tick => {
                let text = match self.price_of_time(before) {
                    Some(Fault::Delay) => "a unit of time passes, with messages still on their way",
                    Some(_) => "a unit of time passes, while a guard is paused between its write and its send",
                    None => "a unit of time passes",
                };
                said("network".into(), None, "tick", text.into())
            }
            Move::Decide { key } => {
                said("person".into(), None, "decide", format!("decides {} by what is to be seen", self.key_name(key)))
            }
        }
    }

    fn say_call(&self, call: u8, guard: u8, why: Why) -> Said {
        let (kind, text) = match why {
            Why::It(Situation::First) => ("call", "calls"),
            Why::It(Situation::Silence) => ("call-again", "has waited long enough and calls again"),
            Why::It(Situation::ConnectionLost) => ("call-again", "lost the connection and calls again"),
            Why::It(Situation::Failed) => ("call-again", "was told that it failed and calls again"),
            Why::It(Situation::Done) => ("call-again", "fails after its answer and runs its step again"),
            Why::It(Situation::InProgress) => ("poll", "asks again"),
            Why::It(Situation::Cancelled) => ("call-again", "has cancelled and calls again"),
            Why::It(Situation::Restarted) => ("call-again", "has started again and calls again"),
            Why::AtOnce => ("call-at-once", "calls a second time while the first call is being served"),
            Why::KeyReused => ("call", "calls with the key that caller A has used"),
        };
        let to = if self.description.is_direct() { "tool".into() } else { guard_name(guard) };
        said(caller(call), Some(to), kind, text.into())
    }

    fn say_guard(&self, before: &World, guard: u8, input: Input, after: &World) -> Said {
        let me = guard_name(guard);
        match input {
            Input::Take { call } => {
                let key = self.key_of(call, &before.callers[usize::from(call)]);
                let was = self.stage(before, key);
                let text = match was {
                    _ if self.stage(after, key) != was => format!("records {}’s call", caller(call)),
                    None => format!("reads that there is no record for {}’s call", caller(call)),
                    Some(_) => format!("looks up {}’s call", caller(call)),
                };
                said(me, None, "take", text)
            }
            Input::Go { todo: Todo { key, what }, lost } => match what {
                Do::Send(of) => {
                    let text = format!("sends {} ({})", attempt(of), self.key_name(key));
                    said(me, Some("tool".into()), "send", text)
                }
                Do::Answer(answer, _) => {
                    let lost = if lost { ", but the answer gets lost" } else { "" };
                    said(me, None, "answer", format!("answers: {}{lost}", answer_text(answer)))
                }
                Do::Begin => {
                    let text = match self.waits_in_line(before, key) {
                        true => format!("begins with {}, which it had found to be first in line", self.key_name(key)),
                        false => format!("does nothing about {}: somebody else was there first", self.key_name(key)),
                    };
                    said(me, None, "begin", text)
                }
                Do::Alert => said(me, None, "escalate", format!("asks a person about {}", self.key_name(key))),
                Do::NoteDelivery(_) => {
                    said(me, None, "note", format!("notes that the answer was delivered ({})", self.key_name(key)))
                }
                Do::Write { call, .. } if call == u8::MAX => {
                    said(me, None, "write", format!("goes on with what it had read of {}", self.key_name(key)))
                }
                Do::Write { call, .. } => {
                    said(me, None, "write", format!("goes on with what it had read for {}’s call", caller(call)))
                }
            },
            Input::Resume { key, take_over: false } if self.waits_in_line(before, key) => {
                said(me, None, "look", format!("finds {} first in the line of its resource", self.key_name(key)))
            }
            Input::GiveUp { key } => {
                let who = match before.keys[usize::from(key)].by {
                    0 => ", whose process is dead",
                    by if by == guard + 1 => ", which has waited long enough",
                    _ => ", whose process is only paused",
                };
                let text = format!("gives up {}{who}: it was never sent", self.key_name(key));
                said(me, None, "give-up", text)
            }
            Input::Resume { key, take_over } => {
                let paused = take_over && self.stage(before, key) != Some(Stage::Dispatched(DEAD));
                let (kind, text) = match take_over {
                    true if paused => ("take-over", "takes over, from an owner that is only paused,"),
                    true => ("recover", "finds, after its owner’s death,"),
                    false => ("resume", "goes on with"),
                };
                said(me, None, kind, format!("{text} {}", self.key_name(key)))
            }
            Input::TimeOut { key } => {
                said(me, None, "time-out", format!("gives up waiting for the answer to {}", self.key_name(key)))
            }
            Input::Receive { reply } => {
                said("tool".into(), Some(me), "receive", format!("the answer arrives: {}", self.say_message(reply)))
            }
            Input::Expire { key } => {
                said(me, None, "expire", format!("forgets {}: its time is over", self.key_name(key)))
            }
        }
    }

    fn say_apply(&self, before: &World, request: Message, how: How, after: &World) -> Said {
        let took_effect = after.effects.len() > before.effects.len();
        let call = match request {
            Message::Request { call, .. } => caller(call),
            _ => String::new(),
        };
        let done = match (took_effect, self.description.tool.lasting) {
            (true, false) => format!("carries out the call for {call}: effect {}", before.effects.len() + 1),
            (true, true) => format!("begins to carry out the call for {call}: effect {}", before.effects.len() + 1),
            (false, _) => format!("makes no effect for {call}"),
        };
        let kind = if took_effect { "effect" } else { "no-effect" };
        let (kind, text) = match how {
            How::Answered => (kind, done),
            How::CrashBefore => ("crash-tool-before", format!("dies before it has done anything for {call}")),
            How::CrashAfter if took_effect => ("effect-then-crash", format!("{done}; then dies before it answers")),
            How::CrashAfter => ("crash-tool-after", format!("{done}; then dies")),
            How::ErrorBefore => ("error", format!("answers {call} with an error, and did nothing")),
            How::ErrorAfter if took_effect => ("effect-then-error", format!("{done}; then answers with an error")),
            How::ErrorAfter => ("error", format!("{done}; answers with an error")),
            How::Rejected => ("reject", format!("refuses {call}’s call before it runs")),
        };
        said("tool".into(), None, kind, text)
    }

    /// The whole state, in words.
    pub(crate) fn snapshot(&self, world: &World) -> Snapshot {
        let mut all = Snapshot::default();
        for call in 0..self.callers() {
            all.callers.push(self.say_caller(world, call));
        }
        for guard in 0..self.guards() {
            all.guards.push(self.say_guard_state(world, guard));
        }
        for (key, entry) in (0u8..).zip(&world.keys) {
            let say = |record| self.guard.say(record);
            match (entry.record, entry.durable) {
                (None, None) => {}
                (Some(record), durable) if durable == Some(record) => {
                    all.ledger.push(format!("{}: {}", self.key_name(key), say(record)));
                }
                (record, durable) => all.ledger.push(format!(
                    "{}: {} (safe is: {})",
                    self.key_name(key),
                    record.map_or("nothing".into(), say),
                    durable.map_or("nothing".into(), say)
                )),
            }
        }
        for message in world.messages() {
            let way = match message {
                Message::Request { .. } => "request",
                Message::Working { .. } => "at work",
                Message::Reply { .. } => "answer",
                Message::Question { .. } => "question",
                Message::Seen { .. } => "observation",
            };
            let of = match message.process() {
                _ if self.description.is_direct() => String::new(),
                0 => " (its process is dead)".to_owned(),
                process => format!(" ({})", guard_name(process - 1)),
            };
            all.network.push(format!("{way}: {}{of}", self.say_message(message)));
        }
        for (number, made_for) in (1..).zip(&world.effects) {
            all.effects.push(format!("effect {number}: for {}", caller(*made_for)));
        }
        for (key, entry) in (0u8..).zip(&world.keys) {
            if let Some(text) = self.tool.say(&entry.memory) {
                all.effects.push(format!("the tool, {}: {text}", self.key_name(key)));
            }
        }
        all
    }

    fn say_caller(&self, world: &World, call: u8) -> String {
        let state = &world.callers[usize::from(call)];
        let saved = if state.saved { ", and has saved that" } else { "" };
        let text = match state.phase {
            Phase::Idle => "has not called yet".to_owned(),
            Phase::Waiting { .. } if self.description.is_direct() => format!("waits (call {})", state.calls),
            Phase::Waiting { at } => format!("waits at {} (call {})", guard_name(at), state.calls),
            Phase::Told(heard) => format!("was told {} (call {}){saved}", heard_text(heard), state.calls),
            Phase::Cancelled => "has cancelled".to_owned(),
            Phase::Restarted => "has started again".to_owned(),
        };
        format!("{} {text}", caller(call))
    }

    fn say_guard_state(&self, world: &World, guard: u8) -> String {
        let state = &world.guards[usize::from(guard)];
        let mut parts = Vec::new();
        let calls = |bits: u8| {
            let names: Vec<_> = (0..self.callers()).filter(|call| bits & 1 << call != 0).map(call_name).collect();
            names.join(", ")
        };
        if state.arrived != 0 {
            parts.push(format!("has got the call of {}", calls(state.arrived)));
        }
        if state.waiting != 0 {
            parts.push(format!("owes an answer to {}", calls(state.waiting)));
        }
        for todo in state.todos() {
            let key = self.key_name(todo.key);
            parts.push(match todo.what {
                Do::Send(of) => format!("is about to send {} ({key})", attempt(of)),
                Do::Answer(answer, _) => format!("is about to answer: {}", answer_text(answer)),
                Do::Begin => format!("is about to begin with {key}"),
                Do::Alert => format!("is about to ask a person about {key}"),
                Do::NoteDelivery(_) => format!("is about to note a delivery ({key})"),
                Do::Write { .. } => format!("has read {key}, and will write"),
            });
        }
        if state.clock != 0 {
            parts.push(format!("its clock is off by {}", state.clock));
        }
        let text = if parts.is_empty() { "idle".to_owned() } else { parts.join("; ") };
        format!("{}: {text}", guard_name(guard))
    }

    fn stage(&self, world: &World, key: u8) -> Option<Stage> {
        world.keys[usize::from(key)].record.map(|record| self.guard.view(record).stage)
    }

    /// How a key is called.
    pub(crate) fn key_name(&self, key: u8) -> String {
        match self.call_of_key(key) {
            _ if self.description.is_direct() => format!("{}’s call", caller(key)),
            Some(call) if self.keys_per_call() == 1 => format!("{}’s key", caller(call)),
            Some(call) => format!("{}’s key {}", caller(call), key % self.keys_per_call() + 1),
            None => format!("key {}", key + 1),
        }
    }

    fn say_message(&self, message: Message) -> String {
        let key = self.key_name(message.key());
        let of_what = |of| if self.description.is_direct() { attempt(of) } else { format!("{}, {key}", attempt(of)) };
        match message {
            Message::Request { of, .. } | Message::Working { of, .. } => of_what(of),
            Message::Reply { of, reply, .. } => {
                let reply = match reply {
                    None => "the connection ended".to_owned(),
                    Some(Reply::Result(0)) => "accepted, without an effect".to_owned(),
                    Some(Reply::Result(effect)) => format!("done (effect {effect})"),
                    Some(Reply::Error(ErrorClass::NotRun, _)) => "an error that proves it did not run".to_owned(),
                    Some(Reply::Error(ErrorClass::Busy, _)) => {
                        "busy: it did not run, and may be asked again".to_owned()
                    }
                    Some(Reply::Error(ErrorClass::Unproven, _)) => "an error".to_owned(),
                };
                format!("{reply} ({})", of_what(of))
            }
            Message::Question { of, asking, .. } => match asking {
                Asking::Seal(SealScope::Attempts) => format!("applied? if not, never apply {}", of_what(of)),
                Asking::Seal(SealScope::Operation) => format!("applied? if not, never apply anything of {key}"),
                Asking::Observe { .. } => format!("applied? ({key})"),
            },
            Message::Seen { of, observation, .. } => {
                let seen = match observation {
                    Observation::Applied(effect) => format!("applied (effect {effect})"),
                    Observation::NotApplied => "not applied".to_owned(),
                    Observation::Sealed(_) => "not applied, and sealed".to_owned(),
                    Observation::Unclear => "unclear".to_owned(),
                };
                format!("{seen} ({})", of_what(of))
            }
        }
    }
}

fn answer_text(answer: Answer<u8>) -> String {
    match answer {
        Answer::Done { result, .. } => format!("done (effect {result})"),
        Answer::Failed { .. } => "failed".to_owned(),
        Answer::Unknown { .. } => "unknown: do not repeat".to_owned(),
        Answer::InProgress => "in progress".to_owned(),
        Answer::Conflict => "conflict: other arguments".to_owned(),
        Answer::Expired => "expired".to_owned(),
    }
}

fn heard_text(heard: Heard) -> String {
    match heard {
        Heard::Done(0) => "done".to_owned(),
        Heard::Done(effect) => format!("done (effect {effect})"),
        Heard::Failed => "failed".to_owned(),
        Heard::Unknown => "unknown: do not repeat".to_owned(),
        Heard::InProgress => "in progress".to_owned(),
        Heard::Conflict => "conflict: other arguments".to_owned(),
        Heard::ConnectionLost => "the connection ended".to_owned(),
    }
}

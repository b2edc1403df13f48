//! A counterexample: the moves that lead to a violation, readable by people and by programs.

use serde::{Deserialize, Serialize};
use settled_protocol::{
    Action, Answer, AttemptId, Cause, ErrorClass, Observation, Outcome, Reply, SealScope, State, Verdict,
};

use crate::description::Description;
use crate::moves::{How, Move, Rules, Why};
use crate::properties::PropertyName;
use crate::world::{Heard, Message, Phase, World};

/// The version of the machine-readable form. A reader refuses versions that it doesn't know.
pub const FORMAT: u32 = 1;

/// A run of a protocol that violates a property.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// The form's version: [`FORMAT`].
    pub format: u32,
    /// The protocol and the bounds that it was explored with.
    pub protocol: Description,
    /// The property that it violates.
    pub property: PropertyName,
    /// The steps, first to last. The violation is to be seen after the last.
    pub steps: Vec<Step>,
    /// The effects on each logical call's behalf, after the last step.
    pub effects: Vec<usize>,
}

/// One step of a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Who acts.
    pub from: String,
    /// On whom, if on another.
    pub to: Option<String>,
    /// What kind of step it is: a stable name for programs.
    pub kind: String,
    /// What happens, in words.
    pub text: String,
    /// Whether it is a fault.
    pub fault: bool,
    /// How many effects there are after it.
    pub effects: usize,
    /// The records in the ledger after it that it changed, in words.
    pub ledger: Vec<String>,
    /// What callers were told by it.
    pub told: Vec<String>,
}

impl Trace {
    /// The trace of a run from the beginning. Moves that change nothing end it.
    pub fn of(rules: &Rules, property: PropertyName, run: &[Move]) -> Trace {
        let mut world = World::initial(&rules.description);
        let mut steps = Vec::new();
        for what in run {
            let Some(after) = rules.apply(&world, *what) else {
                break;
            };
            steps.push(describe(rules, &world, *what, &after));
            world = after;
        }
        Trace {
            format: FORMAT,
            protocol: rules.description.clone(),
            property,
            steps,
            effects: (0..world.callers.len()).map(|call| world.effects_of(call as u8)).collect(),
        }
    }

    /// The trace as numbered lines.
    pub fn text(&self) -> String {
        let mut lines = Vec::new();
        for (number, step) in (1..).zip(&self.steps) {
            let way = match &step.to {
                Some(to) => format!("{} → {to}", step.from),
                None => step.from.clone(),
            };
            let mark = if step.fault { "✗" } else { " " };
            lines.push(format!("{number:>4} {mark} {way:<18} {}", step.text));
            for line in step.ledger.iter().chain(&step.told) {
                lines.push(format!("{:>4}   {:<18} └ {line}", "", ""));
            }
        }
        let effects: Vec<_> = (0u8..)
            .zip(&self.effects)
            .map(|(call, count)| format!("{}: {count} effect{}", call_name(call), if *count == 1 { "" } else { "s" }))
            .collect();
        lines.push(format!(
            "       violates “{}” ({}); {}",
            self.property.name(),
            self.property.says(),
            effects.join(", ")
        ));
        lines.join("\n")
    }

    /// The trace as a Mermaid sequence diagram.
    pub fn mermaid(&self) -> String {
        let mut lines = vec!["sequenceDiagram".to_owned()];
        let mut lanes: Vec<&str> = Vec::new();
        let has_ledger = self.steps.iter().any(|step| !step.ledger.is_empty());
        for step in &self.steps {
            for lane in std::iter::once(&step.from).chain(&step.to) {
                if !lanes.contains(&lane.as_str()) {
                    lanes.push(lane);
                }
            }
        }
        let rank = |lane: &str| match lane {
            "network" | "person" => 9,
            "tool" => 8,
            _ if lane.starts_with("guard") => 2,
            _ => 1,
        };
        lanes.sort_by_key(|lane| (rank(lane), lane.to_string()));
        if has_ledger {
            let at = lanes.iter().position(|lane| rank(lane) >= 8).unwrap_or(lanes.len());
            lanes.insert(at, "ledger");
        }
        for lane in &lanes {
            lines.push(format!("    participant {} as {lane}", id(lane)));
        }
        for step in &self.steps {
            let text = step.text.replace([';', '#'], ",");
            let mark = if step.fault { "⚡ " } else { "" };
            match &step.to {
                Some(to) => lines.push(format!("    {}->>{}: {mark}{text}", id(&step.from), id(to))),
                None => lines.push(format!("    Note over {}: {mark}{text}", id(&step.from))),
            }
            for line in &step.ledger {
                lines.push(format!("    Note over ledger: {}", line.replace([';', '#'], ",")));
            }
        }
        let ends = format!("violates “{}”", self.property.name());
        if let (Some(first), Some(last)) = (lanes.first(), lanes.last()) {
            let over = if first == last { id(first) } else { format!("{},{}", id(first), id(last)) };
            lines.push(format!("    Note over {over}: {ends}"));
        }
        lines.join("\n")
    }
}

fn id(lane: &str) -> String {
    lane.replace(' ', "_")
}

/// How a logical call is called in every output: A, B, C.
pub fn call_name(call: u8) -> String {
    char::from(b'A' + call).to_string()
}

fn caller(call: u8) -> String {
    format!("caller {}", call_name(call))
}

fn guard(guard: impl Into<u64>) -> String {
    format!("guard {}", guard.into() + 1)
}

fn attempt(of: AttemptId) -> String {
    if of.generation == 1 {
        format!("attempt {}", of.attempt)
    } else {
        format!("attempt {} of operation {}", of.attempt, of.generation)
    }
}

struct Said {
    from: String,
    to: Option<String>,
    kind: &'static str,
    text: String,
    fault: bool,
}

fn describe(rules: &Rules, before: &World, what: Move, after: &World) -> Step {
    let said = say(rules, before, what);
    let changed = before
        .keys
        .iter()
        .zip(&after.keys)
        .zip(0u8..)
        .filter(|((was, is), _)| was.record != is.record || was.durable != is.durable);
    let ledger = changed.map(|((was, is), key)| {
        let key = key_name(rules, key);
        let durable = if is.record == is.durable { "" } else { " (not durable)" };
        match is.record {
            None => format!("ledger: {key} is gone"),
            Some(_) if was.record == is.record => format!("ledger: {key} is durable now"),
            Some(record) => format!("ledger: {key} {}{durable}", state_text(record.state())),
        }
    });
    let told = before.callers.iter().zip(&after.callers).zip(0u8..).filter_map(|((was, is), call)| match is.phase {
        Phase::Told(heard) if was.phase != is.phase => Some(format!("{} is told: {}", caller(call), heard_text(heard))),
        _ => None,
    });
    Step {
        from: said.from,
        to: said.to,
        kind: said.kind.to_owned(),
        text: said.text,
        fault: said.fault,
        effects: after.effects.len(),
        ledger: ledger.collect(),
        told: told.collect(),
    }
}

fn key_name(rules: &Rules, key: u8) -> String {
    format!("key {}", if rules.description.is_direct() { key } else { key + 1 })
}

fn say(rules: &Rules, before: &World, what: Move) -> Said {
    let said = |from: String, to: Option<String>, kind, text: String, fault| Said { from, to, kind, text, fault };
    match what {
        Move::Call { call, guard: at, why } => {
            let (kind, why, fault) = match why {
                Why::First => ("call", "calls", false),
                Why::Silence => ("call-again", "has waited long enough and calls again", true),
                Why::ConnectionLost => ("call-again", "has lost the connection and calls again", false),
                Why::Failed => ("call-again", "was told that it failed and calls again", false),
                Why::Rerun => ("rerun", "loses the answer that it had got and runs its step again", true),
            };
            let to = if rules.description.is_direct() { "tool".to_owned() } else { guard(at) };
            said(caller(call), Some(to), kind, why.to_owned(), fault)
        }
        Move::Take { guard: at, call } => {
            let key = key_name(rules, rules.key_of(call, &before.callers[usize::from(call)]));
            said(guard(at), None, "take", format!("takes up {}’s call ({key})", caller(call)), false)
        }
        Move::Do { guard: at, todo } => match todo.action {
            Action::Dispatch(dispatch) => {
                let text = format!("sends {} of {}", attempt(dispatch.of()), key_name(rules, todo.key));
                said(guard(at), Some("tool".into()), "send", text, false)
            }
            Action::Answer(answer) => {
                said(guard(at), None, "answer", format!("answers: {}", answer_text(answer)), false)
            }
            _ => said(guard(at), None, "escalate", format!("asks a person about {}", key_name(rules, todo.key)), false),
        },
        Move::Resume { guard: at, key, take_over } => {
            let paused = take_over
                && before.keys[usize::from(key)].record.and_then(|r| r.open_owner()) != Some(crate::world::DEAD);
            let (kind, text) = match take_over {
                true if paused => ("take-over", "takes over, from an owner that is only paused,"),
                true => ("recover", "finds, after its owner’s death,"),
                false => ("resume", "goes on with"),
            };
            said(guard(at), None, kind, format!("{text} {}", key_name(rules, key)), paused)
        }
        Move::TimeOut { guard: at, key } => said(
            guard(at),
            None,
            "time-out",
            format!("gives up waiting for the answer to {}", key_name(rules, key)),
            true,
        ),
        Move::CrashGuard { guard: at } => {
            said(guard(at), None, "crash-guard", "is killed and starts again".into(), true)
        }
        Move::Sync { key } => {
            said("ledger".into(), None, "sync", format!("{} becomes durable", key_name(rules, key)), false)
        }
        Move::Apply { request, how } => apply_text(rules, before, request, how),
        Move::LoseRequest { request } => said(
            "network".into(),
            None,
            "lose-request",
            format!("loses the request: {}", message_text(rules, request)),
            true,
        ),
        Move::Duplicate { request } => said(
            "network".into(),
            None,
            "duplicate",
            format!("doubles the request: {}", message_text(rules, request)),
            true,
        ),
        Move::Receive { reply } => {
            let to = match reply {
                Message::Reply { to, .. } | Message::Seen { to, .. } if !rules.description.is_direct() => {
                    World::guard_of(to).map(|at| guard(at as u64))
                }
                _ => Some(caller(reply.key())),
            };
            said("tool".into(), to, "receive", format!("the answer arrives: {}", message_text(rules, reply)), false)
        }
        Move::LoseReply { reply } => said(
            "network".into(),
            None,
            "lose-reply",
            format!("loses the answer: {}", message_text(rules, reply)),
            true,
        ),
        Move::Look { question } => {
            said("tool".into(), None, "look", format!("answers the question: {}", message_text(rules, question)), false)
        }
        Move::Tick => {
            said("network".into(), None, "tick", "the settling time passes: nothing is on its way".into(), false)
        }
        Move::Decide { key } => said(
            "person".into(),
            None,
            "decide",
            format!("decides {} by what is to be seen", key_name(rules, key)),
            false,
        ),
    }
}

fn apply_text(rules: &Rules, before: &World, request: Message, how: How) -> Said {
    let after = rules.apply(before, Move::Apply { request, how });
    let took_effect = after.is_some_and(|after| after.effects.len() > before.effects.len());
    let call = match request {
        Message::Request { call, .. } => caller(call),
        _ => String::new(),
    };
    let done = if took_effect {
        format!("carries out the call for {call}: effect {}", before.effects.len() + 1)
    } else {
        format!("makes no effect for {call}")
    };
    let kind = if took_effect { "effect" } else { "no-effect" };
    let (kind, text, fault) = match how {
        How::Answered => (kind, done, false),
        How::CrashBefore => ("crash-tool-before", format!("dies before it has done anything for {call}"), true),
        How::CrashAfter if took_effect => ("effect-then-crash", format!("{done}; then dies before it answers"), true),
        How::CrashAfter => ("crash-tool-after", format!("{done}; then dies"), true),
        How::ErrorBefore => ("error", format!("answers {call} with an error, and did nothing"), true),
        How::ErrorAfter if took_effect => ("effect-then-error", format!("{done}; then answers with an error"), true),
        How::ErrorAfter => ("error", format!("{done}; answers with an error"), true),
        How::Rejected => ("reject", format!("refuses {call}’s call before it runs"), true),
    };
    Said { from: "tool".into(), to: None, kind, text, fault }
}

fn message_text(rules: &Rules, message: Message) -> String {
    let key = key_name(rules, message.key());
    let of_what = |of| {
        if rules.description.is_direct() { attempt(of) } else { format!("{}, {key}", attempt(of)) }
    };
    match message {
        Message::Request { of, .. } => of_what(of),
        Message::Reply { of, reply, .. } => {
            let reply = match reply {
                None => "the connection ended".to_owned(),
                Some(Reply::Result(effect)) => format!("done (effect {effect})"),
                Some(Reply::Error(ErrorClass::NotRun, _)) => "an error that proves it did not run".to_owned(),
                Some(Reply::Error(ErrorClass::Unproven, _)) => "an error".to_owned(),
            };
            format!("{reply} ({})", of_what(of))
        }
        Message::Question { action, .. } => match action {
            Action::Seal { of, scope: SealScope::Attempts } => format!("applied? if not, never apply {}", of_what(of)),
            Action::Seal { .. } => format!("applied? if not, never apply anything of {key}"),
            _ => format!("applied? ({key})"),
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

fn state_text(state: &State<u8>) -> String {
    let why = |cause: &Cause<u8>| match cause {
        Cause::TimedOut => "no answer in time",
        Cause::ConnectionLost => "connection lost",
        Cause::Error(_) => "an error that proves nothing",
        Cause::Refused(_) => "refused, but another attempt may apply",
        Cause::OwnerLost => "its owner is gone",
    };
    match state {
        State::Created => "intent created".to_owned(),
        State::Dispatched(sent) => format!("dispatched, attempt {}", sent.attempt()),
        State::Unknown { sent, cause, quiet, .. } => {
            let quiet = if quiet.is_some() { "; its sender is done" } else { "" };
            format!("unknown, attempt {}: {}{quiet}", sent.attempt(), why(cause))
        }
        State::Escalated { .. } => "escalated".to_owned(),
        State::Confirmed { outcome: Outcome::Succeeded(effect), .. } => format!("confirmed: effect {effect}"),
        State::Confirmed { outcome: Outcome::Failed(_), .. } => "confirmed: failed".to_owned(),
        State::Settled { verdict: Verdict::Succeeded(effect), .. } => format!("settled: succeeded (effect {effect})"),
        State::Settled { verdict: Verdict::Failed(_), .. } => "settled: failed".to_owned(),
        State::Settled { verdict: Verdict::Abandoned(_), .. } => "settled: abandoned".to_owned(),
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
        Heard::Done(effect) => format!("done (effect {effect})"),
        Heard::Failed => "failed".to_owned(),
        Heard::Unknown => "unknown: do not repeat".to_owned(),
        Heard::Conflict => "conflict: other arguments".to_owned(),
        Heard::ConnectionLost => "the connection ended".to_owned(),
    }
}

//! Traces to show, and their builder.

use settled_explorer::{FORMAT, Fault, Faults, PropertyName, Snapshot, Step, Trace};

pub struct Builder {
    trace: Trace,
    pub now: Snapshot,
    pub effects: usize,
}

fn words(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

impl Builder {
    pub fn new(protocol: &str, property: PropertyName, callers: &[&str], guards: &[&str]) -> Builder {
        let beginning = Snapshot { callers: words(callers), guards: words(guards), ..Snapshot::default() };
        Builder {
            trace: Trace {
                format: FORMAT,
                protocol: protocol.to_owned(),
                description: serde_json::json!({ "name": protocol, "faults": { "timeouts": 1 }, "tool": { "kind": "observable" } }),
                property,
                steps: Vec::new(),
                round: None,
                faults: Faults::default(),
                effects: Vec::new(),
                beginning: beginning.clone(),
            },
            now: beginning,
            effects: 0,
        }
    }

    /// A step from `a` or from `a>b`, after which `now` is the state.
    pub fn step(&mut self, way: &str, text: &str, fault: Option<Fault>) -> &mut Builder {
        let (from, to) = way.split_once('>').map_or((way, None), |(from, to)| (from, Some(to.to_owned())));
        let before = self.trace.steps.last().map_or(&self.trace.beginning, |step| &step.state);
        let new = |now: &[String], then: &[String]| -> Vec<String> {
            now.iter().filter(|line| !then.contains(line)).cloned().collect()
        };
        let told = new(&self.now.callers, &before.callers).into_iter().filter(|line| line.contains(" was told "));
        let step = Step {
            from: from.to_owned(),
            to,
            kind: "step".to_owned(),
            text: text.to_owned(),
            fault: fault.map(|fault| fault.name().to_owned()),
            effects: self.effects,
            ledger: new(&self.now.ledger, &before.ledger),
            told: told.collect(),
            state: self.now.clone(),
        };
        if let Some(fault) = fault {
            *self.trace.faults.of(fault) += 1;
        }
        self.trace.steps.push(step);
        self
    }

    pub fn end(&mut self, round: Option<usize>, effects: &[usize]) -> Trace {
        Trace { round, effects: effects.to_vec(), ..self.trace.clone() }
    }
}

fn set(lines: &mut Vec<String>, now: &[&str]) {
    *lines = words(now);
}

/// "Not found, so it failed, so retry."
pub fn charge() -> Trace {
    let mut b = Builder::new(
        "not-found-means-failed",
        PropertyName::AtMostOnce,
        &["caller A has not called yet"],
        &["guard 1 has nothing to do"],
    );
    set(&mut b.now.callers, &["caller A waits for the answer to its 1st call"]);
    set(&mut b.now.guards, &["guard 1 has yet to take up caller A’s call"]);
    b.step("caller A>guard 1", "calls", None);
    set(&mut b.now.guards, &["guard 1 has yet to send attempt 1 of key 1"]);
    set(&mut b.now.ledger, &["ledger: key 1 dispatched, attempt 1"]);
    b.step("guard 1", "takes up caller A’s call (key 1)", None);
    set(&mut b.now.guards, &["guard 1 waits for the answer to attempt 1 of key 1"]);
    set(&mut b.now.network, &["request to the tool: attempt 1, key 1"]);
    b.step("guard 1>tool", "sends attempt 1 of key 1", None);
    set(&mut b.now.ledger, &["ledger: key 1 unknown, attempt 1: no answer in time"]);
    set(&mut b.now.guards, &["guard 1 has yet to find out about key 1"]);
    b.step("guard 1", "gives up waiting for the answer to key 1", Some(Fault::Timeout));
    set(&mut b.now.ledger, &["ledger: key 1 unknown, attempt 1: no answer in time; its sender is done"]);
    b.step("guard 1", "goes on with key 1", None);
    b.now.network.push("question to the tool: applied? (key 1)".to_owned());
    b.step("guard 1>tool", "asks: applied? (key 1)", None);
    set(
        &mut b.now.network,
        &["request to the tool: attempt 1, key 1", "answer to guard 1: not applied (attempt 1, key 1)"],
    );
    b.step("tool", "answers the question: applied? (key 1)", None);
    set(&mut b.now.network, &["answer to guard 1: not applied (attempt 1, key 1)"]);
    set(&mut b.now.effects, &["effect 1, for caller A (attempt 1, key 1)"]);
    b.effects = 1;
    b.step("tool", "carries out the call for caller A: effect 1", None);
    b.now.network.clear();
    set(&mut b.now.ledger, &["ledger: key 1 dispatched, attempt 2"]);
    set(&mut b.now.guards, &["guard 1 has yet to send attempt 2 of key 1"]);
    b.step("tool>guard 1", "the answer arrives: not applied (attempt 1, key 1)", None);
    set(&mut b.now.network, &["request to the tool: attempt 2, key 1"]);
    set(&mut b.now.guards, &["guard 1 waits for the answer to attempt 2 of key 1"]);
    b.step("guard 1>tool", "sends attempt 2 of key 1", None);
    b.now.network.clear();
    b.now.effects.push("effect 2, for caller A (attempt 2, key 1)".to_owned());
    b.effects = 2;
    b.step("tool", "carries out the call for caller A: effect 2", None);
    b.end(None, &[2])
}

/// The README's: no guard, no ledger.
pub fn direct() -> Trace {
    let mut b = Builder::new("mcp-2025-11-25", PropertyName::AtMostOnce, &[], &[]);
    b.step("caller A>tool", "calls", None);
    b.effects = 1;
    b.step("tool", "carries out the call for caller A: effect 1", None);
    b.step("caller A>tool", "has waited long enough and calls again", Some(Fault::Timeout));
    b.effects = 2;
    b.step("tool", "carries out the call for caller A: effect 2", None);
    b.end(None, &[2])
}

/// A guard that asks for ever.
pub fn livelock() -> Trace {
    let mut b = Builder::new(
        "ask-for-ever",
        PropertyName::Settles,
        &["caller A has not called yet", "caller B has not called yet"],
        &["guard 1 has nothing to do", "guard 2 has nothing to do"],
    );
    set(&mut b.now.callers, &["caller A waits", "caller B has not called yet"]);
    b.step("caller A>guard 2", "calls", None);
    set(&mut b.now.ledger, &["ledger: key 1 dispatched, attempt 1"]);
    b.step("guard 2", "takes up caller A’s call (key 1)", None);
    set(&mut b.now.callers, &["caller A was told unknown: do not repeat", "caller B has not called yet"]);
    set(&mut b.now.ledger, &["ledger: key 1 unknown, attempt 1: its owner is gone"]);
    b.step("guard 2", "is killed and starts again", Some(Fault::GuardCrash));
    b.now.network.push("question to the tool: applied? (key 1)".to_owned());
    b.step("guard 1>tool", "asks: applied? (key 1)", None);
    set(&mut b.now.network, &["answer to guard 1: unclear"]);
    b.step("tool", "answers the question: unclear", None);
    b.now.network.clear();
    b.step("tool>guard 1", "the answer arrives: unclear", None);
    b.end(Some(3), &[0, 0])
}

/// As many lanes as there can be.
pub fn crowd() -> Trace {
    let mut b = Builder::new("crowd", PropertyName::NoFalseFailure, &["caller A waits"], &[]);
    for (caller, guard) in [("A", 1), ("B", 2), ("C", 3)] {
        b.step(&format!("caller {caller}>guard {guard}"), "was told that it failed and calls again", None);
        b.now.network.push(format!("request to the tool: attempt 1, key {guard}"));
        b.now.ledger.push(format!("ledger: key {guard} dispatched, attempt 1 of operation 2 (not durable)"));
        b.step(&format!("guard {guard}>tool"), &format!("sends attempt 1 of key {guard}"), None);
    }
    b.now.network.remove(0);
    b.step("network", "loses the request: attempt 1, key 1", Some(Fault::LostRequest));
    b.effects = 1;
    b.step("tool>caller A", "the answer arrives: the connection ended (attempt 1)", Some(Fault::ToolPartition));
    b.step("guard 2>guard 1", "takes over, from an owner that is only paused, key 1", Some(Fault::Takeover));
    set(&mut b.now.callers, &["caller B was told done (effect 1)", "caller A was told failed"]);
    b.step("guard 2", "answers: failed", None);
    b.step("person", "decides key 3 by what is to be seen", Some(Fault::Decision));
    b.effects = 4;
    b.step("tool", "carries out three calls", None);
    b.end(None, &[1, 2, 1])
}

/// A run of so many steps.
pub fn long(steps: usize) -> Trace {
    let mut b = Builder::new("long", PropertyName::BoundedRetries, &["caller A waits"], &["guard 1 waits"]);
    for step in 1..=steps {
        match step % 3 {
            0 => b.step("tool>guard 1", &format!("answers number {step}"), None),
            1 => b.step("guard 1>tool", &format!("sends number {step}"), None),
            _ => b.step("guard 1", &format!("waits for number {step}"), Some(Fault::Timeout)),
        };
    }
    b.end(None, &[0])
}

/// Texts that are far too long.
pub fn wordy() -> Trace {
    let mut b = Builder::new(&"a-protocol-with-a-long-name".repeat(8), PropertyName::Settles, &[], &[]);
    let sentence = "a long sentence that goes on and on and says little; ".repeat(12);
    set(&mut b.now.ledger, &[&format!("ledger: {sentence}")]);
    set(&mut b.now.callers, &[&format!("caller A was told {sentence}")]);
    set(&mut b.now.network, &[&"x".repeat(400)]);
    b.step("caller A>guard 1", &sentence, Some(Fault::ConcurrentCall));
    b.step("guard 1", &"W".repeat(300), Some(Fault::LedgerPartition));
    b.step("tool>caller A", &format!("{} {sentence}", "y".repeat(200)), None);
    b.end(None, &[0])
}

pub const NAUGHTY: &str =
    "</script><script>alert(1)</script>\"'><img src=x onerror=alert(2)>&amp;\u{202e}\u{1b}[31m\n]]>--><!--";

/// Every text is an attack.
pub fn hostile() -> Trace {
    let mut b = Builder::new(NAUGHTY, PropertyName::AtMostOnce, &[NAUGHTY], &[NAUGHTY]);
    b.now = Snapshot {
        callers: words(&[NAUGHTY, &format!("{NAUGHTY} was told {NAUGHTY}")]),
        guards: words(&[NAUGHTY, "g"]),
        ledger: words(&[NAUGHTY]),
        network: words(&[NAUGHTY]),
        effects: words(&[NAUGHTY]),
    };
    b.step(&format!("{0}>{0}", NAUGHTY.replace('>', "")), NAUGHTY, None);
    b.step("tool", NAUGHTY, Some(Fault::Timeout));
    let mut trace = b.end(None, &[1]);
    trace.steps[1].fault = Some(NAUGHTY.to_owned());
    trace.description = serde_json::json!({ NAUGHTY: NAUGHTY });
    trace
}

/// All of them, with names.
pub fn all() -> Vec<(&'static str, Trace)> {
    let none = Builder::new("none", PropertyName::CanSettle, &["device 1 is off line"], &[]).end(None, &[]);
    vec![
        ("charge", charge()),
        ("direct", direct()),
        ("livelock", livelock()),
        ("crowd", crowd()),
        ("long", long(200)),
        ("wordy", wordy()),
        ("hostile", hostile()),
        ("none", none),
    ]
}

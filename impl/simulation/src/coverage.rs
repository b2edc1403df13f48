//! What runs have come through: transitions of the core, answers, faults.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use serde::Serialize;
use settled::Answer;
use settled::protocol::{
    Action, Attempt, AttemptId, Cause, Digest, Ends, Epoch, ErrorClass, Event, Loss, Observation, Policy, Record,
    Reply, SealScope, Start, State, Time, Verdict, What,
};

use crate::fault::Fault;
use crate::plan::{Kind, Plan, Rates, ToolPlan};

/// A transition: of which kind of tool, from which state, by which event, to which state.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Transition {
    /// The kind of tool.
    pub kind: Kind,
    /// The state before.
    pub before: &'static str,
    /// What led from it.
    pub because: String,
    /// The state after.
    pub after: &'static str,
}

impl std::fmt::Display for Transition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {} —{}→ {}", self.kind.name(), self.before, self.because, self.after)
    }
}

/// How often what has happened.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Coverage {
    /// Transitions that a ledger has made durable.
    #[serde(serialize_with = "by_name")]
    pub transitions: BTreeMap<Transition, u64>,
    /// Faults.
    pub faults: BTreeMap<&'static str, u64>,
    /// What callers were told.
    pub answers: BTreeMap<&'static str, u64>,
    /// Other things worth seeing.
    pub steps: BTreeMap<&'static str, u64>,
}

fn by_name<S: serde::Serializer>(transitions: &BTreeMap<Transition, u64>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(transitions.iter().map(|(transition, times)| (transition.to_string(), times)))
}

impl Coverage {
    pub(crate) fn transition(&mut self, kind: Kind, before: &'static str, because: &str, after: &'static str) {
        let transition = Transition { kind, before, because: because.to_owned(), after };
        *self.transitions.entry(transition).or_insert(0) += 1;
    }

    pub(crate) fn fault(&mut self, name: &'static str) {
        *self.faults.entry(name).or_insert(0) += 1;
    }

    pub(crate) fn step(&mut self, name: &'static str) {
        *self.steps.entry(name).or_insert(0) += 1;
    }

    pub(crate) fn answer(&mut self, answer: &Answer) {
        let name = match answer {
            Answer::Done { replayed: false, .. } => "done",
            Answer::Done { replayed: true, .. } => "done, replayed",
            Answer::Failed { replayed: false, .. } => "failed",
            Answer::Failed { replayed: true, .. } => "failed, replayed",
            Answer::Unknown { .. } => "unknown",
            Answer::InProgress => "in progress",
            Answer::Conflict => "conflict",
            Answer::Expired => "expired",
        };
        *self.answers.entry(name).or_insert(0) += 1;
    }

    /// Adds what another run has come through.
    pub fn add(&mut self, other: &Coverage) {
        for (transition, times) in &other.transitions {
            *self.transitions.entry(transition.clone()).or_insert(0) += times;
        }
        for (to, from) in
            [(&mut self.faults, &other.faults), (&mut self.answers, &other.answers), (&mut self.steps, &other.steps)]
        {
            for (name, times) in from {
                *to.entry(name).or_insert(0) += times;
            }
        }
    }

    /// The transitions that the core can make and that have not happened.
    pub fn missed_transitions(&self) -> Vec<Transition> {
        reachable().iter().filter(|transition| !self.transitions.contains_key(transition)).cloned().collect()
    }

    /// The faults that can happen and have not.
    pub fn missed_faults(&self) -> Vec<&'static str> {
        all_faults().into_iter().filter(|fault| !self.faults.contains_key(fault)).collect()
    }

    /// The states that the core knows and that have not been seen.
    pub fn missed_states(&self) -> Vec<&'static str> {
        let seen: BTreeSet<&str> = self.transitions.keys().map(|transition| transition.after).collect();
        let all: BTreeSet<&str> = reachable().iter().map(|transition| transition.after).collect();
        all.into_iter().filter(|state| !seen.contains(state)).collect()
    }
}

/// All faults that there are.
pub fn all_faults() -> BTreeSet<&'static str> {
    let planned = [
        Fault::Kill { guard: 0, down: 0 },
        Fault::Stop { guard: 0, pause: 0 },
        Fault::CutLedger { guard: 0, pause: 0 },
        Fault::CutTools { guard: 0, pause: 0 },
        Fault::LedgerDown { pause: 0 },
        Fault::PowerFails { down: 0 },
        Fault::SyncFails { nth: 0 },
        Fault::WriteFails { nth: 0 },
        Fault::ShortWrites,
        Fault::DiskFull { left: 0, pause: 0 },
        Fault::KillHolder { after: 0, power: false },
        Fault::ClockSet { guard: 0, by: 0 },
        Fault::HangUp { guard: 0, down: 0 },
        Fault::EndProxy { guard: 0 },
        Fault::KillServer { guard: 0 },
    ];
    let mut all: BTreeSet<&str> = planned.iter().map(Fault::name).collect();
    all.extend(Rates::default().each().map(|(name, _)| name));
    all.extend(crate::proxy::FAULTS);
    all.extend([
        "queued for long",
        "fenced before the first byte",
        "holder ended with a failed disk",
        "holder gave the disk up",
        "power failed at a disk operation",
    ]);
    all
}

/// Every transition that the core makes for tools as they are drawn, found by walking through it.
pub fn reachable() -> &'static BTreeSet<Transition> {
    static REACHABLE: OnceLock<BTreeSet<Transition>> = OnceLock::new();
    REACHABLE.get_or_init(|| {
        let mut found = BTreeSet::new();
        for kind in Kind::ALL {
            for errors_final in [false, true] {
                for remembers in [false, true] {
                    for ends in [Ends::WithWindow, Ends::OnFailure, Ends::OnDelivery] {
                        let policy = policy(kind, errors_final, remembers, ends);
                        walk(&policy, kind, &mut found);
                        // A proxy's pipe delivers once, whatever the tool could stand.
                        walk(&Policy { single_delivery: true, ..policy }, kind, &mut found);
                    }
                }
            }
        }
        found
    })
}

fn policy(kind: Kind, errors_final: bool, remembers: bool, ends: Ends) -> Policy {
    let tool = ToolPlan {
        kind,
        errors_final,
        remembers,
        ends,
        window: Some(100_000),
        tombstone: None,
        resource: true,
        transit: 1,
        takes: 1,
        timeout: 1,
        settle: 1,
        attempts: 2,
        checks: 2,
        limit: 60_000,
    };
    tool.policy(None)
}

/// What of a record matters here: all but times and numbers.
fn shape(record: &Record<Digest>) -> String {
    let cause = |cause: &Cause<Digest>| match cause {
        Cause::TimedOut => 't',
        Cause::ConnectionLost => 'c',
        Cause::Error(_) => 'e',
        Cause::Refused(_) => 'r',
        Cause::OwnerLost => 'o',
    };
    let sent = record.sent().map(|sent| (sent.attempt().get(), sent.doubt()));
    match record.state() {
        State::Unknown { cause: why, checks, quiet, .. } => {
            format!("unknown {sent:?} {} {} {}", cause(why), checks.min(&3), quiet.is_some())
        }
        State::Escalated { cause: why, .. } => format!("escalated {sent:?} {}", cause(why)),
        State::Settled { verdict, delivered, .. } => {
            let verdict = match verdict {
                Verdict::Succeeded(_) => 's',
                Verdict::Failed(_) => 'f',
                Verdict::Abandoned(_) => 'a',
            };
            format!("settled {sent:?} {verdict} {:?}", delivered.map(|from| from == Time(u64::MAX)))
        }
        State::Confirmed { .. } => format!("confirmed {sent:?}"),
        other => format!("{} {sent:?}", other.name()),
    }
}

fn walk(policy: &Policy, kind: Kind, found: &mut BTreeSet<Transition>) {
    let mut seen = BTreeSet::new();
    let mut ahead: Vec<(Option<Record<Digest>>, u64)> = vec![(None, 1_000_000)];
    while let Some((record, now)) = ahead.pop() {
        for what in events(kind, record.as_ref()) {
            // Long enough for a settling time, and for a window.
            for later in [10, 5_000, 200_000] {
                let now = now + later;
                let event = Event { now: Time(now), by: Epoch(1), draw: 0, what };
                let step = policy.step(record.as_ref(), &event);
                let before = record.as_ref().map_or("absent", |record| record.state().name());
                let Some(after) = step.record else {
                    if record.is_some() {
                        for gone in ["absent", "tombstone"] {
                            found.insert(Transition { kind, before, because: "expired".to_owned(), after: gone });
                        }
                    }
                    continue;
                };
                if step.actions.iter().any(|action| matches!(action, Action::Escalate)) {
                    escalate(policy, kind, &after, now, found, &mut |after| {
                        if seen.insert(shape(after)) {
                            ahead.push((Some(*after), now));
                        }
                    });
                }
                if record.is_some_and(|record| record.version() == after.version()) {
                    continue;
                }
                let because = settled::because(&what, record.as_ref().map(|record| record.state()), &after).to_owned();
                found.insert(Transition { kind, before, because, after: after.state().name() });
                if seen.insert(shape(&after)) {
                    ahead.push((Some(after), now));
                }
            }
        }
    }
}

/// What follows when a person has been alerted.
fn escalate(
    policy: &Policy,
    kind: Kind,
    record: &Record<Digest>,
    now: u64,
    found: &mut BTreeSet<Transition>,
    ahead: &mut dyn FnMut(&Record<Digest>),
) {
    let what = What::Alerted;
    let step = policy.step(Some(record), &Event { now: Time(now), by: Epoch(1), draw: 0, what });
    if let Some(after) = step.record.filter(|after| after.version() != record.version()) {
        let because = settled::because(&what, Some(record.state()), &after).to_owned();
        found.insert(Transition { kind, before: record.state().name(), because, after: after.state().name() });
        ahead(&after);
    }
}

/// What an engine can raise about a record of such a tool.
fn events(kind: Kind, record: Option<&Record<Digest>>) -> Vec<What<Digest>> {
    let digest = Digest::of(b"x");
    let starts = [Start::Now, Start::Later].map(|start| What::Call { fingerprint: digest, start });
    let mut events = Vec::from(starts);
    let Some(record) = record else { return events };
    for (take_over, sender_done) in [(true, true), (true, false), (false, true)] {
        events.push(What::Resume { take_over, sender_done, undisturbed: sender_done });
    }
    events.push(What::Cancel);
    events.push(What::Expire);
    let at = Time(0);
    // From now on, and not for a while: the answer was slow.
    for from in [at, Time(u64::MAX)] {
        events.push(What::Delivered { generation: record.generation(), from });
    }
    for verdict in [Verdict::Succeeded(digest), Verdict::Failed(None), Verdict::Abandoned(None)] {
        // A person is asked about what was handed over.
        if matches!(record.state(), State::Escalated { .. }) {
            events.push(What::Decide { verdict, quiet: true });
        }
    }
    let Some(latest) = record.attempt_id() else { return events };
    let earlier = AttemptId { attempt: Attempt::FIRST, ..latest };
    for of in [latest, earlier] {
        // The record of what was committed says so before the answer comes.
        if kind != Kind::Transactional || matches!(record.state(), State::Confirmed { .. }) {
            events.push(What::Reply { of, reply: Reply::Result(digest) });
        }
        for class in [ErrorClass::NotRun, ErrorClass::Busy, ErrorClass::Unproven] {
            events.push(What::Reply { of, reply: Reply::Error(class, digest) });
        }
    }
    for how in [Loss::TimedOut, Loss::ConnectionLost] {
        events.push(What::Lost { of: latest, how });
    }
    let observed = |observation, conclusive| What::Observed { of: latest, observation, conclusive };
    match kind {
        Kind::Observable => {
            events.extend([
                observed(Observation::Applied(digest), false),
                observed(Observation::NotApplied, true),
                observed(Observation::NotApplied, false),
                observed(Observation::Unclear, true),
            ]);
        }
        Kind::Sealable => {
            events.extend([
                observed(Observation::Applied(digest), false),
                observed(Observation::Sealed(SealScope::Attempts), false),
                observed(Observation::Sealed(SealScope::Operation), false),
                observed(Observation::Unclear, false),
            ]);
        }
        Kind::Transactional => {
            if let Some(sent) = record.sent() {
                events.push(What::Committed { of: latest, owner: sent.owner(), result: digest });
            }
        }
        Kind::Opaque | Kind::ReadOnly | Kind::Idempotent | Kind::Deduplicates => {}
    }
    events
}

/// How a plan's parts are counted.
pub(crate) fn of_plan(plan: &Plan, coverage: &mut Coverage) {
    coverage.step(if plan.proxied { "runs of MCP proxies" } else { "runs of engines" });
    coverage.step(match plan.ledger {
        crate::plan::LedgerKind::Memory => "runs on the memory ledger",
        crate::plan::LedgerKind::Postgres => "runs on a PostgreSQL-like ledger",
        crate::plan::LedgerKind::File => "runs on the file ledger",
    });
}

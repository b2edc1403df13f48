//! Changes of which only the ledger tells: is there a step of the core that leads to them?

use settled::Change;
use settled_protocol::{
    Attempt, AttemptId, Backoff, Cause, Digest, Ends, Epoch, ErrorClass, Event, Loss, Millis, Observation, Outcome,
    Policy, Record, Repeat, Reply, Retry, Rules, SealScope, Start, State, ToolKind, Verdict, What,
};

/// The kinds of tools, as far as records differ by them.
const KINDS: [ToolKind; 8] = [
    ToolKind::Opaque,
    ToolKind::Observable { settling: 0 },
    ToolKind::Deduplicates { limit: Millis::MAX, margin: 0, remembers_rejections: false },
    ToolKind::Deduplicates { limit: Millis::MAX, margin: 0, remembers_rejections: true },
    ToolKind::Idempotent,
    ToolKind::ReadOnly,
    ToolKind::Sealable,
    ToolKind::Transactional,
];

/// The kinds of tools that a change is possible for: a bit for each of [`KINDS`].
pub(crate) type Kinds = u8;

/// All of them.
pub(crate) const ANY: Kinds = u8::MAX;

/// The kinds of tools with which the core can step from the record before to the change's.
pub(crate) fn kinds_that_lead(before: Option<&Record<Digest>>, change: &Change) -> Kinds {
    let after = &change.record;
    let by = match after.state() {
        State::Dispatched(sent) => sent.owner(),
        _ => change.by,
    };
    let events: Vec<Event<Digest>> = events(before, after, by, &change.event)
        .into_iter()
        .map(|what| Event { now: change.at, by, draw: 0, what })
        .collect();
    let leads = |tool: ToolKind| {
        policies(tool).any(|policy| {
            events.iter().any(|event| {
                let step = policy.step(before, event);
                step.record.as_ref() == Some(after) && step.actions.iter().next().is_some_and(is_store)
            })
        })
    };
    KINDS.iter().enumerate().filter(|(_, tool)| leads(**tool)).fold(0, |kinds, (bit, _)| kinds | 1 << bit)
}

fn is_store(action: settled_protocol::Action<Digest>) -> bool {
    matches!(action, settled_protocol::Action::Store(_))
}

/// Policies of a kind, the usual one first: one for each way in which records can come to differ.
fn policies(tool: ToolKind) -> impl Iterator<Item = Policy> {
    let flags = [false, true];
    let ends = [Ends::WithWindow, Ends::OnFailure, Ends::OnDelivery];
    ends.into_iter().flat_map(move |ends| {
        [None, Some(0)].into_iter().flat_map(move |window| {
            [u32::MAX, 0].into_iter().flat_map(move |attempts| {
                flags.into_iter().flat_map(move |errors_final| {
                    [true, false].into_iter().map(move |single_delivery| Policy {
                        tool,
                        errors_final,
                        single_delivery,
                        repeat: Repeat { ends, window },
                        retry: Retry { attempts, total: Millis::MAX, checks: 1, backoff: Backoff { base: 0, cap: 0 } },
                        rules: Rules::SOUND,
                    })
                })
            })
        })
    })
}

/// What can have happened, by the word that the ledger has for it; all that is known, if it has none that is known.
fn events(before: Option<&Record<Digest>>, after: &Record<Digest>, by: Epoch, word: &str) -> Vec<What<Digest>> {
    let Some(before) = before else {
        return calls(after);
    };
    let Some(of) = before.attempt_id() else {
        return [calls(after), resumes(), vec![What::Cancel], deliveries(after)].concat();
    };
    let body = body(after.state());
    let seen = |observation| [false, true].map(|conclusive| What::Observed { of, observation, conclusive }).to_vec();
    let all = [
        ("call", calls(after)),
        ("resume", resumes()),
        (
            "result",
            body.map(|body| earlier(of).map(|of| What::Reply { of, reply: Reply::Result(body) }).collect())
                .unwrap_or_default(),
        ),
        ("error", errors(of, body)),
        ("lost", vec![What::Lost { of, how: Loss::TimedOut }, What::Lost { of, how: Loss::ConnectionLost }]),
        ("seen applied", body.map(|body| seen(Observation::Applied(body))).unwrap_or_default()),
        ("seen not applied", seen(Observation::NotApplied)),
        (
            "sealed",
            [seen(Observation::Sealed(SealScope::Attempts)), seen(Observation::Sealed(SealScope::Operation))].concat(),
        ),
        ("seen nothing", seen(Observation::Unclear)),
        ("committed", body.map(|result| vec![What::Committed { of, owner: by, result }]).unwrap_or_default()),
        ("escalated", vec![What::Alerted]),
        ("decided", decisions(after.state())),
        ("cancelled", vec![What::Cancel]),
        ("delivered", deliveries(after)),
    ];
    let word = match word {
        "owner lost" | "sent in its turn" | "sent again" | "resumed" => "resume",
        "busy" => "error",
        "timed out" | "connection lost" => "lost",
        other => other,
    };
    match all.iter().find(|(name, _)| *name == word) {
        Some((_, events)) => events.clone(),
        None => all.into_iter().flat_map(|(_, events)| events).collect(),
    }
}

fn calls(after: &Record<Digest>) -> Vec<What<Digest>> {
    [Start::Now, Start::Later].map(|start| What::Call { fingerprint: after.fingerprint(), start }).to_vec()
}

fn resumes() -> Vec<What<Digest>> {
    let flags = [false, true];
    let mut all = Vec::new();
    for take_over in flags {
        for sender_done in flags {
            for undisturbed in flags {
                all.push(What::Resume { take_over, sender_done, undisturbed });
            }
        }
    }
    all
}

/// The attempts of the operation up to the latest one, which comes first. Far more than any budget allows are not tried.
fn earlier(of: AttemptId) -> impl Iterator<Item = AttemptId> + Clone {
    let numbers = std::iter::successors(Some(Attempt::FIRST), |attempt| Some(attempt.next()));
    let before = numbers.take_while(move |attempt| *attempt < of.attempt).take(64);
    std::iter::once(of).chain(before.map(move |attempt| AttemptId { attempt, ..of }))
}

fn errors(of: AttemptId, body: Option<Digest>) -> Vec<What<Digest>> {
    // That the tool is busy leaves no body where it is sent again.
    let body = body.unwrap_or(Digest::from_bytes([0; 32]));
    let classes = [ErrorClass::NotRun, ErrorClass::Unproven, ErrorClass::Busy];
    earlier(of).flat_map(|of| classes.map(|class| What::Reply { of, reply: Reply::Error(class, body) })).collect()
}

fn decisions(after: &State<Digest>) -> Vec<What<Digest>> {
    match after {
        State::Settled { verdict, .. } => vec![What::Decide { verdict: *verdict, quiet: true }],
        _ => Vec::new(),
    }
}

fn deliveries(after: &Record<Digest>) -> Vec<What<Digest>> {
    match after.state() {
        State::Settled { delivered: Some(from), .. } => {
            vec![What::Delivered { generation: after.generation(), from: *from }]
        }
        _ => Vec::new(),
    }
}

/// The body that a record names.
pub(crate) fn body(state: &State<Digest>) -> Option<Digest> {
    match state {
        State::Created | State::Dispatched(_) => None,
        State::Unknown { cause, .. } | State::Escalated { cause, .. } => match cause {
            Cause::Error(body) | Cause::Refused(body) => Some(*body),
            Cause::TimedOut | Cause::ConnectionLost | Cause::OwnerLost => None,
        },
        State::Confirmed { outcome: Outcome::Succeeded(body), .. } => Some(*body),
        State::Confirmed { outcome: Outcome::Failed(body), .. } => *body,
        State::Settled { verdict: Verdict::Succeeded(body), .. } => Some(*body),
        State::Settled { verdict: Verdict::Failed(body) | Verdict::Abandoned(body), .. } => *body,
    }
}

/// The record that the effect's own transaction stored between these two, if that is what is missing: it is the tool that writes
/// it, so no history tells of it.
pub(crate) fn committed_between(before: &Record<Digest>, after: &Record<Digest>) -> Option<Record<Digest>> {
    let (State::Dispatched(sent), State::Settled { at, .. }) = (before.state(), after.state()) else {
        return None;
    };
    let what = What::Committed { of: before.attempt_id()?, owner: sent.owner(), result: body(after.state())? };
    let event = Event { now: *at, by: sent.owner(), draw: 0, what };
    let confirmed = Policy::new(ToolKind::Transactional).step(Some(before), &event).record?;
    matches!(confirmed.state(), State::Confirmed { .. }).then_some(confirmed)
}

//! Concrete representatives of a point. What the point leaves open differs between them, so that a dependence on it
//! shows.

use std::collections::HashMap;

use serde_json::{Value, json};
use settled_protocol::*;

use crate::dims::*;

/// How many representatives each point has.
pub const REPRESENTATIVES: usize = 4;

/// The data of the record: never that of the event.
const KEPT: u8 = 9;

/// A concrete policy, record and event.
pub struct Concrete {
    pub policy: Policy,
    pub record: Option<Record<u8>>,
    pub event: Event<u8>,
}

/// Builds representatives; keeps the records, which are slow to build.
#[derive(Default)]
pub struct Builder {
    records: HashMap<(Vec<u8>, usize), Record<u8>>,
}

/// The numbers that representatives of the same point disagree about.
struct Numbers {
    attempt: u32,
    now: u64,
    created: u64,
    first: u64,
    at: u64,
    since: u64,
    checks: u32,
    generation: u32,
}

impl Numbers {
    fn of(r: usize) -> Numbers {
        let r = r as u64;
        Numbers {
            attempt: [2, 1, 5, 3][r as usize],
            now: 100_000 + 1_000 * r,
            created: 10_000 + r,
            first: 20_000 + 10 * r,
            at: 30_000 + 100 * r,
            since: 40_000 + 7 * r,
            checks: [0, 3, 1, 2][r as usize],
            generation: [500, 2, 7, 70][r as usize],
        }
    }
}

impl Builder {
    /// The `r`-th representative; none if the point needs an attempt before the first.
    pub fn build(&mut self, point: &Point, r: usize) -> Option<Concrete> {
        if value(point, OF) == "earlier" && Numbers::of(r).attempt == 1 {
            return None;
        }
        // A dimension that this kind of event leaves open is set by the representative.
        let mut point = *point;
        for (i, dim) in [BUDGET, CHECKS, IN_TIME, STILL, WINDOW, DUE, BEFORE].into_iter().enumerate() {
            if point[dim] == 0 {
                point[dim] = 1 + ((r >> (i % 2)) & 1) as u8;
            }
        }
        Some(Concrete { policy: policy(&point, r), record: self.record(&point, r), event: event(&point, r) })
    }

    fn record(&mut self, point: &Point, r: usize) -> Option<Record<u8>> {
        if value(point, PHASE) == "absent" {
            return None;
        }
        let mut key = point[PHASE..=DELIVERED].to_vec();
        key.push(point[DUE]);
        Some(*self.records.entry((key, r)).or_insert_with(|| {
            let n = Numbers::of(r);
            // Records come from here as they come from a ledger: deserialised.
            serde_json::from_value(json!({
                "version": 7 + r, "generation": n.generation, "fingerprint": 1, "created": n.created,
                "state": state(point, r, &n),
            }))
            .expect("a typed record")
        }))
    }
}

fn state(point: &Point, r: usize, n: &Numbers) -> Value {
    let sent = json!({
        "attempt": n.attempt, "owner": 20 + r, "at": n.at, "first": n.first, "doubt": is_yes(point, DOUBT),
    });
    let cause = match value(point, CAUSE) {
        "error" => json!({ "Error": KEPT }),
        "refused" => json!({ "Refused": KEPT }),
        _ => json!((["TimedOut", "ConnectionLost", "OwnerLost", "TimedOut"])[r]),
    };
    // An error may have come without data. (An operation that was never sent has some here, so that it shows that its
    // answer holds none.)
    let data = if r.is_multiple_of(2) || value(point, SENT) == "no" { json!(KEPT) } else { Value::Null };
    let verdict = match value(point, VERDICT) {
        "succeeded" => json!({ "Succeeded": KEPT }),
        "failed" => json!({ "Failed": data }),
        _ => json!({ "Abandoned": data }),
    };
    let delivered = is_yes(point, DELIVERED).then(|| if is_yes(point, DUE) { n.now - r as u64 } else { n.now + 1 });
    match value(point, PHASE) {
        "created" => json!("Created"),
        "dispatched" => json!({ "Dispatched": sent }),
        "unknown" => {
            let quiet = is_yes(point, QUIET).then_some(n.since);
            json!({ "Unknown": { "sent": sent, "cause": cause, "checks": n.checks, "quiet": quiet } })
        }
        "escalated" => json!({ "Escalated": { "sent": sent, "cause": cause } }),
        "confirmed" => json!({ "Confirmed": { "sent": sent, "outcome": verdict } }),
        _ => {
            let sent = is_yes(point, SENT).then_some(sent);
            json!({ "Settled": { "verdict": verdict, "sent": sent, "at": n.since, "delivered": delivered } })
        }
    }
}

fn policy(point: &Point, r: usize) -> Policy {
    let (n, spread) = (Numbers::of(r), r as u64);
    let margin = 50 + spread;
    let needed = n.now + margin - n.first;
    let limit = if is_yes(point, IN_TIME) { needed + 1 + spread } else { needed - spread };
    let settling = if is_yes(point, STILL) { n.now - n.since - spread } else { n.now - n.since + 1 + spread };
    let tool = match value(point, TOOL) {
        "opaque" => ToolKind::Opaque,
        "read-only" => ToolKind::ReadOnly,
        "idempotent" => ToolKind::Idempotent,
        "observable" => ToolKind::Observable { settling },
        "sealable" => ToolKind::Sealable,
        "transactional" => ToolKind::Transactional,
        name => {
            let remembers_rejections = name == "deduplicates-rejections";
            ToolKind::Deduplicates { limit, margin, remembers_rejections }
        }
    };
    let age = n.now - n.created;
    // No budget is left when the attempts are used up, or the time is, or both.
    let (attempts, total) = match (is_yes(point, BUDGET), r) {
        (true, _) => (n.attempt + 1 + r as u32, age + spread),
        (false, 0) => (n.attempt, age),
        (false, 1) => (n.attempt + 1, age - 1),
        (false, _) => (n.attempt - 1, age - 1),
    };
    let checks = if is_yes(point, CHECKS) { n.checks + 2 + r as u32 } else { (n.checks + 1).saturating_sub(r as u32) };
    let age = n.now - n.since;
    let window = match (is_yes(point, WINDOW), r) {
        (true, _) => Some(age - 1 - spread),
        (false, 0) => None,
        (false, _) => Some(age + spread - 1),
    };
    Policy {
        tool,
        errors_final: is_yes(point, ERRORS),
        single_delivery: is_yes(point, DELIVERY),
        repeat: Repeat {
            ends: match value(point, ENDS) {
                "with-window" => Ends::WithWindow,
                "on-failure" => Ends::OnFailure,
                _ => Ends::OnDelivery,
            },
            window,
        },
        retry: Retry { attempts, total, checks, backoff: Backoff { base: 8, cap: 8 } },
        rules: Rules::SOUND,
    }
}

fn event(point: &Point, r: usize) -> Event<u8> {
    let n = Numbers::of(r);
    let data = 100 + r as u8;
    let of = AttemptId {
        generation: match value(point, OF) {
            "another-operation" if r.is_multiple_of(2) => n.generation - 1,
            "another-operation" => n.generation + 1,
            _ => n.generation,
        },
        attempt: (1..match value(point, OF) {
            "earlier" => 1.max(n.attempt - 1 - r as u32 % 2),
            "later" => n.attempt + 1 + r as u32,
            _ => n.attempt,
        })
            .fold(Attempt::FIRST, |attempt, _| attempt.next()),
    };
    let what = match value(point, WHAT) {
        "call" => What::Call {
            fingerprint: if value(point, ARGUMENTS) == "other" { 2 } else { 1 },
            start: if is_yes(point, START) { Start::Now } else { Start::Later },
        },
        "resume" => What::Resume {
            take_over: is_yes(point, TAKE_OVER),
            sender_done: is_yes(point, SENDER_DONE),
            undisturbed: is_yes(point, UNDISTURBED),
        },
        "reply" => What::Reply {
            of,
            reply: match value(point, REPLY) {
                "result" => Reply::Result(data),
                "not-run" => Reply::Error(ErrorClass::NotRun, data),
                "busy" => Reply::Error(ErrorClass::Busy, data),
                _ => Reply::Error(ErrorClass::Unproven, data),
            },
        },
        "lost" => What::Lost {
            of,
            how: if value(point, LOSS) == "timed-out" { Loss::TimedOut } else { Loss::ConnectionLost },
        },
        "observed" => What::Observed {
            of,
            observation: match value(point, SEEN) {
                "applied" => Observation::Applied(data),
                "not-applied" => Observation::NotApplied,
                "sealed-attempts" => Observation::Sealed(SealScope::Attempts),
                "sealed-operation" => Observation::Sealed(SealScope::Operation),
                _ => Observation::Unclear,
            },
            conclusive: is_yes(point, CONCLUSIVE),
        },
        "committed" => What::Committed {
            of,
            owner: Epoch(if is_yes(point, OWNER) { 20 } else { [60, 10, 61, 11][r] } + r as u32),
            result: data,
        },
        "alerted" => What::Alerted,
        "decide" => What::Decide {
            verdict: match value(point, DECISION) {
                "succeeded" => Verdict::Succeeded(data),
                "failed" => Verdict::Failed((r < 2).then_some(data)),
                _ => Verdict::Abandoned((r < 2).then_some(data)),
            },
            quiet: is_yes(point, ALL_QUIET),
        },
        "cancel" => What::Cancel,
        "delivered" => {
            let known = if is_yes(point, DUE) { n.now - r as u64 } else { n.now + 1 };
            let from = if is_yes(point, BEFORE) { known - 1 - r as u64 } else { known + r as u64 };
            What::Delivered { generation: of.generation, from: Time(from) }
        }
        _ => What::Expire,
    };
    Event { now: Time(n.now), by: Epoch(40 + r as u32), draw: [0, u32::MAX, 7, 1 << 31][r], what }
}

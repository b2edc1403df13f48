//! What a process leaves behind that is killed.

use std::time::Duration;

use settled::protocol::{Digest, Event, Loss, Policy, Start, Step, Time, What};
use settled::{Change, Ledger};

use super::{World, operation};

/// What a process left that was killed when its record was in this state.
pub async fn left(world: &World, state: &str, policy: Policy) {
    let dead = world.ledger.register(Duration::from_secs(60)).await.unwrap();
    let asked = operation(policy);
    let mut record = None;
    let mut step = |what| {
        let event = Event { now: Time(1_000_000), by: dead, draw: 0, what };
        let Step { record: after, .. } = policy.step(record.as_ref(), &event);
        let expected = record.map(|record| record.version());
        record = after;
        (expected, after.unwrap())
    };
    let start = if state == "intent created" { Start::Later } else { Start::Now };
    let mut records = vec![step(What::Call { fingerprint: asked.fingerprint, start })];
    if matches!(state, "unknown" | "escalated") {
        let of = records[0].1.attempt_id().unwrap();
        records.push(step(What::Lost { of, how: Loss::TimedOut }));
    }
    if state == "escalated" {
        records.push(step(What::Alerted));
    }
    if state == "confirmed" {
        let of = records[0].1.attempt_id().unwrap();
        records.push(step(What::Committed { of, owner: dead, result: Digest::of(b"charged") }));
    }
    for (expected, record) in records {
        let change = Change {
            key: asked.key.clone(),
            expected,
            record,
            at: Time(1_000_000),
            by: dead,
            event: "left".into(),
            asked: expected.is_none().then(|| asked.asked.clone()),
            sent: None,
            outcome: (state == "confirmed").then(|| "charged".into()),
            note: None,
            resource: asked.resource.clone().filter(|_| expected.is_none()),
            keep_until: None,
        };
        world.ledger.compare_and_set(change).await.unwrap();
    }
    world.ledger.kill(dead);
    assert_eq!(world.state().await, state);
}

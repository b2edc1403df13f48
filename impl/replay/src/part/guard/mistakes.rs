//! What a description declares that the engine can't be made to do.

use settled::protocol::{Action, Digest, Event, What};
use settled::{Change, Engine};

use super::terms::Terms;

/// A call is cancelled. With `keep-cancelled = false`, one that was already sent is recorded as failed.
pub async fn cancel(engine: &Engine, terms: &Terms, number: u8) {
    let Some(key) = terms.keys.key(number) else { return };
    if terms.policy.rules.keep_cancelled {
        // Only what still waits can be cancelled; anything else goes on.
        let _ = engine.cancel(&key).await;
        return;
    }
    let Ok(Some(entry)) = engine.ledger().get(&key).await else { return };
    let event = Event { now: entry.record.created(), by: engine.epoch(), draw: 0, what: What::<Digest>::Cancel };
    let step = terms.policy.step(Some(&entry.record), &event);
    for action in step.actions.iter() {
        if let Action::Store(store) = action {
            let change = Change {
                key: key.clone(),
                expected: store.expected,
                record: store.record,
                at: event.now,
                by: event.by,
                event: "cancel".to_owned(),
                asked: None,
                sent: None,
                outcome: None,
                note: None,
                resource: None,
                keep_until: None,
            };
            let _ = engine.ledger().compare_and_set(change).await;
        }
    }
}

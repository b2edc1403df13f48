//! What is counted.

use std::time::Duration;

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};

use crate::wire::{Became, Cursor, Uploaded};

/// Buckets for `settled_sync_upload_seconds`: from a small upload on a fast disk to a store in trouble.
pub const UPLOAD_SECONDS: [f64; 12] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0, 15.0];

/// Says what the figures are.
pub fn describe() {
    describe_counter!("settled_sync_operations_total", "operations answered, by what became of them");
    describe_counter!(
        "settled_sync_redated_total",
        "operations applied that got another time: their device's clock is not believed"
    );
    describe_counter!("settled_sync_uploads_refused_total", "uploads that were not looked into, by why");
    describe_histogram!(
        "settled_sync_upload_seconds",
        Unit::Seconds,
        "time from an upload's arrival until it was durable"
    );
    describe_gauge!("settled_sync_head", "the cursor of the last operation");
}

/// Notes an upload that was answered.
pub(super) fn uploaded(uploaded: &Uploaded, took: Duration) {
    let mut counts = [("applied", 0_u64), ("repeated", 0), ("refused", 0), ("held", 0)];
    let mut moved = 0;
    for answer in &uploaded.answers {
        let place = match answer.is {
            Became::Applied { repeated: false, redated, .. } => {
                moved += u64::from(redated);
                0
            }
            Became::Applied { repeated: true, .. } => 1,
            Became::Refused { .. } => 2,
            Became::Held { .. } => 3,
        };
        counts[place].1 += 1;
    }
    for (is, count) in counts {
        counter!("settled_sync_operations_total", "is" => is).increment(count);
    }
    counter!("settled_sync_redated_total").increment(moved);
    histogram!("settled_sync_upload_seconds").record(took.as_secs_f64());
    head(uploaded.head);
}

/// Notes an upload that was not looked into.
pub(super) fn turned_away(why: &'static str) {
    counter!("settled_sync_uploads_refused_total", "why" => why).increment(1);
}

/// Notes the last cursor.
#[expect(clippy::cast_precision_loss, reason = "a gauge is a floating-point number")]
pub(super) fn head(head: Cursor) {
    gauge!("settled_sync_head").set(head as f64);
}

//! What is counted, under stable names, for whoever installs a recorder of the `metrics` crate.

use std::collections::{BTreeSet, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use settled_protocol::{Cause, Digest, Key, Verdict};

use crate::ledger::Remains;
use crate::operation::Answer;
use crate::options::Alerts;
use crate::sync::lock;

/// Whether somebody wants the figures.
static WANTED: AtomicBool = AtomicBool::new(false);

/// More tools than this are counted as one, `other`: tools' names can come from callers.
const TOOLS: usize = 500;

/// Describes all figures to the recorder that was installed before. Nothing is counted until this has been called.
pub fn describe() {
    WANTED.store(true, Ordering::Release);
    describe_counter!("settled_calls_total", "calls answered, by tool, answer and whether it was a replay");
    describe_counter!("settled_attempts_total", "attempts sent, by tool");
    describe_counter!("settled_retries_total", "attempts sent after the first, by tool and what led to them");
    describe_counter!("settled_unknowns_total", "operations whose outcome became unknown, by tool and cause");
    describe_counter!("settled_settled_total", "operations settled, by tool, verdict and what settled them");
    describe_counter!("settled_observations_total", "observations of unknown operations, by tool and what was seen");
    describe_counter!("settled_escalations_total", "unknown operations handed to a person, by tool");
    describe_counter!(
        "settled_takeovers_total",
        "operations taken over from an owner that was gone or whose lease ran out"
    );
    describe_counter!("settled_fenced_total", "times that this process found that its lease had run out");
    describe_counter!("settled_retry_budget_refused_total", "retries put off because the fleet's budget was used up");
    describe_counter!("settled_expired_total", "records forgotten after their retention, by what remains of them");
    describe_histogram!("settled_store_seconds", Unit::Seconds, "time until a change was durable");
    describe_histogram!("settled_line_seconds", Unit::Seconds, "time that operations waited for their resource");
    describe_gauge!("settled_line_waiting", "operations of this process that wait for their resource");
    describe_gauge!("settled_records", "unsettled operations in the ledger by state, at the last sweep");
    describe_gauge!("settled_tool_failing", "1 while a tool fails persistently");
}

fn wanted() -> bool {
    WANTED.load(Ordering::Acquire)
}

/// The label of a key's tool.
fn tool(key: &Key) -> String {
    static KNOWN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut known = lock(&KNOWN);
    if !known.contains(key.tool()) {
        if known.len() >= TOOLS {
            return "other".to_owned();
        }
        known.insert(key.tool().to_owned());
    }
    key.tool().to_owned()
}

pub(crate) fn call(key: &Key, answer: &Answer) {
    if !wanted() {
        return;
    }
    let replayed = matches!(
        answer,
        Answer::Done { replayed: true, .. }
            | Answer::Failed { replayed: true, .. }
            | Answer::Unknown { replayed: true, .. }
    );
    let replayed = if replayed { "true" } else { "false" };
    counter!("settled_calls_total", "tool" => tool(key), "answer" => name(answer), "replayed" => replayed).increment(1);
}

pub(crate) fn call_not_sent(key: &Key) {
    if !wanted() {
        return;
    }
    counter!("settled_calls_total", "tool" => tool(key), "answer" => "not_sent", "replayed" => "false").increment(1);
}

fn name(answer: &Answer) -> &'static str {
    match answer {
        Answer::Done { .. } => "done",
        Answer::Failed { .. } => "failed",
        Answer::Unknown { .. } => "unknown",
        Answer::InProgress => "in_progress",
        Answer::Conflict => "conflict",
        Answer::Expired => "expired",
    }
}

pub(crate) fn attempt(key: &Key, retried_because: Option<&'static str>) {
    if !wanted() {
        return;
    }
    counter!("settled_attempts_total", "tool" => tool(key)).increment(1);
    if let Some(cause) = retried_because {
        counter!("settled_retries_total", "tool" => tool(key), "cause" => cause).increment(1);
    }
}

pub(crate) fn unknown(key: &Key, cause: &Cause<Digest>) {
    if !wanted() {
        return;
    }
    counter!("settled_unknowns_total", "tool" => tool(key), "cause" => cause_name(cause)).increment(1);
    if matches!(cause, Cause::OwnerLost) {
        counter!("settled_takeovers_total").increment(1);
    }
}

/// A cause in a word or two.
pub(crate) fn cause_name(cause: &Cause<Digest>) -> &'static str {
    match cause {
        Cause::TimedOut => "timed out",
        Cause::ConnectionLost => "connection lost",
        Cause::Error(_) => "error",
        Cause::Refused(_) => "refused",
        Cause::OwnerLost => "owner lost",
    }
}

pub(crate) fn settled(key: &Key, verdict: &Verdict<Digest>, by: &'static str) {
    if !wanted() {
        return;
    }
    let verdict = match verdict {
        Verdict::Succeeded(_) => "succeeded",
        Verdict::Failed(_) => "failed",
        Verdict::Abandoned(_) => "abandoned",
    };
    counter!("settled_settled_total", "tool" => tool(key), "verdict" => verdict, "by" => by).increment(1);
}

pub(crate) fn observation(key: &Key, seen: &'static str) {
    if !wanted() {
        return;
    }
    counter!("settled_observations_total", "tool" => tool(key), "seen" => seen).increment(1);
}

pub(crate) fn escalation(key: &Key) {
    if !wanted() {
        return;
    }
    counter!("settled_escalations_total", "tool" => tool(key)).increment(1);
}

pub(crate) fn fenced() {
    counter!("settled_fenced_total").increment(1);
}

pub(crate) fn budget_refused() {
    counter!("settled_retry_budget_refused_total").increment(1);
}

pub(crate) fn expired(remains: Remains) {
    let remains = match remains {
        Remains::Nothing => "nothing",
        Remains::Tombstone { .. } => "tombstone",
    };
    counter!("settled_expired_total", "remains" => remains).increment(1);
}

pub(crate) fn stored(took: Duration) {
    if !wanted() {
        return;
    }
    histogram!("settled_store_seconds").record(took.as_secs_f64());
}

/// Counts an operation that waits for its resource, until it is dropped.
pub(crate) struct InLine(tokio::time::Instant);

impl InLine {
    pub(crate) fn new() -> InLine {
        gauge!("settled_line_waiting").increment(1);
        InLine(tokio::time::Instant::now())
    }
}

impl Drop for InLine {
    fn drop(&mut self) {
        gauge!("settled_line_waiting").decrement(1);
        histogram!("settled_line_seconds").record(self.0.elapsed().as_secs_f64());
    }
}

pub(crate) fn records<'a>(states: impl Iterator<Item = &'a str>) {
    let mut counts: HashMap<&str, u32> =
        ["intent created", "dispatched", "unknown", "escalated", "confirmed"].map(|state| (state, 0)).into();
    for state in states {
        *counts.entry(state).or_default() += 1;
    }
    for (state, count) in counts {
        gauge!("settled_records", "state" => state.to_owned()).set(count);
    }
}

/// Which tools fail persistently.
#[derive(Default)]
pub(crate) struct Health {
    /// Attempts without a result since the last result, by scope and tool.
    failures: Mutex<HashMap<(String, String), u32>>,
}

impl Health {
    /// An attempt has ended, with a result or without.
    pub(crate) fn attempt_ended(&self, key: &Key, result: bool, failing_after: u32, alerts: &dyn Alerts) {
        let mut failures = lock(&self.failures);
        let name = (key.scope().to_owned(), key.tool().to_owned());
        if result {
            let recovered = failures.remove(&name).is_some_and(|failures| failures >= failing_after);
            drop(failures);
            if recovered {
                gauge!("settled_tool_failing", "tool" => tool(key)).set(0);
                alerts.recovered(key.scope(), key.tool());
            }
            return;
        }
        if failures.len() >= TOOLS && !failures.contains_key(&name) {
            return;
        }
        let count = failures.entry(name).or_default();
        *count = count.saturating_add(1);
        let count = *count;
        drop(failures);
        if count == failing_after {
            gauge!("settled_tool_failing", "tool" => tool(key)).set(1);
            alerts.failing(key.scope(), key.tool(), count);
        }
    }
}

//! The lanes of a sequence diagram: who takes part, from left to right.

use super::Trace;

/// The lane that ledger changes are shown on.
pub(super) const LEDGER: &str = "ledger";
/// The lane that messages on their way are shown on.
pub(super) const NETWORK: &str = "network";

/// Callers and devices, then guards, then the ledger, then what is behind them.
fn rank(lane: &str) -> u8 {
    match lane {
        NETWORK | "person" => 9,
        "tool" | "server" => 8,
        LEDGER => 7,
        _ if lane.starts_with("guard") => 2,
        _ => 1,
    }
}

/// Everyone who acts, is acted on or is written to.
pub(super) fn lanes(trace: &Trace) -> Vec<&str> {
    let acting = trace.steps.iter().flat_map(|step| std::iter::once(&step.from).chain(&step.to));
    let mut lanes: Vec<&str> = acting.map(String::as_str).collect();
    if trace.steps.iter().any(|step| !step.ledger.is_empty()) {
        lanes.push(LEDGER);
    }
    sort(&mut lanes);
    lanes.dedup();
    lanes
}

/// Sorts lanes from left to right.
pub(super) fn sort(lanes: &mut [&str]) {
    lanes.sort_unstable_by_key(|lane| (rank(lane), *lane));
}

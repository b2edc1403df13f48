//! What this crate counts by tool, with a bound on how many tools are told apart: their names can come from callers.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use metrics::{counter, describe_counter};

/// More tools than this are counted as one, `other`.
const TOOLS: usize = 500;

pub(crate) fn describe() {
    describe_counter!(
        "settled_observed_total",
        "calls that passed unguarded (`mode = \"observe\"`), by tool and what the guard would have done"
    );
}

/// A call was passed on unguarded.
pub(crate) fn observed(tool: &str, would: &'static str) {
    counter!("settled_observed_total", "tool" => label(tool), "would" => would).increment(1);
}

/// The label of a tool.
pub(crate) fn label(tool: &str) -> String {
    static KNOWN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if !known.contains(tool) {
        if known.len() >= TOOLS {
            return "other".to_owned();
        }
        known.insert(tool.to_owned());
    }
    tool.to_owned()
}

//! The protocols that ship with the checker, each in a file of its own under `model/checker/protocols`.

use crate::description::Description;
use crate::load::{LoadError, parse};

macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        /// The shipped protocols: name and TOML text.
        pub const SHIPPED: &[(&str, &str)] = &[
            $(($name, include_str!(concat!("../protocols/", $name, ".toml"))),)*
        ];
    };
}

shipped![
    "naive-retry",
    "mcp-2025-11-25",
    "mcp-2026-07-28",
    "mcp-restart",
    "mcp-sep-3182",
    "ietf-idempotency-key",
    "stripe-like",
    "stripe-late-retry",
    "redis-short-retention",
    "redis-failover",
    "redis-with-sealable-tool",
    "langgraph-default-retry",
    "langgraph-checkpoint-sync",
    "langgraph-checkpoint-async",
    "langgraph-checkpoint-exit",
    "workflow-journal",
    "keys-above-tools-call",
    "key-per-attempt",
    "arguments-as-key",
    "new-after-delivery",
    "no-fingerprint",
    "record-after-effect",
    "volatile-intent",
    "fsync-error-ignored",
    "torn-write-erases",
    "fail-open",
    "claim-read-then-write",
    "dispatch-without-compare-and-set",
    "lease-shorter-than-call",
    "timeout-taken-for-busy",
    "in-progress-for-ever",
    "polls-starve-the-guard",
    "key-freed-by-failure",
    "failure-then-success",
    "server-error-means-failed",
    "cancel-means-failed",
    "optimistic-answer",
    "not-found-means-failed",
    "settling-too-short",
    "margin-too-short",
    "retention-too-short",
    "resend-without-seal",
    "idempotent-late-copy",
    "overlapping-calls",
    "line-by-start-time",
    "line-freed-by-lease",
    "retry-storm",
    "never-forgets",
    "observe-with-budget",
    "busy-retry",
    "atomic-op-id",
    "calls-in-turn",
    "settled-opaque",
    "settled-opaque-storage",
    "settled-observable",
    "settled-observable-one-process",
    "settled-observable-storage",
    "settled-observable-clocks",
    "settled-sealable",
    "settled-sealable-network",
    "settled-sealable-storage",
    "settled-deduplicates",
    "settled-deduplicates-storage",
    "settled-deduplicates-clocks",
    "settled-transactional",
    "settled-transactional-storage",
    "settled-idempotent",
    "settled-idempotent-storage",
    "settled-idempotent-line",
    "settled-line",
    "settled-key-reuse",
    "settled-retention",
    "devices-sound",
    "devices-clocks-off",
    "devices-first-arrival",
    "devices-last-arrival",
    "devices-wall-clock",
    "devices-keeps-its-time",
    "devices-result-after",
    "devices-server-ids",
    "devices-sent-and-forgotten",
];

/// The TOML text of a shipped protocol.
pub fn text(name: &str) -> Option<&'static str> {
    SHIPPED.iter().find(|(shipped, _)| *shipped == name).map(|(_, text)| *text)
}

/// A shipped protocol.
///
/// # Errors
/// [`LoadError::NoSuchProtocol`], with the names that there are.
pub fn load(name: &str) -> Result<Description, LoadError> {
    match text(name) {
        Some(text) => parse(name, text),
        None => {
            let distance = |shipped: &str| strsim::damerau_levenshtein(shipped, name);
            let nearest = SHIPPED.iter().map(|(shipped, _)| *shipped).min_by_key(|shipped| distance(shipped));
            let near = nearest.filter(|shipped| distance(shipped) <= 3);
            let near = near.map_or(String::new(), |shipped| format!(" (did you mean “{shipped}”?)"));
            Err(LoadError::NoSuchProtocol { name: name.to_owned(), near })
        }
    }
}

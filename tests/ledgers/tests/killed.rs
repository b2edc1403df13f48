//! Callers, guards and a ledger under load, while guards and ledger are killed and frozen: nothing acknowledged is lost, nothing
//! happens twice, and everyone is told something honest in bounded time.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use settled_ledger_tests::stage::Backend;
use settled_ledger_tests::stage::havoc::havoc;

/// Waiting for a ledger and for an unknown outcome, several times over on a machine that is busy.
const BOUND: Duration = Duration::from_secs(30);

/// One at a time: times are measured.
static ALONE: Mutex<()> = Mutex::new(());

fn nothing_is_lost_or_repeated(backend: fn() -> Backend) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let seconds = std::env::var("SETTLED_TEST_SECONDS").ok().and_then(|seconds| seconds.parse().ok()).unwrap_or(15);
    let report = havoc(env!("CARGO_BIN_EXE_ledger_worker"), backend(), Duration::from_secs(seconds));
    println!("{report}");
    let truth = &report.truth;
    assert_eq!(truth.losses, Vec::<String>::new());
    assert_eq!(truth.repeats, Vec::<String>::new());
    assert_eq!(truth.lies, Vec::<String>::new());
    assert_eq!(report.taken_back, Vec::<String>::new());
    assert!(report.longest <= BOUND);
    assert!(report.kills > 2 && report.stops > 2 && report.twice > 5, "too little was done to prove anything");
    for answer in ["Done", "Unknown"] {
        assert!(truth.answers.get(answer).is_some_and(|times| *times > 0), "nobody was told {answer}");
    }
    if report.ledger != "file" {
        assert!(report.ledger_kills > 1 && report.ledger_stops > 1 && report.reads > 100);
    }
}

#[test]
fn file() {
    nothing_is_lost_or_repeated(Backend::file);
}

#[test]
fn postgres() {
    nothing_is_lost_or_repeated(Backend::postgres);
}

#[test]
fn redis() {
    nothing_is_lost_or_repeated(Backend::redis);
}

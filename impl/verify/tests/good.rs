//! Runs in which all goes as it should, whatever happens to them, are found to be so.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::*;
use settled_verify::{Property, Verdict};

#[tokio::test(start_paused = true)]
async fn a_good_run_of_each_kind_of_tool_holds() {
    for kind in kinds() {
        let run = run_of(kind).await;
        let report = run.judged(ENDED).await;
        report.assert_whole();
        for property in [Property::CoreSteps, Property::IntentFirst, Property::NoPhantomSuccess, Property::Settles] {
            assert!(matches!(report.verdict(property), Some(Verdict::Held { .. })), "{kind:?}\n{report}");
        }
        run.judged_with_ledger(ENDED).await.assert_whole();
    }
}

#[tokio::test(start_paused = true)]
async fn a_ledger_alone_is_judged() {
    for kind in kinds() {
        let run = run_of(kind).await;
        let report = settled_verify::verify_lines([], Some(&*run.world.ledger), ENDED).await.unwrap();
        report.assert_whole();
        assert!(report.inferred > 15, "{report}");
        println!("{report}");
    }
}

//! Counterexamples with fewer faults.

use settled_model::{Limits, PropertyName, check, library, parse, with_fewer_faults};

/// A record that stays for ever: a call that is cancelled leaves one after few steps, one that simply succeeds after more.
#[test]
fn a_longer_run_may_need_fewer_faults() {
    let text = r#"
        name = "keeps all"
        about = "a guard that never forgets"
        [guard]
        start = "two-writes"
        [budget]
        memory = 1
        [faults]
        cancels = 1
    "#;
    let description = parse("keeps all", text).unwrap();
    let report = check(&description, Limits::default(), |_| {}).unwrap();
    let (property, trace) = report.violations().next().unwrap();
    assert_eq!((property, trace.faults.cancels), (PropertyName::BoundedMemory, 1));
    let less = with_fewer_faults(&description, trace, Limits::default()).unwrap();
    assert!(less.property == property && less.faults == Default::default() && less.steps.len() > trace.steps.len());
    assert_eq!(with_fewer_faults(&description, &less, Limits::default()), None, "it needs all that it has");
}

/// What every shipped counterexample needs, it needs: taking any fault away leaves the property whole, or a run with fewer
/// faults is found.
#[test]
fn no_fault_can_be_left_out_of_a_minimised_run() {
    for name in ["redis-failover", "not-found-means-failed", "claim-read-then-write", "in-progress-for-ever"] {
        let description = library::load(name).unwrap();
        let report = check(&description, Limits::default(), |_| {}).unwrap();
        for (property, trace) in report.violations() {
            let least = with_fewer_faults(&description, trace, Limits::default()).unwrap_or_else(|| trace.clone());
            for (fault, bound) in least.faults.list() {
                if bound == 0 {
                    continue;
                }
                let mut less = description.clone();
                less.faults = least.faults;
                *less.faults.of(fault) -= 1;
                let report = check(&less, Limits::default(), |_| {}).unwrap();
                assert!(report.violations().all(|(its, _)| its != property), "{name}: {property:?} without {fault:?}");
            }
        }
    }
}

//! Descriptions that nobody wrote: every one can be explored, and every sound one holds.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use proptest::prelude::*;
use settled_model::description::*;
use settled_model::{Description, Limits, check};
use settled_protocol::Rules;

fn kinds() -> impl Strategy<Value = Kind> {
    prop_oneof![
        Just(Kind::Opaque),
        Just(Kind::Observable),
        Just(Kind::Sealable),
        Just(Kind::Deduplicates),
        Just(Kind::Transactional)
    ]
}

fn callers() -> impl Strategy<Value = CallerRules> {
    let keys = prop_oneof![
        Just(KeySource::Caller),
        Just(KeySource::PerCall),
        Just(KeySource::Arguments),
        Just(KeySource::Reused)
    ];
    let after = || prop_oneof![Just(AfterSilence::Retry), Just(AfterSilence::Stop)];
    (1u8..=3, 1u8..=4, keys, any::<bool>(), after(), after()).prop_map(
        |(operations, calls, key, same_arguments, after_silence, after_failed)| CallerRules {
            operations,
            calls,
            key,
            same_arguments,
            after_silence,
            after_failed,
        },
    )
}

fn guards() -> impl Strategy<Value = GuardRules> {
    let intents = prop_oneof![Just(Intent::BeforeSend), Just(Intent::Volatile), Just(Intent::AfterEffect)];
    let starts = prop_oneof![Just(StartRule::OneWrite), Just(StartRule::TwoWrites)];
    let rules = any::<(bool, bool, bool)>().prop_map(|(hold_unknown, doubt_errors, wait_for_quiet)| Rules {
        hold_unknown,
        doubt_errors,
        wait_for_quiet,
    });
    (0u8..=3, intents, starts, any::<bool>(), rules).prop_map(|(processes, intent, start, single_delivery, rules)| {
        GuardRules { processes, intent, start, single_delivery, rules }
    })
}

fn faults() -> impl Strategy<Value = Faults> {
    prop::collection::vec(0u8..3, Faults::NAMES.len()).prop_map(|bounds| {
        let mut faults = Faults::default();
        for (name, bound) in Faults::NAMES.iter().zip(bounds) {
            *faults.bound(name).unwrap() = bound;
        }
        faults
    })
}

fn descriptions() -> impl Strategy<Value = Description> {
    let tools = (kinds(), any::<bool>(), 1u8..=4, 1u8..=4)
        .prop_map(|(kind, errors_final, attempts, checks)| ToolRules { kind, errors_final, attempts, checks });
    (callers(), guards(), tools, faults()).prop_map(|(caller, guard, tool, faults)| Description {
        name: "any".into(),
        about: "-".into(),
        source: String::new(),
        caller,
        guard,
        tool,
        faults,
    })
}

fn few_states() -> Limits {
    Limits { states: 30_000, time: Duration::from_secs(20), threads: 1 }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    /// Nothing overflows, panics or hangs, and what is written out can be read again.
    #[test]
    fn every_description_can_be_explored(description in descriptions()) {
        let text = toml::to_string(&description).unwrap();
        match settled_model::parse("any.toml", &text) {
            Ok(read) => {
                prop_assert_eq!(&read, &description);
                let report = check(&read, few_states(), |_| {}).unwrap();
                for (_, trace) in report.violations() {
                    prop_assert!(!trace.text().is_empty() && !trace.mermaid().is_empty());
                }
            }
            Err(error) => prop_assert!(description.validate().is_err(), "{error}"),
        }
    }

    /// With the rules kept, a durable intent, a key of the caller's own and a transport and a tool as declared, no bound and
    /// no mixture of faults violates anything.
    #[test]
    fn every_sound_description_holds(mut description in descriptions()) {
        description.caller.key = KeySource::Caller;
        description.guard.processes = description.guard.processes.max(1);
        description.guard.intent = Intent::BeforeSend;
        description.guard.rules = Rules::SOUND;
        description.tool.errors_final = false;
        match description.tool.kind {
            // Rule 1: these can't bear a transport that duplicates.
            Kind::Opaque | Kind::Observable => description.faults.duplicates = 0,
            Kind::Sealable | Kind::Deduplicates | Kind::Transactional => {
                description.guard.single_delivery &= description.faults.duplicates == 0;
            }
        }
        let report = check(&description, few_states(), |_| {}).unwrap();
        if let Some((property, trace)) = report.violations().next() {
            return Err(TestCaseError::fail(format!("{property:?}\n{}\n{}", toml::to_string(&description).unwrap(), trace.text())));
        }
    }
}

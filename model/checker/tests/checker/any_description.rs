//! Descriptions that nobody wrote: every one can be explored, and every sound one holds.

use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::select;
use settled_explorer::contract;
use settled_model::description::*;
use settled_model::{Description, Fault, Faults, Limits, PropertyName, Reductions, Rules, check};
use settled_protocol::Rules as CoreRules;

fn callers() -> impl Strategy<Value = CallerRules> {
    let keys = select(vec![KeySource::Caller, KeySource::PerCall, KeySource::Arguments, KeySource::Reused]);
    let checkpoints = select(vec![Checkpoint::PerAnswer, Checkpoint::Background, Checkpoint::AtEnd]);
    let again = || select(vec![Again::Retry, Again::Stop]);
    let numbers = (1u8..=3, 1u8..=4, prop_oneof![3 => Just(0u8), 1 => 1u8..=4]);
    (numbers, keys, any::<(bool, bool, bool, bool)>(), checkpoints, (again(), again(), again(), again())).prop_map(
        |((operations, calls, horizon), key, (same_arguments, same_resource, sequential, fresh), checkpoint, after)| {
            CallerRules {
                operations,
                calls,
                key,
                same_arguments,
                same_resource,
                sequential,
                checkpoint,
                after_silence: after.0,
                after_failed: after.1,
                after_cancel: after.2,
                after_crash: after.3,
                new_key_after_failure: fresh,
                horizon,
            }
        },
    )
}

fn core_rules() -> impl Strategy<Value = CoreRules> {
    any::<[bool; 5]>().prop_map(|[hold_unknown, doubt_errors, wait_for_quiet, check_arguments, keep_cancelled]| {
        CoreRules { hold_unknown, doubt_errors, wait_for_quiet, check_arguments, keep_cancelled }
    })
}

fn guards() -> impl Strategy<Value = GuardRules> {
    let choices = (
        select(vec![Intent::BeforeSend, Intent::AfterEffect]),
        select(vec![StartRule::OneWrite, StartRule::TwoWrites]),
        select(vec![Claim::CompareAndSet, Claim::ReadThenWrite]),
        select(vec![Answers::AfterStore, Answers::AtDispatch]),
        select(vec![InProgress::Waits, InProgress::Told]),
        select(vec![RepeatRule::Replay, RepeatRule::NewAfterFailure, RepeatRule::NewAfterDelivery]),
        select(vec![
            Resources::Ignored,
            Resources::OneAtATime,
            Resources::Line,
            Resources::LineByClock,
            Resources::LineFreedByLease,
        ]),
        select(vec![WithoutLedger::Refuses, WithoutLedger::SendsAnyway]),
    );
    let numbers = (0u8..=3, prop_oneof![2 => Just(0u8), 1 => 1u8..=8], 0u8..=8);
    let frees = select(vec![Frees::WhenSettled, Frees::WhenArrived, Frees::WhenQuiet]);
    let in_doubt = select(vec![InDoubt::Unknown, InDoubt::Busy]);
    (choices, numbers, any::<(bool, bool)>(), core_rules(), (frees, in_doubt)).prop_map(
        |(choices, (processes, window, margin), (gives_up, single_delivery), rules, (frees, in_doubt))| {
            let (intent, start, claim, answers, in_progress, repeat, resources, without_ledger) = choices;
            GuardRules {
                processes,
                // A place in a line is given by the write that claims the key.
                intent: if resources.is_line() { Intent::BeforeSend } else { intent },
                start,
                claim: if resources.is_line() { Claim::CompareAndSet } else { claim },
                answers,
                in_progress,
                gives_up,
                repeat,
                window,
                margin,
                resources,
                frees: if resources.is_line() { frees } else { Frees::WhenSettled },
                in_doubt,
                without_ledger,
                single_delivery,
                rules,
            }
        },
    )
}

fn ledgers() -> impl Strategy<Value = LedgerRules> {
    (
        select(vec![Acknowledged::Durable, Acknowledged::Unsynced, Acknowledged::Unreplicated]),
        select(vec![Torn::Detected, Torn::Erases]),
        select(vec![AfterSyncError::Stops, AfterSyncError::CarriesOn]),
        select(vec![Keeps::Forever, Keeps::Shortly]),
    )
        .prop_map(|(acknowledged, torn, after_sync_error, keeps)| LedgerRules {
            acknowledged,
            torn,
            after_sync_error,
            keeps,
        })
}

fn tools() -> impl Strategy<Value = ToolRules> {
    let kinds = || {
        select(vec![
            Kind::Opaque,
            Kind::Observable,
            Kind::Sealable,
            Kind::Deduplicates,
            Kind::Transactional,
            Kind::Idempotent,
        ])
    };
    let numbers = (1u8..=4, 1u8..=4, prop_oneof![1 => Just(0u8), 1 => 1u8..=8], 1u8..=4);
    let keeps = select(vec![Keeps::Forever, Keeps::Shortly]);
    let rejects = select(vec![Rejects::ForGood, Rejects::Busy]);
    (kinds(), prop::option::weighted(0.2, kinds()), any::<(bool, bool)>(), numbers, keeps, rejects).prop_map(
        |(kind, declared, (errors_final, lasting), (attempts, checks, remembers, settling), keeps, rejects)| {
            ToolRules { kind, declared, errors_final, rejects, attempts, checks, remembers, keeps, lasting, settling }
        },
    )
}

/// A few faults, most of them once: a world in which everything happens is too large to get deep into.
fn faults() -> impl Strategy<Value = Faults> {
    let some = (select(Fault::ALL.to_vec()), prop_oneof![3 => Just(1u8), 1 => Just(2u8)]);
    prop::collection::vec(some, 0..6).prop_map(|bounds| {
        let mut faults = Faults::default();
        for (fault, bound) in bounds {
            *faults.of(fault) = bound;
        }
        faults
    })
}

fn budgets() -> impl Strategy<Value = BudgetRules> {
    let limit = |most: u8| prop_oneof![2 => Just(0u8), 1 => 1..=most];
    (limit(16), limit(16), limit(8)).prop_map(|(operation, fleet, memory)| BudgetRules { operation, fleet, memory })
}

fn descriptions() -> impl Strategy<Value = Description> {
    (callers(), guards(), ledgers(), tools(), budgets(), faults()).prop_map(
        |(caller, guard, ledger, tool, budget, faults)| Description {
            name: "any".into(),
            about: "-".into(),
            source: String::new(),
            caller,
            guard,
            ledger,
            tool,
            budget,
            devices: None,
            faults,
        },
    )
}

/// Takes out the faults that can't happen, so that the rest can be explored.
fn without_what_cannot_happen(mut description: Description) -> Description {
    for fault in Fault::ALL {
        if description.cannot_happen(*fault).is_some() {
            *description.faults.of(*fault) = 0;
        }
    }
    description
}

/// The nearest sound description: everything that a sound one needs not care about stays as it is.
fn sound(mut description: Description) -> Description {
    let Description { caller, guard, ledger, tool, budget, faults, .. } = &mut description;
    // A key of the caller's own, and every answer to it the first one.
    caller.key = KeySource::Caller;
    caller.same_arguments &= faults.key_reuses == 0;
    guard.repeat = RepeatRule::Replay;
    // A guard that records first, by compare-and-set, answers last, gives up in the end, and keeps every rule.
    guard.processes = guard.processes.max(1);
    guard.intent = Intent::BeforeSend;
    guard.claim = Claim::CompareAndSet;
    guard.answers = Answers::AfterStore;
    guard.gives_up = true;
    guard.without_ledger = WithoutLedger::Refuses;
    guard.rules = CoreRules::SOUND;
    guard.in_doubt = InDoubt::Unknown;
    // A ledger that keeps what it has acknowledged.
    *ledger = LedgerRules::default();
    // A tool that does what it declares. (A weaker declaration would do as well, but not every weaker one is one.)
    tool.declared = None;
    tool.keeps = Keeps::Forever;
    tool.errors_final &= faults.errors_after == 0;
    // Rule 1: who can't promise single deliveries needs a tool that bears a second one.
    if matches!(tool.kind, Kind::Opaque | Kind::Observable) {
        faults.duplicates = 0;
    }
    guard.single_delivery &= faults.duplicates == 0;
    // A line in the order that the ledger gives, whose places only a verdict frees.
    if guard.resources.is_line() {
        guard.resources = Resources::Line;
    }
    let lines = guard.resources == Resources::Line;
    // A second application of an idempotent one changes nothing only if no other operation comes in between: no late copy may.
    caller.same_resource &= tool.kind != Kind::Idempotent || lines;
    if lines && tool.kind == Kind::Idempotent {
        guard.frees = Frees::WhenQuiet;
    }
    // Effects of one resource overlap unless they queue; and the queue can't see an effect that lasts beyond the moment at which
    // its outcome is known, unless it waits for its end. An opaque tool's outcome is known from its own answer only, when the
    // effect is over.
    if caller.same_resource && caller.operations > 1 && tool.lasting {
        guard.resources = if lines { Resources::Line } else { Resources::OneAtATime };
        let waits = guard.frees != Frees::WhenSettled;
        tool.lasting = waits || tool.kind == Kind::Opaque && faults.decisions == 0;
    }
    // How far clocks can be apart, and how long something can be under way.
    let clocks = faults.clock_skews.min(2) + faults.clock_jumps;
    let late = faults.delays + faults.pauses + clocks;
    // Rule 6: the settling time covers what is under way, by any clock.
    tool.settling = tool.settling.max(late + 1);
    if tool.settling > 4 {
        (tool.settling, faults.pauses, faults.clock_skews, faults.clock_jumps) = (4, 0, 0, 0);
        faults.delays = faults.delays.min(3);
    }
    let clocks = faults.clock_skews.min(2) + faults.clock_jumps;
    let late = faults.delays + faults.pauses + clocks;
    // Rule 9: only a tool that deduplicates may forget in time, and only what is never sent again after that.
    tool.remembers *= u8::from(tool.kind == Kind::Deduplicates);
    // A copy that was doubled on its way must not arrive after that, either.
    if tool.remembers > 0 && faults.duplicates > 0 {
        tool.remembers = tool.remembers.max(late + 1);
    }
    guard.margin = guard.margin.max(late);
    // Rule 12: records are kept until no call can arrive any more. One who uses another's key may do so at any time.
    if faults.key_reuses > 0 {
        guard.window = 0;
    }
    if guard.window > 0 {
        caller.horizon = caller.horizon.clamp(1, 2);
        guard.window = guard.window.max(caller.horizon + late);
    }
    // Budgets: what the attempts need, at most.
    budget.operation = if budget.operation > 0 { 16 } else { 0 };
    budget.fleet = 0;
    budget.memory = if guard.window > 0 && budget.memory > 0 { budget.memory.max(guard.window) } else { 0 };
    if description.keys() > 6 || description.validate().is_err() {
        description.caller.new_key_after_failure = false;
    }
    without_what_cannot_happen(description)
}

/// As many keys as a world has room for are needed by those whose calls after a failure come with new keys.
trait Keys {
    fn keys(&self) -> u8;
}

impl Keys for Description {
    fn keys(&self) -> u8 {
        let fresh = self.caller.new_key_after_failure && self.caller.after_failed == Again::Retry;
        self.caller.operations * if fresh { self.caller.calls } else { 1 }
    }
}

fn few_states() -> Limits {
    Limits { states: 40_000, time: Duration::from_secs(20), threads: 1, ..Limits::default() }
}

fn cases(number: u32) -> ProptestConfig {
    ProptestConfig { cases: number, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(100))]

    /// What is written out can be read again, and what can't be built is refused when it is read.
    #[test]
    fn every_description_is_read_as_it_was_written(description in descriptions()) {
        let text = toml::to_string(&description).unwrap();
        match settled_model::parse("any.toml", &text) {
            Ok(read) => prop_assert_eq!(&read, &description),
            Err(error) => prop_assert!(description.validate().is_err(), "{error}"),
        }
    }

    /// Nothing overflows, panics or hangs, and every run can be told.
    #[test]
    fn every_description_can_be_explored(description in descriptions()) {
        let description = without_what_cannot_happen(description);
        prop_assume!(description.validate().is_ok());
        let limits = Limits { states: 10_000, ..few_states() };
        let report = check(&description, limits, |_| {}).unwrap();
        for (_, trace) in report.violations() {
            prop_assert!(!trace.text().is_empty() && !trace.mermaid().is_empty());
        }
    }

    /// The reductions rest on it.
    #[test]
    fn every_world_keeps_the_explorers_contract(description in descriptions()) {
        let description = without_what_cannot_happen(description);
        prop_assume!(description.validate().is_ok());
        let kept = contract::check(&Rules::new(description.clone()), 150);
        prop_assert!(kept.is_ok(), "{}\n{}", kept.unwrap_err(), toml::to_string(&description).unwrap());
    }

    /// No bound and no mixture of faults violates anything in a sound one.
    #[test]
    fn every_sound_description_holds(description in descriptions()) {
        let description = sound(description);
        prop_assert!(description.validate().is_ok(), "{:?}", description.validate());
        let report = check(&description, few_states(), |_| {}).unwrap();
        if let Some((property, trace)) = report.violations().next() {
            let toml = toml::to_string(&description).unwrap();
            return Err(TestCaseError::fail(format!("{}\n{toml}\n{}", property.name(), trace.text())));
        }
    }

    /// With and without what need not be explored, in worlds small enough for both.
    #[test]
    fn reductions_change_nothing(description in descriptions()) {
        let mut description = without_what_cannot_happen(description);
        description.caller.operations = description.caller.operations.min(2);
        description.guard.processes = description.guard.processes.min(2);
        let description = without_what_cannot_happen(description);
        prop_assume!(description.validate().is_ok());
        let limits = Limits { states: 20_000, ..few_states() };
        let plain = check(&description, Limits { reductions: Reductions::NONE, ..limits }, |_| {}).unwrap();
        prop_assume!(plain.exhaustive);
        let reduced = check(&description, limits, |_| {}).unwrap();
        // Two operations come to rest later than the one that stands for them.
        let rests = description.operations_are_independent() && description.caller.operations > 1;
        let at_rest = [PropertyName::Settles, PropertyName::CanSettle, PropertyName::BoundedMemory];
        let lengths = |report: &settled_model::Report| -> Vec<_> {
            let length = |property, steps| if rests && at_rest.contains(&property) { 0 } else { steps };
            report.violations().map(|(property, trace)| (property, length(property, trace.steps.len()))).collect()
        };
        prop_assert!(reduced.exhaustive);
        prop_assert_eq!(lengths(&reduced), lengths(&plain), "{}", toml::to_string(&description).unwrap());
    }
}

//! States converge: whatever the order, the repeats and the detours, equal sets of operations give equal states, and these are
//! what a naive fold over the sorted set gives.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod dating;
mod receive;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use settled_protocol::merge::{Change, HybridClock, HybridTime, Merged, Name, OpId, Operation, Rule, Value, View};

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn id(number: u8) -> OpId {
    OpId::version_7(1_000 + u64::from(number), u128::from(number))
}

fn rule() -> impl Strategy<Value = Rule> {
    let simple = prop_oneof![
        Just(Rule::Latest),
        Just(Rule::Earliest),
        Just(Rule::Max),
        Just(Rule::Min),
        Just(Rule::Union),
        Just(Rule::AddWins),
        Just(Rule::Counter),
    ];
    simple.prop_recursive(2, 6, 3, |inner| {
        prop::collection::btree_map("[ab]".prop_map(|text| name(&text)), inner, 1..3).prop_map(Rule::Map)
    })
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        (0i64..3).prop_map(Value::Number),
        "[xy]".prop_map(Value::Text)
    ]
}

fn change(rule: &Rule) -> BoxedStrategy<Change> {
    match rule {
        Rule::Latest | Rule::Earliest | Rule::Max | Rule::Min => value().prop_map(Change::Set).boxed(),
        Rule::Union => value().prop_map(Change::Add).boxed(),
        Rule::AddWins => prop_oneof![
            value().prop_map(Change::Add),
            (value(), prop::collection::btree_set(0u8..12, 0..4))
                .prop_map(|(value, seen)| Change::Remove { value, observed: seen.into_iter().map(id).collect() })
        ]
        .boxed(),
        Rule::Counter => (-5i64..6).prop_map(Change::Count).boxed(),
        Rule::Map(fields) => {
            let each: Vec<_> = fields
                .iter()
                .map(|(name, rule)| {
                    let name = name.clone();
                    change(rule).prop_map(move |change| Change::Field(name.clone(), Box::new(change))).boxed()
                })
                .collect();
            prop::strategy::Union::new(each).boxed()
        }
    }
}

/// A rule and operations of distinct names, few enough times that many are equal.
fn world() -> impl Strategy<Value = (Rule, Vec<Operation>)> {
    rule().prop_flat_map(|rule| {
        let made = (change(&rule), 0u64..4, 0u32..2, "[pq]");
        prop::collection::vec(made, 0..12).prop_map(move |all| {
            let operations = all.into_iter().enumerate().map(|(number, (change, millis, count, device))| Operation {
                op_id: id(number as u8),
                device: name(&device),
                time: HybridTime { millis, count },
                target: name("t"),
                change,
            });
            (rule.clone(), operations.collect())
        })
    })
}

fn merged<'a>(rule: &Rule, operations: impl IntoIterator<Item = &'a Operation>) -> Merged {
    let mut state = rule.nothing();
    for operation in operations {
        state.apply(operation).unwrap();
    }
    state
}

fn joined(one: &Merged, other: &Merged) -> Merged {
    let mut all = one.clone();
    all.join(other.clone()).unwrap();
    all
}

/// What the rules say, over the sorted set, without a thought for joins.
fn naive(rule: &Rule, sorted: &[(Change, OpId)]) -> View {
    let set = || {
        sorted.iter().filter_map(|(change, _)| match change {
            Change::Set(value) => Some(value.clone()),
            _ => None,
        })
    };
    match rule {
        Rule::Latest => View::Value(set().next_back().unwrap_or(Value::Null)),
        Rule::Earliest => View::Value(set().next().unwrap_or(Value::Null)),
        Rule::Max => View::Value(set().max().unwrap_or(Value::Null)),
        Rule::Min => View::Value(set().min().unwrap_or(Value::Null)),
        Rule::Union => View::Set(
            sorted
                .iter()
                .filter_map(|(change, _)| match change {
                    Change::Add(value) => Some(value.clone()),
                    _ => None,
                })
                .collect(),
        ),
        Rule::AddWins => {
            let seen: BTreeSet<OpId> = sorted
                .iter()
                .flat_map(|(change, _)| match change {
                    Change::Remove { observed, .. } => observed.clone(),
                    _ => BTreeSet::new(),
                })
                .collect();
            View::Set(
                sorted
                    .iter()
                    .filter_map(|(change, op)| match change {
                        Change::Add(value) if !seen.contains(op) => Some(value.clone()),
                        _ => None,
                    })
                    .collect(),
            )
        }
        Rule::Counter => View::Count(
            sorted
                .iter()
                .map(|(change, _)| match change {
                    Change::Count(by) => i128::from(*by),
                    _ => 0,
                })
                .sum(),
        ),
        Rule::Map(fields) => View::Map(
            fields
                .iter()
                .map(|(field, rule)| {
                    let of_field: Vec<(Change, OpId)> = sorted
                        .iter()
                        .filter_map(|(change, op)| match change {
                            Change::Field(name, change) if name == field => Some(((**change).clone(), *op)),
                            _ => None,
                        })
                        .collect();
                    (field.clone(), Box::new(naive(rule, &of_field)))
                })
                .collect::<BTreeMap<_, _>>(),
        ),
    }
}

proptest! {
    #[test]
    fn any_order_and_any_repeats_give_the_naive_fold(
        ((rule, operations), order) in world().prop_flat_map(|world| {
            let count = world.1.len();
            (Just(world), prop::collection::vec(0..count.max(1), 0..30))
        })
    ) {
        let mut sorted: Vec<&Operation> = operations.iter().collect();
        sorted.sort_by_key(|operation| operation.stamp());
        let expected = merged(&rule, sorted.iter().copied());
        let pairs: Vec<(Change, OpId)> = sorted.iter().map(|operation| (operation.change.clone(), operation.op_id)).collect();
        prop_assert_eq!(expected.view(), naive(&rule, &pairs));

        // Some of them in any order and more than once, then all of them backwards.
        let some = order.iter().filter_map(|at| operations.get(*at));
        let state = merged(&rule, some.chain(operations.iter().rev()));
        prop_assert_eq!(state, expected);
    }

    #[test]
    fn joins_are_associative_commutative_and_idempotent(
        ((rule, operations), parts) in world().prop_flat_map(|world| {
            let count = world.1.len();
            (Just(world), prop::collection::vec(0u8..8, count))
        })
    ) {
        // Each operation is in any of three replicas, or in several.
        let replica = |bit: u8| {
            merged(&rule, operations.iter().zip(&parts).filter(|(_, part)| **part >> bit & 1 == 1).map(|(operation, _)| operation))
        };
        let (a, b, c) = (replica(0), replica(1), replica(2));
        prop_assert_eq!(joined(&a, &b), joined(&b, &a));
        prop_assert_eq!(joined(&joined(&a, &b), &c), joined(&a, &joined(&b, &c)));
        prop_assert_eq!(joined(&a, &a), a.clone());
        prop_assert_eq!(joined(&a, &rule.nothing()), a.clone());
        // A join is the state of all the operations of both.
        let both = merged(&rule, operations.iter().zip(&parts).filter(|(_, part)| **part & 3 != 0).map(|(operation, _)| operation));
        prop_assert_eq!(joined(&a, &b), both);
    }

    #[test]
    fn what_a_clock_gives_is_after_all_that_it_gave_or_heard(
        walls in prop::collection::vec((0u64..50, prop::option::of((0u64..80, 0u32..3))), 1..40)
    ) {
        let mut clock = HybridClock::new(HybridTime::default(), 20);
        let mut known = HybridTime::default();
        for (wall, heard) in walls {
            if let Some((millis, count)) = heard {
                let heard = HybridTime { millis, count };
                prop_assert_eq!(clock.hear(heard, wall).is_ok(), millis <= wall + 20);
                if millis <= wall + 20 {
                    known = known.max(heard);
                }
            }
            let now = clock.tick(wall);
            prop_assert!(now > known, "{} after {}", now, known);
            prop_assert!(now.millis >= wall);
            prop_assert!(now.millis <= wall.max(known.millis) + 1);
            known = now;
        }
    }

    #[test]
    fn a_clock_that_is_not_believed_breaks_no_order(
        (theirs, ours) in (0u64..200, 0u64..200),
        made in prop::collection::vec((0u64..200, 0u32..3, 0u64..100), 1..10)
    ) {
        // A device's operations, in the order of its own clock; before each it may have heard of something.
        let mut made: Vec<_> = made.into_iter().map(|(millis, count, heard)| (HybridTime { millis, count }, heard)).collect();
        made.sort();
        made.dedup_by_key(|(time, _)| *time);
        let mut last = HybridTime::default();
        for (time, heard) in made {
            let heard = HybridTime { millis: heard, count: 1 };
            let after = heard.max(last);
            let new = time.redated(theirs, ours, after);
            prop_assert!(new > after, "{} is not after {}", new, after);
            prop_assert!(new.millis <= ours.max(after.millis));
            last = new;
        }
    }

    #[test]
    fn names_of_operations_are_uuids(bytes in any::<[u8; 16]>(), millis in 0u64..1 << 48, random in any::<u128>()) {
        let id = OpId::from_bytes(bytes);
        prop_assert_eq!(id.to_string().parse::<OpId>().unwrap(), id);
        let seven = OpId::version_7(millis, random);
        prop_assert_eq!(&seven.to_string()[14..15], "7");
        prop_assert!(matches!(seven.as_bytes()[8] >> 6, 2));
        prop_assert!(OpId::version_7(millis + 1, 0) > seven || millis + 1 == 1 << 48);
    }

    #[test]
    fn operations_and_states_read_back((rule, operations) in world()) {
        for operation in &operations {
            let text = serde_json::to_string(operation).unwrap();
            prop_assert_eq!(&serde_json::from_str::<Operation>(&text).unwrap(), operation);
        }
        let state = merged(&rule, &operations);
        prop_assert_eq!(serde_json::from_str::<Rule>(&serde_json::to_string(&rule).unwrap()).unwrap(), rule);
        prop_assert_eq!(serde_json::from_str::<Merged>(&serde_json::to_string(&state).unwrap()).unwrap(), state);
    }
}

#[test]
fn a_removal_leaves_what_it_has_not_seen() {
    let mut state = Rule::AddWins.nothing();
    let operation = |number, change| Operation {
        op_id: id(number),
        device: name("p"),
        time: HybridTime { millis: u64::from(number), count: 0 },
        target: name("t"),
        change,
    };
    state.apply(&operation(1, Change::Add("milk".into()))).unwrap();
    let observed = state.additions(&"milk".into());
    // Added anew on another device, which has not seen the removal, and before it by the clock.
    state.apply(&operation(9, Change::Remove { value: "milk".into(), observed })).unwrap();
    assert_eq!(state.view(), View::Set(BTreeSet::new()));
    state.apply(&operation(2, Change::Add("milk".into()))).unwrap();
    assert_eq!(state.view(), View::Set(["milk".into()].into()));
}

#[test]
fn what_does_not_fit_changes_nothing() {
    let operation = Operation {
        op_id: id(1),
        device: name("p"),
        time: HybridTime::default(),
        target: name("t"),
        change: Change::Count(1),
    };
    let mut state = Rule::Latest.nothing();
    assert!(state.apply(&operation).is_err());
    assert_eq!(state, Rule::Latest.nothing());
    assert!(Rule::Union.nothing().join(Rule::Latest.nothing()).is_err());
}

#[test]
fn a_state_gets_the_fields_of_a_later_rule() {
    let fields =
        |names: &[&str], inner: &Rule| Rule::Map(names.iter().map(|field| (name(field), inner.clone())).collect());
    let earlier = fields(&["a"], &fields(&["x"], &Rule::Max));
    let later = fields(&["a", "b"], &fields(&["x", "y"], &Rule::Max));
    let set = |field: &str, inner: &str| Operation {
        op_id: id(1),
        device: name("p"),
        time: HybridTime::default(),
        target: name("t"),
        change: Change::Field(name(field), Box::new(Change::Field(name(inner), Box::new(Change::Set(1.into()))))),
    };
    let mut state = earlier.nothing();
    state.apply(&set("a", "x")).unwrap();
    assert!(state.apply(&set("a", "y")).is_err());
    state.widen(&later);
    let mut anew = later.nothing();
    for (field, inner) in [("a", "x"), ("a", "y"), ("b", "x")] {
        state.apply(&set(field, inner)).unwrap();
        anew.apply(&set(field, inner)).unwrap();
    }
    assert_eq!(state, anew);
}

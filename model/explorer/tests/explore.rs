//! The explorer on small worlds whose answers are known.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::time::Duration;

use settled_explorer::contract::{self, Clause};
use settled_explorer::{
    Budget, Exploration, Fault, Faults, Options, PropertyName, PropertySet, Reductions, System, explore,
};

/// A world given by its edges: from, move, fault, to. It begins in state 0.
#[derive(Clone, Default)]
struct Table {
    edges: Vec<(u8, char, Option<Fault>, u8)>,
    bounds: Faults,
    bad: Vec<u8>,
    bad_at_rest: Vec<u8>,
    ended: Vec<u8>,
    alike: Vec<(u8, u8)>,
    /// A contract breach: offer moves that are no faults only if a fault is left; offer faults that are not left.
    moves_need_budget: bool,
    faults_without_budget: bool,
}

impl System for Table {
    type State = u8;
    type Move = (char, u8);

    fn initial(&self) -> u8 {
        0
    }

    fn bounds(&self) -> Budget {
        self.bounds.into()
    }

    fn moves(&self, state: &u8, left: Budget, moves: &mut Vec<((char, u8), Option<Fault>)>) {
        for (_, what, fault, to) in self.edges.iter().filter(|edge| edge.0 == *state) {
            let offered = match fault {
                None => !self.moves_need_budget || left.total() > 0,
                Some(fault) => self.faults_without_budget || left.left(*fault) > 0,
            };
            if offered {
                // What one name means in different states may lead to different ones, so only lower-case names carry it.
                moves.push(((*what, if what.is_uppercase() { 0 } else { *to }), *fault));
            }
        }
    }

    fn apply(&self, state: &u8, what: (char, u8)) -> Option<u8> {
        let fits = |edge: &&(u8, char, Option<Fault>, u8)| {
            edge.0 == *state && edge.1 == what.0 && (edge.1.is_uppercase() || edge.3 == what.1)
        };
        self.edges.iter().find(fits).map(|edge| edge.3)
    }

    fn symmetric(&self, state: &u8, each: &mut dyn FnMut(&u8)) {
        for (one, other) in &self.alike {
            if one == state {
                each(other);
            }
        }
    }

    fn properties(&self) -> PropertySet {
        use PropertyName::{AtMostOnce, BoundedMemory, CanSettle, Settles};
        [AtMostOnce, BoundedMemory, CanSettle, Settles].into_iter().collect()
    }

    fn violated(&self, state: &u8) -> PropertySet {
        PropertySet::NONE.with(PropertyName::AtMostOnce, self.bad.contains(state))
    }

    fn violated_at_rest(&self, state: &u8) -> PropertySet {
        PropertySet::NONE.with(PropertyName::BoundedMemory, self.bad_at_rest.contains(state))
    }

    fn ended(&self, state: &u8) -> bool {
        self.ended.contains(state)
    }
}

fn look(table: &Table) -> Exploration<(char, u8)> {
    explore(table, &Options::default(), &mut |_| ())
}

fn names(found: &Exploration<(char, u8)>, property: PropertyName) -> String {
    found.violation(property).unwrap().moves.iter().map(|((name, _), _)| *name).collect()
}

const STEP: Option<Fault> = None;
const TIMEOUT: Option<Fault> = Some(Fault::Timeout);
const CRASH: Option<Fault> = Some(Fault::GuardCrash);

#[test]
fn the_shortest_run_with_the_fewest_faults() {
    // To 9 by two moves: with two faults (first in order), one fault, and by three moves with none.
    let edges = vec![
        (0, 'a', TIMEOUT, 1),
        (1, 'b', CRASH, 9),
        (0, 'c', STEP, 2),
        (2, 'd', CRASH, 9),
        (0, 'e', STEP, 3),
        (3, 'f', STEP, 4),
        (4, 'g', STEP, 9),
    ];
    let bounds = Faults { timeouts: 1, guard_crashes: 1, ..Faults::default() };
    let table = Table { edges, bounds, bad: vec![9], ended: vec![1, 2, 3, 4, 9], ..Table::default() };
    let found = look(&table);
    assert_eq!(names(&found, PropertyName::AtMostOnce), "cd");
    assert_eq!(found.violations.len(), 1);
    assert!(found.exhaustive && found.undecided.is_empty());
    assert_eq!((found.depth, found.worlds), (3, 6));
}

#[test]
fn at_rest_means_that_only_faults_are_left() {
    let edges = vec![(0, 'a', STEP, 1), (1, 'b', TIMEOUT, 2), (2, 'c', STEP, 3), (1, 'n', STEP, 1)];
    let bounds = Faults { timeouts: 1, ..Faults::default() };
    let table = Table { edges, bounds, bad_at_rest: vec![0, 1, 2], ended: vec![0, 1, 2, 3], ..Table::default() };
    assert_eq!(names(&look(&table), PropertyName::BoundedMemory), "a");
}

#[test]
fn a_stop_before_the_end_does_not_settle() {
    let edges = vec![(0, 'a', STEP, 1), (0, 'b', STEP, 2), (2, 'c', STEP, 3)];
    let found = look(&Table { edges, ended: vec![1], ..Table::default() });
    assert_eq!(names(&found, PropertyName::Settles), "bc");
    assert_eq!(found.violation(PropertyName::Settles).unwrap().round, None);
    // It was too late one move before.
    assert_eq!(names(&found, PropertyName::CanSettle), "b");
}

#[test]
fn a_spinning_pair_does_not_settle() {
    // The end stays in reach, but the way there is open only now and then.
    let edges = vec![(0, 'a', STEP, 1), (1, 'X', STEP, 2), (2, 'Y', STEP, 1), (2, 'E', STEP, 3)];
    let found = look(&Table { edges, ended: vec![3], ..Table::default() });
    let run = found.violation(PropertyName::Settles).unwrap();
    assert_eq!((names(&found, PropertyName::Settles).as_str(), run.round), ("aXY", Some(1)));
    assert!(found.violation(PropertyName::CanSettle).is_none());
}

#[test]
fn a_round_that_puts_a_move_off_for_ever_is_no_violation() {
    let edges = vec![(0, 'a', STEP, 1), (1, 'X', STEP, 2), (2, 'Y', STEP, 1), (1, 'E', STEP, 3), (2, 'E', STEP, 3)];
    let found = look(&Table { edges, ended: vec![3], ..Table::default() });
    assert!(found.violations.is_empty() && found.exhaustive && found.undecided.is_empty());
}

#[test]
fn a_round_goes_wherever_fairness_needs_it() {
    // X and Y alone put Z off; the whole round doesn't.
    let edges = vec![
        (0, 'X', STEP, 1),
        (1, 'Y', STEP, 0),
        (0, 'Z', STEP, 2),
        (1, 'Z', STEP, 2),
        (2, 'X', STEP, 3),
        (3, 'W', STEP, 0),
    ];
    let found = look(&Table { edges, ended: vec![9], ..Table::default() });
    let run = found.violation(PropertyName::Settles).unwrap();
    assert_eq!(run.round, Some(0));
    assert_eq!(names(&found, PropertyName::Settles), "ZXW");
    assert_eq!(names(&found, PropertyName::CanSettle), "");
}

#[test]
fn faults_keep_no_round_going() {
    let edges = vec![(0, 'X', STEP, 1), (1, 'a', TIMEOUT, 0), (1, 'b', STEP, 2)];
    let bounds = Faults { timeouts: 7, ..Faults::default() };
    let found = look(&Table { edges, bounds, ended: vec![2], ..Table::default() });
    assert!(found.violations.is_empty() && found.undecided.is_empty());
}

#[test]
fn a_state_that_can_never_settle() {
    // A round that is fair, and from which there is no way out, after one fault.
    let edges = vec![(0, 'a', STEP, 9), (0, 'b', TIMEOUT, 1), (1, 'X', STEP, 2), (2, 'Y', STEP, 1)];
    let bounds = Faults { timeouts: 1, ..Faults::default() };
    let found = look(&Table { edges, bounds, ended: vec![9], ..Table::default() });
    assert_eq!(names(&found, PropertyName::CanSettle), "b");
    assert_eq!(names(&found, PropertyName::Settles), "bXY");
}

#[test]
fn the_fewest_faults_to_a_state_that_can_never_settle() {
    // To 9 by two moves: with two faults (first in order), with another one; and by three moves with none.
    let edges = vec![
        (0, 'a', TIMEOUT, 1),
        (1, 'b', TIMEOUT, 9),
        (0, 'c', STEP, 2),
        (2, 'd', CRASH, 9),
        (0, 'e', STEP, 3),
        (3, 'f', STEP, 4),
        (4, 'g', STEP, 9),
    ];
    let bounds = Faults { timeouts: 2, guard_crashes: 1, ..Faults::default() };
    let found = look(&Table { edges, bounds, ended: vec![0, 1, 2, 3, 4], ..Table::default() });
    assert_eq!(names(&found, PropertyName::CanSettle), "cd");
}

#[test]
fn alike_states_count_once() {
    let edges = vec![(0, 'a', STEP, 1), (0, 'a', STEP, 2), (1, 'b', STEP, 3), (2, 'b', STEP, 3)];
    let table = Table { edges, ended: vec![3], alike: vec![(1, 2), (2, 1)], ..Table::default() };
    contract::check(&table, 100).unwrap();
    assert_eq!((look(&table).worlds, look(&table).transitions), (3, 3));
    let reductions = Reductions { symmetry: false, ..Reductions::default() };
    let found = explore(&table, &Options { reductions, ..Options::default() }, &mut |_| ());
    assert_eq!((found.worlds, found.transitions), (4, 4));
}

#[test]
fn rounds_are_judged_by_the_names_that_moves_have() {
    // 1 and 2 are alike, and so are the moves P and Q. Between them a run puts P off and then Q, never one of them all
    // the time: fair. Taken for one state, each would offer the one move that leaves it.
    let edges = vec![
        (0, 'a', STEP, 1),
        (0, 'a', STEP, 2),
        (1, 'X', STEP, 2),
        (2, 'Y', STEP, 1),
        (1, 'P', STEP, 3),
        (2, 'Q', STEP, 3),
    ];
    let table = Table { edges, ended: vec![3], alike: vec![(1, 2), (2, 1)], ..Table::default() };
    contract::check(&table, 100).unwrap();
    let found = look(&table);
    assert!(found.repeated && found.worlds == 3);
    let run = names(&found, PropertyName::Settles);
    assert!(run == "aXY" || run == "aYX", "{run}");
}

/// A line of states that never ends within the limits, with a stop close to its beginning.
fn line() -> Table {
    let mut edges: Vec<_> = (10..250).map(|from| (from, 'n', STEP, from + 1)).collect();
    edges.extend([(0, 'a', STEP, 10), (250, 'r', STEP, 10)]);
    Table { edges, ended: vec![255], ..Table::default() }
}

#[test]
fn what_lies_beyond_a_limit_is_not_decided() {
    let mut table = line();
    for (states, time) in [(20, Duration::from_secs(60)), (1000, Duration::ZERO)] {
        let options = Options { states, time, ..Options::default() };
        let found = explore(&table, &options, &mut |_| ());
        assert!(!found.exhaustive && found.violations.is_empty(), "{found:?}");
        assert_eq!(found.undecided, table.properties());
    }
    assert!(look(&table).exhaustive);
    assert_eq!(look(&table).violations.len(), 2);
    // A stop is one, whatever lies beyond.
    table.edges.push((0, 'b', STEP, 1));
    let found = explore(&table, &Options { states: 20, ..Options::default() }, &mut |_| ());
    assert!(!found.exhaustive);
    assert_eq!(
        (names(&found, PropertyName::Settles), names(&found, PropertyName::CanSettle)),
        ("b".into(), "b".into())
    );
    assert_eq!(found.undecided.iter().count(), 2);
}

#[test]
fn it_stops_when_all_that_is_wanted_was_found() {
    let mut table = line();
    table.bad = vec![15, 100];
    let wanted = PropertySet::NONE.with(PropertyName::AtMostOnce, true);
    let options = Options { wanted, stop_when_found: true, ..Options::default() };
    let found = explore(&table, &options, &mut |_| ());
    assert!(!found.exhaustive && found.undecided.is_empty());
    assert_eq!((found.violations.len(), found.worlds), (1, 7));
    let all = explore(&table, &Options { stop_when_found: false, ..options }, &mut |_| ());
    assert!(all.exhaustive && all.violations == found.violations && all.worlds > 200);
}

#[test]
fn what_breaks_the_contract_is_noticed() {
    let edges = vec![(0, 'a', STEP, 1), (0, 'c', TIMEOUT, 2), (1, 'b', STEP, 3), (2, 'b', STEP, 3)];
    let bounds = Faults { timeouts: 1, ..Faults::default() };
    let good = Table { edges, bounds, ..Table::default() };
    let clause = |table: &Table| contract::check(table, 200).err().map(|broken| broken.clause);
    assert_eq!(clause(&good), None);
    let broken = Table { moves_need_budget: true, ..good.clone() };
    assert_eq!(clause(&broken), Some(Clause::MovesIgnoreBudgets));
    let broken = Table { faults_without_budget: true, ..good.clone() };
    assert_eq!(clause(&broken), Some(Clause::FaultsIfLeft));
    let alike = vec![(1, 2), (2, 1)];
    assert_eq!(clause(&Table { alike: alike.clone(), ..good.clone() }), None);
    let broken = Table { alike: alike.clone(), bad: vec![1], ..good.clone() };
    assert_eq!(clause(&broken), Some(Clause::AlikeJudgedAlike));
    let broken = Table { alike: alike.clone(), ended: vec![2], ..good.clone() };
    assert_eq!(clause(&broken), Some(Clause::AlikeJudgedAlike));
    // Of three that are alike, each must give both others.
    let broken = Table { alike: vec![(1, 2), (2, 4), (4, 1)], ..good.clone() };
    assert_eq!(clause(&broken), Some(Clause::SymmetryClosed));
    let mut broken = Table { alike, ..good };
    broken.edges.push((2, 'd', STEP, 0));
    assert_eq!(clause(&broken), Some(Clause::AlikeMoveAlike));
}

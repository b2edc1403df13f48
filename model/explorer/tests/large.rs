//! A system large enough for several threads to work at once: they find the same. And how fast it is explored, to be run by
//! hand: `cargo test --release -p settled-explorer --test large -- --ignored --nocapture`.
#![allow(missing_docs)]

use std::time::Instant;

use settled_explorer::{Budget, Fault, Faults, Options, PropertyName, PropertySet, System, contract, explore};

/// Counters that count up to their ends; faults set one back. The first two are alike, and wait for one another for ever
/// if they differ by much; the last may begin again.
struct Counters {
    most: u8,
    alike: bool,
    begins_again: bool,
}

const COUNT: usize = 6;

impl System for Counters {
    type State = [u8; COUNT];
    type Move = (u8, Option<Fault>);

    fn initial(&self) -> Self::State {
        [0; COUNT]
    }

    fn bounds(&self) -> Budget {
        Faults { timeouts: 2, guard_crashes: 1, ..Faults::default() }.into()
    }

    fn moves(&self, state: &Self::State, left: Budget, moves: &mut Vec<(Self::Move, Option<Fault>)>) {
        let stuck = self.begins_again && state[0].abs_diff(state[1]) >= 3;
        for (who, count) in state.iter().enumerate() {
            let may = if who < 2 { !stuck } else { self.begins_again && who == COUNT - 1 };
            if *count < self.most && (who >= 2 || may) || *count == self.most && who >= 2 && may {
                moves.push(((who as u8, None), None));
            }
            for fault in [Fault::Timeout, Fault::GuardCrash] {
                if *count > 0 && left.left(fault) > 0 {
                    moves.push(((who as u8, Some(fault)), Some(fault)));
                }
            }
        }
    }

    fn apply(&self, state: &Self::State, (who, fault): Self::Move) -> Option<Self::State> {
        let mut next = *state;
        let count = &mut next[who as usize];
        match fault {
            None if *count == self.most => *count = 0,
            None => *count += 1,
            Some(Fault::Timeout) => *count -= 1,
            Some(_) => *count = 0,
        }
        Some(next)
    }

    fn symmetric(&self, state: &Self::State, each: &mut dyn FnMut(&Self::State)) {
        if self.alike {
            let mut other = *state;
            other.swap(0, 1);
            each(&other);
        }
    }

    fn properties(&self) -> PropertySet {
        [PropertyName::AtMostOnce, PropertyName::NoOverlap, PropertyName::Settles, PropertyName::CanSettle]
            .into_iter()
            .collect()
    }

    fn violated(&self, state: &Self::State) -> PropertySet {
        let sum = |counters: &[u8]| counters.iter().map(|count| u32::from(*count)).sum::<u32>();
        PropertySet::NONE
            .with(PropertyName::AtMostOnce, sum(state) == 14 && state[0].max(state[1]) == 2 && state[4] == 4)
            .with(PropertyName::NoOverlap, state.iter().any(|count| *count > self.most))
    }

    fn violated_at_rest(&self, _: &Self::State) -> PropertySet {
        PropertySet::NONE
    }

    fn ended(&self, state: &Self::State) -> bool {
        state[..COUNT - 1].iter().all(|count| *count == self.most)
    }
}

#[test]
fn threads_find_the_same() {
    for (alike, begins_again) in [(false, false), (true, true)] {
        let counters = Counters { most: 4, alike, begins_again };
        assert_eq!(contract::check(&counters, 300), Ok(()));
        let look = |threads| explore(&counters, &Options { threads, ..Options::default() }, &mut |_| ());
        let alone = look(1);
        assert_eq!(alone.repeated, begins_again);
        assert_eq!(alone.violations.len(), if begins_again { 3 } else { 1 });
        for threads in [2, 3, 5] {
            let found = look(threads);
            assert_eq!(found.violations, alone.violations);
            assert_eq!(
                (found.unique_states, found.worlds, found.transitions, found.depth, found.exhaustive),
                (alone.unique_states, alone.worlds, alone.transitions, alone.depth, true)
            );
        }
    }
}

#[test]
#[ignore = "takes a while, and shows numbers only"]
fn speed() {
    let most = std::env::var("MOST").ok().and_then(|most| most.parse().ok()).unwrap_or(9);
    for budgets in [true, false] {
        for threads in [1, 2] {
            let begun = Instant::now();
            let mut options = Options { threads, ..Options::default() };
            options.reductions.budgets = budgets;
            let counters = Counters { most, alike: false, begins_again: false };
            let found = explore(&counters, &options, &mut |_| ());
            println!(
                "threads {threads}, budgets {budgets}: {} nodes, {} worlds, {} moves in {:?}: {:.2} M/s, {:.1} bytes a node",
                found.unique_states,
                found.worlds,
                found.transitions,
                begun.elapsed(),
                found.transitions as f64 / begun.elapsed().as_secs_f64() / 1e6,
                found.peak_bytes as f64 / found.unique_states as f64,
            );
        }
    }
}

//! Random systems.

use proptest::prelude::*;
use settled_explorer::{Budget, Fault, Faults, PropertyName, PropertySet, System};

/// Two components with the same rules. Labels name moves; those from `FAULTS` on are faults.
#[derive(Clone, Debug)]
pub struct Pair {
    pub rules: Vec<Rule>,
    pub initial: [u8; 2],
    pub bounds: [u8; 3],
    /// By the two components' states, the smaller first.
    pub bad: [u64; 2],
    pub bad_at_rest: u64,
    pub ended: u64,
    pub alike: bool,
}

#[derive(Clone, Debug)]
pub struct Rule {
    from: u8,
    label: u8,
    to: u8,
    /// In which states the other component has to be.
    when: u8,
}

pub const LOCAL: u8 = 5;
pub const FAULTS: u8 = 3;
pub const LABELS: u8 = 6;
pub type Pairs = [u8; 2];
pub type Act = (u8, u8);

pub fn bit(state: &Pairs, set: u64) -> bool {
    set >> (state[0].min(state[1]) * LOCAL + state[0].max(state[1])) & 1 == 1
}

pub fn fault(label: u8) -> Option<Fault> {
    const ALL: [Fault; 3] = [Fault::Timeout, Fault::GuardCrash, Fault::Decision];
    label.checked_sub(FAULTS).map(|index| ALL[index as usize])
}

impl Pair {
    fn rule(&self, state: &Pairs, (who, label): Act) -> Option<&Rule> {
        let (its, other) = (state[who as usize], state[1 - who as usize]);
        self.rules.iter().find(|rule| rule.from == its && rule.label == label && rule.when >> other & 1 == 1)
    }
}

impl System for Pair {
    type State = Pairs;
    type Move = Act;

    fn initial(&self) -> Pairs {
        self.initial
    }

    fn bounds(&self) -> Budget {
        let [timeouts, guard_crashes, decisions] = self.bounds;
        Faults { timeouts, guard_crashes, decisions, ..Faults::default() }.into()
    }

    fn moves(&self, state: &Pairs, left: Budget, moves: &mut Vec<(Act, Option<Fault>)>) {
        for who in 0..2 {
            for label in 0..LABELS {
                let fault = fault(label);
                if self.rule(state, (who, label)).is_some() && fault.is_none_or(|fault| left.left(fault) > 0) {
                    moves.push(((who, label), fault));
                }
            }
        }
    }

    fn apply(&self, state: &Pairs, what: Act) -> Option<Pairs> {
        let rule = self.rule(state, what)?;
        let mut next = *state;
        next[what.0 as usize] = rule.to;
        Some(next)
    }

    fn symmetric(&self, state: &Pairs, each: &mut dyn FnMut(&Pairs)) {
        if self.alike {
            each(&[state[1], state[0]]);
        }
    }

    fn properties(&self) -> PropertySet {
        use PropertyName::{AtMostOnce, BoundedMemory, CanSettle, NoOverlap, Settles};
        [AtMostOnce, NoOverlap, BoundedMemory, Settles, CanSettle].into_iter().collect()
    }

    fn violated(&self, state: &Pairs) -> PropertySet {
        PropertySet::NONE
            .with(PropertyName::AtMostOnce, bit(state, self.bad[0]))
            .with(PropertyName::NoOverlap, bit(state, self.bad[1]))
    }

    fn violated_at_rest(&self, state: &Pairs) -> PropertySet {
        PropertySet::NONE.with(PropertyName::BoundedMemory, bit(state, self.bad_at_rest))
    }

    fn ended(&self, state: &Pairs) -> bool {
        bit(state, self.ended)
    }
}

/// A few of the pairs.
pub fn few(most: usize) -> impl Strategy<Value = u64> {
    proptest::collection::vec(0..LOCAL * LOCAL, 0..=most)
        .prop_map(|bits| bits.iter().fold(0, |all, bit| all | 1 << bit))
}

prop_compose! {
    fn rule()(from in 0..LOCAL, label in 0..LABELS, to in 0..LOCAL, when in prop_oneof![Just(255_u8), any::<u8>()]) -> Rule {
        Rule { from, label, to, when }
    }
}

prop_compose! {
    pub fn pair()(
        rules in prop_oneof![proptest::collection::vec(rule(), 1..16), proptest::collection::vec(rule(), 16..50)],
        initial in [0..LOCAL, 0..LOCAL],
        bounds in [0_u8..4, 0_u8..3, 0_u8..2],
        bad in [few(4), few(4)],
        bad_at_rest in few(8),
        ended in prop_oneof![few(4), few(16), few(60)],
        alike in any::<bool>(),
    ) -> Pair {
        Pair { rules, initial, bounds, bad, bad_at_rest, ended, alike }
    }
}

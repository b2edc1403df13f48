//! Rounds that a run can go for ever although no move that stays possible is put off for ever.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Instant;

use crate::explore::Run;
use crate::explore::search::Search;
use crate::faults::{Budget, Fault};
use crate::system::System;

/// The most states of a component in which rounds are looked for.
const MOST: usize = 20_000;

/// What was found out about a component.
pub enum Judged<M> {
    /// Every run that stays in it puts off some move that is possible all the time.
    Unfair,
    /// A run that stays in it and is fair.
    Fair(Run<M>),
    /// It is too large, or there is no time left.
    Undecided,
}

/// The moves of each state of a component that are no faults and change something, and the state of the component that they
/// lead to, if it is one.
struct Component<M> {
    offers: Vec<Vec<(M, Option<usize>)>>,
}

impl<S: System> Search<'_, S> {
    /// Whether there is a fair run that stays in a strongly connected component.
    ///
    /// There is one if and only if each move either is not possible in some state of the component, or is made inside it: a
    /// run through all its states and moves is fair then; and a move of which neither is true is put off by every run
    /// that stays.
    pub fn judge(&self, members: &[u32]) -> Judged<S::Move> {
        let Some(entry) = members.iter().map(|first| self.best(*first)).min().map(|best| best.3) else {
            return Judged::Unfair;
        };
        if members.len() > MOST {
            return Judged::Undecided;
        }
        let (mut moves, state) = self.way_to(entry);
        let Some(component) = self.component(members, state) else {
            return Judged::Undecided;
        };
        let Some(round) = component.fair_round() else {
            return Judged::Unfair;
        };
        let stem = moves.len();
        moves.extend(round.into_iter().map(|what| (what, None::<Fault>)));
        Judged::Fair(Run { moves, round: Some(stem) })
    }

    /// The component's states, from the one at which it is entered on.
    fn component(&self, members: &[u32], entry: S::State) -> Option<Component<S::Move>> {
        let members: HashSet<u64> = members
            .iter()
            .map(|first| {
                let (local, shard) = self.ids.local(*first);
                self.parts[shard].shard.fingerprint(local)
            })
            .collect();
        let mut index = HashMap::from([(self.fingerprints.of(self.system, &entry).0, 0)]);
        let mut states = VecDeque::from([entry]);
        let mut offers = Vec::with_capacity(members.len());
        let mut moves = Vec::new();
        while let Some(state) = states.pop_front() {
            if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return None;
            }
            moves.clear();
            self.system.moves(&state, Budget::default(), &mut moves);
            let mut its = Vec::new();
            for (what, _) in moves.iter().filter(|(_, fault)| fault.is_none()) {
                let Some(next) = self.system.apply(&state, *what).filter(|next| *next != state) else {
                    continue;
                };
                let fingerprint = self.fingerprints.of(self.system, &next).0;
                let new = index.len();
                let target = members.contains(&fingerprint).then(|| *index.entry(fingerprint).or_insert(new));
                if target == Some(new) {
                    states.push_back(next);
                }
                its.push((*what, target));
            }
            offers.push(its);
        }
        (index.len() == members.len()).then_some(Component { offers })
    }
}

impl<M: Copy + Eq + std::hash::Hash> Component<M> {
    fn possible(&self, state: usize, what: M) -> bool {
        self.offers[state].iter().any(|(its, _)| *its == what)
    }

    /// A fair round from the first state, or `None` if there is none: some move can't but be put off then.
    fn fair_round(&self) -> Option<Vec<M>> {
        let short = self.path(0, |_, target| target == 0)?;
        let hard = self.put_off(&short);
        if hard.is_empty() {
            return Some(short.into_iter().map(|(what, _)| what).collect());
        }
        // Not fair: so visit, one after the other, what makes it so; first what the short round lacks, since the way
        // there may bring the rest.
        let mut round = Vec::new();
        let mut at = 0;
        while let Some(next) = self.put_off(&round).into_iter().min_by_key(|what| !hard.contains(what)) {
            let path = self.path(at, |what, target| what == next || !self.possible(target, next))?;
            at = path.last().map_or(at, |(_, target)| *target);
            round.extend(path);
        }
        if at != 0 {
            round.extend(self.path(at, |_, target| target == 0)?);
        }
        Some(round.into_iter().map(|(what, _)| what).collect())
    }

    /// The moves that are possible all along a path from the first state, and not made on it, in the order in which the
    /// first state offers them.
    fn put_off(&self, path: &[(M, usize)]) -> Vec<M> {
        let made: HashSet<M> = path.iter().map(|(what, _)| *what).collect();
        let states: HashSet<usize> = path.iter().map(|(_, state)| *state).collect();
        let mut put_off = Vec::new();
        for (what, _) in &self.offers[0] {
            if !made.contains(what) && states.iter().all(|state| self.possible(*state, *what)) {
                put_off.push(*what);
            }
        }
        put_off
    }

    /// A shortest path, of one move at least, whose last move and state are wanted.
    fn path(&self, from: usize, wanted: impl Fn(M, usize) -> bool) -> Option<Vec<(M, usize)>> {
        let mut before: HashMap<usize, (M, usize)> = HashMap::new();
        let mut queue = VecDeque::from([from]);
        let mut seen = HashSet::from([from]);
        while let Some(state) = queue.pop_front() {
            for (what, target) in &self.offers[state] {
                let Some(target) = *target else {
                    continue;
                };
                if wanted(*what, target) {
                    let mut path = vec![(*what, target)];
                    let mut at = state;
                    while at != from {
                        let (what, source) = before.get(&at)?;
                        path.push((*what, at));
                        at = *source;
                    }
                    path.reverse();
                    return Some(path);
                }
                if seen.insert(target) {
                    before.insert(target, (*what, state));
                    queue.push_back(target);
                }
            }
        }
        None
    }
}

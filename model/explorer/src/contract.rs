//! Whether a system keeps the contract of [`System`] that the explorer's reductions rest on.

use std::collections::HashSet;
use std::error::Error;
use std::fmt::{self, Debug, Display, Formatter};

use crate::explore::Fingerprints;
use crate::faults::{Budget, Fault};
use crate::properties::{PropertyName, PropertySet};
use crate::system::System;

/// A walk ends after this many moves, and the next begins.
const LONGEST: usize = 200;

/// How a system breaks the contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// What is broken.
    pub clause: Clause,
    /// The state in which it shows, and what differs.
    pub details: String,
}

/// A clause of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clause {
    /// Moves that are no faults are offered whatever is left.
    MovesIgnoreBudgets,
    /// A fault is offered if and only if it is left.
    FaultsIfLeft,
    /// What moves are offered and lead to, and what is violated, is the same every time.
    Pure,
    /// `Settles` and `CanSettle` are left to the explorer.
    LivenessLeftAlone,
    /// States that are alike violate the same properties, and have ended or not alike.
    AlikeJudgedAlike,
    /// States that are alike are alike seen from any of them: their fingerprints are the same.
    SymmetryClosed,
    /// What can happen in states that are alike is alike, too.
    AlikeMoveAlike,
}

impl Display for Clause {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Clause::MovesIgnoreBudgets => "`moves` must offer the same moves that are no faults, whatever is left",
            Clause::FaultsIfLeft => "`moves` must offer a fault if and only if it is left",
            Clause::Pure => "`moves`, `apply`, `violated` and `ended` must depend on their arguments alone",
            Clause::LivenessLeftAlone => "`violated` must not name `settles` and `can always settle`",
            Clause::AlikeJudgedAlike => "states that `symmetric` gives must violate the same and have ended alike",
            Clause::SymmetryClosed => "`symmetric` must give the same states for every state that it gives",
            Clause::AlikeMoveAlike => "what follows states that `symmetric` gives must be alike",
        })
    }
}

impl Display for Broken {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.clause, self.details)
    }
}

impl Error for Broken {}

/// Walks through a system at random and looks at this many states.
///
/// # Errors
/// The first breach that shows.
pub fn check<S: System>(system: &S, samples: usize) -> Result<(), Broken> {
    let mut check =
        Check { system, canonical: Fingerprints::new(true), random: Fingerprints::new(false), drawn: 0, seen: 0 };
    while check.seen < samples {
        check.walk(samples)?;
    }
    Ok(())
}

type Labelled<M> = HashSet<(M, Option<Fault>)>;

struct Check<'a, S: System> {
    system: &'a S,
    canonical: Fingerprints,
    random: Fingerprints,
    drawn: u64,
    seen: usize,
}

impl<S: System> Check<'_, S> {
    fn draw(&mut self, below: usize) -> usize {
        self.drawn += 1;
        (self.random.number((self.drawn, 0)) % below.max(1) as u64) as usize
    }

    fn walk(&mut self, samples: usize) -> Result<(), Broken> {
        let mut state = self.system.initial();
        let mut left = self.system.bounds();
        for _ in 0..LONGEST {
            self.look_at(&state)?;
            self.seen += 1;
            let mut moves = Vec::new();
            self.system.moves(&state, left, &mut moves);
            let next = |(what, fault): (S::Move, Option<Fault>)| {
                let left = fault.map_or(Some(left), |fault| left.spend(fault))?;
                Some((self.system.apply(&state, what)?, left))
            };
            let mut next: Vec<_> = moves.into_iter().filter_map(next).collect();
            if next.is_empty() || self.seen >= samples {
                break;
            }
            (state, left) = next.swap_remove(self.draw(next.len()));
        }
        Ok(())
    }

    fn moves(&self, state: &S::State, left: Budget) -> Labelled<S::Move> {
        let mut moves = Vec::new();
        self.system.moves(state, left, &mut moves);
        moves.into_iter().collect()
    }

    /// The bounds less some faults.
    fn some_budget(&mut self) -> Budget {
        let mut left = self.system.bounds();
        for fault in Fault::ALL {
            for _ in 0..self.draw(usize::from(left.left(*fault)) + 1) {
                left = left.spend(*fault).unwrap_or(left);
            }
        }
        left
    }

    fn look_at(&mut self, state: &S::State) -> Result<(), Broken> {
        let whole = self.moves(state, self.system.bounds());
        self.pure(state, &whole)?;
        let mut budgets = vec![Budget::default()];
        budgets.extend((0..3).map(|_| self.some_budget()));
        for left in budgets {
            let offered = self.moves(state, left);
            let faultless = |moves: &Labelled<S::Move>| -> HashSet<S::Move> {
                moves.iter().filter(|(_, fault)| fault.is_none()).map(|(what, _)| *what).collect()
            };
            let (all, these) = (faultless(&whole), faultless(&offered));
            same(Clause::MovesIgnoreBudgets, state, &all, &these)?;
            let faults = |moves: &Labelled<S::Move>| -> Labelled<S::Move> {
                moves.iter().filter(|(_, fault)| fault.is_some_and(|its| left.left(its) > 0)).copied().collect()
            };
            let mut these = offered;
            these.retain(|(_, fault)| fault.is_some());
            same(Clause::FaultsIfLeft, state, &faults(&whole), &these)?;
        }
        let violated = self.system.violated(state);
        if violated.has(PropertyName::Settles) || violated.has(PropertyName::CanSettle) {
            return Err(Broken { clause: Clause::LivenessLeftAlone, details: format!("in {state:?}") });
        }
        self.alike(state)
    }

    fn pure(&self, state: &S::State, whole: &Labelled<S::Move>) -> Result<(), Broken> {
        same(Clause::Pure, state, whole, &self.moves(state, self.system.bounds()))?;
        for (what, _) in whole {
            same(Clause::Pure, state, &self.system.apply(state, *what), &self.system.apply(state, *what))?;
        }
        same(Clause::Pure, state, &self.judged(state), &self.judged(state))
    }

    fn judged(&self, state: &S::State) -> (PropertySet, PropertySet, bool) {
        let faultless = self.moves(state, Budget::default());
        let rests = faultless
            .into_iter()
            .all(|(what, fault)| fault.is_some() || self.system.apply(state, what).is_none_or(|next| next == *state));
        let at_rest = if rests { self.system.violated_at_rest(state) } else { PropertySet::NONE };
        (self.system.violated(state), at_rest, self.system.ended(state))
    }

    /// Which faults lead to which states, up to symmetry; and how often.
    fn follows(&self, state: &S::State) -> Vec<(Option<Fault>, u64)> {
        let next = |(what, fault)| {
            let next = self.system.apply(state, what).filter(|next| next != state)?;
            Some((fault, self.canonical.of(self.system, &next).0))
        };
        let mut follows: Vec<_> = self.moves(state, self.system.bounds()).into_iter().filter_map(next).collect();
        follows.sort_unstable();
        follows
    }

    fn alike(&self, state: &S::State) -> Result<(), Broken> {
        let mut alike = Vec::new();
        self.system.symmetric(state, &mut |other| alike.push(other.clone()));
        let its = self.canonical.of(self.system, state).0;
        for other in alike.iter().filter(|other| *other != state) {
            same(Clause::SymmetryClosed, (state, other), &its, &self.canonical.of(self.system, other).0)?;
            same(Clause::AlikeJudgedAlike, (state, other), &self.judged(state), &self.judged(other))?;
            same(Clause::AlikeMoveAlike, (state, other), &self.follows(state), &self.follows(other))?;
        }
        Ok(())
    }
}

fn same<T: PartialEq + Debug>(clause: Clause, place: impl Debug, one: &T, other: &T) -> Result<(), Broken> {
    if one == other {
        return Ok(());
    }
    Err(Broken { clause, details: format!("in {place:?}, {one:?} is not {other:?}") })
}

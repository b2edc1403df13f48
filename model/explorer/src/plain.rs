//! A system as a stateright model: to check the explorer against stateright's, and to look around in its web page.

use std::fmt::{self, Debug, Formatter};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use stateright::{Model, Property};

use crate::faults::{Budget, Fault};
use crate::properties::PropertyName;
use crate::readable::Readable;
use crate::system::System;

type Show<S> = fn(&S, &<S as System>::State) -> String;
type Say<S> = fn(&S, &<S as System>::State, <S as System>::Move, &<S as System>::State) -> String;

/// A system as a stateright model, without reductions. Its states are pairs of a state and the budget left.
///
/// Of the properties, `settles` is decided in states at rest only, and `can always settle` not at all: both need the graph.
/// One more, `explored`, holds everywhere, so that the checker doesn't stop before everything has been explored.
pub struct Plain<S: System> {
    system: Arc<S>,
    show: Option<Show<S>>,
    say: Option<Say<S>>,
}

impl<S: System> Plain<S> {
    /// States and moves are shown as Rust prints them.
    pub fn new(system: S) -> Self {
        Plain { system: Arc::new(system), show: None, say: None }
    }

    /// States and moves are shown in words.
    pub fn readable(system: S) -> Self
    where
        S: Readable,
    {
        Plain {
            system: Arc::new(system),
            show: Some(|system, state| {
                let its = system.snapshot(state);
                [its.callers, its.guards, its.ledger, its.network, its.effects].concat().join("\n")
            }),
            say: Some(|system, before, what, after| {
                let said = system.say(before, what, after);
                match said.to {
                    Some(to) => format!("{} → {}: {}", said.from, to, said.text),
                    None => format!("{}: {}", said.from, said.text),
                }
            }),
        }
    }

    /// The system.
    pub fn system(&self) -> &S {
        &self.system
    }

    fn rests(&self, state: &S::State) -> bool {
        let mut moves = Vec::new();
        self.system.moves(state, Budget::default(), &mut moves);
        moves
            .iter()
            .filter(|(_, fault)| fault.is_none())
            .all(|(what, _)| self.system.apply(state, *what).is_none_or(|next| next == *state))
    }

    fn holds(&self, property: PropertyName, state: &S::State) -> bool {
        if self.system.violated(state).has(property) {
            return false;
        }
        if !self.rests(state) {
            return true;
        }
        let stuck = property == PropertyName::Settles && !self.system.ended(state);
        !stuck && !self.system.violated_at_rest(state).has(property)
    }
}

/// A state and how often each fault may still happen. Printed in words where the system has them.
pub struct PlainState<S: System> {
    /// The state.
    pub state: S::State,
    /// What is left.
    pub left: Budget,
    shown: Option<(Arc<S>, Show<S>)>,
}

impl<S: System> PlainState<S> {
    fn known_by(&self) -> (&S::State, Budget) {
        (&self.state, self.left)
    }
}

impl<S: System> Clone for PlainState<S> {
    fn clone(&self) -> Self {
        PlainState { state: self.state.clone(), left: self.left, shown: self.shown.clone() }
    }
}

impl<S: System> PartialEq for PlainState<S> {
    fn eq(&self, other: &Self) -> bool {
        self.known_by() == other.known_by()
    }
}

impl<S: System> Eq for PlainState<S> {}

impl<S: System> Hash for PlainState<S> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.known_by().hash(hasher);
    }
}

impl<S: System> Debug for PlainState<S> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.shown {
            Some((system, show)) => f.write_str(&show(system, &self.state))?,
            None => self.state.fmt(f)?,
        }
        let left = Fault::ALL.iter().filter(|fault| self.left.left(**fault) > 0);
        let left: Vec<_> = left.map(|fault| format!("{} {}", self.left.left(*fault), fault.name())).collect();
        if left.is_empty() { Ok(()) } else { write!(f, "\nleft: {}", left.join(", ")) }
    }
}

impl<S: System> Model for Plain<S> {
    type State = PlainState<S>;
    type Action = (S::Move, Option<Fault>);

    fn init_states(&self) -> Vec<Self::State> {
        let shown = self.show.map(|show| (Arc::clone(&self.system), show));
        vec![PlainState { state: self.system.initial(), left: self.system.bounds(), shown }]
    }

    fn actions(&self, state: &Self::State, actions: &mut Vec<Self::Action>) {
        self.system.moves(&state.state, state.left, actions);
    }

    fn next_state(&self, last: &Self::State, (what, fault): Self::Action) -> Option<Self::State> {
        let left = match fault {
            None => last.left,
            Some(fault) => last.left.spend(fault)?,
        };
        let state = self.system.apply(&last.state, what).filter(|next| *next != last.state)?;
        Some(PlainState { state, left, shown: last.shown.clone() })
    }

    /// What kind of move it is. What it does can be told only given the state: see `format_step`.
    fn format_action(&self, (what, fault): &Self::Action) -> String {
        match fault {
            Some(fault) => format!("{}: {what:?}", fault.name()),
            None => format!("{what:?}"),
        }
    }

    fn format_step(&self, last: &Self::State, action: Self::Action) -> Option<String> {
        let next = self.next_state(last, action)?;
        match self.say {
            Some(say) => Some(format!("{}\n\n{next:?}", say(&self.system, &last.state, action.0, &next.state))),
            None => Some(format!("{next:#?}")),
        }
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let its = self.system.properties();
        let shown = PropertyName::ALL.iter().filter(|property| its.has(**property));
        let explored = Property::always("explored", |_, _| true);
        shown.filter_map(|property| condition(*property)).chain([explored]).collect()
    }
}

/// Conditions are functions that capture nothing: so each property needs its own.
fn condition<S: System>(property: PropertyName) -> Option<Property<Plain<S>>> {
    macro_rules! conditions {
        ($($variant:ident)*) => {
            match property {
                $(PropertyName::$variant => Some(Property::always(property.name(), |plain: &Plain<S>, state: &PlainState<S>| {
                    plain.holds(PropertyName::$variant, &state.state)
                })),)*
                PropertyName::CanSettle => None,
            }
        };
    }
    conditions! {
        AtMostOnce NoPhantomSuccess NoFalseFailure FaithfulReplay NoSuppression IntentFirst UnknownBlocks NoOverlap
        Convergence CausalRespect Settles BoundedRetries BoundedMemory
    }
}

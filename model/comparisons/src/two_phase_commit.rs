//! Two-phase commit, as in stateright's own example (`examples/2pc.rs`, after Gray and Lamport, "Consensus on Transaction
//! Commit"): one model, for stateright as it stands and for this project's explorer.

use std::collections::BTreeSet;

use settled_explorer::{Budget, Fault, PropertyName, PropertySet, System};
use stateright::{Model, Property, Representative, Rewrite, RewritePlan};

/// Two-phase commit among this many resource managers.
#[derive(Clone, Copy, Debug)]
pub struct TwoPhaseCommit {
    /// How many.
    pub managers: usize,
}

/// A state of the whole system.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// Each resource manager.
    pub managers: Vec<ManagerState>,
    /// The transaction manager.
    pub transaction: TransactionState,
    /// Whom the transaction manager has heard to be prepared.
    pub heard_prepared: Vec<bool>,
    /// All messages that were ever sent.
    pub messages: BTreeSet<Message>,
}

/// A message: it stays for ever, and may be received any number of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Message {
    /// This resource manager is prepared.
    Prepared(usize),
    /// To all: commit.
    Commit,
    /// To all: abort.
    Abort,
}

/// A resource manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ManagerState {
    /// At work.
    Working,
    /// Can do either.
    Prepared,
    /// Has committed.
    Committed,
    /// Has aborted.
    Aborted,
}

/// The transaction manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransactionState {
    /// Undecided.
    Undecided,
    /// Decided to commit.
    Committed,
    /// Decided to abort.
    Aborted,
}

/// What may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Move {
    /// The transaction manager hears that this manager is prepared.
    HearPrepared(usize),
    /// The transaction manager decides to commit.
    DecideCommit,
    /// The transaction manager decides to abort.
    DecideAbort,
    /// This manager prepares.
    Prepare(usize),
    /// This manager aborts of its own accord.
    ChooseAbort(usize),
    /// This manager hears that it is to commit.
    HearCommit(usize),
    /// This manager hears that it is to abort.
    HearAbort(usize),
}

impl TwoPhaseCommit {
    fn first(&self) -> State {
        State {
            managers: vec![ManagerState::Working; self.managers],
            transaction: TransactionState::Undecided,
            heard_prepared: vec![false; self.managers],
            messages: BTreeSet::new(),
        }
    }

    fn possible(&self, state: &State, mut add: impl FnMut(Move)) {
        let undecided = state.transaction == TransactionState::Undecided;
        if undecided && state.heard_prepared.iter().all(|heard| *heard) {
            add(Move::DecideCommit);
        }
        if undecided {
            add(Move::DecideAbort);
        }
        for manager in 0..self.managers {
            if undecided && state.messages.contains(&Message::Prepared(manager)) {
                add(Move::HearPrepared(manager));
            }
            if state.managers.get(manager) == Some(&ManagerState::Working) {
                add(Move::Prepare(manager));
                add(Move::ChooseAbort(manager));
            }
            if state.messages.contains(&Message::Commit) {
                add(Move::HearCommit(manager));
            }
            if state.messages.contains(&Message::Abort) {
                add(Move::HearAbort(manager));
            }
        }
    }

    fn after(&self, before: &State, what: Move) -> State {
        let mut state = before.clone();
        match what {
            Move::HearPrepared(manager) => state.heard_prepared[manager] = true,
            Move::DecideCommit => {
                state.transaction = TransactionState::Committed;
                state.messages.insert(Message::Commit);
            }
            Move::DecideAbort => {
                state.transaction = TransactionState::Aborted;
                state.messages.insert(Message::Abort);
            }
            Move::Prepare(manager) => {
                state.managers[manager] = ManagerState::Prepared;
                state.messages.insert(Message::Prepared(manager));
            }
            Move::ChooseAbort(manager) | Move::HearAbort(manager) => state.managers[manager] = ManagerState::Aborted,
            Move::HearCommit(manager) => state.managers[manager] = ManagerState::Committed,
        }
        state
    }
}

impl State {
    /// No manager has aborted while another has committed.
    pub fn is_consistent(&self) -> bool {
        !(self.managers.contains(&ManagerState::Aborted) && self.managers.contains(&ManagerState::Committed))
    }

    fn all_are(&self, what: ManagerState) -> bool {
        self.managers.iter().all(|its| *its == what)
    }
}

impl Model for TwoPhaseCommit {
    type State = State;
    type Action = Move;

    fn init_states(&self) -> Vec<State> {
        vec![self.first()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Move>) {
        self.possible(state, |what| actions.push(what));
    }

    fn next_state(&self, last: &State, what: Move) -> Option<State> {
        Some(self.after(last, what))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::sometimes("abort agreement", |_, state: &State| state.all_are(ManagerState::Aborted)),
            Property::sometimes("commit agreement", |_, state: &State| state.all_are(ManagerState::Committed)),
            Property::always("consistent", |_, state: &State| state.is_consistent()),
        ]
    }
}

/// The example's own: sorted by the managers' states alone. Managers in the same state may still differ, so some states that
/// are alike have several representatives.
impl Representative for State {
    fn representative(&self) -> State {
        let plan = RewritePlan::from_values_to_sort(&self.managers);
        let renamed = |message: &Message| match message {
            Message::Prepared(manager) => Message::Prepared(plan.rewrite(manager)),
            Message::Commit => Message::Commit,
            Message::Abort => Message::Abort,
        };
        State {
            managers: plan.reindex(&self.managers),
            transaction: self.transaction,
            heard_prepared: plan.reindex(&self.heard_prepared),
            messages: self.messages.iter().map(renamed).collect(),
        }
    }
}

impl<T> Rewrite<T> for ManagerState {
    fn rewrite<S>(&self, _: &RewritePlan<T, S>) -> Self {
        *self
    }
}

/// The same model for the explorer. There are no faults and no budgets in it. Its one property goes by the name of
/// [`PropertyName::Convergence`], the nearest that there is.
impl System for TwoPhaseCommit {
    type State = State;
    type Move = Move;

    fn initial(&self) -> State {
        self.first()
    }

    fn bounds(&self) -> Budget {
        Budget::default()
    }

    fn moves(&self, state: &State, _: Budget, moves: &mut Vec<(Move, Option<Fault>)>) {
        self.possible(state, |what| moves.push((what, None)));
    }

    fn apply(&self, state: &State, what: Move) -> Option<State> {
        let after = self.after(state, what);
        (after != *state).then_some(after)
    }

    fn symmetric(&self, state: &State, each: &mut dyn FnMut(&State)) {
        // All orders of what is known of the managers, each once, however many are equal.
        let mut managers = known(state);
        managers.sort_unstable();
        loop {
            each(&in_order(state, &managers));
            if !next_order(&mut managers) {
                return;
            }
        }
    }

    fn canonical(&self, state: &State) -> Option<State> {
        let mut managers = known(state);
        managers.sort_unstable();
        Some(in_order(state, &managers))
    }

    fn properties(&self) -> PropertySet {
        PropertySet::NONE.with(PropertyName::Convergence, true)
    }

    fn violated(&self, state: &State) -> PropertySet {
        PropertySet::NONE.with(PropertyName::Convergence, !state.is_consistent())
    }

    fn violated_at_rest(&self, _: &State) -> PropertySet {
        PropertySet::NONE
    }

    fn ended(&self, state: &State) -> bool {
        let over = |its: &ManagerState| matches!(its, ManagerState::Committed | ManagerState::Aborted);
        state.managers.iter().all(over)
    }
}

/// What is known of a manager: its state, whether it was heard to be prepared, and whether it has said so. A manager is that.
type Known = (ManagerState, bool, bool);

fn known(state: &State) -> Vec<Known> {
    let known = state.managers.iter().zip(&state.heard_prepared).enumerate();
    known.map(|(at, (its, heard))| (*its, *heard, state.messages.contains(&Message::Prepared(at)))).collect()
}

/// The same state with its managers in this order.
fn in_order(state: &State, managers: &[Known]) -> State {
    let to_all = state.messages.iter().filter(|message| !matches!(message, Message::Prepared(_))).copied();
    let prepared = managers.iter().enumerate().filter(|(_, (_, _, sent))| *sent);
    State {
        managers: managers.iter().map(|(its, _, _)| *its).collect(),
        transaction: state.transaction,
        heard_prepared: managers.iter().map(|(_, heard, _)| *heard).collect(),
        messages: prepared.map(|(at, _)| Message::Prepared(at)).chain(to_all).collect(),
    }
}

/// The next order of these in the sense of the dictionary; `false` after the last.
fn next_order<T: Ord>(items: &mut [T]) -> bool {
    let Some(at) = items.windows(2).rposition(|pair| pair[0] < pair[1]) else {
        return false;
    };
    if let Some(larger) = items.iter().rposition(|item| *item > items[at]) {
        items.swap(at, larger);
    }
    items[at + 1..].reverse();
    true
}

//! Puts a model to an engine, and counts.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::{Duration, Instant};

use settled_explorer::{Plain, Reductions, System, explore};
use stateright::{Checker, CheckerBuilder, Expectation, HasDiscoveries, Model, Representative};

use crate::measure::Counted;

/// How far to go.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How long a run may take.
    pub time: Duration,
    /// How many states it may visit, doubles included.
    pub states: usize,
    /// Threads.
    pub threads: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { time: Duration::from_secs(600), states: 500_000_000, threads: 1 }
    }
}

/// What a model of ours can be put to, besides Spin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// Our explorer, with all its reductions.
    Explorer,
    /// Our explorer without any.
    ExplorerUnreduced,
    /// Plain stateright, breadth first.
    StaterightBreadth,
    /// Plain stateright, depth first.
    StaterightDepth,
}

impl Engine {
    /// All of them.
    pub const ALL: [Engine; 4] =
        [Engine::Explorer, Engine::ExplorerUnreduced, Engine::StaterightBreadth, Engine::StaterightDepth];

    /// Its name, in words.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Explorer => "settled",
            Engine::ExplorerUnreduced => "settled, no reductions",
            Engine::StaterightBreadth => "stateright, breadth first",
            Engine::StaterightDepth => "stateright, depth first",
        }
    }

    /// Its name on a command line.
    pub fn flag(self) -> &'static str {
        match self {
            Engine::Explorer => "settled",
            Engine::ExplorerUnreduced => "settled-unreduced",
            Engine::StaterightBreadth => "stateright-bfs",
            Engine::StaterightDepth => "stateright-dfs",
        }
    }

    /// The engine with this name on a command line.
    pub fn by_flag(flag: &str) -> Option<Engine> {
        Engine::ALL.into_iter().find(|engine| engine.flag() == flag)
    }
}

/// Puts a system to an engine. To stateright it is a [`Plain`] model.
pub fn run<S: System + Send + 'static>(system: S, engine: Engine, limits: &Limits) -> Counted {
    match engine {
        Engine::Explorer => explorer(&system, Reductions { symmetry: true, budgets: true }, limits),
        Engine::ExplorerUnreduced => explorer(&system, Reductions { symmetry: false, budgets: false }, limits),
        Engine::StaterightBreadth => stateright(Plain::new(system), Search::Breadth, limits),
        Engine::StaterightDepth => stateright(Plain::new(system), Search::Depth, limits),
    }
}

/// Our explorer.
pub fn explorer<S: System>(system: &S, reductions: Reductions, limits: &Limits) -> Counted {
    let options = settled_explorer::Options {
        reductions,
        threads: limits.threads,
        states: limits.states,
        time: limits.time,
        ..Default::default()
    };
    let found = explore(system, &options, &mut |_| {});
    let mut violated: Vec<String> = found.violations.iter().map(|(property, _)| property.name().to_owned()).collect();
    violated.sort();
    Counted {
        unique_states: found.unique_states,
        transitions: found.transitions,
        violated,
        exhaustive: found.exhaustive,
    }
}

/// How stateright is to search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// Breadth first: its counterexamples are short.
    Breadth,
    /// Depth first: it needs less memory.
    Depth,
}

/// What stateright needs to be able to do with a model's states and moves.
pub trait Checkable:
    Model<State: Clone + Debug + Hash + PartialEq + Send + Sync, Action: Clone + Debug + PartialEq> + Send + Sync + 'static
{
}

impl<M> Checkable for M where
    M: Model<State: Clone + Debug + Hash + PartialEq + Send + Sync, Action: Clone + Debug + PartialEq>
        + Send
        + Sync
        + 'static
{
}

/// Plain stateright.
pub fn stateright<M: Checkable>(model: M, search: Search, limits: &Limits) -> Counted {
    let begun = Instant::now();
    let builder = builder(model, limits);
    match search {
        Search::Breadth => count(&builder.spawn_bfs().join(), limits, begun),
        Search::Depth => count(&builder.spawn_dfs().join(), limits, begun),
    }
}

/// Plain stateright with symmetry, which it can only search depth first.
pub fn stateright_with_symmetry<M: Checkable>(model: M, limits: &Limits) -> Counted
where
    M::State: Representative,
{
    let begun = Instant::now();
    count(&builder(model, limits).symmetry().spawn_dfs().join(), limits, begun)
}

fn builder<M: Checkable>(model: M, limits: &Limits) -> CheckerBuilder<M> {
    let builder = model.checker().threads(limits.threads).target_state_count(limits.states).timeout(limits.time);
    // A violated property must not end the exploration while others are undecided.
    builder.finish_when(HasDiscoveries::All)
}

fn count<M: Checkable>(checker: &impl Checker<M>, limits: &Limits, begun: Instant) -> Counted {
    // Reaching a limit looks to stateright like the end.
    let exhaustive = checker.state_count() < limits.states && begun.elapsed() < limits.time;
    let always = checker.model().properties().into_iter().filter(|its| its.expectation == Expectation::Always);
    let mut violated: Vec<String> =
        always.filter(|its| checker.discovery(its.name).is_some()).map(|its| its.name.to_owned()).collect();
    violated.sort();
    Counted {
        unique_states: checker.unique_state_count(),
        // It counts the first states as well.
        transitions: checker.state_count().saturating_sub(1),
        violated,
        exhaustive,
    }
}

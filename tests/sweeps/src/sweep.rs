//! The loop: the same scenario, with a kill at one place after the other.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::thread;

use crate::places::Place;
use crate::scenario::{self, Order};
use crate::scene::{Ended, Plot, Scene};
use crate::seat;
use crate::table::Row;

/// More points than any process passes in a scenario.
const TOO_MANY: u64 = 2_000;

/// Which process is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Process {
    /// A guard that came first: the holder, where the ledger is a directory.
    Holder,
    /// A guard that came second: a guest of the holder, where the ledger is a directory.
    Client,
    /// A guard, where the ledger is a server and all of them are its clients.
    Guard,
    /// The tool.
    Tool,
}

impl Process {
    fn name(self) -> &'static str {
        match self {
            Process::Holder => "holder",
            Process::Client => "client",
            Process::Guard => "guard",
            Process::Tool => "tool",
        }
    }

    fn order(self) -> Order {
        match self {
            Process::Holder | Process::Guard | Process::Tool => Order::TestedFirst,
            Process::Client => Order::OtherFirst,
        }
    }

    fn plot(self, kills: &[u64]) -> Plot {
        match self {
            Process::Tool => Plot { tool: seat::kills(kills), ..Plot::default() },
            _ => Plot { first: seat::kills(kills), ..Plot::default() },
        }
    }
}

/// Whether everything is to be done, however long it takes (`SETTLED_SWEEP=full`), or a sample.
pub fn is_full() -> bool {
    std::env::var("SETTLED_SWEEP").is_ok_and(|how| how == "full")
}

/// How many scenes run at the same time: they mostly wait.
fn jobs() -> usize {
    std::env::var("SETTLED_SWEEP_JOBS").ok().and_then(|jobs| jobs.parse().ok()).unwrap_or(10)
}

/// Does all of the work, several at a time, in about the order given.
///
/// # Panics
/// If any of the work does.
pub fn in_parallel<T: Send, R: Send>(work: Vec<T>, act: impl Fn(T) -> R + Sync) -> Vec<R> {
    let next: Mutex<VecDeque<T>> = Mutex::new(work.into());
    let done = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..jobs() {
            scope.spawn(|| {
                loop {
                    let Some(one) = next.lock().unwrap().pop_front() else { return };
                    let result = act(one);
                    done.lock().unwrap().push(result);
                }
            });
        }
    });
    done.into_inner().unwrap()
}

/// One sweep.
#[derive(Clone)]
pub struct Sweep {
    /// On which ledger.
    pub place: Arc<Place>,
    /// The tool's kind.
    pub kind: &'static str,
    /// Which process is killed.
    pub process: Process,
    /// From one point to the next: 1 for all of them.
    pub stride: u64,
    /// The first point.
    pub from: u64,
}

impl Sweep {
    /// Its ledger, kind and process.
    pub fn name(&self) -> String {
        format!("{} {} {}", self.place.name(), self.kind, self.process.name())
    }

    fn row(&self) -> Row {
        Row { ledger: self.place.name(), kind: self.kind, process: self.process.name().to_owned(), ..Row::default() }
    }

    /// Kills at one point after the other until two runs have passed without a kill.
    ///
    /// # Panics
    /// If it doesn't end.
    pub fn singles(&self) -> Row {
        let mut row = self.row();
        let mut passed = 0;
        let mut at = self.from;
        while passed < 2 {
            assert!(at < TOO_MANY, "{row:?}: no end");
            let (killed, truth) = self.run(&[at], scenario::everything);
            row.runs += 1;
            row.kills += killed;
            passed = if killed == 0 { passed + 1 } else { 0 };
            if killed > 0 {
                row.points = at;
            }
            row.take(truth);
            at += self.stride;
        }
        row
    }

    /// Kills the process at the first point, and its successor at the second.
    pub fn pairs(&self, pairs: Vec<(u64, u64)>) -> Row {
        let mut row = self.row();
        for (killed, truth) in in_parallel(pairs, |(first, second)| self.run(&[first, second], scenario::little)) {
            row.runs += 1;
            row.kills += killed;
            row.take(truth);
        }
        row.points = row.runs as u64;
        row
    }

    /// How many points there are in the little scenario.
    pub fn little_points(&self) -> u64 {
        let (mut low, mut high) = (0, TOO_MANY);
        while high - low > 1 {
            let middle = (low + high) / 2;
            let (killed, _) = self.run(&[middle], scenario::little);
            if killed > 0 { low = middle } else { high = middle }
        }
        low
    }

    fn run(
        &self,
        kills: &[u64],
        scenario: fn(Scene, Order) -> Ended,
    ) -> (usize, settled_ledger_tests::stage::truth::Truth) {
        let ended = scenario(Scene::set(&self.place, self.kind, self.process.plot(kills)), self.process.order());
        (ended.kills.len(), ended.truth)
    }
}

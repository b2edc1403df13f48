//! Many runs, on several threads: each on one of them alone.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::coverage::Coverage;
use crate::plan::{Plan, Plant, Profile};
use crate::run::SimulationError;
use crate::violation::Violation;

/// Which runs.
#[derive(Clone, Copy, Debug)]
pub struct Runs {
    /// The first seed.
    pub from: u64,
    /// How many seeds.
    pub count: u64,
    /// How much goes wrong.
    pub profile: Profile,
    /// A defect put in on purpose.
    pub plant: Option<Plant>,
    /// How many threads.
    pub jobs: usize,
    /// After how many seeds that go wrong no further ones are begun.
    pub enough: usize,
}

/// A seed that went wrong.
#[derive(Clone, Debug, Serialize)]
pub struct Failed {
    /// The seed.
    pub seed: u64,
    /// What was not as it must be.
    pub violations: Vec<Violation>,
}

/// What came of many runs.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    /// How many there were.
    pub runs: u64,
    /// The time that went by on their clocks.
    pub simulated: Duration,
    /// The time that they took.
    pub elapsed: Duration,
    /// How much happened.
    pub events: u64,
    /// Calls that guards were asked.
    pub calls: u64,
    /// Attempts that were sent.
    pub sends: u64,
    /// Effects of tools.
    pub effects: u64,
    /// What was covered.
    pub coverage: Coverage,
    /// The seeds that went wrong, in order.
    pub failed: Vec<Failed>,
}

impl Runs {
    /// Carries them out. `progress` is told how many are done, now and then.
    ///
    /// # Errors
    /// If a run can't be begun.
    pub fn run(&self, progress: &(dyn Fn(u64) + Sync)) -> Result<Summary, SimulationError> {
        let begun = Instant::now();
        let (next, done, stop) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
        let total = Mutex::new(Summary::default());
        let work = || -> Result<(), SimulationError> {
            let mut own = Summary::default();
            while !stop.load(Ordering::Relaxed) {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if n >= self.count {
                    break;
                }
                let seed = self.from.wrapping_add(n);
                let outcome = Plan::draw(seed, self.profile, self.plant).run(false)?;
                own.runs += 1;
                own.simulated += outcome.simulated;
                own.events += outcome.events;
                own.calls += outcome.calls;
                own.sends += outcome.sends;
                own.effects += outcome.effects;
                own.coverage.add(&outcome.coverage);
                if !outcome.violations.is_empty() {
                    let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
                    total.failed.push(Failed { seed, violations: outcome.violations });
                    stop.fetch_or(total.failed.len() >= self.enough, Ordering::Relaxed);
                }
                progress(done.fetch_add(1, Ordering::Relaxed) + 1);
            }
            total.lock().unwrap_or_else(PoisonError::into_inner).add(own);
            Ok(())
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.jobs.max(1)).map(|_| scope.spawn(work)).collect();
            // A thread that panicked has said so, and its panic goes on here.
            threads.into_iter().try_for_each(|thread| match thread.join() {
                Ok(worked) => worked,
                Err(panic) => std::panic::resume_unwind(panic),
            })
        })?;
        let mut total = total.into_inner().unwrap_or_else(PoisonError::into_inner);
        total.failed.sort_by_key(|failed| failed.seed);
        total.elapsed = begun.elapsed();
        Ok(total)
    }
}

impl Summary {
    fn add(&mut self, other: Summary) {
        self.runs += other.runs;
        self.simulated += other.simulated;
        self.events += other.events;
        self.calls += other.calls;
        self.sends += other.sends;
        self.effects += other.effects;
        self.coverage.add(&other.coverage);
    }
}

//! How the runs of a protocol can end: what is so once nothing can happen any more that is no fault.
//!
//! A state is looked at once, however much of the fault budget is left in it: whether it rests and what it is like
//! do not depend on that. What can follow it does, so it is visited again with a budget that no earlier visit covers.

use std::collections::{BTreeSet, HashMap};
use std::fmt::{self, Display, Formatter};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ahash::RandomState;
use serde::Serialize;
use settled_devices_model::DeviceWorld;
use settled_explorer::trace::call_name;
use settled_explorer::{Budget, Readable, System};
use settled_protocol::Verdict;

use crate::description::Description;
use crate::machine::Stage;
use crate::validate::Unbuildable;
use crate::world::{Heard, Phase, Rules, World};

/// How a run can end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Ending {
    /// What each logical call's caller was told, and how many effects it had. Sorted, where calls are alike.
    pub calls: Vec<CallEnding>,
    /// Where the records in the ledger are in their lives, sorted.
    pub records: Vec<&'static str>,
}

/// How a run ends for one logical call.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct CallEnding {
    /// What its caller was told last, or what it is left doing.
    pub told: &'static str,
    /// How many effects it has had.
    pub effects: usize,
}

impl Display for Ending {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (number, call) in self.calls.iter().enumerate() {
            let lead = if number == 0 { "" } else { "; " };
            let plural = if call.effects == 1 { "" } else { "s" };
            let told = if call.told.is_empty() { String::new() } else { format!("{}, ", call.told) };
            write!(f, "{lead}{}: {told}{} effect{plural}", call_name(number), call.effects)?;
        }
        if self.records.is_empty() { Ok(()) } else { write!(f, "; ledger: {}", self.records.join(", ")) }
    }
}

/// The ways in which a protocol's runs can end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Endings {
    /// All of them that were found.
    pub all: BTreeSet<Ending>,
    /// Whether every state within the bounds was looked at.
    pub exhaustive: bool,
    /// How many states were looked at, those with different budgets left counted apart.
    pub states: usize,
}

/// Every way in which a run of this protocol can end, within its bounds and these limits.
///
/// # Errors
/// [`Unbuildable`] if the description has a bound out of range or contradicts itself.
pub fn endings(description: &Description, states: usize, time: Duration) -> Result<Endings, Unbuildable> {
    description.validate()?;
    let deadline = Instant::now().checked_add(time);
    if let Some(devices) = &description.devices {
        let world = DeviceWorld::new(&description.name, devices, description.faults)?;
        return Ok(walk(&world, states, deadline, |state| {
            let effects = world.effects(state).into_iter();
            let mut calls: Vec<_> = effects.map(|effects| CallEnding { told: "", effects }).collect();
            // Devices are alike.
            calls.sort();
            Ending { calls, records: Vec::new() }
        }));
    }
    let rules = Rules::new(description.clone());
    let mut found = walk(&rules, states, deadline, |world| ending(&rules, world));
    found.exhaustive &= !rules.overflowed.load(Ordering::Relaxed) && !rules.guard.is_full();
    Ok(found)
}

/// Visits every state with the largest budgets that it can be reached with, and labels those that rest.
fn walk<S: System>(system: &S, most: usize, deadline: Option<Instant>, label: impl Fn(&S::State) -> Ending) -> Endings {
    let hasher = RandomState::with_seeds(5, 6, 7, 8);
    let known_by = |state: &S::State| {
        let mut smallest = hasher.hash_one(state);
        system.symmetric(state, &mut |alike| smallest = smallest.min(hasher.hash_one(alike)));
        smallest
    };
    let whole = system.bounds();
    let mut seen: HashMap<u64, Vec<Budget>, RandomState> = HashMap::with_hasher(RandomState::with_seeds(1, 2, 3, 4));
    let mut new = |state: &S::State, left: Budget| {
        let budgets = seen.entry(known_by(state)).or_default();
        if budgets.iter().any(|known| known.covers(left)) {
            return false;
        }
        budgets.retain(|known| !left.covers(*known));
        budgets.push(left);
        true
    };
    // By the number of faults spent: what covers a budget has spent fewer, so no visit is in vain.
    let mut waiting: Vec<Vec<(S::State, Budget)>> = vec![Vec::new(); whole.total() as usize + 1];
    let initial = system.initial();
    new(&initial, whole);
    waiting[0].push((initial, whole));
    let mut endings = Endings { exhaustive: true, ..Endings::default() };
    let mut moves = Vec::new();
    for spent in 0..waiting.len() {
        while let Some((state, left)) = waiting[spent].pop() {
            endings.states += 1;
            let late = endings.states.is_multiple_of(1024) && deadline.is_some_and(|end| Instant::now() >= end);
            if late || endings.states > most {
                endings.exhaustive = false;
                return endings;
            }
            moves.clear();
            system.moves(&state, left, &mut moves);
            let mut rests = true;
            for (what, fault) in &moves {
                let Some(next) = system.apply(&state, *what).filter(|next| *next != state) else {
                    continue;
                };
                rests &= fault.is_some();
                let left = match fault {
                    None => Some(left),
                    Some(fault) => left.spend(*fault),
                };
                if let Some(left) = left
                    && new(&next, left)
                {
                    waiting[spent + usize::from(fault.is_some())].push((next, left));
                }
            }
            if rests {
                endings.all.insert(label(&state));
            }
        }
    }
    endings
}

fn ending(rules: &Rules, world: &World) -> Ending {
    let each = (0..rules.callers())
        .map(|call| CallEnding { told: told(world.callers[usize::from(call)].phase), effects: world.effects_of(call) });
    let mut calls: Vec<_> = each.collect();
    if rules.calls_are_alike {
        calls.sort();
    }
    let records = world.keys.iter().filter_map(|key| key.record);
    let mut records: Vec<_> = records.map(|record| stage(rules.guard.view(record).stage)).collect();
    records.sort_unstable();
    Ending { calls, records }
}

fn told(phase: Phase) -> &'static str {
    match phase {
        Phase::Idle => "has not called",
        Phase::Waiting { .. } => "waits for an answer",
        Phase::Told(Heard::Done(_)) => "told done",
        Phase::Told(Heard::Failed) => "told failed",
        Phase::Told(Heard::Unknown) => "told unknown",
        Phase::Told(Heard::InProgress) => "told in progress",
        Phase::Told(Heard::Conflict) => "told conflict",
        Phase::Told(Heard::ConnectionLost) => "lost the connection",
        Phase::Cancelled => "has cancelled",
        Phase::Restarted => "has started again",
    }
}

fn stage(stage: Stage) -> &'static str {
    match stage {
        Stage::Created => "created",
        Stage::Dispatched(_) => "dispatched",
        Stage::Unknown(_) => "unknown",
        Stage::Escalated => "escalated",
        Stage::Confirmed => "confirmed",
        Stage::Settled(Verdict::Succeeded(_)) => "succeeded",
        Stage::Settled(Verdict::Failed(_)) => "failed",
        Stage::Settled(Verdict::Abandoned(_)) => "abandoned",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<String> {
        let description: Description = toml::from_str(&format!("name = \"x\"\nabout = \"y\"\n{text}")).unwrap();
        let found = endings(&description, usize::MAX, Duration::from_secs(60)).unwrap();
        assert!(found.exhaustive);
        found.all.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn only_states_at_rest_count() {
        let calm = "A: told done, 1 effect; ledger: succeeded";
        assert_eq!(of(""), [calm]);
        // Either the request is lost, and a person is asked; or the answer comes too late to be told, and settles it.
        assert_eq!(
            of("[faults]\nlost-requests = 1\ntimeouts = 1\n"),
            [calm, "A: told unknown, 0 effects; ledger: escalated", "A: told unknown, 1 effect; ledger: succeeded"]
        );
    }

    /// Every pair of a state and a budget, without any reduction.
    fn plainly(description: &Description) -> BTreeSet<Ending> {
        let rules = Rules::new(description.clone());
        let first = (rules.initial(), rules.bounds());
        let mut seen = std::collections::HashSet::from([first]);
        let (mut waiting, mut all, mut moves) = (vec![first], BTreeSet::new(), Vec::new());
        while let Some((state, left)) = waiting.pop() {
            moves.clear();
            rules.moves(&state, left, &mut moves);
            let mut rests = true;
            for (what, fault) in &moves {
                let next = rules.apply(&state, *what).filter(|next| *next != state);
                rests &= fault.is_some() || next.is_none();
                let left = fault.map_or(Some(left), |fault| left.spend(fault));
                if let (Some(next), Some(left)) = (next, left)
                    && seen.insert((next, left))
                {
                    waiting.push((next, left));
                }
            }
            if rests {
                all.insert(ending(&rules, &state));
            }
        }
        all
    }

    #[test]
    fn nothing_is_missed() {
        for name in ["naive-retry", "key-per-attempt", "langgraph-checkpoint-async", "redis-failover", "no-fingerprint"]
        {
            let description = crate::library::load(name).unwrap();
            let found = endings(&description, usize::MAX, Duration::from_secs(60)).unwrap();
            assert_eq!(found.all, plainly(&description), "{name}");
        }
        // Many kinds of faults at once.
        let text = "name = \"x\"\nabout = \"y\"\n[guard]\nprocesses = 0\n[caller]\ncalls = 3\n[faults]\ntimeouts = 1\nlost-requests = 1\n\
                    lost-replies = 1\nerrors-before = 1\nerrors-after = 1\ntool-crashes-before = 1\ntool-crashes-after = 1\ncancels = 1\n";
        let description: Description = toml::from_str(text).unwrap();
        let found = endings(&description, usize::MAX, Duration::from_secs(60)).unwrap();
        assert_eq!(found.all, plainly(&description));
    }
}

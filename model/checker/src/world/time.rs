//! Time: when it can make a difference, what it costs, and what it changes.

use std::sync::atomic::Ordering;

use settled_explorer::Fault;
use settled_protocol::{Time, What};

use crate::machine::{Id, Stage, Write};

use super::{CLOCK, Do, Message, Rules, Todo, World};

/// The last unit of time of a world.
const LAST: u8 = 60;

impl Rules {
    /// Whether time can make a difference yet.
    pub(crate) fn may_tick(&self, world: &World) -> bool {
        let rules = &self.description;
        if !rules.time_passes() {
            return false;
        }
        let open = || {
            world
                .keys
                .iter()
                .filter_map(|key| key.record)
                .any(|record| matches!(self.guard.view(record).stage, Stage::Dispatched(_) | Stage::Unknown(_)))
        };
        // Which time it is matters only between the moment from which on all is quiet and the moment at which that counts.
        let observing = world
            .keys
            .iter()
            .filter_map(|key| self.guard.view(key.record?).until)
            .any(|until| (0..self.guards()).any(|guard| self.clock(world, guard) < until));
        let kept = rules.guard.window > 0
            && world.keys.iter().filter_map(|key| key.record).any(|record| {
                matches!(self.guard.view(record).stage, Stage::Settled(_)) && !self.is_expired(world, record)
            });
        let remembered = rules.tool.remembers > 0
            && (world.keys.iter().any(|key| key.memory.effect > 0)
                || world.now <= rules.tool.remembers + rules.guard.margin && open());
        let may = observing || kept || remembered;
        if may && world.now >= LAST {
            // Nothing may be said to hold because the clock stands still.
            self.overflowed.store(true, Ordering::Relaxed);
            return false;
        }
        may
    }

    /// Which fault it is that time passes now, if it is one.
    pub(crate) fn price_of_time(&self, world: &World) -> Option<Fault> {
        let in_transit = world.messages().any(|message| matches!(message, Message::Request { .. }));
        let calls_count = self.description.guard.window > 0;
        // A call that is held back for its resource is on its way no more.
        let arriving = |guard: &super::Guard| {
            (0..self.callers()).filter(|call| guard.arrived & 1 << call != 0).any(|call| {
                let key = self.key_of(call, &world.callers[usize::from(call)]);
                !self.must_wait_for_resource(world, call, key)
            })
        };
        if in_transit || calls_count && world.guards.iter().any(arriving) {
            return Some(Fault::Delay);
        }
        let paused = |todo: Todo| matches!(todo.what, Do::Send(_) | Do::Write { .. });
        world.guards.iter().any(|guard| guard.todos().any(paused)).then_some(Fault::Pause)
    }

    /// Whether every guard would forget this record now, by its own clock.
    pub(crate) fn is_expired(&self, world: &World, record: Id) -> bool {
        (0..self.guards()).all(|guard| {
            let step = self.guard.step(Some(record), &self.event(world, guard, What::Expire));
            step.write == Write::Forget
        })
    }

    /// Time passes, for all clocks; the tool forgets what it has remembered long enough.
    pub(crate) fn tick(&self, world: &mut World) {
        world.now += 1;
        let remembers = self.description.tool.remembers;
        for key in &mut world.keys {
            if remembers > 0 && key.memory.effect > 0 && world.now - key.memory.since >= remembers {
                (key.memory.effect, key.memory.since) = (0, 0);
            }
        }
    }

    /// What a clock shows that is right.
    pub(crate) fn true_clock(&self, world: &World) -> Time {
        Time(u64::try_from(i64::from(world.now) + self.clock_base()).unwrap_or(0))
    }

    /// What one guard's clock shows.
    pub(crate) fn clock(&self, world: &World, guard: u8) -> Time {
        let ahead = world.guards.get(usize::from(guard)).map_or(0, |guard| guard.clock);
        Time(u64::try_from(i64::from(world.now) + i64::from(ahead) + self.clock_base()).unwrap_or(0))
    }

    /// So that a clock that is behind never shows less than nothing.
    fn clock_base(&self) -> i64 {
        let faults = &self.description.faults;
        if faults.clock_skews > 0 || faults.clock_jumps > 0 { CLOCK.into() } else { 0 }
    }
}

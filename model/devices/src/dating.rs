//! Event times that the server corrects, by the protocol core's own rule, and what devices make of that.

use settled_protocol::merge::{Clocks, HybridTime, Times};

use crate::description::{Dating, Redated};
use crate::world::{DeviceWorld, Entry, NOON, NOTHING, SERVER, State};

/// How far a device's clock may be off to be believed, in units of time. Clocks that are off and believed are those of a world in
/// which the server corrects nothing.
const BOUND: u64 = 0;

/// An event time as the core has it.
pub(crate) fn unpack(time: u8) -> HybridTime {
    HybridTime { millis: u64::from(time >> 4), count: u32::from(time & 0xf) }
}

/// The same in eight bits: the wall clock's part and the count are small numbers here.
fn pack(time: HybridTime) -> u8 {
    (time.millis.min(0xf) as u8) << 4 | time.count.min(0xf) as u8
}

impl DeviceWorld {
    /// Whether the server corrects event times.
    pub(crate) fn corrects(&self) -> bool {
        self.devices.dating == Dating::Server
    }

    /// The event time that an operation has at a replica that holds it.
    pub(crate) fn time_at(&self, state: &State, replica: usize, op: u8) -> u8 {
        let (made, given) = (state.times[usize::from(op)], state.given[usize::from(op)]);
        if !self.corrects() {
            return made;
        }
        let own = replica != SERVER && usize::from(self.maker(op)) == replica;
        match (own, state.entry(op), self.devices.redated) {
            (true, Entry::Dropped, Redated::Kept) => made,
            (true, Entry::Dropped, Redated::TakenOver) | (false, _, _) => given,
            (true, _, _) => made,
        }
    }

    /// The event time by which a replica shows an operation: what its device made, and has not heard of, is after what it made before.
    fn shown_time(&self, state: &State, replica: usize, op: u8) -> u8 {
        let time = self.time_at(state, replica, op);
        let waits = replica != SERVER && usize::from(self.maker(op)) == replica && state.entry(op) == Entry::Queued;
        if !waits {
            return time;
        }
        pack(self.times_of(state, self.maker(op), |before| state.entry(before) == Entry::Dropped).shown(unpack(time)))
    }

    /// What is known of a device's event times to somebody who has heard of these of its operations.
    fn times_of(&self, state: &State, device: u8, heard: impl Fn(u8) -> bool) -> Times {
        let mut times = Times::default();
        for op in self.operations().filter(|op| self.maker(*op) == device && heard(*op)) {
            times.note(unpack(state.times[usize::from(op)]), unpack(state.given[usize::from(op)]));
        }
        times
    }

    /// The latest event time of what the server has confirmed to a device.
    pub(crate) fn confirmed(&self, state: &State, device: u8) -> u8 {
        let heard = |op: &u8| {
            let own = self.maker(*op) == device;
            state.held[usize::from(device)].of(*op) > 0 && (!own || state.entry(*op) == Entry::Dropped)
        };
        self.operations().filter(heard).map(|op| self.time_at(state, device.into(), op)).max().unwrap_or(0)
    }

    /// The server gives an operation its event time, when it applies it. A request is on its way for no time: one that was sent again
    /// later would bring a later clock.
    pub(crate) fn date(&self, state: &mut State, op: u8) {
        let device = self.maker(op);
        let clocks = Clocks { theirs: state.wall(device).into(), ours: (NOON + state.tick).into(), bound: BOUND };
        let made = state.times[usize::from(op)];
        let after = unpack(state.after[usize::from(op)]);
        let times = self.times_of(state, device, |before| state.is_recorded(before));
        let there = self.operations().filter(|op| state.is_recorded(*op)).map(|op| state.given[usize::from(op)]);
        let latest = unpack(there.max().unwrap_or(0));
        let given = clocks.redate(unpack(made), after, &times, latest);
        state.given[usize::from(op)] = given.map_or(made, pack);
        state.after[usize::from(op)] = 0;
    }

    /// A device that hears what became of an operation hears it of those before: an upload has all that its device has not heard of.
    pub(crate) fn hear_all(&self, state: &mut State, op: u8) {
        for earlier in (0..op).filter(|earlier| self.maker(*earlier) == self.maker(op)) {
            state.entries[usize::from(earlier)] = Entry::Dropped;
        }
        self.show_anew(state);
    }

    /// Whether all that its device made before an operation is with the server: uploads are in the order in which things were made.
    pub(crate) fn is_next_to_send(&self, state: &State, op: u8) -> bool {
        !self.corrects()
            || self
                .operations()
                .all(|earlier| earlier >= op || self.maker(earlier) != self.maker(op) || state.is_recorded(earlier))
    }

    /// Whether a device has got all that the server has before an operation, as far as it matters: an operation comes after all that
    /// its maker had seen.
    pub(crate) fn is_next_to_pull(&self, state: &State, device: u8, op: u8) -> bool {
        let heard = |seen: u8| {
            state.held[usize::from(device)].of(seen) > 0
                && (self.maker(seen) != device || state.entry(seen) == Entry::Dropped)
        };
        !self.corrects() || self.operations().all(|seen| state.seen[usize::from(op)] & 1 << seen == 0 || heard(seen))
    }

    /// Whether a device has not heard yet what became of an operation of its own.
    pub(crate) fn waits(&self, state: &State, replica: usize) -> bool {
        let own = |op: &u8| usize::from(self.maker(*op)) == replica;
        replica != SERVER && self.operations().filter(own).any(|op| state.entry(op) == Entry::Queued)
    }

    /// Finds anew what each replica shows, since event times have changed.
    pub(crate) fn show_anew(&self, state: &mut State) {
        for replica in self.replicas() {
            let mut shown = NOTHING;
            for op in self.operations().filter(|op| state.held[replica].of(*op) > 0) {
                let at = |op: u8| self.shown_time(state, replica, op);
                if shown == NOTHING || self.beats((at(op), op), (at(shown), shown)) {
                    shown = op;
                }
            }
            state.shown[replica] = shown;
        }
    }

    /// What [`tidy`](Self::tidy) does where the server corrects event times.
    pub(crate) fn tidy_times(&self, state: &mut State) {
        for device in 0..self.devices.devices {
            let own = |op: &u8| self.maker(*op) == device;
            let over = self.operations().filter(own).all(|op| state.entry(op) == Entry::Dropped);
            if over && self.devices.redated == Redated::TakenOver {
                for op in self.operations().filter(own) {
                    state.times[usize::from(op)] = state.given[usize::from(op)];
                }
            }
        }
        if self.operations().all(|op| state.entry(op) == Entry::Dropped) {
            let total = usize::from(self.devices.total());
            let (times, given) = (state.times, state.given);
            let all = || times[..total].iter().chain(&given[..total]);
            let rank = |time: u8| all().filter(|other| **other < time).count() as u8;
            for op in 0..total {
                (state.times[op], state.given[op]) = (rank(times[op]), rank(given[op]));
            }
        }
    }
}

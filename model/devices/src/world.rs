//! The state of the world: small, and without anything that can't matter any more.

use settled_explorer::{Budget, Faults};

use crate::description::{Clock, DEVICES, Devices, Merge, OPERATIONS, OpId, Target, Ties, Unbuildable};

/// The server's place among the replicas; the devices come before it.
pub(crate) const SERVER: usize = DEVICES;
/// What a replica shows that holds nothing.
pub(crate) const NOTHING: u8 = u8::MAX;
/// The most copies of one request, or of one effect, that are told apart.
pub(crate) const COPIES: u8 = 2;
/// A wall clock at the beginning: no fault can set it back beyond zero.
pub(crate) const NOON: u8 = 5;

/// Devices, a server, and how they keep together.
#[derive(Clone, Debug)]
pub struct DeviceWorld {
    pub(crate) name: String,
    pub(crate) devices: Devices,
    pub(crate) faults: Faults,
    pub(crate) bounds: Budget,
}

impl DeviceWorld {
    /// The world of this description.
    ///
    /// # Errors
    /// A bound that is out of range or a combination that has no meaning: names the field and what is allowed.
    pub fn new(name: &str, devices: &Devices, faults: Faults) -> Result<DeviceWorld, Unbuildable> {
        if name.is_empty() || name.chars().any(char::is_control) {
            return Err(Unbuildable { field: "name", reason: "a name in one line is needed".into() });
        }
        devices.validate(&faults)?;
        Ok(DeviceWorld { name: name.to_owned(), devices: *devices, faults, bounds: Budget::from(faults) })
    }

    /// The device that makes this operation.
    pub(crate) fn maker(&self, operation: u8) -> u8 {
        operation / self.devices.operations
    }

    /// The operations, made or not.
    pub(crate) fn operations(&self) -> std::ops::Range<u8> {
        0..self.devices.total()
    }

    /// The replicas: every device, and the server.
    pub(crate) fn replicas(&self) -> impl Iterator<Item = usize> + Clone {
        (0..usize::from(self.devices.devices)).chain([SERVER])
    }

    /// The next operation that this device makes, if it makes one more.
    pub(crate) fn next(&self, state: &State, device: u8) -> Option<u8> {
        self.operations().find(|op| self.maker(*op) == device && state.entry(*op) == Entry::Unmade)
    }

    /// How many copies of this operation the replica knows by the server's name. (Its own operation has none as long as it is not
    /// acknowledged.)
    pub(crate) fn named(&self, state: &State, replica: usize, operation: u8) -> u8 {
        let own = replica != SERVER && usize::from(self.maker(operation)) == replica;
        state.held[replica].of(operation) - u8::from(own && (state.entry(operation) == Entry::Queued))
    }

    /// Whether the server has something of this operation that the device has not.
    pub(crate) fn can_pull(&self, state: &State, device: u8, operation: u8) -> bool {
        if self.corrects() {
            // Of its own it hears what became of it.
            let has = state.held[usize::from(device)].of(operation) > 0;
            let new = if self.maker(operation) == device { state.entry(operation) == Entry::Queued } else { !has };
            return new && state.is_recorded(operation) && self.is_next_to_pull(state, device, operation);
        }
        let has = self.named(state, device.into(), operation);
        let there = state.held[SERVER].of(operation);
        match self.devices.op_id {
            OpId::Device => there > 0 && state.held[usize::from(device)].of(operation) == 0,
            OpId::Server => has < there,
        }
    }

    /// The event time of an operation that this device makes now.
    pub(crate) fn event_time(&self, state: &State, device: u8) -> u8 {
        if self.devices.target == Target::Counter {
            return 0;
        }
        let held = state.held[usize::from(device)];
        let latest = self.operations().filter(|op| held.of(*op) > 0).map(|op| self.time_at(state, device.into(), op));
        let latest = latest.max();
        let wall = state.wall(device) << 4;
        let after = latest.map_or(0, |time| time + 1);
        match self.devices.clock {
            Clock::HybridLogical => wall.max(after),
            Clock::Logical => after,
            Clock::Wall => wall,
        }
    }

    /// A replica gets this operation: it holds one copy more, and may show it.
    pub(crate) fn take(&self, state: &mut State, replica: usize, operation: u8) {
        state.held[replica].add(operation);
        let shown = state.shown[replica];
        if self.corrects() {
            self.show_anew(state);
        } else if self.devices.target == Target::Register && (shown == NOTHING || self.wins(state, operation, shown)) {
            state.shown[replica] = operation;
        }
    }

    /// Whether an operation that arrives is shown instead of the one that is shown now.
    fn wins(&self, state: &State, new: u8, shown: u8) -> bool {
        let time = |op: u8| state.times[usize::from(op)];
        self.beats((time(new), new), (time(shown), shown))
    }

    /// The same, given both with their event times.
    pub(crate) fn beats(&self, new: (u8, u8), shown: (u8, u8)) -> bool {
        // Operations are numbered by device, then by name.
        let later = new > shown;
        match (self.devices.merge, self.devices.ties) {
            (Merge::FirstArrival, _) => false,
            (Merge::LastArrival, _) => true,
            (Merge::Latest, Ties::Device) => later,
            (Merge::Latest, Ties::Arrival) => new.0 >= shown.0,
            (Merge::Earliest, Ties::Device) => !later,
            (Merge::Earliest, Ties::Arrival) => new.0 < shown.0,
        }
    }

    /// Whether this device's clock will be read again: for an operation that it makes, or by the server that applies one.
    pub(crate) fn clock_matters(&self, state: &State, device: u8) -> bool {
        let mut own = self.operations().filter(|op| self.maker(*op) == device);
        self.devices.reads_clock()
            && own.any(|op| state.entry(op) == Entry::Unmade || self.corrects() && !state.is_recorded(op))
    }

    /// Forgets what can't matter any more, so that states that differ in nothing else are one: copies of a request that the
    /// server will drop, except one while its answer is waited for; clocks that will not be read again; and of event times,
    /// once all operations are made, everything but their order.
    pub(crate) fn tidy(&self, state: &mut State) {
        for op in self.operations() {
            let useful = u8::from(state.entry(op) == Entry::Queued);
            while state.is_recorded(op) && state.requests.of(op) > useful {
                state.requests.take(op);
            }
        }
        let mut read = false;
        for device in 0..self.devices.devices {
            if self.clock_matters(state, device) {
                read = true;
            } else {
                state.offsets[usize::from(device)] = 0;
            }
        }
        if !read {
            (state.tick, state.busy) = (0, 0);
        }
        if self.corrects() {
            self.tidy_times(state);
        } else if self.operations().all(|op| state.entry(op) != Entry::Unmade) {
            let times = state.times;
            let made = &times[..usize::from(self.devices.total())];
            for (rank, time) in state.times.iter_mut().zip(made) {
                *rank = made.iter().filter(|other| *other < time).count() as u8;
            }
        }
    }
}

/// A state of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The true time. It moves on with operations and with what devices pull, since both take time.
    pub(crate) tick: u8,
    /// The devices (a bit each) that have made an operation at this time.
    pub(crate) busy: u8,
    /// What each device's wall clock is ahead of the true time.
    pub(crate) offsets: [i8; DEVICES],
    /// The event time of each operation: the wall clock's in the high half, logical time in the low half.
    pub(crate) times: [u8; OPERATIONS],
    /// The event time that the server has given each operation, if it corrects them.
    pub(crate) given: [u8; OPERATIONS],
    /// The latest event time that was confirmed to the device when it made each operation, until the server has it: if it corrects them.
    pub(crate) after: [u8; OPERATIONS],
    /// The operations (a bit each) that each operation was made after seeing, itself or through others.
    pub(crate) seen: [u8; OPERATIONS],
    /// What its device knows of each operation.
    pub(crate) entries: [Entry; OPERATIONS],
    /// The requests on their way to the server.
    pub(crate) requests: Counts,
    /// The operations (a bit each) that the server has a record of.
    pub(crate) recorded: u8,
    /// The operations that each replica holds. At the server: how often each took effect.
    pub(crate) held: [Counts; DEVICES + 1],
    /// The operation that each replica shows, if the target is a register.
    pub(crate) shown: [u8; DEVICES + 1],
}

/// What a device knows of one of its operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Entry {
    /// It has not made it.
    Unmade,
    /// In its queue: to be sent, or sent and not acknowledged.
    Queued,
    /// Out of its queue.
    Dropped,
}

/// A small number for each operation, in four bits each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Counts(u16);

impl Counts {
    /// The number of this operation.
    pub(crate) fn of(self, operation: u8) -> u8 {
        (self.0 >> (4 * operation)) as u8 & 0xf
    }

    /// One more, up to what is told apart (and one more for a device's own, as yet unnamed copy).
    pub(crate) fn add(&mut self, operation: u8) {
        if self.of(operation) <= COPIES {
            self.0 += 1 << (4 * operation);
        }
    }

    /// One less.
    pub(crate) fn take(&mut self, operation: u8) {
        if self.of(operation) > 0 {
            self.0 -= 1 << (4 * operation);
        }
    }

    /// The sum of all.
    pub(crate) fn sum(self) -> u8 {
        (0..OPERATIONS as u8).map(|op| self.of(op)).sum()
    }

    /// The operations (a bit each) whose number is not zero.
    pub(crate) fn set(self) -> u8 {
        (0..OPERATIONS as u8).filter(|op| self.of(*op) > 0).fold(0, |all, op| all | 1 << op)
    }
}

impl State {
    /// Before anything has happened.
    pub(crate) const INITIAL: State = State {
        tick: 0,
        busy: 0,
        offsets: [0; DEVICES],
        times: [0; OPERATIONS],
        given: [0; OPERATIONS],
        after: [0; OPERATIONS],
        seen: [0; OPERATIONS],
        entries: [Entry::Unmade; OPERATIONS],
        requests: Counts(0),
        recorded: 0,
        held: [Counts(0); DEVICES + 1],
        shown: [NOTHING; DEVICES + 1],
    };

    /// What its device knows of an operation.
    pub(crate) fn entry(&self, operation: u8) -> Entry {
        self.entries[usize::from(operation)]
    }

    /// Whether the server has a record of it.
    pub(crate) fn is_recorded(&self, operation: u8) -> bool {
        self.recorded & 1 << operation != 0
    }

    /// A device's wall clock.
    pub(crate) fn wall(&self, device: u8) -> u8 {
        (NOON + self.tick).saturating_add_signed(self.offsets[usize::from(device)])
    }
}

/// What the implementation runs is the core's merge; this world has an order and a clock of its own, small enough to explore.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod same_as_the_core {
    use settled_protocol::merge::{Change, HybridClock, HybridTime, Name, OpId as Id, Operation, Rule, Value, View};

    use super::*;

    fn world(merge: Merge) -> DeviceWorld {
        DeviceWorld::new("t", &Devices { merge, ..Devices::default() }, Faults::default()).unwrap()
    }

    fn time(time: u8) -> HybridTime {
        HybridTime { millis: u64::from(time >> 4), count: u32::from(time & 0xf) }
    }

    #[test]
    fn the_operation_that_wins() {
        for (merge, rule) in [(Merge::Latest, Rule::Latest), (Merge::Earliest, Rule::Earliest)] {
            let world = world(merge);
            let operation = |op: u8, at: u8| Operation {
                op_id: Id::version_7(1, op.into()),
                device: Name::new(format!("device-{}", world.maker(op))).unwrap(),
                time: time(at),
                target: Name::new("t").unwrap(),
                change: Change::Set(Value::Number(op.into())),
            };
            let times = [0x50, 0x51, 0x52, 0x60, 0x61];
            let pairs = world.operations().flat_map(|new| world.operations().map(move |shown| (new, shown)));
            for (new, shown) in pairs.filter(|(new, shown)| new != shown) {
                for (at_new, at_shown) in times.iter().flat_map(|new| times.iter().map(move |shown| (*new, *shown))) {
                    let mut state = State::INITIAL;
                    (state.times[usize::from(new)], state.times[usize::from(shown)]) = (at_new, at_shown);
                    let mut merged = rule.nothing();
                    merged.apply(&operation(shown, at_shown)).unwrap();
                    merged.apply(&operation(new, at_new)).unwrap();
                    let of_core = merged.view() == View::Value(Value::Number(new.into()));
                    let both = format!("{merge:?}: {new} at {at_new:x}, {shown} at {at_shown:x}");
                    assert_eq!(world.wins(&state, new, shown), of_core, "{both}");
                }
            }
        }
    }

    #[test]
    fn the_time_that_an_operation_gets() {
        let world = world(Merge::Latest);
        for (offset, held) in (-2..=2).flat_map(|offset| [0x30, 0x50, 0x5a, 0x61, 0x70].map(|held| (offset, held))) {
            let mut state = State::INITIAL;
            state.offsets[0] = offset;
            state.times[3] = held;
            state.held[0].add(3);
            let mut clock = HybridClock::new(time(held), u64::MAX);
            let of_core = clock.tick(state.wall(0).into());
            assert_eq!(time(world.event_time(&state, 0)), of_core, "wall {}, held {held:x}", state.wall(0));
        }
    }
}

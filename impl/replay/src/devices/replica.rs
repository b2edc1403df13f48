//! A replica: the operations that it holds, in the order in which they came, and what it shows of them.

use serde::{Deserialize, Serialize};
use settled_devices_model::Devices;
use settled_devices_model::description::{Merge, Target, Ties};
use settled_protocol::merge::{HybridTime, Times};

/// An operation, as it is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    /// Its number: those of one device follow each other.
    pub number: u8,
    /// The device that made it.
    pub device: u8,
    /// Its event time at whoever holds it: the wall clock's part, and in the last four bits a count.
    pub time: u64,
    /// The event time that its device gave it.
    pub made: u64,
    /// The latest event time that was confirmed to its device when it was made.
    pub after: u64,
    /// The operations that it was made after seeing, itself or through others.
    pub seen: Vec<u8>,
    /// What it is called: by its number, or by a larger one that the server gave it.
    pub name: u32,
}

/// What a replica holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replica {
    /// The operations, in the order in which they came.
    pub held: Vec<Operation>,
}

impl Replica {
    /// Whether it holds this one.
    pub fn has(&self, name: u32) -> bool {
        self.held.iter().any(|held| held.name == name)
    }

    /// The number of the operation that a register shows.
    pub fn shown(&self, devices: &Devices) -> Option<u8> {
        let mut shown: Option<&Operation> = None;
        for new in &self.held {
            if shown.is_none_or(|shown| wins(devices, new, shown)) {
                shown = Some(new);
            }
        }
        shown.map(|shown| shown.number)
    }

    /// What it shows: the number of an operation, or how many additions it holds.
    pub fn value(&self, devices: &Devices) -> Option<u64> {
        match devices.target {
            Target::Register => self.shown(devices).map(u64::from),
            Target::Counter => Some(self.held.len() as u64),
        }
    }

    /// What is known of a device's event times to somebody who has heard of these of its operations.
    pub fn times_of(&self, device: u8, heard: impl Fn(&Operation) -> bool) -> Times {
        let mut times = Times::default();
        for held in self.held.iter().filter(|held| held.device == device && heard(held)) {
            times.note(unpack(held.made), unpack(held.time));
        }
        times
    }

    /// The latest event time that it holds.
    pub fn latest(&self) -> Option<u64> {
        self.held.iter().map(|held| held.time).max()
    }
}

/// An event time as the core has it.
pub fn unpack(time: u64) -> HybridTime {
    HybridTime { millis: time >> 4, count: (time & 0xf) as u32 }
}

/// An event time as it is sent.
pub fn pack(time: HybridTime) -> u64 {
    time.millis << 4 | u64::from(time.count.min(0xf))
}

/// Whether an operation that arrives is shown instead of the one that is shown now.
fn wins(devices: &Devices, new: &Operation, shown: &Operation) -> bool {
    let later = (new.time, new.device, new.number) > (shown.time, shown.device, shown.number);
    match (devices.merge, devices.ties) {
        (Merge::FirstArrival, _) => false,
        (Merge::LastArrival, _) => true,
        (Merge::Latest, Ties::Device) => later,
        (Merge::Latest, Ties::Arrival) => new.time >= shown.time,
        (Merge::Earliest, Ties::Device) => !later,
        (Merge::Earliest, Ties::Arrival) => new.time < shown.time,
    }
}

//! What a designer chooses: how devices name, date, queue and merge their operations.

use serde::{Deserialize, Serialize};
use settled_explorer::{Fault, Faults};

/// The most operations there can be in all.
pub(crate) const OPERATIONS: usize = 4;
/// The most devices there can be.
pub(crate) const DEVICES: usize = 3;
/// The largest bound of a fault.
const MOST_FAULTS: u8 = 4;

/// The faults of this world.
///
/// Messages arrive in any order here without a fault, since devices that act offline promise none: so `reorderings` is not
/// among them. A clock fault changes nothing where no wall clock is read (`clock = "logical"`, `target = "counter"`), and
/// is then never seen in a run.
pub const FAULTS: &[Fault] = &[
    Fault::ClockSkew,
    Fault::ClockJump,
    Fault::GuardCrash,
    Fault::ClientCrash,
    Fault::LostRequest,
    Fault::LostReply,
    Fault::Duplicate,
];

/// How devices act offline and merge what they did. The default is sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Devices {
    /// How many devices there are (1 to 3).
    pub devices: u8,
    /// How many operations each of them makes (1 or 2; not more than 4 in all).
    pub operations: u8,
    /// What they operate on.
    pub target: Target,
    /// Which of a register's operations is shown.
    pub merge: Merge,
    /// Which of two operations with equal event times wins.
    pub ties: Ties,
    /// What an operation's event time is read from.
    pub clock: Clock,
    /// Who has the last word on event times.
    pub dating: Dating,
    /// What a device makes of another event time that the server has given its operation.
    pub redated: Redated,
    /// When the server records that an operation has been applied.
    pub apply: Apply,
    /// Who names an operation.
    pub op_id: OpId,
    /// How long a device keeps an operation in its queue.
    pub queue: Queue,
}

impl Default for Devices {
    fn default() -> Self {
        Devices {
            devices: 2,
            operations: 2,
            target: Target::Register,
            merge: Merge::Latest,
            ties: Ties::Device,
            clock: Clock::HybridLogical,
            dating: Dating::Device,
            redated: Redated::TakenOver,
            apply: Apply::Atomic,
            op_id: OpId::Device,
            queue: Queue::UntilAcknowledged,
        }
    }
}

/// What devices operate on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// One value; an operation sets it.
    Register,
    /// A number; an operation adds one. Additions commute, so `merge`, `ties` and `clock` say nothing of it.
    Counter,
}

/// Which of the operations that a replica holds it shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Merge {
    /// The one with the latest event time.
    Latest,
    /// The one with the earliest event time. The first update is meant to win, so causal respect is not said of it.
    Earliest,
    /// The first that arrived. The first update is meant to win, so causal respect is not said of it.
    FirstArrival,
    /// The last that arrived.
    LastArrival,
}

/// Which of two operations with equal event times is the later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ties {
    /// That of the device with the higher number, then that with the higher name.
    Device,
    /// The one that arrived later.
    Arrival,
}

/// What event times are read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Clock {
    /// The wall clock, but always later than every operation that the device holds.
    HybridLogical,
    /// One more than the latest operation that the device holds.
    Logical,
    /// The device's wall clock.
    Wall,
}

/// Who has the last word on event times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dating {
    /// The device: its clock is believed.
    Device,
    /// The server, which gives another event time to what a clock has dated that is off.
    Server,
}

/// What a device makes of another event time that the server has given its operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Redated {
    /// It takes it over when it hears of it.
    TakenOver,
    /// Nothing: it goes on with its own.
    Kept,
}

/// When the server records that an operation has been applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Apply {
    /// In the same transaction as the effect.
    Atomic,
    /// After the effect: a crash between them forgets it.
    ResultAfter,
}

/// Who names an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OpId {
    /// The device that makes it, before the first send.
    Device,
    /// The server, on arrival: what arrives again is another operation.
    Server,
}

/// How long a device keeps an operation in its durable queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Queue {
    /// Until the server has acknowledged it: it is sent again until then.
    UntilAcknowledged,
    /// Until it was sent once.
    UntilSent,
}

/// A bound or a combination that a world can't be built from.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct Unbuildable {
    /// The field, as written in TOML.
    pub field: &'static str,
    /// Why, and what is allowed.
    pub reason: String,
}

impl Devices {
    /// Checks that a world can be built: all bounds in range, no choice without a meaning, only faults of this world.
    ///
    /// # Errors
    /// Names the field and what is allowed.
    pub fn validate(&self, faults: &Faults) -> Result<(), Unbuildable> {
        let range = |field, value: u8, low: u8, high: u8| {
            if (low..=high).contains(&value) {
                Ok(())
            } else {
                Err(Unbuildable { field, reason: format!("{value} is out of range: {low} to {high} are allowed") })
            }
        };
        range("devices", self.devices, 1, DEVICES as u8)?;
        range("operations", self.operations, 1, 2)?;
        if usize::from(self.devices * self.operations) > OPERATIONS {
            return Err(Unbuildable {
                field: "operations",
                reason: format!(
                    "{} devices that make {} operations each are too many: {OPERATIONS} operations in all are allowed",
                    self.devices, self.operations
                ),
            });
        }
        if self.target == Target::Counter {
            let sound = Devices::default();
            for (field, chosen) in [
                ("merge", self.merge != sound.merge),
                ("ties", self.ties != sound.ties),
                ("clock", self.clock != sound.clock),
            ] {
                if chosen {
                    let reason = "it says nothing of a counter, whose additions commute: leave it out, or use \
                                  `target = \"register\"`";
                    return Err(Unbuildable { field, reason: reason.into() });
                }
            }
        }
        self.validate_dating()?;
        for (fault, bound) in faults.list() {
            if FAULTS.contains(&fault) {
                range(fault.name(), bound, 0, MOST_FAULTS)?;
            } else if bound > 0 {
                let reason = match fault {
                    Fault::Reordering => {
                        "messages arrive in any order in a world of devices anyway: leave it out".into()
                    }
                    _ => format!("this fault is none of a world of devices; those are {}", names(FAULTS)),
                };
                return Err(Unbuildable { field: fault.name(), reason });
            }
        }
        Ok(())
    }

    fn validate_dating(&self) -> Result<(), Unbuildable> {
        let refuse = |field, reason: &str| Err(Unbuildable { field, reason: reason.into() });
        match self.dating {
            Dating::Device if self.redated != Redated::TakenOver => {
                refuse("redated", "there is no other event time: leave it out, or use `dating = \"server\"`")
            }
            Dating::Server => {
                let sound = Devices { dating: self.dating, redated: self.redated, ..Devices::default() };
                let merge = if self.merge == Merge::Earliest { Merge::Earliest } else { sound.merge };
                if *self == (Devices { devices: self.devices, operations: self.operations, merge, ..sound }) {
                    return Ok(());
                }
                refuse(
                    "dating",
                    "`server` is modelled with what is sound otherwise, and a register: leave the other choices out",
                )
            }
            Dating::Device => Ok(()),
        }
    }

    /// How many operations there are in all.
    pub(crate) fn total(&self) -> u8 {
        self.devices * self.operations
    }

    /// Whether event times are kept, and the wall clock is read for them.
    pub(crate) fn reads_clock(&self) -> bool {
        self.target == Target::Register && self.clock != Clock::Logical
    }

    /// Whether an update that was made after seeing another is meant to win over it.
    pub(crate) fn newest_wins(&self) -> bool {
        self.target == Target::Register && matches!(self.merge, Merge::Latest | Merge::LastArrival)
    }
}

fn names(faults: &[Fault]) -> String {
    faults.iter().map(|fault| fault.name()).collect::<Vec<_>>().join(", ")
}

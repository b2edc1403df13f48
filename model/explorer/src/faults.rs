//! The faults of the design, each with a name and a bound: how often it may happen in one run.

use serde::{Deserialize, Serialize};

macro_rules! faults {
    ($($(#[doc = $doc:literal])+ $variant:ident $name:ident $flag:literal,)*) => {
        /// A fault, by name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Fault {
            $($(#[doc = $doc])+ $variant,)*
        }

        impl Fault {
            /// All of them.
            pub const ALL: &'static [Fault] = &[$(Fault::$variant,)*];

            /// Its name, as in TOML and on the command line.
            pub fn name(self) -> &'static str {
                match self {
                    $(Fault::$variant => $flag,)*
                }
            }

            /// What happens, in words.
            pub fn says(self) -> &'static str {
                match self {
                    $(Fault::$variant => concat!($($doc),+).trim_ascii(),)*
                }
            }
        }

        /// How often each fault may happen in one run.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
        pub struct Faults {
            $($(#[doc = $doc])+ #[serde(skip_serializing_if = "is_zero")] pub $name: u8,)*
        }

        impl Faults {
            /// The names of all faults, as written in TOML and on the command line.
            pub const NAMES: &'static [&'static str] = &[$($flag,)*];

            /// The bound of a fault.
            pub fn of(&mut self, fault: Fault) -> &mut u8 {
                match fault {
                    $(Fault::$variant => &mut self.$name,)*
                }
            }

            /// The bound of the fault with this name.
            pub fn bound(&mut self, name: &str) -> Option<&mut u8> {
                Fault::ALL.iter().find(|fault| fault.name() == name).map(|fault| self.of(*fault))
            }

            /// Every fault and its bound.
            pub fn list(&self) -> Vec<(Fault, u8)> {
                vec![$((Fault::$variant, self.$name),)*]
            }
        }
    };
}

fn is_zero(bound: &u8) -> bool {
    *bound == 0
}

faults! {
    /// The guard (or a direct caller) gives up waiting although the answer, or the effect, may still come.
    Timeout timeouts "timeouts",
    /// The callers' process is killed and starts again from its last checkpoint.
    ClientCrash client_crashes "client-crashes",
    /// A caller's step fails after its call was answered, and the step is run again.
    Rerun reruns "reruns",
    /// A caller cancels a call under way.
    Cancel cancels "cancels",
    /// A caller sends a call again while the same call is still being served: the same call twice at once.
    ConcurrentCall concurrent_calls "concurrent-calls",
    /// A caller uses a key that another logical call with other arguments has used.
    KeyReuse key_reuses "key-reuses",
    /// A guard process is killed and started again; what it had in memory is gone. It can fall before and after every durable write.
    GuardCrash guard_crashes "guard-crashes",
    /// A guard takes over from an owner that is not dead but paused (SIGSTOP), and that will wake.
    Takeover takeovers "takeovers",
    /// Time passes while a guard is paused between its durable write and the send.
    Pause pauses "pauses",
    /// The tool's process dies after a request reached it and before the effect.
    ToolCrashBefore tool_crashes_before "tool-crashes-before",
    /// The tool's process dies after the effect and before its answer.
    ToolCrashAfter tool_crashes_after "tool-crashes-after",
    /// The tool answers with an error instead of the effect.
    ErrorBefore errors_before "errors-before",
    /// The tool answers with an error after the effect.
    ErrorAfter errors_after "errors-after",
    /// The request is refused before the tool runs, and the error proves it.
    Rejection rejections "rejections",
    /// A request is lost on its way to the tool.
    LostRequest lost_requests "lost-requests",
    /// An answer of the tool is lost on its way.
    LostReply lost_replies "lost-replies",
    /// The transport delivers a request twice.
    Duplicate duplicates "duplicates",
    /// A message is on its way for longer than the network's usual time: the clock moves on meanwhile.
    Delay delays "delays",
    /// A request arrives before one that the same process sent earlier.
    Reordering reorderings "reorderings",
    /// The caller is cut off from the guard: an answer that the guard takes for delivered never arrives.
    CallerPartition caller_partitions "caller-partitions",
    /// The guard is cut off from the ledger: a write is made or not, and the guard can't tell.
    LedgerPartition ledger_partitions "ledger-partitions",
    /// The guard is cut off from the tool: the connection ends under a request that may still arrive.
    ToolPartition tool_partitions "tool-partitions",
    /// A process's clock is one unit of time ahead of, or behind, the others from the beginning.
    ClockSkew clock_skews "clock-skews",
    /// A process's clock jumps by one unit of time, ahead or back, in the middle of a run.
    ClockJump clock_jumps "clock-jumps",
    /// Power fails: all guard processes die, and so does every write that the ledger had not synced.
    UnsyncedLoss unsynced_losses "unsynced-losses",
    /// Power fails in the middle of a write, and half of it is on disk.
    TornWrite torn_writes "torn-writes",
    /// A write is refused because the disk is full; nothing of it is stored.
    DiskFull disk_full "disk-full",
    /// A sync fails: the write can be read, and is not on disk.
    SyncError sync_errors "sync-errors",
    /// The ledger fails over to a replica that has not got every acknowledged write.
    LedgerFailover ledger_failovers "ledger-failovers",
    /// A store forgets a key because its time is over.
    KeyExpiry key_expiries "key-expiries",
    /// A person decides an unknown operation, truthfully as far as can be seen.
    Decision decisions "decisions",
}

/// How often each fault may still happen, in 4 bits each: three for the number and one that stays clear, so that two
/// budgets are compared in one subtraction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Budget(u128);

impl Budget {
    /// The largest bound of a fault.
    pub const MOST: u8 = 6;
    /// A bound that is none: the fault may happen any number of times.
    pub const ANY: u8 = 7;

    const GUARDS: u128 = 0x8888_8888_8888_8888_8888_8888_8888_8888;

    fn unit(fault: Fault) -> u128 {
        1 << (4 * fault as u32)
    }

    /// How often this fault may still happen.
    pub fn left(self, fault: Fault) -> u8 {
        (self.0 >> (4 * fault as u32)) as u8 & Self::ANY
    }

    /// What is left after this fault has happened; `None` if it can't happen any more.
    pub fn spend(self, fault: Fault) -> Option<Budget> {
        match self.left(fault) {
            0 => None,
            Self::ANY => Some(self),
            _ => Some(Budget(self.0 - Self::unit(fault))),
        }
    }

    /// With any number of this fault.
    #[must_use]
    pub fn with_any(self, fault: Fault) -> Budget {
        Budget(self.0 | u128::from(Self::ANY) << (4 * fault as u32))
    }

    /// Whether every fault may happen at least as often as in the other.
    pub fn covers(self, other: Budget) -> bool {
        ((self.0 | Self::GUARDS) - other.0) & Self::GUARDS == Self::GUARDS
    }

    /// How many faults it allows in all.
    pub fn total(self) -> u32 {
        Fault::ALL.iter().map(|fault| u32::from(self.left(*fault))).sum()
    }

    /// The faults that were spent since `whole`.
    pub fn spent_since(self, whole: Budget) -> Faults {
        let mut spent = Faults::default();
        for fault in Fault::ALL {
            *spent.of(*fault) = whole.left(*fault).saturating_sub(self.left(*fault));
        }
        spent
    }
}

impl From<Faults> for Budget {
    fn from(faults: Faults) -> Budget {
        let fields = faults.list().into_iter();
        Budget(fields.fold(0, |all, (fault, bound)| all | u128::from(bound.min(Self::MOST)) << (4 * fault as u32)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_compared_fault_by_fault() {
        let all = Faults { timeouts: 6, decisions: 6, pauses: 1, ..Faults::default() };
        let whole = Budget::from(all);
        let less = whole.spend(Fault::Decision).unwrap().spend(Fault::Timeout).unwrap();
        assert!(whole.covers(less) && whole.covers(whole) && !less.covers(whole));
        let other = whole.spend(Fault::Pause).unwrap();
        assert!(!other.covers(less) && !less.covers(other));
        assert_eq!(other.spend(Fault::Pause), None);
        assert_eq!(less.spent_since(whole), Faults { timeouts: 1, decisions: 1, ..Faults::default() });
        assert_eq!(whole.total(), 13);
        let any = less.with_any(Fault::Timeout);
        assert!(any.covers(whole.spend(Fault::Decision).unwrap()) && !whole.covers(any));
        assert_eq!(any.spend(Fault::Timeout), Some(any));
    }
}

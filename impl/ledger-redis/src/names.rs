//! The names of the ledger's keys. All of them begin with the prefix in braces: one slot of a cluster.

use settled::Resource;
use settled::protocol::{Digest, Epoch, Key, Time};

/// Makes the names for one prefix.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    base: String,
}

impl Names {
    /// Those of the ledger with this prefix.
    pub(crate) fn new(prefix: &str) -> Names {
        Names { base: format!("{{{prefix}}}:") }
    }

    /// What all of them begin with.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// The ledger's incarnation. Beside it, with this name at their beginning, are its format and its counters.
    pub(crate) fn ledger(&self) -> String {
        self.of("ledger")
    }

    /// A sorted set: the keys that are not settled, by the owner of their latest attempt.
    pub(crate) fn unsettled(&self) -> String {
        self.of("unsettled")
    }

    /// A sorted set, ordered as text: the settled keys, each after the time until which it is kept.
    pub(crate) fn due(&self) -> String {
        self.of("due")
    }

    /// A sorted set: owners, by the end of their leases.
    pub(crate) fn leases(&self) -> String {
        self.of("leases")
    }

    /// A hash: where each owner runs.
    pub(crate) fn hosts(&self) -> String {
        self.of("hosts")
    }

    /// A hash: the owners that will never send anything again.
    pub(crate) fn gone(&self) -> String {
        self.of("gone")
    }

    /// What is written to find out whether the replicas follow.
    pub(crate) fn probe(&self) -> String {
        self.of("probe")
    }

    /// The retry budget.
    pub(crate) fn budget(&self) -> String {
        self.of("budget")
    }

    /// What is stored of a key, apart from its changes.
    pub(crate) fn record(&self, key: &str) -> String {
        self.of(&format!("r:{key}"))
    }

    /// A list: a key's changes.
    pub(crate) fn changes(&self, key: &str) -> String {
        self.of(&format!("h:{key}"))
    }

    /// A sorted set: the keys in a resource's line, by their places.
    pub(crate) fn line(&self, line: &str) -> String {
        self.of(&format!("l:{line}"))
    }

    /// The channel on which a key's changes are told.
    pub(crate) fn channel(&self, key: &str) -> String {
        self.of(&format!("c:{key}"))
    }

    fn of(&self, name: &str) -> String {
        format!("{}{name}", self.base)
    }
}

/// The name of a resource's line.
pub(crate) fn line(resource: &Resource) -> String {
    Digest::of_parts(&[resource.scope.as_bytes(), resource.name.as_bytes()]).to_string()
}

/// A time as text that sorts as the times do.
pub(crate) fn time(time: Time) -> String {
    format!("{:020}", time.0)
}

/// Until when a settled record is kept, in the same way; for ever is after all times.
pub(crate) fn kept(until: Option<Time>) -> String {
    until.map_or_else(|| "9".repeat(20), time)
}

/// The place of a settled key in the list of what is due.
pub(crate) fn due(keep_until: Option<Time>, key: &Key) -> String {
    format!("{}:{key}", kept(keep_until))
}

/// The key whose place in the list of what is due this is.
pub(crate) fn key_of_due(place: &str) -> Option<&str> {
    place.split_once(':').map(|(_, key)| key)
}

/// The score of an owner among the unsettled.
pub(crate) fn owner(owner: Option<Epoch>) -> u32 {
    owner.map_or(0, |epoch| epoch.0)
}

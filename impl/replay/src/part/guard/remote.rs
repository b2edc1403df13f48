//! The ledger as a guard sees it: across a network that the conductor rules.

use std::time::Duration;

use async_trait::async_trait;
use settled::protocol::{Durable, Epoch, Key, Time, Version};
use settled::{Change, Draw, Entry, Filter, Ledger, LedgerError, Liveness, Remains, Renewal, Resource, Stored};

use crate::link::Link;
use crate::wire::{Op, OpAnswer, StoreHow};

pub struct RemoteLedger {
    pub link: Link,
}

fn unexpected<T>(answer: OpAnswer) -> Result<T, LedgerError> {
    Err(LedgerError::Unavailable(match answer {
        OpAnswer::Unavailable(why) => why,
        other => format!("an answer that was not asked for: {other:?}"),
    }))
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[async_trait]
impl Ledger for RemoteLedger {
    async fn register(&self, lease: Duration) -> Result<Epoch, LedgerError> {
        match self.link.op(Op::Register { lease_ms: millis(lease) }).await {
            OpAnswer::Epoch(epoch) => Ok(epoch),
            other => unexpected(other),
        }
    }

    async fn renew(&self, epoch: Epoch, lease: Duration) -> Result<Renewal, LedgerError> {
        match self.link.op(Op::Renew { epoch, lease_ms: millis(lease) }).await {
            OpAnswer::Renewed(renewal) => Ok(renewal),
            other => unexpected(other),
        }
    }

    async fn retire(&self, epoch: Epoch) -> Result<(), LedgerError> {
        match self.link.op(Op::Retire { epoch }).await {
            OpAnswer::Yes(_) => Ok(()),
            other => unexpected(other),
        }
    }

    async fn liveness(&self, epoch: Epoch) -> Result<Liveness, LedgerError> {
        match self.link.op(Op::Liveness { epoch }).await {
            OpAnswer::Liveness(liveness) => Ok(liveness),
            other => unexpected(other),
        }
    }

    async fn time(&self) -> Result<Option<Time>, LedgerError> {
        // The guards' own clocks are what the schedule sets.
        Ok(None)
    }

    async fn compare_and_set(&self, change: Change) -> Result<Stored, LedgerError> {
        let durable = Durable::attest(&change.record);
        match self.link.op(Op::Store { change: Box::new(change), how: StoreHow::default() }).await {
            OpAnswer::Stored(true) => Ok(Stored::Durable(durable)),
            OpAnswer::Stored(false) => Ok(Stored::Refused),
            other => unexpected(other),
        }
    }

    async fn get(&self, key: &Key) -> Result<Option<Entry>, LedgerError> {
        match self.link.op(Op::Get { key: key.clone() }).await {
            OpAnswer::Entry(entry) => Ok(entry.map(|entry| *entry)),
            other => unexpected(other),
        }
    }

    async fn scan(&self, filter: Filter) -> Result<Vec<Entry>, LedgerError> {
        match self.link.op(Op::Scan { filter }).await {
            OpAnswer::Entries(entries) => Ok(entries),
            other => unexpected(other),
        }
    }

    async fn line(&self, resource: &Resource) -> Result<Vec<Entry>, LedgerError> {
        match self.link.op(Op::Line { resource: resource.clone() }).await {
            OpAnswer::Entries(entries) => Ok(entries),
            other => unexpected(other),
        }
    }

    async fn due(&self, now: Time, after: Option<&Entry>, limit: usize) -> Result<Vec<Entry>, LedgerError> {
        if after.is_some() {
            // All that a replay has fits into the first page.
            return Ok(Vec::new());
        }
        match self.link.op(Op::Due { now, limit }).await {
            OpAnswer::Entries(entries) => Ok(entries),
            other => unexpected(other),
        }
    }

    async fn history(&self, key: &Key) -> Result<Vec<Change>, LedgerError> {
        match self.link.op(Op::History { key: key.clone() }).await {
            OpAnswer::Changes(changes) => Ok(changes),
            other => unexpected(other),
        }
    }

    async fn forget(&self, key: &Key, expected: Version, remains: Remains) -> Result<bool, LedgerError> {
        match self.link.op(Op::Forget { key: key.clone(), expected, remains }).await {
            OpAnswer::Yes(forgotten) => Ok(forgotten),
            other => unexpected(other),
        }
    }

    async fn changed(&self, key: &Key, seen: Option<Version>) -> Result<(), LedgerError> {
        match self.link.op(Op::Changed { key: key.clone(), seen }).await {
            OpAnswer::Yes(_) => Ok(()),
            other => unexpected(other),
        }
    }

    async fn draw(&self, draw: Draw) -> Result<bool, LedgerError> {
        match self.link.op(Op::Draw { draw }).await {
            OpAnswer::Yes(granted) => Ok(granted),
            other => unexpected(other),
        }
    }
}

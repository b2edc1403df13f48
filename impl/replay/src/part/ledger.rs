//! What keeps the records: a real ledger, and in front of it, where the description says so, a memory of what is not durable yet.

use std::sync::Arc;

use settled::protocol::{Epoch, Key};
use settled::{Change, Entry, Filter, Ledger, LedgerError, MemoryLedger, Remains, Stored};
use settled_model::Description;
use settled_model::description::{Acknowledged, AfterSyncError, Intent};

use super::{PartError, join};
use crate::wire::{FromPart, Keys, Op, OpAnswer, Role, Spec, StoreHow, ToPart};

struct Store {
    /// On disk, or on the replica.
    durable: Arc<dyn Ledger>,
    /// What is acknowledged before that.
    volatile: Option<MemoryLedger>,
    keys: Keys,
}

pub async fn run(spec: Spec) -> Result<(), PartError> {
    let description: Description =
        serde_json::from_value(spec.description.clone()).map_err(|error| PartError::Start(error.to_string()))?;
    let opened = settled_ledgers::open(&spec.ledger, settled_ledgers::OpenOptions::default())
        .await
        .map_err(|error| PartError::Ledger(error.to_string()))?;
    let lags = description.ledger.acknowledged != Acknowledged::Durable
        || description.ledger.after_sync_error == AfterSyncError::CarriesOn
        || description.guard.intent == Intent::AfterEffect;
    let mut store = Store {
        durable: opened.ledger,
        volatile: (lags && spec.mistakes).then(MemoryLedger::new),
        keys: spec.keys.clone(),
    };
    store.refill().await.map_err(|error| PartError::Ledger(error.to_string()))?;
    let store = Arc::new(tokio::sync::RwLock::new(store));
    let (link, mut commands) = join(&spec, Role::Ledger, 0).await?;
    while let Some(command) = commands.recv().await {
        match command {
            ToPart::Op { id, op } => {
                let (store, link) = (store.clone(), link.clone());
                tokio::spawn(async move {
                    let answer = match op {
                        Op::LoseUnsynced => store.write().await.refill().await.map(|()| OpAnswer::Yes(true)),
                        op => store.read().await.carry_out(op).await,
                    };
                    let answer = answer.unwrap_or_else(|error| OpAnswer::Unavailable(error.to_string()));
                    link.say(FromPart::Answer { id, answer });
                });
            }
            ToPart::Ping { id } => link.say(FromPart::Ack { id }),
            _ => {}
        }
    }
    Ok(())
}

impl Store {
    /// Begins anew with what is durable.
    async fn refill(&mut self) -> Result<(), LedgerError> {
        if self.volatile.is_some() {
            let volatile = MemoryLedger::new();
            for entry in self.durable.scan(Filter::All).await?.iter().filter(|entry| self.keys.has(&entry.key)) {
                volatile.compare_and_set(change_to(entry)).await?;
            }
            self.volatile = Some(volatile);
        }
        Ok(())
    }

    /// What the guards see.
    fn seen(&self) -> &dyn Ledger {
        match &self.volatile {
            Some(volatile) => volatile,
            None => &*self.durable,
        }
    }

    async fn carry_out(&self, op: Op) -> Result<OpAnswer, LedgerError> {
        let durable = &self.durable;
        Ok(match op {
            Op::Register { lease_ms } => {
                OpAnswer::Epoch(durable.register(std::time::Duration::from_millis(lease_ms)).await?)
            }
            Op::Renew { epoch, lease_ms } => {
                OpAnswer::Renewed(durable.renew(epoch, std::time::Duration::from_millis(lease_ms)).await?)
            }
            Op::Retire { epoch } => {
                durable.retire(epoch).await?;
                OpAnswer::Yes(true)
            }
            Op::Liveness { epoch } => OpAnswer::Liveness(durable.liveness(epoch).await?),
            Op::Store { change, how } => OpAnswer::Stored(self.store(*change, how).await?),
            Op::Get { key } => OpAnswer::Entry(self.seen().get(&key).await?.map(Box::new)),
            Op::Scan { filter } => OpAnswer::Entries(self.seen().scan(filter).await?),
            Op::Line { resource } => OpAnswer::Entries(self.seen().line(&resource).await?),
            Op::Due { now, limit } => OpAnswer::Entries(self.seen().due(now, None, limit).await?),
            Op::History { key } => OpAnswer::Changes(self.seen().history(&key).await?),
            Op::Forget { key, expected, remains } => {
                let forgotten = self.seen().forget(&key, expected, remains).await?;
                self.sync(&key).await?;
                OpAnswer::Yes(forgotten)
            }
            Op::Draw { draw } => OpAnswer::Yes(durable.draw(draw).await?),
            Op::OnDisk { key } => OpAnswer::Entry(durable.get(&key).await?.map(Box::new)),
            Op::Sync { key } => {
                self.sync(&key).await?;
                OpAnswer::Yes(true)
            }
            Op::Erase { key } => {
                self.erase(self.seen(), &key).await?;
                self.sync(&key).await?;
                OpAnswer::Yes(true)
            }
            Op::Changed { .. } | Op::LoseUnsynced => OpAnswer::Yes(false),
        })
    }

    async fn store(&self, mut change: Change, how: StoreHow) -> Result<bool, LedgerError> {
        let key = change.key.clone();
        if how.anyway {
            self.erase(self.seen(), &key).await?;
            change.expected = None;
        }
        let stored = matches!(self.seen().compare_and_set(change).await?, Stored::Durable(_));
        if stored && !how.volatile {
            self.sync(&key).await?;
        }
        Ok(stored)
    }

    async fn erase(&self, ledger: &dyn Ledger, key: &Key) -> Result<(), LedgerError> {
        if let Some(entry) = ledger.get(key).await? {
            ledger.forget(key, entry.record.version(), Remains::Nothing).await?;
        }
        Ok(())
    }

    /// Makes what is durable of a key what the guards see of it.
    async fn sync(&self, key: &Key) -> Result<(), LedgerError> {
        let Some(volatile) = &self.volatile else { return Ok(()) };
        let seen = volatile.get(key).await?;
        if self.durable.get(key).await?.as_ref().map(|entry| entry.record) == seen.as_ref().map(|entry| entry.record) {
            return Ok(());
        }
        self.erase(&*self.durable, key).await?;
        if let Some(entry) = seen {
            self.durable.compare_and_set(change_to(&entry)).await?;
        }
        Ok(())
    }
}

/// A claim that makes this entry.
fn change_to(entry: &Entry) -> Change {
    Change {
        key: entry.key.clone(),
        expected: None,
        record: entry.record,
        at: entry.record.created(),
        by: Epoch(entry.by.0),
        event: "copied".to_owned(),
        asked: Some(entry.asked.clone()),
        sent: entry.sent.clone(),
        outcome: entry.outcome.clone(),
        note: entry.note.clone(),
        resource: entry.resource.clone(),
        keep_until: entry.keep_until,
    }
}

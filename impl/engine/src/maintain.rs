//! What has to be done again and again: to take further what was left, to look after unknowns, to forget what is over.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use settled_protocol::{Key, Observation, State, ToolKind, What};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::drive::{Drive, Subject};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::figures;
use crate::ledger::{Entry, Filter, LedgerError};
use crate::recover::{Left, NoTool, Recoverable};
use crate::task;

/// Says how an operation can be taken further; `None`: it is somebody else's.
pub type Resolve = dyn Fn(&Entry) -> Option<Recoverable> + Send + Sync;

/// How often an operation that a person has been asked about is still looked at.
const LOOK_AT_ESCALATED: Duration = Duration::from_secs(300);

/// How many operations are taken further at once.
const AT_WORK: usize = 1_024;

/// How many records are looked through at once for whether they are over.
const PAGE: usize = 500;

impl Engine {
    /// Looks after the ledger for as long as it runs, every `every`: takes further what processes that are gone have left,
    /// observes what is unknown, also after a person was asked, and forgets what is over. Never returns.
    ///
    /// Any number of processes may do this on one ledger. An operation that no process resolves is left as it is.
    pub async fn maintain(&self, resolve: Arc<Resolve>, every: Duration) {
        let mut at_work = JoinSet::new();
        let mut looked_at = HashMap::new();
        loop {
            while at_work.try_join_next().is_some() {}
            match self.inner.ledger.scan(Filter::Unsettled).await {
                Ok(entries) => {
                    figures::records(entries.iter().map(|entry| entry.record.state().name()));
                    let open: HashSet<&Key> = entries.iter().map(|entry| &entry.key).collect();
                    looked_at.retain(|key, _| open.contains(key));
                    for entry in entries {
                        if at_work.len() >= AT_WORK {
                            // The rest is left to the next round.
                            break;
                        }
                        if matches!(entry.record.state(), State::Escalated { .. }) {
                            self.look_at_escalated(entry, &resolve, &mut looked_at, &mut at_work);
                        } else if let Left::Mine(drive) = self.left(entry, &*resolve).await {
                            at_work.spawn(task::here(async move { drop(drive.run_left().await) }));
                        }
                    }
                }
                Err(error) => tracing::warn!(%error, "what was left could not be looked through"),
            }
            if let Err(error) = self.expire(&*resolve).await {
                tracing::warn!(%error, "records whose retention is over could not be forgotten");
            }
            tokio::time::sleep(every).await;
        }
    }

    /// An observer that could tell nothing before may be able to now.
    fn look_at_escalated(
        &self,
        entry: Entry,
        resolve: &Arc<Resolve>,
        looked_at: &mut HashMap<Key, Instant>,
        at_work: &mut JoinSet<()>,
    ) {
        let now = Instant::now();
        let first = *looked_at.entry(entry.key.clone()).or_insert(now);
        if now.duration_since(first) < LOOK_AT_ESCALATED {
            return;
        }
        looked_at.insert(entry.key.clone(), now);
        let Some(Recoverable { policy, tool: Some(tool), limits }) = resolve(&entry) else {
            return;
        };
        if !matches!(policy.tool, ToolKind::Observable { .. } | ToolKind::Sealable) {
            return;
        }
        let fingerprint = entry.record.fingerprint();
        let Some(lead) = self.inner.in_flight.lead(&entry.key, fingerprint) else {
            return;
        };
        let subject = Subject { key: entry.key.clone(), fingerprint, policy, tool, resource: None, limits };
        let drive = Drive::new(self.inner.clone(), Arc::new(subject), Some(lead));
        at_work.spawn(task::here(drive.look_once(entry)));
    }

    /// Forgets the settled operations whose retention is over, or all but a tombstone of them, by the terms that `resolve` knows
    /// for them; returns how many. Their windows must cover the time in which a call with their key can still arrive (rule
    /// 12).
    ///
    /// # Errors
    /// If the ledger fails.
    pub async fn expire(&self, resolve: &Resolve) -> Result<usize, EngineError> {
        let mut removed = 0;
        let mut after: Option<Entry> = None;
        loop {
            let page = self.inner.ledger.due(self.inner.now(), after.as_ref(), PAGE).await?;
            let Some(last) = page.last().cloned() else {
                return Ok(removed);
            };
            // Ledgers commit in groups: one after the other, each would wait for a sync of its own.
            let before = removed;
            let mut forgetting = JoinSet::new();
            for entry in page {
                if let Some(drive) = self.expiring(entry, resolve) {
                    forgetting.spawn(task::here(drive.expire()));
                }
            }
            while let Some(forgotten) = forgetting.join_next().await {
                removed += usize::from(forgotten.unwrap_or(Ok(false))?);
            }
            // After what is gone there is nothing to go by; from the beginning there is something new.
            after = (removed == before).then_some(last);
        }
    }

    /// A driver for a record that may be over, unless it is in use.
    fn expiring(&self, entry: Entry, resolve: &Resolve) -> Option<Drive> {
        let Recoverable { policy, limits, .. } = resolve(&entry)?;
        // The next operation under the key is numbered from 1 again: a late reply would be taken for its own.
        if self.inner.attempts.any_out(&entry.key) {
            return None;
        }
        let fingerprint = entry.record.fingerprint();
        // While a call of the key is under way its record is in use.
        let lead = self.inner.in_flight.lead(&entry.key, fingerprint)?;
        let key = entry.key.clone();
        let subject = Subject { key, fingerprint, policy, tool: Arc::new(NoTool), resource: None, limits };
        let mut drive = Drive::new(self.inner.clone(), Arc::new(subject), Some(lead));
        drive.view = Some(Some(entry));
        Some(drive)
    }
}

impl Drive {
    async fn expire(mut self) -> Result<bool, LedgerError> {
        self.perform(What::Expire).await?;
        Ok(self.forgotten)
    }

    /// Looks once at an operation that a person has been asked about. Only what is certain at any time counts.
    async fn look_once(mut self, entry: Entry) {
        let Some(of) = entry.record.attempt_id() else { return };
        self.view = Some(Some(entry));
        let what = self.observe(of, false).await;
        if matches!(what, What::Observed { observation: Observation::Applied(_), .. })
            && let Err(error) = self.perform(what).await
        {
            tracing::warn!(key = %self.subject.key, %error, "what an observation showed could not be recorded");
        }
    }
}

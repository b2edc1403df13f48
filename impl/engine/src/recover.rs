//! What earlier processes left, what people decide, and what retention removes.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use settled_protocol::{ErrorClass, Key, Policy, State, ToolKind, Verdict, What};
use tokio::task::JoinSet;

use crate::drive::{Drive, Subject};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::history::Happened;
use crate::ledger::{Entry, Filter};
use crate::tool::{Outgoing, Tool, ToolReply};
use crate::waits::resume;

/// How many left operations are taken further at once.
const AT_ONCE: usize = 64;

/// How an operation that an earlier process left can be taken further.
#[derive(Clone)]
pub struct Recoverable {
    /// What its tool declares.
    pub policy: Policy,
    /// The way to its tool; not needed for opaque tools, unless the operation was never sent.
    pub tool: Option<Arc<dyn Tool>>,
    /// How long to wait for an attempt's answer.
    pub timeout: Duration,
}

/// What [`Engine::recover`] came upon, and how it ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// How many unsettled operations there were.
    pub found: usize,
    /// Settled now.
    pub settled: usize,
    /// Unknown, and with a person now (or before already).
    pub escalated: usize,
    /// Still open: unknown without anyone to ask, or the ledger failed meanwhile.
    pub open: usize,
    /// Left alone: their owner is alive.
    pub alive: usize,
    /// Left alone: nobody knows their policy, or their tool where one is needed.
    pub unresolved: usize,
}

/// As what a person settles an unknown operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecidedAs {
    /// It happened.
    Succeeded,
    /// It did not happen.
    Failed,
    /// Nobody will ever know, or nobody cares.
    Abandoned,
}

/// What a person decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// As what it is settled.
    pub decided_as: DecidedAs,
    /// The body of the result or of the error, which later calls of the key are told.
    pub body: Option<Bytes>,
    /// What the person wrote.
    pub note: Option<String>,
}

/// What became of a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// The operation as it is stored now.
    pub entry: Entry,
}

impl Engine {
    /// Takes further what earlier processes left. For each unsettled entry that `resolve` knows how to take further: created
    /// → sent, by compare-and-set; dispatched by an owner that is dead → unknown, and on to what its tool's kind allows;
    /// unknown → the same; confirmed → settled; escalated → nothing. Entries whose owner is alive are left alone.
    ///
    /// Returns when all of that has been done, tools' answers included; to go on meanwhile, run it in a task of its own.
    ///
    /// # Errors
    /// If the ledger can't be read.
    pub async fn recover(
        &self,
        resolve: &(dyn Fn(&Entry) -> Option<Recoverable> + Send + Sync),
    ) -> Result<Recovered, EngineError> {
        let mut recovered = Recovered::default();
        let mut running = JoinSet::new();
        for entry in self.inner.ledger.scan(Filter::Unsettled).await? {
            recovered.found += 1;
            if matches!(entry.record.state(), State::Escalated { .. }) {
                recovered.escalated += 1;
                continue;
            }
            if self.is_driven(&entry).await {
                recovered.alive += 1;
                continue;
            }
            let Some(known) =
                resolve(&entry).filter(|known| known.tool.is_some() || needs_no_tool(&entry, &known.policy))
            else {
                recovered.unresolved += 1;
                continue;
            };
            let subject = Arc::new(Subject {
                key: entry.key.clone(),
                fingerprint: entry.record.fingerprint(),
                policy: known.policy,
                tool: known.tool.unwrap_or_else(|| Arc::new(NoTool)),
                timeout: known.timeout,
            });
            let Some(lead) = self.inner.in_flight.lead(&entry.key, subject.fingerprint) else {
                recovered.alive += 1;
                continue;
            };
            if running.len() >= AT_ONCE {
                count(&mut recovered, running.join_next().await);
            }
            self.inner.tell(&entry.key, || Happened::Recovered {
                generation: entry.record.generation(),
                state: entry.record.state().name().to_owned(),
            });
            let inner = self.inner.clone();
            running.spawn(async move {
                let sender_done = inner.sender_done(&entry.key, &entry).await;
                Drive::new(inner, subject, Some(lead)).run(Some(resume(true, sender_done))).await
            });
        }
        while let Some(ended) = running.join_next().await {
            count(&mut recovered, Some(ended));
        }
        Ok(recovered)
    }

    /// Whether a process that is alive has it under way.
    async fn is_driven(&self, entry: &Entry) -> bool {
        match entry.record.state() {
            State::Dispatched(sent) | State::Unknown { sent, .. } if sent.owner() == self.inner.epoch => {
                entry.record.attempt_id().is_some_and(|of| self.inner.attempts.over(&entry.key, of).is_some())
            }
            State::Dispatched(sent) | State::Unknown { sent, .. } => self.inner.is_alive(sent.owner()).await,
            State::Created | State::Confirmed { .. } | State::Escalated { .. } | State::Settled { .. } => false,
        }
    }

    /// A person decides an unknown operation. One that is `dispatched` by an owner that is dead becomes unknown first.
    ///
    /// `quiet`: whoever calls has made sure that nothing of the operation can be on its way any more; "it did not happen"
    /// is refused without that (rule 10).
    ///
    /// # Errors
    /// [`EngineError::NoSuchKey`], [`EngineError::Refused`], or the ledger's.
    pub async fn decide(&self, key: &Key, decision: Decision, quiet: bool) -> Result<Decided, EngineError> {
        let inner = &self.inner;
        let entry = inner.look(key).await?.ok_or_else(|| EngineError::NoSuchKey(key.clone()))?;
        let subject = Arc::new(Subject {
            key: key.clone(),
            fingerprint: entry.record.fingerprint(),
            policy: Policy::new(ToolKind::Opaque),
            tool: Arc::new(NoTool),
            timeout: Duration::ZERO,
        });
        let mut drive = Drive::new(inner.clone(), subject, None);
        drive.announces = false;
        if matches!(entry.record.state(), State::Dispatched(_)) && !self.is_driven(&entry).await {
            let sender_done = inner.sender_done(key, &entry).await;
            let mut next = Some(resume(true, sender_done));
            while let Some(what) = next {
                next = drive.perform(what).await?;
            }
        }
        let Decision { decided_as, body, note } = decision;
        let verdict = match decided_as {
            DecidedAs::Succeeded => Verdict::Succeeded(drive.bodies.keep(body.unwrap_or_default())),
            DecidedAs::Failed => Verdict::Failed(body.map(|body| drive.bodies.keep(body))),
            DecidedAs::Abandoned => Verdict::Abandoned(None),
        };
        drive.note = note.clone();
        drive.view = None;
        drive.perform(What::Decide { verdict, quiet }).await?;
        if let Some(refusal) = drive.refused {
            return Err(EngineError::Refused(refusal));
        }
        let entry = drive.view.take().flatten().ok_or_else(|| EngineError::NoSuchKey(key.clone()))?;
        inner.tell(key, || Happened::Decided {
            generation: entry.record.generation(),
            verdict: match decided_as {
                DecidedAs::Succeeded => "succeeded",
                DecidedAs::Failed => "failed",
                DecidedAs::Abandoned => "abandoned",
            }
            .to_owned(),
            note,
        });
        Ok(Decided { entry })
    }

    /// Removes the records of settled operations whose window is over, by the policy that `resolve` knows for them; returns
    /// how many. Only call it when no call with such a key can still arrive (rule 12): the window must cover that.
    ///
    /// # Errors
    /// If the ledger fails.
    pub async fn expire(
        &self,
        resolve: &(dyn Fn(&Entry) -> Option<Policy> + Send + Sync),
    ) -> Result<usize, EngineError> {
        let mut removed = 0;
        for entry in self.inner.ledger.scan(Filter::All).await? {
            if !entry.record.is_settled() {
                continue;
            }
            let Some(policy) = resolve(&entry) else {
                continue;
            };
            let fingerprint = entry.record.fingerprint();
            // The next operation under the key is numbered from 1 again: a late reply would be taken for its own.
            if self.inner.attempts.any_out(&entry.key) {
                continue;
            }
            // While a call of the key is under way its record is in use.
            let Some(lead) = self.inner.in_flight.lead(&entry.key, fingerprint) else {
                continue;
            };
            let subject = Subject {
                key: entry.key.clone(),
                fingerprint,
                policy,
                tool: Arc::new(NoTool),
                timeout: Duration::ZERO,
            };
            let mut drive = Drive::new(self.inner.clone(), Arc::new(subject), Some(lead));
            drive.view = Some(Some(entry));
            drive.perform(What::Expire).await?;
            removed += usize::from(drive.forgotten);
        }
        Ok(removed)
    }
}

/// Whether taking it further never comes to sending or asking.
fn needs_no_tool(entry: &Entry, policy: &Policy) -> bool {
    match entry.record.state() {
        State::Created => false,
        State::Dispatched(_) | State::Unknown { .. } => policy.tool == ToolKind::Opaque && policy.rules.hold_unknown,
        State::Escalated { .. } | State::Confirmed { .. } | State::Settled { .. } => true,
    }
}

fn count(recovered: &mut Recovered, ended: Option<Result<Option<Entry>, tokio::task::JoinError>>) {
    let Some(ended) = ended else { return };
    match ended.ok().flatten().map(|entry| *entry.record.state()) {
        Some(State::Settled { .. }) => recovered.settled += 1,
        Some(State::Escalated { .. }) => recovered.escalated += 1,
        _ => recovered.open += 1,
    }
}

/// Stands in where no tool can be needed: it sends nothing, and says so.
pub(crate) struct NoTool;

#[async_trait]
impl Tool for NoTool {
    async fn dispatch(&self, _outgoing: &Outgoing) -> ToolReply {
        ToolReply::Error(
            ErrorClass::NotRun,
            Bytes::from_static(b"no tool is known for this operation: nothing was sent"),
        )
    }
}

//! What earlier processes left, what people decide, and what retention removes.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use settled_protocol::{Ends, ErrorClass, Key, Millis, Policy, Repeat, State, ToolKind, Verdict, What};
use tokio::task::JoinSet;

use crate::drive::{Drive, Subject};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::history::Happened;
use crate::ledger::{Entry, Filter, Liveness};
use crate::operation::Limits;
use crate::task;
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
    /// How long things may take.
    pub limits: Limits,
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
        let mut entries = self.inner.ledger.scan(Filter::Unsettled).await?;
        // What waits for a resource can wait for something that comes later here.
        entries.sort_by_key(|entry| (matches!(entry.record.state(), State::Created), entry.place));
        for entry in entries {
            recovered.found += 1;
            match self.left(entry, resolve).await {
                Left::Escalated => recovered.escalated += 1,
                Left::Driven => recovered.alive += 1,
                Left::Unresolved => recovered.unresolved += 1,
                Left::Mine(drive) => {
                    if running.len() >= AT_ONCE {
                        count(&mut recovered, running.join_next().await);
                    }
                    running.spawn(task::here(drive.run_left()));
                }
            }
        }
        while let Some(ended) = running.join_next().await {
            count(&mut recovered, Some(ended));
        }
        Ok(recovered)
    }

    /// What is to be done about an unsettled entry. If it is to be taken further, this process leads its key from now on.
    pub(crate) async fn left(
        &self,
        entry: Entry,
        resolve: &(dyn Fn(&Entry) -> Option<Recoverable> + Send + Sync),
    ) -> Left {
        if matches!(entry.record.state(), State::Escalated { .. }) {
            return Left::Escalated;
        }
        if self.is_driven(&entry).await {
            return Left::Driven;
        }
        let Some(known) = resolve(&entry).filter(|known| known.tool.is_some() || needs_no_tool(&entry, &known.policy))
        else {
            return Left::Unresolved;
        };
        let subject = Arc::new(Subject {
            key: entry.key.clone(),
            fingerprint: entry.record.fingerprint(),
            policy: known.policy,
            tool: known.tool.unwrap_or_else(|| Arc::new(NoTool)),
            resource: entry.resource.clone(),
            limits: known.limits,
        });
        let Some(lead) = self.inner.in_flight.lead(&entry.key, subject.fingerprint) else {
            return Left::Driven;
        };
        self.inner.tell(&entry.key, || Happened::Recovered {
            generation: entry.record.generation(),
            state: entry.record.state().name().to_owned(),
        });
        let mut drive = Drive::new(self.inner.clone(), subject, Some(lead));
        drive.view = Some(Some(entry));
        Left::Mine(Box::new(drive))
    }

    /// Whether a process that is alive has it under way.
    async fn is_driven(&self, entry: &Entry) -> bool {
        match entry.record.state() {
            State::Dispatched(sent) | State::Unknown { sent, .. } if self.inner.ownership.is_mine(sent.owner()) => {
                entry.record.attempt_id().is_some_and(|of| self.inner.attempts.over(&entry.key, of).is_some())
            }
            State::Unknown { .. } if self.inner.is_looked_after_elsewhere(entry).await => true,
            State::Dispatched(sent) | State::Unknown { sent, .. } => {
                self.inner.liveness(sent.owner()).await == Liveness::Alive
            }
            State::Created if entry.resource.is_some() && !self.inner.ownership.is_mine(entry.by) => {
                self.inner.liveness(entry.by).await == Liveness::Alive
            }
            State::Created | State::Confirmed { .. } | State::Escalated { .. } | State::Settled { .. } => false,
        }
    }

    /// A person decides the unknown operation that the key stands for now. Where somebody has looked at it before, see
    /// [`Engine::decide_on`].
    ///
    /// # Errors
    /// As [`Engine::decide_on`].
    pub async fn decide(&self, key: &Key, decision: Decision, quiet: bool) -> Result<Decided, EngineError> {
        let entry = self.inner.look(key).await?.ok_or_else(|| EngineError::NoSuchKey(key.clone()))?;
        self.decide_on(&entry, decision, quiet).await
    }

    /// A person decides the unknown operation that they have looked at. One that is `dispatched` by an owner that is dead
    /// becomes unknown first.
    ///
    /// `quiet`: whoever calls has made sure that nothing of the operation can be on its way any more; "it did not happen"
    /// is refused without that (rule 10).
    ///
    /// # Errors
    /// [`EngineError::NoSuchKey`], [`EngineError::Refused`], [`EngineError::AnotherOperation`], or the ledger's.
    pub async fn decide_on(&self, seen: &Entry, decision: Decision, quiet: bool) -> Result<Decided, EngineError> {
        let (inner, entry, key) = (&self.inner, seen.clone(), &seen.key);
        let subject = Arc::new(Subject {
            key: key.clone(),
            fingerprint: entry.record.fingerprint(),
            policy: unknown_policy(),
            tool: Arc::new(NoTool),
            resource: None,
            limits: Limits { attempt: Duration::ZERO, ..Limits::default() },
        });
        let mut drive = Drive::new(inner.clone(), subject, None);
        drive.announces = false;
        drive.about = Some(entry.record.generation());
        if matches!(entry.record.state(), State::Dispatched(_)) && !self.is_driven(&entry).await {
            let mut next = Some(resume(&entry, true, inner.sender_done(&entry).await));
            drive.view = Some(Some(entry));
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
        if drive.entry().is_some_and(|entry| drive.is_gone(Some(&entry.record))) {
            return Err(EngineError::AnotherOperation(key.clone()));
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
}

/// The policy of an operation whose tool is not known here: nothing is sent or concluded. What is settled so is looked at after
/// a month for whether its own retention is over.
pub(crate) fn unknown_policy() -> Policy {
    const MONTH: Millis = 30 * 86_400_000;
    let repeat = Repeat { ends: Ends::WithWindow, window: Some(MONTH) };
    Policy { repeat, ..Policy::new(ToolKind::Opaque) }
}

/// What is to be done about an unsettled entry.
pub(crate) enum Left {
    /// A person has been asked.
    Escalated,
    /// Somebody who is alive has it under way.
    Driven,
    /// Nobody here knows how to take it further.
    Unresolved,
    /// This process takes it further, with this driver.
    Mine(Box<Drive>),
}

impl Drive {
    /// Takes further what was left.
    pub(crate) async fn run_left(self: Box<Self>) -> Option<Entry> {
        let entry = self.view.clone().flatten()?;
        // One that was never sent is nobody's yet: whoever comes first may send it.
        let take_over = !matches!(entry.record.state(), State::Created);
        let what = resume(&entry, take_over, self.inner.sender_done(&entry).await);
        self.run(Some(what)).await
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

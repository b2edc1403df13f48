//! The engine: logical calls in, truthful answers out.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use settled_protocol::{Action, Digest, Epoch, Event, Key, Start, State, Time, Version, What};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::Instrument;

use crate::answers::{self, Bodies, Part};
use crate::attempt::Attempts;
use crate::budget::Requests;
use crate::busy::Busy;
use crate::drive::{Ask, Drive, Subject};
use crate::error::EngineError;
use crate::fault;
use crate::figures::{self, Health};
use crate::history::{Body, HISTORY_VERSION, Happened, HistoryLine};
use crate::inflight::{Entered, InFlight};
use crate::lease::Ownership;
use crate::ledger::{Entry, Ledger, LedgerError};
use crate::line;
use crate::operation::{Answer, Answered, Operation};
use crate::options::EngineOptions;
use crate::task;
use crate::time::SharedClock;
use crate::tool::Tool;

/// One who waits for an answer; dropped, it looks again.
pub(crate) type Waiter = oneshot::Sender<Result<Answered, EngineError>>;

/// Drives the protocol core over a [`Ledger`] and [`Tool`]s: one owner. Cheap to clone; all clones are the same owner.
#[derive(Clone)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) ownership: Ownership,
    pub(crate) clock: SharedClock,
    /// Whether other hosts may share the ledger, and clocks differ by a little.
    pub(crate) clocks_differ: bool,
    pub(crate) requests: Requests,
    /// Unknown operations that other processes look after, and since when they stand as they do.
    pub(crate) seen_unknown: Mutex<HashMap<Key, (Version, Instant)>>,
    pub(crate) health: Health,
    pub(crate) options: EngineOptions,
    pub(crate) in_flight: InFlight<Key, Digest, Waiter>,
    pub(crate) attempts: Attempts,
    pub(crate) busy: Busy,
    history_wanted: bool,
    /// The lines of the history so far.
    lines: AtomicU64,
    /// The calls so far.
    calls: AtomicU64,
    run: Epoch,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("epoch", &self.epoch()).finish_non_exhaustive()
    }
}

/// Shorter leases would be made of nothing but renewals.
const SHORTEST_LEASE: Duration = Duration::from_millis(50);
const LONGEST_LEASE: Duration = Duration::from_secs(30 * 86_400);

/// How many locks the in-flight table has.
const SHARDS: usize = 64;

impl Engine {
    /// Registers this process as an owner at the ledger. Nothing is recovered yet: see [`recover`](Engine::recover).
    ///
    /// # Errors
    /// If the ledger does not register it.
    pub async fn start(ledger: Arc<dyn Ledger>, mut options: EngineOptions) -> Result<Engine, EngineError> {
        options.lease = options.lease.clamp(SHORTEST_LEASE, LONGEST_LEASE);
        let clock = SharedClock::default();
        let clocks_differ = clock.begin(&*ledger, &*options.clock, options.ledger_patience).await?;
        let asked = options.clock.running();
        fault::point("before-register");
        let epoch = ledger.register(options.lease).await?;
        fault::point("after-register");
        let inner = Inner {
            ledger,
            ownership: Ownership::new(epoch, options.lease, asked, options.clock.clone()),
            clock,
            clocks_differ,
            requests: Requests::default(),
            seen_unknown: Mutex::default(),
            health: Health::default(),
            history_wanted: options.history.wanted(),
            lines: AtomicU64::new(0),
            calls: AtomicU64::new(0),
            run: epoch,
            options,
            in_flight: InFlight::new(SHARDS),
            attempts: Attempts::default(),
            busy: Busy::default(),
        };
        inner.tell_of_itself(|| Happened::Started);
        let inner = Arc::new(inner);
        inner.keep_lease();
        Ok(Engine { inner })
    }

    /// The ownership under which this engine dispatches.
    pub fn epoch(&self) -> Epoch {
        self.inner.ownership.epoch()
    }

    /// The ledger that it works on.
    pub fn ledger(&self) -> &Arc<dyn Ledger> {
        &self.inner.ledger
    }

    /// One logical call: sends the operation once, or joins or replays the one that was sent.
    ///
    /// Dropping the returned future cancels nothing that was sent: the work runs in its own task to its outcome, which is
    /// recorded, and a later call with the key is told.
    ///
    /// # Errors
    /// [`EngineError::NotSent`] only. Whenever an attempt may have been sent, the answer is [`Answer::Unknown`] instead.
    pub async fn call(&self, operation: Operation, tool: Arc<dyn Tool>) -> Result<Answered, EngineError> {
        let inner = &self.inner;
        let key = operation.key.clone();
        let number = inner.calls.fetch_add(1, Ordering::Relaxed) + 1;
        inner.tell(&key, || Happened::Asked {
            call: number,
            fingerprint: operation.fingerprint,
            policy: operation.policy,
            arguments: Body(operation.asked.clone()),
        });
        inner.requests.count();
        let span = tracing::info_span!("settled.call", %key);
        let told = inner.call(operation, tool, number).instrument(span).await;
        match &told {
            Ok(answered) => figures::call(&key, &answered.answer),
            Err(_) => figures::call_not_sent(&key),
        }
        inner.tell(&key, || match &told {
            Ok(answered) => answers::line(number, answered),
            Err(_) => Happened::Answered {
                call: number,
                generation: 0,
                answer: "not sent".into(),
                digest: None,
                replayed: false,
            },
        });
        told
    }

    /// Resolves once this process drives no operation any more, attempts included that timed out but are still out at
    /// their tools. For shutdown; it may take as long as the slowest tool, so bound it by a timeout.
    pub async fn idle(&self) {
        self.inner.busy.idle().await;
    }

    /// Tells the ledger that this process sends nothing any more, so that nobody has to wait for its lease to run out. For
    /// shutdown, after [`idle`](Engine::idle): calls that come later are not sent.
    ///
    /// # Errors
    /// If the ledger can't be told. The lease then runs out by itself.
    pub async fn retire(&self) -> Result<(), EngineError> {
        let inner = &self.inner;
        let epoch = inner.ownership.close();
        if inner.attempts.all_have_left(epoch) {
            fault::point("before-retire");
            inner.ledger.retire(epoch).await?;
            fault::point("after-retire");
        }
        inner.tell_of_itself(|| Happened::Retired { epoch });
        Ok(())
    }
}

impl Inner {
    pub(crate) fn now(&self) -> Time {
        self.clock.now(&*self.options.clock)
    }

    pub(crate) fn event(&self, what: What<Digest>) -> Event<Digest> {
        Event { now: self.now(), by: self.ownership.epoch(), draw: fastrand::u32(..), what }
    }

    /// Writes a line about a key to the history.
    pub(crate) fn tell(&self, key: &Key, what: impl FnOnce() -> Happened) {
        self.note(self.ownership.epoch(), Some(key), what);
    }

    /// Writes a line about this process to the history.
    pub(crate) fn tell_of_itself(&self, what: impl FnOnce() -> Happened) {
        self.note(self.ownership.epoch(), None, what);
    }

    /// Writes a line to the history, as the owner of this name.
    pub(crate) fn note(&self, by: Epoch, key: Option<&Key>, what: impl FnOnce() -> Happened) {
        if self.history_wanted {
            let line = HistoryLine {
                v: HISTORY_VERSION,
                at: self.now(),
                by,
                run: self.run,
                // What happens before something else is numbered before it.
                n: self.lines.fetch_add(1, Ordering::Relaxed) + 1,
                key: key.cloned(),
                what: what(),
            };
            self.options.history.record(&line);
        }
    }

    async fn call(
        self: &Arc<Self>,
        operation: Operation,
        tool: Arc<dyn Tool>,
        number: u64,
    ) -> Result<Answered, EngineError> {
        let Operation { key, fingerprint, asked, send_instead, policy, resource, limits } = operation;
        let ask = Ask { asked, send_instead };
        let subject = Arc::new(Subject { key, fingerprint, policy, tool, resource, limits });
        let key = &subject.key;
        let fingerprint = subject.fingerprint;
        let patience = self.options.patience.map(line::after);
        loop {
            let (waiter, told) = oneshot::channel();
            match self.in_flight.enter(key, fingerprint, waiter) {
                Entered::Leads(mut lead, own) => {
                    let looked = self.look(key).await;
                    let told_at_once = match &looked {
                        Err(error) => Some(self.unreadable(key, error)),
                        Ok(entry) => self.glance(&subject, entry.as_ref()).map(Ok),
                    };
                    if let Some(told) = told_at_once {
                        for joined in lead.take_joined() {
                            // Who has gone away needs no answer.
                            let _ = joined.send(told.clone());
                        }
                        return told;
                    }
                    let entry = looked.map_err(EngineError::NotSent)?;
                    self.refresh().await;
                    let drive = Drive::call(self.clone(), subject.clone(), lead, ask, own, entry, patience);
                    task::spawn(drive.run_call());
                    // Only a panic in a ledger, clock, history or alert ends the driver without an answer.
                    return told.await.unwrap_or_else(|_| {
                        self.attempts.note_open(key, true);
                        let answer = Answer::Unknown { error: None, replayed: false };
                        Ok(answers::about(key, None, answer))
                    });
                }
                Entered::Joined => {
                    self.tell(key, || Happened::Joined { call: number, fingerprint });
                    match self.joined(&subject, told, patience).await {
                        Joined::Told(told) => return told,
                        Joined::LookAgain => {}
                    }
                }
                Entered::Other => {
                    let entry = match self.look(key).await {
                        Ok(entry) => entry,
                        Err(error) => return self.unreadable(key, &error),
                    };
                    if let Some(answered) = self.glance(&subject, entry.as_ref()) {
                        return Ok(answered);
                    }
                    let seen = entry.as_ref().map(|entry| entry.record.version());
                    let look_again = async {
                        tokio::select! {
                            biased;
                            _ = told => {}
                            () = self.changed(key, seen) => {}
                        }
                    };
                    if within(patience, look_again).await.is_none() {
                        return Ok(answers::about(key, None, Answer::InProgress));
                    }
                }
                Entered::HeldUp => {
                    if within(patience, told).await.is_none() {
                        return Ok(answers::about(key, None, Answer::InProgress));
                    }
                }
            }
        }
    }

    /// What a caller is told while the ledger can't be read, and nothing was sent for its own call.
    fn unreadable(&self, key: &Key, error: &LedgerError) -> Result<Answered, EngineError> {
        if self.attempts.may_have_been_sent(key) {
            Ok(answers::about(key, None, Answer::Unknown { error: None, replayed: true }))
        } else {
            Err(EngineError::NotSent(error.clone()))
        }
    }

    /// Waits with one who asked before: until that one is told, or for as long as an unknown outcome may keep a caller
    /// waiting.
    async fn joined(
        &self,
        subject: &Subject,
        told: oneshot::Receiver<Result<Answered, EngineError>>,
        patience: Option<Instant>,
    ) -> Joined {
        tokio::pin!(told);
        let key = &subject.key;
        loop {
            let look = line::after(subject.limits.settle);
            let until = patience.map_or(look, |patience| patience.min(look));
            let mut heard = within(Some(until), &mut told).await;
            let mut looked = None;
            if heard.is_none() {
                // What it is told must not grow old while the ledger takes its time.
                tokio::select! {
                    biased;
                    told = &mut told => heard = Some(told),
                    entry = self.ledger.get(key) => looked = entry.ok().flatten(),
                }
            }
            match heard {
                Some(Ok(told)) => return Joined::Told(told.map(answers::told_again)),
                Some(Err(_)) => return Joined::LookAgain,
                None => {}
            }
            match looked {
                // Meanwhile the key stands for another call: the one that it waits with will be told so, too.
                Some(entry) if entry.record.fingerprint() != subject.fingerprint => {
                    if let Some(answered) = self.glance(subject, Some(&entry)) {
                        return Joined::Told(Ok(answered));
                    }
                }
                Some(entry) if matches!(entry.record.state(), State::Unknown { .. } | State::Escalated { .. }) => {
                    let answer = Answer::Unknown { error: None, replayed: true };
                    return Joined::Told(Ok(answers::about(key, Some(&entry), answer)));
                }
                _ => {}
            }
            if patience.is_some_and(|patience| patience <= Instant::now()) {
                return Joined::Told(Ok(answers::about(key, None, Answer::InProgress)));
            }
        }
    }

    /// The answer to a call, if the core would do nothing else but answer it from what is stored.
    fn glance(&self, subject: &Subject, entry: Option<&Entry>) -> Option<Answered> {
        let event = self.event(What::Call { fingerprint: subject.fingerprint, start: Start::Now });
        if entry.is_some_and(|entry| subject.is_expired(entry, event.now)) {
            return Some(answers::about(&subject.key, entry, Answer::Expired));
        }
        let step = subject.policy.step(entry.map(|entry| &entry.record), &event);
        let mut actions = step.actions.iter();
        match (actions.next(), actions.next()) {
            (Some(Action::Answer(answer)), None) => {
                Some(answers::spell_out(&subject.key, entry, &Bodies::default(), answer, Part::NONE))
            }
            _ => None,
        }
    }

    /// Waits until a key's record may have another version than `seen`, never for nothing at all: an implementation that
    /// returns at once must not make a busy loop of its caller.
    pub(crate) async fn changed(&self, key: &Key, seen: Option<settled_protocol::Version>) {
        let waited: Result<(), LedgerError> = self.ledger.changed(key, seen).await;
        let pause = if waited.is_ok() { Duration::from_millis(1) } else { Duration::from_millis(100) };
        tokio::time::sleep(pause).await;
    }
}

/// How waiting with another caller ended.
enum Joined {
    Told(Result<Answered, EngineError>),
    LookAgain,
}

/// The future's output, unless the deadline comes first.
pub(crate) async fn within<T>(deadline: Option<Instant>, future: impl Future<Output = T>) -> Option<T> {
    match deadline {
        Some(deadline) => tokio::time::timeout_at(deadline, future).await.ok(),
        None => Some(future.await),
    }
}

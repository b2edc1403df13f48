//! A guard: the real engine, on a ledger and a tool that lie behind the conductor's network.

mod gated;
mod mistakes;
mod remote;
mod terms;

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use settled::protocol::{Cause, Digest, Ends, Time};
use settled::{
    Alerts, Answer, Answered, Clock, DecidedAs, Decision, Engine, EngineError, EngineOptions, Entry, Happened, History,
    HistoryLine, Operation,
};
use settled_model::Description;
use settled_model::description::Answers;
use tokio::io::BufReader;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use self::gated::GatedTool;
use self::remote::RemoteLedger;
use self::terms::Terms;
use super::{PartError, join};
use crate::link::{self, Link};
use crate::wire::{BEGINNING_MS, Frame, FromPart, Reply, Role, Spec, ToPart, Told, number_of};

/// A clock that is set from outside.
struct SetClock(Arc<AtomicU64>);

impl Clock for SetClock {
    fn now(&self) -> Time {
        Time(self.0.load(Ordering::SeqCst))
    }
}

struct NoAlerts;

impl Alerts for NoAlerts {
    fn raise(&self, _entry: &Entry, _cause: &Cause<Digest>) {}
}

/// Writes the history, and tells the conductor of calls that were taken in. Each line is in the file before the guard goes
/// on: it may be killed at any moment.
struct TellingHistory {
    file: Mutex<File>,
    link: Link,
}

impl History for TellingHistory {
    fn record(&self, line: &HistoryLine) {
        if let Ok(mut text) = serde_json::to_vec(line) {
            text.push(b'\n');
            // What can't be written is missing there.
            let _ = self.file.lock().unwrap_or_else(PoisonError::into_inner).write_all(&text);
        }
        let joined = match line.what {
            Happened::Asked { .. } => false,
            Happened::Joined { .. } => true,
            _ => return,
        };
        if let Some(key) = &line.key {
            self.link.say(FromPart::Entered { key: number_of(key), joined });
        }
    }
}

/// What all calls of a guard have in common.
struct Host {
    link: Link,
    engine: Engine,
    tool: Arc<GatedTool>,
    terms: Terms,
    /// Wakes a call that waits, so that it looks again.
    looks: Mutex<HashMap<u8, Arc<Notify>>>,
}

pub async fn run(spec: Spec, number: u8) -> Result<(), PartError> {
    let description: Description =
        serde_json::from_value(spec.description.clone()).map_err(|error| PartError::Start(error.to_string()))?;
    let terms = Terms::new(description, &spec);
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let (link, mut commands) = join(&spec, Role::Guard(number), listener.local_addr()?.port()).await?;
    let clock = Arc::new(AtomicU64::new(BEGINNING_MS));
    let path = spec.directory.join(format!("guard-{}.history.jsonl", number + 1));
    let file = Mutex::new(OpenOptions::new().create(true).append(true).open(path)?);
    let options = EngineOptions {
        clock: Arc::new(SetClock(clock.clone())),
        history: Arc::new(TellingHistory { file, link: link.clone() }),
        alerts: Arc::new(NoAlerts),
        patience: terms.patience(),
        ledger_patience: Duration::ZERO,
        reply_patience: Duration::ZERO,
        lease: Duration::from_secs(30 * 86_400),
        ..EngineOptions::default()
    };
    let ledger = Arc::new(RemoteLedger { link: link.clone() });
    let engine = Engine::start(ledger, options).await.map_err(|error| PartError::Ledger(error.to_string()))?;
    let tool = Arc::new(GatedTool {
        link: link.clone(),
        network: spec.network,
        from: number + 1,
        takes_doubt_for_busy: terms.takes_doubt_for_busy(),
        sent: Default::default(),
        over: Default::default(),
    });
    let host = Arc::new(Host { link, engine, tool, terms, looks: Mutex::default() });
    host.link.say(FromPart::Ack { id: u64::MAX });
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (stream, _) = accepted?;
                tokio::spawn(host.clone().serve(stream));
            }
            command = commands.recv() => match command {
                Some(ToPart::Clock { ms }) => clock.store(ms, Ordering::SeqCst),
                Some(ToPart::RunOut { id, which, ms }) => {
                    if let Some(which) = which {
                        host.tool.out_of_time(which.key).notify_waiters();
                    }
                    // Time goes on for everything that waits in this process.
                    tokio::time::pause();
                    tokio::time::advance(Duration::from_millis(ms)).await;
                    tokio::time::resume();
                    host.link.say(FromPart::Ack { id });
                }
                Some(command) => drop(tokio::spawn(host.clone().obey(command))),
                None => return Ok(()),
            },
        }
    }
}

impl Host {
    async fn obey(self: Arc<Self>, command: ToPart) {
        match command {
            ToPart::Recover { id } => {
                self.link.say(FromPart::Ack { id });
                let resolve = |entry: &Entry| self.terms.recoverable(entry, self.tool.clone());
                // What can't be read now is left for the next time.
                let _ = self.engine.recover(&resolve).await;
            }
            ToPart::Expire { id } => {
                self.link.say(FromPart::Ack { id });
                let (terms, tool) = (self.terms.clone(), self.tool.clone());
                let resolve = move |entry: &Entry| terms.recoverable(entry, tool.clone());
                let _ = self.engine.expire(&resolve).await;
            }
            ToPart::LookAgain { id, call } => {
                self.look_of(call).notify_waiters();
                self.link.say(FromPart::Ack { id });
            }
            ToPart::Cancel { id, key } => {
                self.link.say(FromPart::Ack { id });
                mistakes::cancel(&self.engine, &self.terms, key).await;
            }
            ToPart::Decide { id, key: number, effect } => {
                self.link.say(FromPart::Ack { id });
                let (decided_as, body) = match effect {
                    0 => (DecidedAs::Failed, None),
                    effect => (DecidedAs::Succeeded, Some(Bytes::from(effect.to_string()))),
                };
                if let Some(key) = self.terms.keys.key(number) {
                    let _ = self.engine.decide(&key, Decision { decided_as, body, note: None }, true).await;
                }
            }
            ToPart::Ping { id } => {
                // Whatever could go on by itself has gone on by then.
                for _ in 0..64 {
                    tokio::task::yield_now().await;
                }
                self.link.say(FromPart::Ack { id });
            }
            _ => {}
        }
    }

    fn look_of(&self, call: u8) -> Arc<Notify> {
        self.looks.lock().unwrap_or_else(PoisonError::into_inner).entry(call).or_default().clone()
    }

    async fn serve(self: Arc<Self>, stream: TcpStream) -> std::io::Result<()> {
        let (from, mut to) = stream.into_split();
        let mut from = BufReader::new(from);
        let Some(Frame::Call(call)) = link::read::<Frame>(&mut from).await? else { return Ok(()) };
        let Some(key) = self.terms.keys.key(call.key) else { return Ok(()) };
        let policy = self.terms.policy;
        let arguments = Bytes::from(format!("{} {}", char::from(b'A' + call.call), call.arguments));
        let operation = Operation {
            fingerprint: Digest::of(&[call.arguments]),
            resource: self.terms.resource(call.call),
            limits: self.terms.limits(call.key),
            ..Operation::new(key, arguments, policy)
        };
        let mut sends = self.tool.sends_of(call.key).subscribe();
        let at_dispatch = self.terms.description.guard.answers == Answers::AtDispatch && self.terms.mistakes;
        let look = self.look_of(call.call);
        let again = operation.clone();
        let answered = self.engine.call(operation, self.tool.clone());
        tokio::pin!(answered);
        let told = tokio::select! {
            answered = &mut answered => answered,
            Ok(()) = sends.changed(), if at_dispatch => {
                return link::write(&mut to, &Reply::Told(Told::Done(0))).await;
            }
            () = look.notified() => self.engine.call(again, self.tool.clone()).await,
        };
        // Where the ledger fails, its callers hear nothing.
        let Ok(answered) = told else { return std::future::pending().await };
        let delivery = (policy.repeat.ends == Ends::OnDelivery).then(|| self.engine.delivering(&answered, policy));
        let delivery = match delivery {
            Some(delivery) => Some(delivery.await),
            None => None,
        };
        link::write(&mut to, &Reply::Told(told_of(&answered))).await?;
        if let Some(delivery) = delivery
            && matches!(answered.answer, Answer::Done { .. } | Answer::Failed { .. })
        {
            let recorded: Result<(), EngineError> = delivery.confirm(Duration::ZERO).await;
            drop(recorded);
        }
        Ok(())
    }
}

fn told_of(answered: &Answered) -> Told {
    match &answered.answer {
        Answer::Done { result, .. } => {
            Told::Done(std::str::from_utf8(result).ok().and_then(|text| text.parse().ok()).unwrap_or(u32::MAX))
        }
        Answer::Failed { .. } => Told::Failed,
        Answer::Unknown { .. } | Answer::Expired => Told::Unknown,
        Answer::InProgress => Told::InProgress,
        Answer::Conflict => Told::Conflict,
    }
}

//! The ledger as a guard reaches it: over a way on which requests and answers are lost, late, or cut off.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use settled::protocol::{Durable, Epoch, Key, Time, Version};
use settled::{Change, Draw, Entry, Filter, Ledger, LedgerError, Liveness, Remains, Renewal, Resource, Stored};
use settled_ledger_file::simulated::SimulatedStore;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout, timeout_at};

use crate::guard;
use crate::plan::{LedgerKind, Plant};
use crate::process::Process;
use crate::server::{DiskServer, Server};
use crate::world::World;

/// How long the file ledger goes on trying.
const PATIENCE: Duration = Duration::from_secs(2);

/// The way of one process to the ledger.
pub(crate) struct Remote {
    pub(crate) world: Arc<World>,
    pub(crate) process: Arc<Process>,
}

fn unavailable(why: &str) -> LedgerError {
    LedgerError::Unavailable(why.to_owned())
}

/// Whether a change is acknowledged before it is durable: a defect put in on purpose.
fn plants_early(world: &World, change: &Change) -> bool {
    match world.plan.plant {
        Some(Plant::AcknowledgeEarly) => true,
        Some(Plant::AnswerBeforeStore) => change.record.is_settled(),
        _ => false,
    }
}

impl Remote {
    /// The way there. An error: it did not arrive.
    async fn go(&self) -> Result<(), LedgerError> {
        let world = &self.world;
        world.delay(0..=8).await;
        if !world.reaches_ledger(self.process.guard) {
            world.delay(1..=200).await;
            return Err(unavailable("it can't be reached"));
        }
        if world.happens(|rates| rates.ledger_request_lost, "ledger request lost") {
            world.delay(10..=800).await;
            return Err(unavailable("the connection was lost"));
        }
        Ok(())
    }

    /// The way back. An error: what was asked for may have been done.
    async fn come_back(&self) -> Result<(), LedgerError> {
        let world = &self.world;
        if world.happens(|rates| rates.ledger_answer_lost, "ledger answer lost") {
            world.delay(10..=800).await;
            return Err(unavailable("the connection was lost before an answer came"));
        }
        world.delay(0..=8).await;
        if !world.reaches_ledger(self.process.guard) {
            return Err(unavailable("the connection was cut before an answer came"));
        }
        Ok(())
    }

    /// Asks the server something that changes nothing, or may be done twice.
    async fn ask<T>(&self, asked: impl Future<Output = Result<T, LedgerError>> + Send) -> Result<T, LedgerError> {
        self.go().await?;
        let answer = asked.await;
        self.come_back().await?;
        answer
    }

    /// Has the server change something: once it is on its way it arrives, whatever becomes of its sender.
    async fn change<T: Send + 'static>(
        &self,
        change: impl Future<Output = Result<T, LedgerError>> + Send + 'static,
    ) -> Result<T, LedgerError> {
        let late = self.world.happens(|rates| rates.ledger_late, "ledger change late");
        let (done, answer) = oneshot::channel();
        let (world, guard) = (self.world.clone(), self.process.guard);
        let way = Remote { world: self.world.clone(), process: self.process.clone() };
        // Not a task of the process.
        tokio::spawn(async move {
            if way.go().await.is_err() {
                return;
            }
            if late {
                world.delay(100..=3_000).await;
            }
            let made = change.await;
            if world.reaches_ledger(guard) && !world.happens(|rates| rates.ledger_answer_lost, "ledger answer lost") {
                let _ = done.send(made);
            }
        });
        let wait = if late { Duration::from_millis(60) } else { PATIENCE };
        let made = match timeout(wait, answer).await {
            Ok(Ok(made)) => made,
            Ok(Err(_)) | Err(_) => {
                self.world.delay(1..=400).await;
                return Err(unavailable("the connection was lost before an answer came"));
            }
        };
        self.world.delay(0..=8).await;
        made
    }

    /// Has the holder of the directory do something, which may be this process, whoever that comes to be.
    async fn held<T, W>(
        &self,
        disk: &DiskServer,
        what: impl Fn(Arc<SimulatedStore>, bool) -> W,
    ) -> Result<T, LedgerError>
    where
        T: Send + 'static,
        W: Future<Output = Result<T, LedgerError>> + Send + 'static,
    {
        let (world, process) = (&self.world, &self.process);
        let deadline = Instant::now() + PATIENCE;
        let mut again = false;
        loop {
            let holder = disk.held_by(world, process).await.inspect_err(|error| self.broken(process, error))?;
            let doing = what(holder.store.clone(), again);
            holder.kick.notify_one();
            let answer = if Arc::ptr_eq(&holder.process, process) {
                doing.await
            } else {
                if world.happens(|rates| rates.ledger_request_lost, "ledger request lost") {
                    again = true;
                    world.delay(1..=20).await;
                    continue;
                }
                let (done, answer) = oneshot::channel();
                holder.process.spawn(async move {
                    let _ = done.send(doing.await);
                });
                let lost = world.happens(|rates| rates.ledger_answer_lost, "ledger answer lost");
                match timeout_at(deadline, answer).await {
                    Ok(Ok(answer)) if !lost => {
                        world.delay(0..=1).await;
                        answer
                    }
                    // The connection was lost: whether it was done is not known, and the next holder is asked again.
                    Ok(_) if Instant::now() < deadline => {
                        again = true;
                        continue;
                    }
                    Ok(_) | Err(_) => return Err(unavailable("the process that holds it doesn't answer")),
                }
            };
            match answer {
                // As if the connection were lost.
                Err(_) if disk.is_given_up(world, &holder) => {
                    again = true;
                    world.delay(1..=300).await;
                    if Instant::now() >= deadline {
                        return Err(unavailable("its disk fails"));
                    }
                }
                answer => return answer.inspect_err(|error| self.broken(&holder.process, error)),
            }
        }
    }

    async fn store(&self, change: Change) -> Result<Stored, LedgerError> {
        let world = self.world.clone();
        let record = change.record;
        match &self.world.server {
            Server::Shared(ledger) => {
                let ledger = ledger.clone();
                self.change(async move {
                    let stored = ledger.compare_and_set(change.clone()).await;
                    if let Ok(Stored::Durable(_)) = stored {
                        world.stored(&change);
                    }
                    stored
                })
                .await
            }
            Server::Disk(disk) => {
                let token = world.draw(|random| random.u64(1..));
                let change = Arc::new(change);
                let made = self.held(disk, |store, again| {
                    let (world, change) = (world.clone(), change.clone());
                    async move {
                        let made = store.compare_and_set(&change, token, again).await?;
                        if made {
                            world.stored(&change);
                        }
                        Ok(made)
                    }
                });
                Ok(if made.await? { Stored::Durable(Durable::attest(&record)) } else { Stored::Refused })
            }
        }
    }

    /// Says that a change is durable, and makes it some time later.
    async fn acknowledge_early(&self, change: Change) -> Result<Stored, LedgerError> {
        let held = self.get(&change.key).await?.map(|entry| entry.record.version());
        if held != change.expected {
            return Ok(Stored::Refused);
        }
        let record = change.record;
        let way = Remote { world: self.world.clone(), process: self.process.clone() };
        self.process.spawn(async move {
            way.world.delay(1..=60).await;
            // Nobody would be told.
            let _ = way.store(change).await;
        });
        Ok(Stored::Durable(Durable::attest(&record)))
    }

    /// A process whose store refuses all writes, and doesn't give it up, is followed by a new one.
    fn broken(&self, holder: &Arc<Process>, error: &LedgerError) {
        if matches!(error, LedgerError::Poisoned(_) | LedgerError::Corrupt(_)) {
            guard::broken(&self.world, holder);
        }
    }
}

#[async_trait]
impl Ledger for Remote {
    async fn register(&self, lease: Duration) -> Result<Epoch, LedgerError> {
        let epoch = match &self.world.server {
            Server::Shared(ledger) => {
                let ledger = ledger.clone();
                self.change(async move { ledger.register(lease).await }).await?
            }
            Server::Disk(disk) => self.held(disk, |store, _| async move { store.register(lease).await }).await?,
        };
        self.world.owns(epoch, &self.process);
        Ok(epoch)
    }

    async fn renew(&self, epoch: Epoch, lease: Duration) -> Result<Renewal, LedgerError> {
        match &self.world.server {
            Server::Shared(ledger) => self.ask(ledger.renew(epoch, lease)).await,
            Server::Disk(disk) => self.held(disk, |store, _| async move { store.renew(epoch, lease).await }).await,
        }
    }

    async fn retire(&self, epoch: Epoch) -> Result<(), LedgerError> {
        match &self.world.server {
            Server::Shared(ledger) => self.ask(ledger.retire(epoch)).await,
            Server::Disk(disk) => self.held(disk, |store, _| async move { store.retire(epoch).await }).await,
        }
    }

    async fn liveness(&self, epoch: Epoch) -> Result<Liveness, LedgerError> {
        // Where it ran, it can be seen that a process has ended.
        let is_dead = || self.world.owner(epoch).is_some_and(|process| !process.is_alive());
        let from_here = || self.world.owner(epoch).is_some_and(|process| process.guard == self.process.guard);
        match &self.world.server {
            Server::Shared(ledger) => {
                let known = self.ask(ledger.liveness(epoch)).await?;
                let seen = self.world.plan.ledger == LedgerKind::Memory || from_here();
                Ok(if seen && is_dead() { Liveness::Gone } else { known })
            }
            Server::Disk(_) if is_dead() => Ok(Liveness::Gone),
            Server::Disk(disk) => self.held(disk, |store, _| async move { store.liveness(epoch).await }).await,
        }
    }

    async fn time(&self) -> Result<Option<Time>, LedgerError> {
        match &self.world.server {
            Server::Shared(_) if self.world.plan.ledger == LedgerKind::Memory => Ok(None),
            Server::Shared(_) => {
                let world = &self.world;
                self.ask(async { Ok(Some(world.time())) }).await
            }
            Server::Disk(disk) => self.held(disk, |store, _| async move { Ok(Some(store.time())) }).await,
        }
    }

    async fn compare_and_set(&self, change: Change) -> Result<Stored, LedgerError> {
        match plants_early(&self.world, &change) {
            true => self.acknowledge_early(change).await,
            false => self.store(change).await,
        }
    }

    async fn get(&self, key: &Key) -> Result<Option<Entry>, LedgerError> {
        match &self.world.server {
            Server::Shared(ledger) => self.ask(ledger.get(key)).await,
            Server::Disk(disk) => {
                let key = key.clone();
                self.held(disk, |store, _| {
                    let key = key.clone();
                    async move { store.get(&key) }
                })
                .await
            }
        }
    }

    async fn scan(&self, filter: Filter) -> Result<Vec<Entry>, LedgerError> {
        match &self.world.server {
            Server::Shared(ledger) => self.ask(ledger.scan(filter)).await,
            Server::Disk(disk) => self.held(disk, |store, _| async move { store.scan(filter) }).await,
        }
    }

    async fn line(&self, resource: &Resource) -> Result<Vec<Entry>, LedgerError> {
        match &self.world.server {
            Server::Shared(ledger) => self.ask(ledger.line(resource)).await,
            Server::Disk(disk) => {
                self.held(disk, |store, _| {
                    let resource = resource.clone();
                    async move { store.line(&resource) }
                })
                .await
            }
        }
    }

    async fn due(&self, now: Time, after: Option<&Entry>, limit: usize) -> Result<Vec<Entry>, LedgerError> {
        match &self.world.server {
            Server::Shared(ledger) => self.ask(ledger.due(now, after, limit)).await,
            Server::Disk(disk) => {
                self.held(disk, |store, _| {
                    let after = after.cloned();
                    async move { store.due(now, after.as_ref(), limit) }
                })
                .await
            }
        }
    }

    async fn history(&self, key: &Key) -> Result<Vec<Change>, LedgerError> {
        match &self.world.server {
            Server::Shared(ledger) => self.ask(ledger.history(key)).await,
            Server::Disk(disk) => {
                self.held(disk, |store, _| {
                    let key = key.clone();
                    async move { store.history(&key) }
                })
                .await
            }
        }
    }

    async fn forget(&self, key: &Key, expected: Version, remains: Remains) -> Result<bool, LedgerError> {
        let (world, key) = (self.world.clone(), key.clone());
        world.forgets(&key, expected);
        match &self.world.server {
            Server::Shared(ledger) => {
                let ledger = ledger.clone();
                self.change(async move {
                    let forgotten = ledger.forget(&key, expected, remains).await?;
                    Ok(world.forgot(&key, expected, remains, forgotten))
                })
                .await
            }
            Server::Disk(disk) => {
                let token = world.draw(|random| random.u64(1..));
                self.held(disk, |store, again| {
                    let (world, key) = (world.clone(), key.clone());
                    async move {
                        let forgotten = store.forget(&key, expected, remains, token, again).await?;
                        Ok(world.forgot(&key, expected, remains, forgotten))
                    }
                })
                .await
            }
        }
    }

    async fn changed(&self, key: &Key, seen: Option<Version>) -> Result<(), LedgerError> {
        match &self.world.server {
            Server::Shared(ledger) => self.ask(ledger.changed(key, seen)).await,
            Server::Disk(disk) => {
                self.held(disk, |store, _| {
                    let key = key.clone();
                    async move {
                        store.changed(&key, seen).await;
                        Ok(())
                    }
                })
                .await
            }
        }
    }

    async fn draw(&self, draw: Draw) -> Result<bool, LedgerError> {
        match &self.world.server {
            Server::Shared(ledger) => self.ask(ledger.draw(draw)).await,
            Server::Disk(disk) => self.held(disk, |store, _| async move { Ok(store.draw(draw)) }).await,
        }
    }
}

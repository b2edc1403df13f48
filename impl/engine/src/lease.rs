//! This process's ownership: the epoch under which it sends, and the lease that says for how long.
//!
//! The lease is kept at the ledger and measured there. Here it is measured from *before* each renewal was asked for, on a
//! clock that goes on while the process is stopped or the host sleeps; so it has run out here before it has there.
//!
//! A process that was frozen past its lease has been fenced: others may have taken its operations over. It sends nothing of
//! what it had queued, says so, and goes on under a new epoch. (Safety does not rest on that: whoever takes over never sends
//! the same attempt again. Rule 5.)

use std::sync::Arc;
use std::time::Duration;

use settled_protocol::{Digest, Epoch, Record, State};
use tokio::time::Instant;

use crate::engine::Inner;
use crate::figures;
use crate::held::Held;
use crate::history::Happened;
use crate::ledger::{Entry, Liveness, Renewal};
use crate::options::Clock;
use crate::sync::lock;
use crate::task;

/// The body of the error of a call that was not sent because its process had been fenced.
pub(crate) const FENCED: &[u8] =
    b"nothing was sent, and nothing will be: this process was stopped, or cut off from the \
    ledger, for longer than its lease, and has been fenced";

/// After this long without a change an unknown operation is nobody's, although whoever stored it lives.
const STALE: Duration = Duration::from_secs(900);

/// How many unknown operations of others are kept in mind.
const SEEN: usize = 65_536;

/// The epochs of this process.
pub(crate) struct Ownership {
    clock: Arc<dyn Clock>,
    lease: Duration,
    held: Held<Epoch>,
    /// One renewal at a time: two could both find themselves fenced.
    renewing: tokio::sync::Mutex<()>,
}

impl Ownership {
    /// An ownership that was asked for when the clock had been running for `asked`.
    pub(crate) fn new(epoch: Epoch, lease: Duration, asked: Duration, clock: Arc<dyn Clock>) -> Ownership {
        Ownership { clock, lease, held: Held::new(epoch, asked + lease), renewing: tokio::sync::Mutex::new(()) }
    }

    /// The epoch under which this process sends now.
    pub(crate) fn epoch(&self) -> Epoch {
        self.held.epoch()
    }

    /// Whether this process is or was the owner of that name.
    pub(crate) fn is_mine(&self, epoch: Epoch) -> bool {
        self.held.is_mine(epoch)
    }

    /// Whether the epoch is the present one and its lease runs.
    pub(crate) fn holds(&self, epoch: Epoch) -> bool {
        self.held.holds(epoch, || self.clock.running())
    }

    /// Does this while the epoch is the present one and its lease runs, so that it can't be fenced meanwhile; returns whether it
    /// was done.
    pub(crate) fn while_held(&self, epoch: Epoch, then: impl FnOnce()) -> bool {
        self.held.while_held(epoch, || self.clock.running(), then)
    }

    /// Nothing is sent any more, and no new epoch is taken. Returns the last one.
    pub(crate) fn close(&self) -> Epoch {
        self.held.close()
    }
}

impl Inner {
    /// Renews the lease for as long as the engine lives.
    pub(crate) fn keep_lease(self: &Arc<Self>) {
        let every = self.ownership.lease / 3;
        let weak = Arc::downgrade(self);
        task::spawn(async move {
            loop {
                tokio::time::sleep(every).await;
                let Some(inner) = weak.upgrade() else { return };
                inner.renew().await;
                if let Err(error) = inner.clock.synchronise(&*inner.ledger, &*inner.options.clock).await {
                    tracing::debug!(%error, "the ledger's clock is reckoned from its last reading");
                }
                inner.tell_requests().await;
                inner.retire_past().await;
            }
        });
    }

    /// Whether an attempt may be sent under this epoch now.
    pub(crate) async fn may_send(&self, epoch: Epoch) -> bool {
        if self.ownership.holds(epoch) {
            return true;
        }
        // Only the ledger knows whether the lease is really over: a slow renewal may be on its way.
        self.renew().await;
        self.ownership.holds(epoch)
    }

    /// Takes a new epoch first where the lease is known to be over: what begins now need not be refused for that.
    pub(crate) async fn refresh(&self) {
        let epoch = self.ownership.epoch();
        if !self.ownership.holds(epoch) {
            self.renew().await;
        }
    }

    async fn renew(&self) {
        let _one = self.ownership.renewing.lock().await;
        if self.ownership.held.is_closed() {
            return;
        }
        let epoch = self.ownership.epoch();
        if !self.ownership.held.is_fenced() {
            let asked = self.options.clock.running();
            let renewal =
                tokio::time::timeout(self.ownership.lease, self.ledger.renew(epoch, self.ownership.lease)).await;
            match renewal {
                Ok(Ok(Renewal::Held)) => return self.ownership.held.extend(epoch, asked + self.ownership.lease),
                Ok(Ok(Renewal::Fenced)) => self.fenced(epoch),
                Ok(Err(error)) => {
                    tracing::warn!(%epoch, %error, "the lease could not be renewed: nothing is sent once it has run out");
                    return;
                }
                Err(_) => {
                    tracing::warn!(%epoch, "the lease could not be renewed in time: nothing is sent once it has run out");
                    return;
                }
            }
        }
        let asked = self.options.clock.running();
        match self.ledger.register(self.ownership.lease).await {
            Ok(next) => {
                self.ownership.held.succeed(next, asked + self.ownership.lease);
                self.tell_of_itself(|| Happened::Started);
                tracing::warn!(fenced = %epoch, epoch = %next, "goes on under a new epoch");
            }
            Err(error) => {
                tracing::warn!(%epoch, %error, "no new epoch could be had after it was fenced: nothing is sent")
            }
        }
    }

    fn fenced(&self, epoch: Epoch) {
        if self.ownership.held.fence(epoch) {
            figures::fenced();
            tracing::error!(
                %epoch,
                "fenced: this process was stopped, or cut off from the ledger, for longer than its lease; what it had not sent \
                 yet will not be sent",
            );
            self.tell_of_itself(|| Happened::Fenced { epoch });
        }
    }

    /// Tells the ledger of epochs that are over, once nothing of theirs is queued here any more.
    async fn retire_past(&self) {
        for epoch in self.ownership.held.unretired() {
            if self.attempts.all_have_left(epoch) && self.ledger.retire(epoch).await.is_ok() {
                self.ownership.held.retired(epoch);
            }
        }
    }

    /// Whether the operation's owner may still be at work on it. A ledger that can't tell leaves it at work.
    pub(crate) async fn liveness(&self, owner: Epoch) -> Liveness {
        self.ledger.liveness(owner).await.unwrap_or(Liveness::Alive)
    }

    /// Whether another process, which is alive, has stored an unknown operation as it stands: it is looking after it. Two that
    /// asked the same observer would use up its budget of questions twice as fast.
    pub(crate) async fn is_looked_after_elsewhere(&self, entry: &Entry) -> bool {
        let elsewhere = matches!(entry.record.state(), State::Unknown { .. })
            && !self.ownership.is_mine(entry.by)
            && self.liveness(entry.by).await == Liveness::Alive;
        let mut seen = lock(&self.seen_unknown);
        if !elsewhere {
            seen.remove(&entry.key);
            return false;
        }
        if seen.len() >= SEEN {
            seen.clear();
        }
        let version = entry.record.version();
        let (last, since) = *seen.entry(entry.key.clone()).or_insert((version, Instant::now()));
        if last != version {
            seen.insert(entry.key.clone(), (version, Instant::now()));
            return true;
        }
        // It lives, but whatever drove the operation there has given up.
        since.elapsed() < STALE
    }

    /// Whether nothing of the record's latest dispatch can still be put on the wire (rule 6).
    pub(crate) async fn sender_done(&self, entry: &Entry) -> bool {
        let record: &Record<Digest> = &entry.record;
        let Some(sent) = record.sent() else {
            return true;
        };
        let elsewhere_done =
            self.ownership.is_mine(sent.owner()) || self.liveness(sent.owner()).await == Liveness::Gone;
        elsewhere_done && self.attempts.have_left(&entry.key)
    }
}

//! Exactly once: an effect that commits in the same transaction as the record of it.
//!
//! ```text
//! BEGIN
//!   is the record still dispatched, with this attempt, under this ownership?   otherwise: nothing is done
//!   the effect: any SQL, in this transaction
//!   the record: confirmed, with the result, by compare-and-set               otherwise: everything is undone
//! COMMIT
//! ```
//!
//! Either both are committed or neither. Whoever doubts that the effect will come first takes the record away from this attempt by a
//! compare-and-set of their own; from then on its transaction can't commit, so the absence of the effect is final, and it can be
//! sent again without a second effect.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use settled::{Change, Entry, LedgerError, Outgoing, Tool, ToolReply, fault};
use settled_protocol::{Action, Digest, ErrorClass, Event, Policy, Time, ToolKind, What};
use tokio_postgres::types::Type;
use tokio_postgres::{Error, Transaction};

use crate::error::{is_passing, is_undone, text};
use crate::ledger::PostgresLedger;
use crate::migrate::in_schema;
use crate::row::{self, ENTRY};
use crate::store::{self, Item, until_decided};

/// How long a transaction may last, unless [`PostgresTool::limit`] says otherwise.
const LIMIT: Duration = Duration::from_secs(60);

/// Why an effect is not to happen. Whatever it did in its transaction is undone.
#[derive(Debug)]
pub enum Undo {
    /// The operation fails, and its caller is told this.
    Refused(Bytes),
    /// The database refused something. If that passes (a deadlock, a lost connection), the operation is tried again as its policy
    /// allows; otherwise it fails.
    Database(Error),
}

impl From<Error> for Undo {
    fn from(error: Error) -> Undo {
        Undo::Database(error)
    }
}

/// The future of an effect.
pub type Effecting<'a> = Pin<Box<dyn Future<Output = Result<Bytes, Undo>> + Send + 'a>>;

/// A tool whose effect is SQL in the ledger's own database: it happens exactly once. Its policy must be of the kind
/// [`ToolKind::Transactional`].
pub struct PostgresTool<F> {
    ledger: Arc<PostgresLedger>,
    effect: F,
    limit: Duration,
    look: String,
    store: String,
}

/// A tool that carries out `effect` in the transaction that records it.
///
/// `effect` gets the transaction and the attempt with its arguments, and returns the body of the result. It must not end the
/// transaction, and must do nothing that the transaction can't undo. It may run again if an earlier run was undone.
///
/// ```no_run
/// # use std::sync::Arc;
/// # use settled_ledger_postgres::{PostgresLedger, transactional};
/// # fn example(ledger: Arc<PostgresLedger>) -> impl settled::Tool {
/// transactional(ledger, |transaction, _attempt| {
///     Box::pin(async move {
///         transaction.execute("UPDATE accounts SET cents = cents - 100 WHERE name = 'a'", &[]).await?;
///         transaction.execute("UPDATE accounts SET cents = cents + 100 WHERE name = 'b'", &[]).await?;
///         Ok("moved".into())
///     })
/// })
/// # }
/// ```
pub fn transactional<F>(ledger: Arc<PostgresLedger>, effect: F) -> PostgresTool<F>
where
    F: for<'a> Fn(&'a Transaction<'a>, &'a Outgoing) -> Effecting<'a> + Send + Sync + 'static,
{
    let schema = &ledger.target.schema;
    let look = in_schema(
        &format!(
            "SELECT {ENTRY}, (extract(epoch FROM clock_timestamp()) * 1000)::bigint FROM :schema.records WHERE hash = $1"
        ),
        schema,
    );
    PostgresTool { look, store: store::statement(schema), ledger, effect, limit: LIMIT }
}

impl<F> PostgresTool<F> {
    /// How long a transaction may last; then it is undone.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }
}

impl<F> std::fmt::Debug for PostgresTool<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresTool").field("limit", &self.limit).finish_non_exhaustive()
    }
}

/// How a transaction ended that was not committed, or perhaps was.
enum Ended {
    /// Certainly nothing happened, and nothing will.
    Undone(Undo),
    /// The record is no longer this attempt's. Nothing happened.
    Fenced,
    /// The ledger could not be used. Nothing happened.
    Ledger(LedgerError),
    /// The commit was sent, and its answer was lost.
    Lost(String),
}

impl From<Error> for Ended {
    fn from(error: Error) -> Ended {
        Ended::Undone(Undo::Database(error))
    }
}

#[async_trait]
impl<F> Tool for PostgresTool<F>
where
    F: for<'a> Fn(&'a Transaction<'a>, &'a Outgoing) -> Effecting<'a> + Send + Sync + 'static,
{
    async fn dispatch(&self, outgoing: &Outgoing) -> ToolReply {
        let not_run = |body: Bytes| ToolReply::Error(ErrorClass::NotRun, body);
        let busy = |why: String| ToolReply::Busy { retry_after: None, body: why.into() };
        match self.run(outgoing).await {
            Ok(result) => ToolReply::Result(result),
            Err(Ended::Undone(Undo::Refused(body))) => not_run(body),
            Err(Ended::Undone(Undo::Database(error))) if is_passing(&error) => busy(text(&error)),
            Err(Ended::Undone(Undo::Database(error))) => not_run(text(&error).into()),
            Err(Ended::Ledger(error)) => busy(error.to_string()),
            Err(Ended::Fenced) => not_run("this attempt is no longer the operation's: it was not carried out".into()),
            Err(Ended::Lost(why)) => {
                tracing::warn!(key = %outgoing.key, reason = %why, "the answer to a commit was lost");
                ToolReply::ConnectionLost
            }
        }
    }
}

impl<F> PostgresTool<F>
where
    F: for<'a> Fn(&'a Transaction<'a>, &'a Outgoing) -> Effecting<'a> + Send + Sync + 'static,
{
    async fn run(&self, outgoing: &Outgoing) -> Result<Bytes, Ended> {
        // All that may wait has a limit here, and the server has limits of its own for what this process leaves behind.
        let late = |what: &str| Ended::Ledger(LedgerError::Unavailable(format!("{what} within {:?}", self.limit)));
        let lending = tokio::time::timeout(self.limit, self.ledger.pool.lend());
        let mut lent = lending.await.map_err(|_| late("no connection was free"))?.map_err(Ended::Ledger)?;
        let transaction = lent.live().client.transaction().await?;
        fault::point("after-begin");
        let prepared = tokio::time::timeout(self.limit, self.prepare(&transaction, outgoing));
        let (result, hash) = match prepared.await {
            Ok(Ok(prepared)) => prepared,
            Ok(Err(ended)) => {
                if tokio::time::timeout(self.limit, transaction.rollback()).await.is_ok_and(|undone| undone.is_ok()) {
                    lent.give_back();
                }
                return Err(ended);
            }
            // Closing the connection undoes it.
            Err(_) => return Err(late("its transaction was not done")),
        };
        fault::point("before-commit");
        let committed = tokio::time::timeout(self.limit, transaction.commit()).await;
        fault::point("after-commit");
        match committed {
            Ok(Ok(())) => {
                self.ledger.waiters.stored([(&hash, true)].into_iter());
                lent.give_back();
                Ok(result)
            }
            Ok(Err(error)) if is_undone(&error) => Err(error.into()),
            Ok(Err(error)) => Err(Ended::Lost(text(&error))),
            Err(_) => Err(Ended::Lost(format!("no answer within {:?}", self.limit))),
        }
    }

    /// Everything but the commit.
    async fn prepare(&self, transaction: &Transaction<'_>, outgoing: &Outgoing) -> Result<(Bytes, Digest), Ended> {
        // A process that stops in the middle must not keep others from the rows that it has locked.
        let limit = i32::try_from(self.limit.as_millis()).unwrap_or(i32::MAX).max(1);
        let limits =
            format!("SET LOCAL idle_in_transaction_session_timeout = {limit}; SET LOCAL lock_timeout = {limit}");
        transaction.batch_execute(&limits).await?;
        let hash = outgoing.key.digest();
        let begun = Instant::now();
        let (entry, now) = self.look(transaction, &hash).await?;
        // Before it does anything, whether it may. Whether it still might is decided by the compare-and-set below, from the
        // same version.
        self.confirmed(&entry, outgoing, Digest::of(b""), now)?;

        let result = (self.effect)(transaction, outgoing).await.map_err(Ended::Undone)?;
        fault::point("after-effect");

        let now = now.after(u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX));
        let mut change = self.confirmed(&entry, outgoing, Digest::of(&result), now)?;
        change.outcome = Some(result.clone());
        let item = Item::new(change).map_err(Ended::Ledger)?;
        let options = &self.ledger.target.options;
        let stored = until_decided(options.timeout, || async {
            let stored = store::store(transaction.client(), &self.store, options.lock_patience(), &[&item]).await;
            stored.map_err(|e| crate::error::from_postgres(&e)).and_then(|became| {
                became.first().copied().ok_or_else(|| LedgerError::Corrupt("a store was not answered".to_owned()))
            })
        });
        match stored.await.map_err(Ended::Ledger)? {
            true => Ok((result, hash)),
            false => Err(Ended::Fenced),
        }
    }

    async fn look(&self, transaction: &Transaction<'_>, hash: &Digest) -> Result<(Entry, Time), Ended> {
        let bytes = &hash.as_bytes()[..];
        let row = transaction.query_typed_opt(&self.look, &[(&bytes, Type::BYTEA)]).await?.ok_or(Ended::Fenced)?;
        let entry = row::entry(&row).map_err(Ended::Ledger)?;
        let now = row::column(&row, 12).map(row::from_time).map_err(Ended::Ledger)?;
        Ok((entry, now))
    }

    /// The core's step to the record that says that it happened, if the record is still this attempt's.
    fn confirmed(&self, entry: &Entry, outgoing: &Outgoing, result: Digest, now: Time) -> Result<Change, Ended> {
        let what = What::Committed { of: outgoing.attempt, owner: outgoing.epoch, result };
        let event = Event { now, by: outgoing.epoch, draw: 0, what };
        let step = Policy::new(ToolKind::Transactional).step(Some(&entry.record), &event);
        let store = step.actions.iter().find_map(|action| match action {
            Action::Store(store) => Some(store),
            _ => None,
        });
        let store = store.ok_or(Ended::Fenced)?;
        Ok(Change {
            key: outgoing.key.clone(),
            expected: store.expected,
            record: store.record,
            at: now,
            by: outgoing.epoch,
            event: "committed".to_owned(),
            asked: None,
            sent: None,
            outcome: None,
            note: None,
            resource: None,
            keep_until: None,
        })
    }
}

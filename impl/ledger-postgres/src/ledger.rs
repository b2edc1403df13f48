//! The ledger.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use settled::{
    Change, Draw, Entry, Filter, Ledger, LedgerError, Liveness, Promise, Remains, Renewal, Resource, Stored,
};
use settled_protocol::{Digest, Durable, Epoch, Key, Time, Version};
use tokio::sync::mpsc;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use crate::batches::{Batches, Work};
use crate::error::from_postgres;
use crate::lane::{self, Lane, Live};
use crate::migrate::{in_schema, migrate};
use crate::notices::{self, Listener};
use crate::options::PostgresOptions;
use crate::owners::Owners;
use crate::pool::Pool;
use crate::row::{self, CHANGE, ENTRY};
use crate::server;
use crate::store::{Item, Storing, until_decided};
use crate::target::Target;
use crate::waiters::Waiters;

/// [`Ledger::changed`] returns after between half of this time and this time in any case.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Entries that are read at a time when all are asked for.
const PAGE: usize = 1_000;

type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// A ledger in a PostgreSQL database, for any number of processes on any number of hosts.
///
/// It must be opened and used in one tokio runtime, and ends with it. Dropping it closes its connections.
pub struct PostgresLedger {
    pub(crate) target: Arc<Target>,
    /// For what is quick.
    quick: Arc<Lane>,
    /// For what may take longer.
    slow: Arc<Lane>,
    stores: Batches<Storing>,
    gets: Batches<Getting>,
    pub(crate) waiters: Arc<Waiters>,
    owners: Owners,
    promise: Promise,
    pub(crate) pool: Pool,
    _listener: Listener,
}

impl std::fmt::Debug for PostgresLedger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresLedger").field("schema", &self.target.schema).finish_non_exhaustive()
    }
}

impl PostgresLedger {
    /// Opens the ledger at a URL: `postgres://ROLE:PASSWORD@HOST:PORT/DATABASE?schema=settled&sslmode=verify-full`. Sets
    /// up its schema, or brings it to this version, if need be.
    ///
    /// # Errors
    ///
    /// [`LedgerError::Unavailable`] if the URL can't be used, the server can't be reached or written to, or the schema was set
    /// up by a newer version. No error holds the password.
    pub async fn connect(url: &str, options: PostgresOptions) -> Result<PostgresLedger, LedgerError> {
        let target = Arc::new(Target::parse(url, &options)?);
        let (mut live, wire) = lane::connect(&target).await.map_err(LedgerError::Unavailable)?;
        let wire = tokio::spawn(wire);
        let set_up = async {
            migrate(&mut live, &target.schema).await?;
            server::promise(&live.client).await.map_err(LedgerError::Unavailable)
        };
        // Others may be migrating, who are waited for.
        let promise = tokio::time::timeout(options.timeout * 6, set_up).await;
        wire.abort();
        let promise = promise
            .map_err(|_| LedgerError::Unavailable("setting up its schema took too long: try again".to_owned()))??;

        let open = || Arc::new(Lane::open(Arc::clone(&target)));
        let (quick, slow) = (open(), open());
        let (tell, names) = mpsc::unbounded_channel();
        let waiters = Arc::new(Waiters::new(tell));
        tokio::spawn(notices::tell(Arc::clone(&slow), Arc::clone(&target.schema), names));
        let storing = Storing::new(&target, Arc::clone(&waiters));
        let writers = (0..options.writers.max(1)).map(|_| open()).collect();
        Ok(PostgresLedger {
            stores: Batches::start(storing, writers),
            gets: Batches::start(Getting::new(&target), vec![Arc::clone(&quick)]),
            owners: Owners::new(&target.schema, options.lock_patience()),
            _listener: Listener::start(&target, Arc::clone(&waiters)),
            pool: Pool::new(Arc::clone(&target)),
            quick,
            slow,
            waiters,
            promise,
            target,
        })
    }

    fn sql(&self, sql: &str) -> String {
        in_schema(sql, &self.target.schema)
    }

    async fn entries(&self, sql: &str, parameters: &[Parameter<'_>]) -> Result<Vec<Entry>, LedgerError> {
        let sql = self.sql(sql);
        let rows = self.slow.ask(async |live| live.client.query_typed(&sql, parameters).await).await?;
        rows.iter().map(row::entry).collect()
    }

    async fn one(&self, lane: &Lane, sql: &str, parameters: &[Parameter<'_>]) -> Result<Row, LedgerError> {
        let sql = self.sql(sql);
        lane.ask(async |live| live.client.query_typed_one(&sql, parameters).await).await
    }
}

#[async_trait]
impl Ledger for PostgresLedger {
    async fn register(&self, lease: Duration) -> Result<Epoch, LedgerError> {
        self.owners.register(&self.quick, lease).await
    }

    async fn renew(&self, epoch: Epoch, lease: Duration) -> Result<Renewal, LedgerError> {
        self.owners.renew(&self.quick, epoch, lease).await
    }

    async fn retire(&self, epoch: Epoch) -> Result<(), LedgerError> {
        self.owners.retire(&self.quick, epoch).await
    }

    async fn liveness(&self, epoch: Epoch) -> Result<Liveness, LedgerError> {
        self.owners.liveness(&self.quick, epoch).await
    }

    async fn time(&self) -> Result<Option<Time>, LedgerError> {
        let sql = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";
        let row = self.one(&self.quick, sql, &[]).await?;
        Ok(Some(row::from_time(row::column(&row, 0)?)))
    }

    async fn compare_and_set(&self, change: Change) -> Result<Stored, LedgerError> {
        let record = change.record;
        let item = Arc::new(Item::new(change)?);
        let stored = until_decided(self.target.options.timeout, || self.stores.ask(Arc::clone(&item))).await?;
        Ok(if stored { Stored::Durable(Durable::attest(&record)) } else { Stored::Refused })
    }

    async fn get(&self, key: &Key) -> Result<Option<Entry>, LedgerError> {
        self.gets.ask(Arc::new(key.digest())).await
    }

    async fn scan(&self, filter: Filter) -> Result<Vec<Entry>, LedgerError> {
        let mut found: Vec<Entry> = Vec::new();
        loop {
            let page = self.page(filter, found.last(), PAGE).await?;
            let is_last = page.len() < PAGE;
            found.extend(page);
            if is_last {
                break;
            }
        }
        found.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        Ok(found)
    }

    async fn page(&self, filter: Filter, after: Option<&Entry>, limit: usize) -> Result<Vec<Entry>, LedgerError> {
        let open = match filter {
            Filter::All => "",
            Filter::Unsettled => "NOT settled AND",
        };
        let sql = format!("SELECT {ENTRY} FROM :schema.records WHERE {open} hash > $1 ORDER BY hash LIMIT $2");
        let after = after.map(|entry| entry.key.digest());
        let after = after.as_ref().map_or(&[][..], |hash| hash.as_bytes());
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.entries(&sql, &[(&after, Type::BYTEA), (&limit, Type::INT8)]).await
    }

    async fn line(&self, resource: &Resource) -> Result<Vec<Entry>, LedgerError> {
        let line = Digest::of(&row::to_bytes(resource)?);
        let sql = format!("SELECT {ENTRY} FROM :schema.records WHERE line = $1 AND NOT settled ORDER BY place");
        self.entries(&sql, &[(&&line.as_bytes()[..], Type::BYTEA)]).await
    }

    async fn due(&self, now: Time, after: Option<&Entry>, limit: usize) -> Result<Vec<Entry>, LedgerError> {
        let (since, hash) = match after {
            Some(entry) => (entry.keep_until.map_or(i64::MIN, row::time), Some(entry.key.digest())),
            None => (i64::MIN, None),
        };
        let hash = hash.as_ref().map_or(&[][..], |hash| hash.as_bytes());
        let (now, limit) = (row::time(now), i64::try_from(limit).unwrap_or(i64::MAX));
        let sql = format!(
            "SELECT {ENTRY} FROM :schema.records WHERE settled AND keep_until <= $1 AND (keep_until, hash) > ($2, $3) \
             ORDER BY keep_until, hash LIMIT $4"
        );
        let parameters: [Parameter<'_>; 4] =
            [(&now, Type::INT8), (&since, Type::INT8), (&hash, Type::BYTEA), (&limit, Type::INT8)];
        self.entries(&sql, &parameters).await
    }

    async fn history(&self, key: &Key) -> Result<Vec<Change>, LedgerError> {
        let hash = key.digest();
        let sql = self.sql(&format!("SELECT {CHANGE} FROM :schema.history WHERE hash = $1 ORDER BY version"));
        let hash = &hash.as_bytes()[..];
        let rows = self.slow.ask(async |live| live.client.query_typed(&sql, &[(&hash, Type::BYTEA)]).await).await?;
        rows.iter().map(|row| row::change(key, row)).collect()
    }

    async fn forget(&self, key: &Key, expected: Version, remains: Remains) -> Result<bool, LedgerError> {
        let (hash, version) = (key.digest(), row::version(expected));
        let bytes = &hash.as_bytes()[..];
        let until = match remains {
            Remains::Nothing => None,
            Remains::Tombstone { keep_until } => Some(row::time(keep_until)),
        };
        let patience = self.target.options.lock_patience();
        let parameters: [Parameter<'_>; 4] =
            [(&patience, Type::INT4), (&bytes, Type::BYTEA), (&version, Type::INT8), (&until, Type::INT8)];
        let row = self.one(&self.slow, "SELECT :schema.forget($1, $2, $3, $4)", &parameters).await?;
        let forgotten = row::column(&row, 0)?;
        if forgotten {
            self.waiters.stored([(&hash, true)].into_iter());
        }
        Ok(forgotten)
    }

    async fn changed(&self, key: &Key, seen: Option<Version>) -> Result<(), LedgerError> {
        let waiter = self.waiters.wait(&key.digest());
        let changed = waiter.changed.notified();
        tokio::pin!(changed);
        // From here on no change can be missed between the look and the wait.
        changed.as_mut().enable();
        if self.get(key).await?.map(|entry| entry.record.version()) == seen {
            // Either way the caller looks again.
            let _ = tokio::time::timeout(LOOK_AGAIN.mul_f64(0.5 + fastrand::f64() / 2.0), changed).await;
        }
        Ok(())
    }

    async fn draw(&self, draw: Draw) -> Result<bool, LedgerError> {
        let thousandths = draw.requests.saturating_mul(u64::from(draw.per_mille)).min(u64::from(draw.burst) * 1_000);
        let (brought, full) = (row::time(Time(thousandths)), i64::from(draw.burst) * 1_000);
        let parameters: [Parameter<'_>; 3] = [(&brought, Type::INT8), (&full, Type::INT8), (&draw.take, Type::BOOL)];
        row::column(&self.one(&self.quick, "SELECT :schema.draw($1, $2, $3)", &parameters).await?, 0)
    }

    fn promise(&self) -> Promise {
        self.promise.clone()
    }
}

/// Reads the entries that have been asked for since the last time.
struct Getting {
    sql: String,
    timeout: Duration,
}

impl Getting {
    fn new(target: &Target) -> Getting {
        let sql = in_schema(&format!("SELECT {ENTRY} FROM :schema.records WHERE hash = ANY ($1)"), &target.schema);
        Getting { sql, timeout: target.options.timeout }
    }

    async fn read(&self, live: &Live, hashes: &[&Digest]) -> Result<Vec<Row>, LedgerError> {
        let hashes: Vec<&[u8]> = hashes.iter().map(|hash| &hash.as_bytes()[..]).collect();
        let parameters: [Parameter<'_>; 1] = [(&hashes, Type::BYTEA_ARRAY)];
        let read = live.within(self.timeout, live.client.query_typed(&self.sql, &parameters)).await?;
        read.map_err(|e| from_postgres(&e))
    }
}

#[async_trait]
impl Work for Getting {
    type Question = Digest;
    type Answer = Option<Entry>;

    fn bytes(_: &Digest) -> usize {
        0
    }

    fn locks(_: &Digest) -> usize {
        0
    }

    async fn run(&self, live: &Live, hashes: &[&Digest]) -> Vec<Result<Option<Entry>, LedgerError>> {
        let rows = match self.read(live, hashes).await {
            Ok(rows) => rows,
            Err(error) => return hashes.iter().map(|_| Err(error.clone())).collect(),
        };
        let found: HashMap<&[u8], &Row> = rows.iter().filter_map(|row| Some((row.try_get(0).ok()?, row))).collect();
        hashes.iter().map(|hash| found.get(&hash.as_bytes()[..]).map(|row| row::entry(row)).transpose()).collect()
    }
}

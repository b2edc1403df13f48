//! Compare-and-sets: many in one statement.

use std::sync::Arc;
use std::time::Duration;

use settled::{Change, LedgerError, fault};
use settled_protocol::Digest;
use tokio::time::{Instant, sleep};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error};

use crate::batches::Work;
use crate::error::{from_postgres, is_undone};
use crate::lane::Live;
use crate::migrate::in_schema;
use crate::row;
use crate::target::Target;
use crate::waiters::Waiters;

/// Arguments, answers and notes of one change may have this many bytes.
pub(crate) const MAX_BYTES: usize = 64 << 20;

/// A compare-and-set, ready to be sent.
pub(crate) struct Item {
    pub hash: Digest,
    pub bytes: usize,
    expected: Option<i64>,
    version: i64,
    generation: i64,
    settled: bool,
    state: &'static str,
    key: String,
    record: Vec<u8>,
    change: Vec<u8>,
    resource: Option<Vec<u8>>,
    line: Option<Digest>,
    keep_until: Option<i64>,
    from: Change,
}

impl Item {
    pub fn new(change: Change) -> Result<Item, LedgerError> {
        let of = |body: &Option<bytes::Bytes>| body.as_ref().map_or(0, bytes::Bytes::len);
        let bytes =
            of(&change.asked) + of(&change.sent) + of(&change.outcome) + change.note.as_ref().map_or(0, String::len);
        if bytes > MAX_BYTES {
            return Err(LedgerError::TooLarge(format!(
                "a record with {bytes} bytes of arguments, answers and notes was refused, its limit is {MAX_BYTES} bytes; \
                 nothing was stored"
            )));
        }
        let resource = change.resource.as_ref().map(row::to_bytes).transpose()?;
        Ok(Item {
            hash: change.key.digest(),
            bytes,
            expected: change.expected.map(row::version),
            version: row::version(change.record.version()),
            generation: i64::from(change.record.generation()),
            settled: change.record.is_settled(),
            state: change.record.state().name(),
            key: change.key.to_string(),
            record: row::to_bytes(&change.record)?,
            change: row::to_bytes(&row::Said::of(&change))?,
            line: resource.as_deref().map(Digest::of),
            resource,
            keep_until: change.keep_until.map(row::time),
            from: change,
        })
    }

    /// Whether someone may wait for the version before.
    fn advances(&self) -> bool {
        self.expected.is_some()
    }
}

/// What became of a compare-and-set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Became {
    Refused,
    Stored,
    /// Another transaction has the row: ask again.
    Busy,
}

/// Sends compare-and-sets as one statement: all of them, or none if it fails.
pub(crate) async fn store(
    client: &Client,
    statement: &str,
    patience: i32,
    items: &[&Item],
) -> Result<Vec<Became>, Error> {
    // A row or a line after the other in the same order everywhere: no deadlocks. Stable, for changes of the same key.
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|&i| items[i].hash);
    let sorted = || order.iter().map(|&i| items[i]);
    let mut lines: Vec<i32> = sorted().filter_map(|item| item.line).map(|line| lock_of(&line)).collect();
    lines.sort_unstable();
    lines.dedup();
    macro_rules! all {
        ($item:ident => $value:expr) => {
            sorted().map(|$item| $value).collect::<Vec<_>>()
        };
    }
    let hashes = all!(item => &item.hash.as_bytes()[..]);
    let keys = all!(item => &*item.key);
    let expected = all!(item => item.expected);
    let versions = all!(item => item.version);
    let generations = all!(item => item.generation);
    let states = all!(item => item.state);
    let settled = all!(item => item.settled);
    let records = all!(item => &*item.record);
    let changes = all!(item => &*item.change);
    let asked = all!(item => item.from.asked.as_deref());
    let sent = all!(item => item.from.sent.as_deref());
    let outcomes = all!(item => item.from.outcome.as_deref());
    let notes = all!(item => item.from.note.as_deref().map(str::as_bytes));
    let resources = all!(item => item.resource.as_deref());
    let line_hashes = all!(item => item.line.as_ref().map(|line| &line.as_bytes()[..]));
    let epochs = all!(item => i64::from(item.from.by.0));
    let keep_untils = all!(item => item.keep_until);
    let row = client
        .query_typed_one(
            statement,
            &[
                (&patience, Type::INT4),
                (&lines, Type::INT4_ARRAY),
                (&hashes, Type::BYTEA_ARRAY),
                (&keys, Type::TEXT_ARRAY),
                (&expected, Type::INT8_ARRAY),
                (&versions, Type::INT8_ARRAY),
                (&generations, Type::INT8_ARRAY),
                (&states, Type::TEXT_ARRAY),
                (&settled, Type::BOOL_ARRAY),
                (&records, Type::BYTEA_ARRAY),
                (&changes, Type::BYTEA_ARRAY),
                (&asked, Type::BYTEA_ARRAY),
                (&sent, Type::BYTEA_ARRAY),
                (&outcomes, Type::BYTEA_ARRAY),
                (&notes, Type::BYTEA_ARRAY),
                (&resources, Type::BYTEA_ARRAY),
                (&line_hashes, Type::BYTEA_ARRAY),
                (&epochs, Type::INT8_ARRAY),
                (&keep_untils, Type::INT8_ARRAY),
            ],
        )
        .await?;
    let answers: Vec<i32> = row.try_get(0)?;
    let mut became = vec![Became::Refused; items.len()];
    for (&i, answer) in order.iter().zip(answers) {
        became[i] = match answer {
            1 => Became::Stored,
            2 => Became::Busy,
            _ => Became::Refused,
        };
    }
    Ok(became)
}

/// The statement that [`store`] sends.
pub(crate) fn statement(schema: &str) -> String {
    let parameters: Vec<String> = (1..=19).map(|i| format!("${i}")).collect();
    in_schema(&format!("SELECT :schema.store({})", parameters.join(", ")), schema)
}

/// Lines that share a lock only wait for each other a little longer.
fn lock_of(line: &Digest) -> i32 {
    let [a, b, c, d, ..] = *line.as_bytes();
    i32::from_be_bytes([a, b, c, d])
}

/// Stores what has gathered.
pub(crate) struct Storing {
    statement: String,
    patience: i32,
    timeout: Duration,
    waiters: Arc<Waiters>,
}

impl Storing {
    pub fn new(target: &Target, waiters: Arc<Waiters>) -> Storing {
        Storing {
            statement: statement(&target.schema),
            patience: target.options.lock_patience(),
            timeout: target.options.timeout,
            waiters,
        }
    }

    async fn send(&self, live: &Live, items: &[&Item]) -> Result<Result<Vec<Became>, Error>, LedgerError> {
        fault::point("before-sql-store");
        let sent = live.within(self.timeout, store(&live.client, &self.statement, self.patience, items)).await?;
        fault::point("after-sql-store");
        if let Ok(became) = &sent {
            let stored = items.iter().zip(became).filter(|(_, became)| **became == Became::Stored);
            self.waiters.stored(stored.map(|(item, _)| (&item.hash, item.advances())));
        }
        Ok(sent)
    }

    /// One by one, so that the one that makes the statement fail fails alone.
    async fn apart(&self, live: &Live, items: &[&Item]) -> Vec<Result<Became, LedgerError>> {
        let mut answers = Vec::with_capacity(items.len());
        for item in items {
            let one = match self.send(live, &[item]).await {
                Ok(Ok(became)) => Ok(became.first().copied().unwrap_or(Became::Refused)),
                Ok(Err(error)) => Err(from_postgres(&error)),
                Err(error) => Err(error),
            };
            answers.push(one);
        }
        answers
    }
}

#[async_trait::async_trait]
impl Work for Storing {
    type Question = Item;
    type Answer = Became;

    fn bytes(item: &Item) -> usize {
        item.bytes
    }

    fn locks(item: &Item) -> usize {
        usize::from(item.line.is_some())
    }

    async fn run(&self, live: &Live, items: &[&Item]) -> Vec<Result<Became, LedgerError>> {
        let all = |error: LedgerError| items.iter().map(|_| Err(error.clone())).collect();
        match self.send(live, items).await {
            Ok(Ok(became)) => became.into_iter().map(Ok).collect(),
            Ok(Err(error)) if is_undone(&error) && items.len() > 1 => self.apart(live, items).await,
            Ok(Err(error)) => all(from_postgres(&error)),
            Err(error) => all(error),
        }
    }
}

/// Asks again as long as another transaction has the row, but not for ever.
pub(crate) async fn until_decided<F>(limit: Duration, mut ask: impl FnMut() -> F) -> Result<bool, LedgerError>
where
    F: Future<Output = Result<Became, LedgerError>>,
{
    let give_up = Instant::now() + limit;
    let mut wait = Duration::from_millis(2);
    loop {
        match ask().await? {
            Became::Stored => return Ok(true),
            Became::Refused => return Ok(false),
            Became::Busy if Instant::now() >= give_up => {
                return Err(LedgerError::Unavailable("another transaction keeps the record locked".to_owned()));
            }
            Became::Busy => {
                sleep(wait.mul_f64(0.5 + fastrand::f64())).await;
                wait = (wait * 2).min(Duration::from_millis(100));
            }
        }
    }
}

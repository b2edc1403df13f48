//! The ledger.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redis::Value;
use settled::presence::Presence;
use settled::protocol::{Durable, Epoch, Key, Time, Version};
use settled::{
    Change, Draw, Entry, Filter, Ledger, LedgerError, Liveness, Promise, Remains, Renewal, Resource, Stored,
};
use tokio::time::{Instant, sleep, timeout};

use crate::address::Address;
use crate::call::{Repeat, unexpected};
use crate::entry::{self, Kept, corrupt};
use crate::link::Link;
use crate::names;
use crate::options::RedisOptions;
use crate::watch::Watch;

/// How long [`Ledger::changed`] waits at most.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// The same, while the server doesn't tell of changes.
const LOOK_OFTEN: Duration = Duration::from_millis(200);
/// How many records to read at once.
const TOGETHER: usize = 64;
/// The longest lease, in milliseconds: a hundred years.
const LONGEST_LEASE: u128 = 100 * 365 * 86_400_000;
/// How long after its time the server itself removes a tombstone that nobody has removed, in milliseconds.
const REMOVE_AFTER: u64 = 86_400_000;
/// The latest time, in milliseconds, at which the server can remove something.
const LATEST_REMOVAL: u64 = 1 << 50;

/// The ledger on a Redis server: for any number of processes and hosts.
///
/// What it promises depends on the server, see [`promise`](Ledger::promise). A server that was emptied, or that has lost changes
/// which this process knows to have been acknowledged, is [`Poisoned`](LedgerError::Poisoned) for this value for ever.
#[derive(Debug)]
pub struct RedisLedger {
    link: Link,
    watch: Arc<Watch>,
    here: Presence,
}

impl RedisLedger {
    /// Connects to the server named by a URL: `redis://[user:password@]host[:port][/db][?option=value…]`, with `rediss://` for
    /// TLS. Options are those of [`RedisOptions`]: `prefix`, `patience`, `connect_timeout`, `wait` (replicas), `wait_timeout`,
    /// `trust=durable`, `ca`, `cert`, `key`.
    ///
    /// # Errors
    /// If the URL is not understood, or the server can't be reached within the patience, or is none that can hold a ledger.
    pub async fn connect(url: &str, options: RedisOptions) -> Result<RedisLedger, LedgerError> {
        let link = Link::new(Address::parse(url, options)?)?;
        link.connected(Instant::now() + link.options.patience).await?;
        let watch = Watch::start(link.client.clone());
        Ok(RedisLedger { link, watch, here: Presence::of_this_process() })
    }

    /// The URL, without its password.
    pub fn display(&self) -> &str {
        &self.link.display
    }

    /// What is stored of these keys, in their order.
    async fn read(&self, keys: &[&str], all: bool) -> Result<Vec<Option<Kept>>, LedgerError> {
        self.link.without_doubt().await?;
        let mut call = self.link.script(&self.link.scripts.read);
        call.arg(self.link.names.base()).arg(if all { "all" } else { "" }).arg(keys);
        let answer = self.link.run(call, Repeat::Safe).await?;
        match answer.rest.into_iter().next() {
            Some(Value::Array(found)) if found.len() == keys.len() => found.into_iter().map(Kept::read).collect(),
            _ => Err(corrupt(&"a script did not answer with what it has read")),
        }
    }

    /// The entries of these keys that are there.
    async fn entries(&self, keys: &[String]) -> Result<Vec<Entry>, LedgerError> {
        let mut entries = Vec::with_capacity(keys.len());
        for keys in keys.chunks(TOGETHER) {
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            for kept in self.read(&keys, false).await?.into_iter().flatten() {
                entries.push(kept.entry()?);
            }
        }
        Ok(entries)
    }

    /// The keys of all records.
    async fn keys(&self) -> Result<Vec<String>, LedgerError> {
        let (unsettled, due) = (self.link.names.unsettled(), self.link.names.due());
        let mut call = self.link.script(&self.link.scripts.keys);
        call.key(unsettled).key(due);
        let answer = self.link.run(call, Repeat::Safe).await?;
        let mut lists = answer.rest.into_iter().map(redis::from_redis_value::<Vec<String>>);
        let (Some(Ok(unsettled)), Some(Ok(due))) = (lists.next(), lists.next()) else {
            return Err(corrupt(&"a script did not answer with keys"));
        };
        let due = due.iter().filter_map(|place| names::key_of_due(place)).map(str::to_owned);
        Ok(unsettled.into_iter().chain(due).collect())
    }

    /// Up to `limit` settled entries whose places in the list of what is due lie between these.
    async fn settled(&self, mut from: String, to: &str, limit: usize) -> Result<Vec<Entry>, LedgerError> {
        let (list, mut entries) = (self.link.names.due(), Vec::new());
        while entries.len() < limit {
            let mut range = redis::cmd("ZRANGEBYLEX");
            range.arg(&list).arg(&from).arg(to).arg("LIMIT").arg(0).arg((limit - entries.len()).min(TOGETHER));
            let places: Vec<String> = self.link.command(range).await?;
            let Some(last) = places.last() else { break };
            from = format!("({last}");
            let keys: Vec<&str> = places.iter().filter_map(|place| names::key_of_due(place)).collect();
            for (place, kept) in places.iter().zip(self.read(&keys, false).await?) {
                match kept.map(Kept::entry).transpose()? {
                    // Unless it has changed since its place was read.
                    Some(entry) if entry.record.is_settled() && names::due(entry.keep_until, &entry.key) == *place => {
                        entries.push(entry);
                    }
                    Some(_) => {}
                    None => self.tidy(place).await?,
                }
            }
        }
        Ok(entries)
    }

    async fn version(&self, key: &str) -> Result<Option<Version>, LedgerError> {
        let mut get = redis::cmd("GET");
        get.arg(self.link.names.record(key));
        let record: Option<String> = self.link.command(get).await?;
        // It begins with the version.
        Ok(record.and_then(|record| record.split(' ').next()?.parse().ok()).map(Version))
    }

    /// The members of a sorted set, in their order.
    async fn range(&self, name: &str) -> Result<Vec<String>, LedgerError> {
        let mut range = redis::cmd("ZRANGE");
        range.arg(name).arg(0).arg(-1);
        self.link.command(range).await
    }

    /// The server has removed the tombstone at this place in the list of what is due.
    async fn tidy(&self, place: &str) -> Result<(), LedgerError> {
        let (names, key) = (&self.link.names, names::key_of_due(place).unwrap_or_default());
        let mut call = self.link.script(&self.link.scripts.tidy);
        call.key(names.record(key)).key(names.due()).arg(place);
        self.link.run(call, Repeat::Safe).await.map(drop)
    }
}

#[async_trait]
impl Ledger for RedisLedger {
    async fn register(&self, lease: Duration) -> Result<Epoch, LedgerError> {
        let names = &self.link.names;
        let host = postcard::to_stdvec(&self.here).unwrap_or_default();
        let mut call = self.link.script(&self.link.scripts.register);
        call.key(names.leases()).key(names.hosts()).key(names.gone()).key(names.unsettled());
        call.arg(millis(lease)).arg(&host);
        let answer = self.link.write(call).await?;
        match (answer.says.as_str(), answer.rest.first().cloned().map(redis::from_redis_value)) {
            ("registered", Some(Ok(epoch))) => Ok(Epoch(epoch)),
            ("exhausted", _) => {
                Err(self.link.unavailable("all epochs have been given away: begin a new ledger, with another prefix"))
            }
            _ => unexpected(&answer),
        }
    }

    async fn renew(&self, epoch: Epoch, lease: Duration) -> Result<Renewal, LedgerError> {
        let names = &self.link.names;
        let mut call = self.link.script(&self.link.scripts.renew);
        call.key(names.leases()).key(names.gone()).arg(epoch.0).arg(millis(lease));
        let answer = self.link.run(call, Repeat::Safe).await?;
        match answer.says.as_str() {
            "held" => Ok(Renewal::Held),
            "fenced" => Ok(Renewal::Fenced),
            _ => unexpected(&answer),
        }
    }

    async fn retire(&self, epoch: Epoch) -> Result<(), LedgerError> {
        let names = &self.link.names;
        let mut call = self.link.script(&self.link.scripts.retire);
        call.key(names.leases()).key(names.hosts()).key(names.gone()).arg(epoch.0);
        self.link.run(call, Repeat::Safe).await.map(drop)
    }

    async fn liveness(&self, epoch: Epoch) -> Result<Liveness, LedgerError> {
        let names = &self.link.names;
        let mut call = self.link.script(&self.link.scripts.liveness);
        call.key(names.leases()).key(names.hosts()).key(names.gone()).arg(epoch.0);
        let answer = self.link.run(call, Repeat::Safe).await?;
        let host: Option<Vec<u8>> = answer.rest.first().cloned().and_then(|host| redis::from_redis_value(host).ok());
        let owner: Option<Presence> = host.and_then(|host| postcard::from_bytes(&host).ok());
        let ended = owner.is_some_and(|owner| owner.has_ended(&self.here));
        match answer.says.as_str() {
            "gone" => Ok(Liveness::Gone),
            "alive" | "lapsed" if ended => {
                // So that processes on other hosts learn of it.
                self.retire(epoch).await?;
                Ok(Liveness::Gone)
            }
            "alive" => Ok(Liveness::Alive),
            "lapsed" => Ok(Liveness::Lapsed),
            _ => unexpected(&answer),
        }
    }

    async fn time(&self) -> Result<Option<Time>, LedgerError> {
        let (seconds, micros): (u64, u64) = self.link.command(redis::cmd("TIME")).await?;
        Ok(Some(Time(seconds.saturating_mul(1_000).saturating_add(micros / 1_000))))
    }

    async fn compare_and_set(&self, change: Change) -> Result<Stored, LedgerError> {
        let (names, key, record) = (&self.link.names, change.key.to_string(), &change.record);
        let bytes = entry::encode(&change)?;
        let expected = change.expected.map_or_else(String::new, |version| version.to_string());
        let kept = if record.is_settled() { names::kept(change.keep_until) } else { String::new() };
        let line = change.resource.as_ref().map_or_else(String::new, names::line);
        let mut call = self.link.script(&self.link.scripts.store);
        call.key(names.record(&key)).key(names.changes(&key)).key(names.unsettled()).key(names.due());
        call.arg(&expected).arg(record.version().0).arg(record.generation());
        call.arg(names::owner(record.sent().map(|sent| sent.owner()))).arg(&kept).arg(&line);
        call.arg(&bytes[..]).arg(&key).arg(names.base());
        let answer = self.link.write(call).await?;
        match answer.says.as_str() {
            "stored" => Ok(Stored::Durable(Durable::attest(record))),
            "refused" => Ok(Stored::Refused),
            _ => unexpected(&answer),
        }
    }

    async fn get(&self, key: &Key) -> Result<Option<Entry>, LedgerError> {
        let key = key.to_string();
        self.read(&[&key], false).await?.into_iter().flatten().next().map(Kept::entry).transpose()
    }

    async fn scan(&self, filter: Filter) -> Result<Vec<Entry>, LedgerError> {
        let keys = match filter {
            Filter::All => self.keys().await?,
            Filter::Unsettled => self.range(&self.link.names.unsettled()).await?,
        };
        let mut entries = self.entries(&keys).await?;
        entries.retain(|entry| filter == Filter::All || !entry.record.is_settled());
        entries.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(entries)
    }

    /// The settled ones come first, in the order in which they may be forgotten; then the others, by their keys.
    async fn page(&self, filter: Filter, after: Option<&Entry>, limit: usize) -> Result<Vec<Entry>, LedgerError> {
        let after_settled = after.filter(|entry| entry.record.is_settled());
        let mut entries = match (filter, after, after_settled) {
            (Filter::Unsettled, ..) | (Filter::All, Some(_), None) => Vec::new(),
            (Filter::All, ..) => self.settled(after_place(after_settled), "+", limit).await?,
        };
        if entries.len() < limit {
            let mut unsettled = self.scan(Filter::Unsettled).await?;
            if after_settled.is_none() {
                unsettled.retain(|entry| after.is_none_or(|after| entry.key > after.key));
            }
            unsettled.truncate(limit - entries.len());
            entries.extend(unsettled);
        }
        Ok(entries)
    }

    async fn line(&self, resource: &Resource) -> Result<Vec<Entry>, LedgerError> {
        let keys = self.range(&self.link.names.line(&names::line(resource))).await?;
        let mut entries = self.entries(&keys).await?;
        // Since the keys were read, some may have been settled, and some may have come back as new operations.
        entries.retain(|entry| entry.resource.as_ref() == Some(resource) && !entry.record.is_settled());
        entries.sort_by_key(|entry| entry.place);
        Ok(entries)
    }

    async fn due(&self, now: Time, after: Option<&Entry>, limit: usize) -> Result<Vec<Entry>, LedgerError> {
        // Up to behind all keys at that time.
        self.settled(after_place(after), &format!("({};", names::time(now)), limit).await
    }

    async fn history(&self, key: &Key) -> Result<Vec<Change>, LedgerError> {
        let key = key.to_string();
        let kept = self.read(&[&key], true).await?.into_iter().flatten().next();
        Ok(kept.map(Kept::changes).unwrap_or_default())
    }

    async fn forget(&self, key: &Key, expected: Version, remains: Remains) -> Result<bool, LedgerError> {
        let mut tombstone = (String::new(), Vec::new(), String::new());
        if let Remains::Tombstone { keep_until } = remains {
            let Some(entry) = self.get(key).await?.filter(|entry| entry.record.version() == expected) else {
                return Ok(false);
            };
            let removal = keep_until.0.saturating_add(REMOVE_AFTER);
            let removal = if removal <= LATEST_REMOVAL { removal.to_string() } else { String::new() };
            tombstone = (names::time(keep_until), entry::encode(&entry::tombstone(&entry, keep_until))?, removal);
        }
        let (names, key) = (&self.link.names, key.to_string());
        let mut call = self.link.script(&self.link.scripts.forget);
        call.key(names.record(&key)).key(names.changes(&key)).key(names.unsettled()).key(names.due());
        call.arg(expected.0).arg(&key).arg(names.base());
        call.arg(&tombstone.0).arg(&tombstone.1[..]).arg(&tombstone.2);
        let answer = self.link.write(call).await?;
        match answer.says.as_str() {
            "forgotten" => Ok(true),
            "refused" => Ok(false),
            _ => unexpected(&answer),
        }
    }

    async fn changed(&self, key: &Key, seen: Option<Version>) -> Result<(), LedgerError> {
        let key = key.to_string();
        let (waiter, told) = self.watch.on(self.link.names.channel(&key)).await;
        let changed = waiter.changed.notified();
        tokio::pin!(changed);
        // From here on no change can be missed between the look and the wait.
        changed.as_mut().enable();
        if self.version(&key).await? == seen {
            let wait = if told { LOOK_AGAIN } else { LOOK_OFTEN };
            // Not all at the same time.
            let wait = wait.mul_f64(0.5 + fastrand::f64() / 2.0);
            if told {
                // Either way the caller looks again.
                let _ = timeout(wait, changed).await;
            } else {
                sleep(wait).await;
            }
        }
        Ok(())
    }

    async fn draw(&self, draw: Draw) -> Result<bool, LedgerError> {
        let full = u64::from(draw.burst).saturating_mul(1_000);
        // More than fits in is of no use, and too large a number would not be exact at the server.
        let brought = draw.requests.saturating_mul(u64::from(draw.per_mille)).min(full);
        let mut call = self.link.script(&self.link.scripts.draw);
        call.key(self.link.names.budget()).arg(brought).arg(full).arg(u8::from(draw.take));
        let answer = self.link.run(call, Repeat::Safe).await?;
        match answer.says.as_str() {
            "taken" => Ok(true),
            "none" => Ok(false),
            _ => unexpected(&answer),
        }
    }

    fn promise(&self) -> Promise {
        self.link.promise()
    }
}

/// From where to list what is settled.
fn after_place(after: Option<&Entry>) -> String {
    after.map_or_else(|| "-".to_owned(), |entry| format!("({}", names::due(entry.keep_until, &entry.key)))
}

fn millis(lease: Duration) -> u64 {
    u64::try_from(lease.as_millis().min(LONGEST_LEASE)).unwrap_or(u64::MAX)
}

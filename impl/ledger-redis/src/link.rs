//! The connection to the server: one for all calls, made anew when it is lost, and what is known of the server's data.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, RedisResult};
use settled::{LedgerError, Promise};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::address::Address;
use crate::failure;
use crate::names::Names;
use crate::options::RedisOptions;
use crate::replicas::Replicas;
use crate::script::Scripts;
use crate::server::Server;

/// The way in which the data is laid out; larger numbers are of later versions.
const FORMAT: u32 = 1;
/// The first pause after an attempt to connect that failed, and the longest; each is drawn at random up to that.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// What is known before the server has said anything.
const SILENT: &str = "it does not answer";

/// A connection, and the acknowledgements of the replicas for what went over it.
#[derive(Debug)]
pub(crate) struct Connected {
    pub(crate) connection: MultiplexedConnection,
    pub(crate) replicas: Replicas,
}

/// The server, as this process knows it.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) display: String,
    pub(crate) options: RedisOptions,
    pub(crate) names: Names,
    pub(crate) scripts: Scripts,
    pub(crate) client: Client,
    current: Mutex<Option<Arc<Connected>>>,
    /// Held by the call that connects, for all that wait for it.
    connecting: tokio::sync::Mutex<Pause>,
    /// Why the last attempt to connect failed.
    trouble: Mutex<String>,
    promise: Mutex<Option<Promise>>,
    /// The name that the data got when the ledger began. Other data has another one.
    incarnation: OnceLock<String>,
    /// How many changes the data is known to have: it never has fewer, unless some were lost.
    changes: AtomicU64,
    poisoned: OnceLock<String>,
    /// How many stores too few replicas have acknowledged: what is read after them may be lost by a failover.
    pub(crate) doubts: AtomicU64,
    /// How many of those are followed by a write that enough replicas have acknowledged.
    pub(crate) cleared: AtomicU64,
}

#[derive(Debug, Default)]
struct Pause {
    failures: u32,
    until: Option<Instant>,
}

/// Why there is no connection.
enum NoLink {
    /// There may be one soon.
    NotYet(String),
    /// There will be none.
    Never(LedgerError),
}

impl Link {
    pub(crate) fn new(address: Address) -> Result<Link, LedgerError> {
        let client = address.client()?;
        Ok(Link {
            names: Names::new(&address.options.prefix),
            display: address.display,
            options: address.options,
            scripts: Scripts::new(),
            client,
            current: Mutex::default(),
            connecting: tokio::sync::Mutex::default(),
            trouble: Mutex::new(SILENT.to_owned()),
            promise: Mutex::default(),
            incarnation: OnceLock::new(),
            changes: AtomicU64::new(0),
            doubts: AtomicU64::new(0),
            cleared: AtomicU64::new(0),
            poisoned: OnceLock::new(),
        })
    }

    /// The connection; a new one if there is none, at the latest when the time is over.
    pub(crate) async fn connected(&self, deadline: Instant) -> Result<Arc<Connected>, LedgerError> {
        if let Some(why) = self.poisoned.get() {
            return Err(LedgerError::Poisoned(why.clone()));
        }
        if let Some(connected) = &*lock(&self.current) {
            return Ok(connected.clone());
        }
        let Ok(mut pause) = timeout_at(deadline, self.connecting.lock()).await else {
            return Err(self.unavailable(&lock(&self.trouble)));
        };
        loop {
            if let Some(connected) = &*lock(&self.current) {
                return Ok(connected.clone());
            }
            if let Some(until) = pause.until {
                sleep_until(until.min(deadline)).await;
            }
            if Instant::now() >= deadline {
                return Err(self.unavailable(&lock(&self.trouble)));
            }
            match self.connect(deadline).await {
                Ok(connected) => {
                    *pause = Pause::default();
                    let connected = Arc::new(connected);
                    *lock(&self.current) = Some(connected.clone());
                    return Ok(connected);
                }
                Err(NoLink::Never(error)) => return Err(error),
                Err(NoLink::NotYet(why)) => {
                    let longest = FIRST_PAUSE.saturating_mul(1 << pause.failures.min(6)).min(LONGEST_PAUSE);
                    pause.failures = pause.failures.saturating_add(1);
                    pause.until = Some(Instant::now() + longest.mul_f64(fastrand::f64()));
                    tracing::debug!(ledger = self.display, why, "can't connect");
                    *lock(&self.trouble) = why;
                }
            }
        }
    }

    async fn connect(&self, deadline: Instant) -> Result<Connected, NoLink> {
        let patience = self.options.connect_timeout;
        // Each call has its own time.
        let config = AsyncConnectionConfig::new().set_connection_timeout(Some(patience)).set_response_timeout(None);
        let attempt = async {
            let mut connection =
                self.client.get_multiplexed_async_connection_with_config(&config).await.map_err(not_yet)?;
            let server = Server::ask(&mut connection).await.map_err(not_yet)?;
            if server.is_replica() {
                return Err(NoLink::NotYet(
                    "it is a read-only replica, on which nothing can be stored: name the primary".to_owned(),
                ));
            }
            self.begin(&mut connection).await?;
            self.judge(&server);
            Ok(Connected { connection, replicas: Replicas::default() })
        };
        let until = deadline.min(Instant::now() + patience);
        let late = || NoLink::NotYet(SILENT.to_owned());
        timeout_at(until, attempt).await.unwrap_or_else(|_| Err(late()))
    }

    /// Looks whether the data is that which this process has worked on; begins it if there is none.
    async fn begin(&self, connection: &mut MultiplexedConnection) -> Result<(), NoLink> {
        let new = match self.incarnation.get() {
            Some(_) => String::new(),
            None => format!("{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..)),
        };
        let mut call = self.scripts.begin.key(self.names.ledger());
        let answer: RedisResult<(String, String, String)> = call.arg(new).arg(FORMAT).invoke_async(connection).await;
        let (incarnation, format, changes) = answer.map_err(|error| match failure::meaning(&error) {
            failure::Meaning::Refused => NoLink::Never(self.unavailable(&failure::text(&error))),
            _ => not_yet(error),
        })?;
        if self.incarnation.get_or_init(|| incarnation.clone()) != &incarnation {
            return Err(NoLink::Never(self.replaced()));
        }
        match format.parse::<u32>() {
            Ok(format) if format <= FORMAT => {}
            _ => {
                return Err(NoLink::Never(self.unavailable(&format!(
                    "its data was laid out by a later version (format `{format}`, this one knows {FORMAT}): use that version"
                ))));
            }
        }
        let changes = changes.parse().unwrap_or(0);
        if changes < self.known() {
            return Err(NoLink::Never(self.older(changes)));
        }
        self.saw(changes);
        Ok(())
    }

    /// Notes what the server's acknowledgements are worth, and warns if that is news.
    fn judge(&self, server: &Server) {
        let promise = if self.options.trust_durable { Promise::Kept } else { server.promise() };
        let mut known = lock(&self.promise);
        if known.as_ref() == Some(&promise) {
            return;
        }
        if let Promise::MayBeLost(why) = &promise {
            let wait = match self.options.wait {
                Some(_) => " Waiting for replicas makes that less likely, but does not rule it out.",
                None => "",
            };
            tracing::warn!(
                ledger = self.display,
                "this Redis server may lose what it has acknowledged ({why}): then a call may take effect twice. Use it for tools \
                 that deduplicate or can be sealed, not for opaque or observable ones; `settled check redis-failover` shows what \
                 happens.{wait} Safe: one server without replicas, appendonly yes, appendfsync always, maxmemory-policy \
                 noeviction. If you have made sure of that, say so with `?trust=durable`"
            );
        }
        *known = Some(promise);
    }

    pub(crate) fn promise(&self) -> Promise {
        let unknown = || Promise::MayBeLost("its settings were not checked yet".to_owned());
        lock(&self.promise).clone().unwrap_or_else(unknown)
    }

    /// The connection is of no use any more.
    pub(crate) fn drop_connection(&self, lost: &Arc<Connected>) {
        let mut current = lock(&self.current);
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, lost)) {
            *current = None;
        }
    }

    /// A short pause before asking a server again that is not ready.
    pub(crate) async fn breathe(&self, deadline: Instant) {
        let pause = FIRST_PAUSE.mul_f64(1.0 + fastrand::f64());
        sleep_until(deadline.min(Instant::now() + pause)).await;
    }

    pub(crate) fn incarnation(&self) -> &str {
        self.incarnation.get().map_or("", String::as_str)
    }

    pub(crate) fn known(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    pub(crate) fn saw(&self, changes: u64) {
        self.changes.fetch_max(changes, Ordering::AcqRel);
    }

    pub(crate) fn unavailable(&self, why: &str) -> LedgerError {
        LedgerError::Unavailable(format!("{}: {why}", self.display))
    }

    /// The data is not that of this ledger any more.
    pub(crate) fn replaced(&self) -> LedgerError {
        self.poison(
            "the server was emptied, or has other data now: what this process had stored is gone. Restore the data from a backup; or \
             find out at the tools what has happened, then start again, with an empty ledger"
                .to_owned(),
        )
    }

    /// The data has fewer changes than were acknowledged.
    pub(crate) fn older(&self, changes: u64) -> LedgerError {
        self.poison(format!(
            "the server has lost acknowledged changes: it has {changes}, and had {}. Operations may have taken effect that it knows \
             nothing of: find out at the tools, before anything is repeated, then start again",
            self.known()
        ))
    }

    fn poison(&self, why: String) -> LedgerError {
        let why = self.poisoned.get_or_init(|| format!("{}: {why}", self.display));
        tracing::error!("{why}");
        LedgerError::Poisoned(why.clone())
    }
}

fn not_yet(error: redis::RedisError) -> NoLink {
    NoLink::NotYet(failure::text(&error))
}

/// Nothing panics while one of these is held, so that it is never poisoned.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! How much may be asked for at once: calls under way, of one session and of all, and keys in a scope.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use settled::protocol::Key;
use settled::{Engine, Filter, Ledger, task};
use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::sleep;

use crate::config::LimitsConfig;

/// How often the keys are counted anew: other processes make some, and old ones are forgotten.
const COUNT: Duration = Duration::from_secs(60);

/// How many entries are read at a time to be counted.
const PAGE: usize = 1000;

/// What all sessions of a server share.
pub(crate) struct Admission {
    limits: LimitsConfig,
    calls: Arc<Semaphore>,
    /// How many calls of each key are under way.
    under_way: Mutex<HashMap<Key, OfKey>>,
    /// `None`: any number.
    keys: Option<Keys>,
}

/// The calls of one key that are under way.
#[derive(Default)]
struct OfKey {
    calls: usize,
    turn: Arc<tokio::sync::Mutex<()>>,
}

/// The places of one session.
pub(crate) struct Places {
    of: Arc<Admission>,
    calls: Arc<Semaphore>,
    /// For calls that only wait for the answer of another one.
    joining: Arc<Semaphore>,
}

/// A place that a call has until it is answered.
pub(crate) struct Place {
    _own: OwnedSemaphorePermit,
    _of_all: Option<OwnedSemaphorePermit>,
}

/// A key counts as under way for as long as this lives.
pub(crate) struct UnderWay<'a> {
    of: &'a Admission,
    key: Key,
}

/// Why a call is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TooMuch {
    #[error("{0} calls are under way, as many as `calls_per_session` in settled.toml allows: try again later")]
    OfThisSession(usize),
    #[error("{0} calls are under way, as many as `calls` in settled.toml allows: try again later")]
    OfAll(usize),
    #[error(
        "the scope `{scope}` has {limit} operations in the ledger, as many as `keys_per_scope` in settled.toml allows: old ones are \
         forgotten when their `window` is over"
    )]
    Keys { scope: String, limit: u64 },
    #[error("the operations in the ledger can't be counted, and `keys_per_scope` in settled.toml limits them: {0}")]
    NotCounted(String),
}

impl TooMuch {
    /// What programs are told of it, as `type` in the error's `data`.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            TooMuch::OfThisSession(_) | TooMuch::OfAll(_) => "too_many_calls",
            TooMuch::Keys { .. } | TooMuch::NotCounted(_) => "too_many_keys",
        }
    }
}

impl Admission {
    pub(crate) fn new(limits: LimitsConfig, engine: &Engine) -> Arc<Admission> {
        Arc::new(Admission {
            limits,
            calls: Arc::new(Semaphore::new(limits.calls)),
            under_way: Mutex::default(),
            keys: limits.keys_per_scope.map(|limit| Keys::new(limit, engine.ledger().clone())),
        })
    }

    /// The places of a new session.
    pub(crate) fn session(self: &Arc<Self>) -> Places {
        let places = || Arc::new(Semaphore::new(self.limits.calls_per_session));
        Places { of: self.clone(), calls: places(), joining: places() }
    }

    /// A call of this key is carried out, or waits for one that is.
    pub(crate) fn enter(&self, key: &Key) -> UnderWay<'_> {
        self.under_way().entry(key.clone()).or_default().calls += 1;
        UnderWay { of: self, key: key.clone() }
    }

    fn under_way(&self) -> MutexGuard<'_, HashMap<Key, OfKey>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a call of this key may begin. A key that is there already is never one too many.
    pub(crate) async fn admit(&self, key: &Key) -> Result<(), TooMuch> {
        match &self.keys {
            Some(keys) => keys.admit(key).await,
            None => Ok(()),
        }
    }
}

impl Places {
    /// A place for a call. `key`: which operation it is, asked for only if there is no room: one that merely waits for the answer
    /// of another needs no place of its own.
    pub(crate) fn take(&self, key: impl FnOnce() -> Option<Key>) -> Result<Place, TooMuch> {
        let limits = &self.of.limits;
        let too_much = match (self.calls.clone().try_acquire_owned(), self.of.calls.clone().try_acquire_owned()) {
            (Ok(own), Ok(of_all)) => return Ok(Place { _own: own, _of_all: Some(of_all) }),
            (Err(_), _) => TooMuch::OfThisSession(limits.calls_per_session),
            (Ok(_), Err(_)) => TooMuch::OfAll(limits.calls),
        };
        let joins = key().is_some_and(|key| self.of.under_way().contains_key(&key));
        match self.joining.clone().try_acquire_owned() {
            Ok(own) if joins => Ok(Place { _own: own, _of_all: None }),
            _ => Err(too_much),
        }
    }

    /// Resolves when no call of this session is under way. None may come any more.
    pub(crate) async fn all_free(&self) {
        let all = u32::try_from(self.of.limits.calls_per_session).unwrap_or(u32::MAX);
        let _ = (self.calls.acquire_many(all).await, self.joining.acquire_many(all).await);
    }
}

impl UnderWay<'_> {
    /// Waits until no other call of this key has the turn, and takes it.
    pub(crate) async fn turn(&self) -> Option<OwnedMutexGuard<()>> {
        let turn = self.of.under_way().get(&self.key).map(|of_key| of_key.turn.clone());
        Some(turn?.lock_owned().await)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut under_way = self.of.under_way();
        if let Some(of_key) = under_way.get_mut(&self.key) {
            of_key.calls -= 1;
            if of_key.calls == 0 {
                under_way.remove(&self.key);
            }
        }
    }
}

/// How many keys each scope has.
struct Keys {
    limit: u64,
    ledger: Arc<dyn Ledger>,
    counts: Arc<Counts>,
    counted: watch::Receiver<Option<Result<(), String>>>,
}

type Counts = Mutex<HashMap<String, u64>>;

impl Keys {
    fn new(limit: u64, ledger: Arc<dyn Ledger>) -> Keys {
        let counts: Arc<Counts> = Arc::default();
        let (tell, counted) = watch::channel(None);
        task::spawn(keep_counting(Arc::downgrade(&counts), ledger.clone(), tell));
        Keys { limit, ledger, counts, counted }
    }

    async fn admit(&self, key: &Key) -> Result<(), TooMuch> {
        match self.ledger.get(key).await {
            Ok(None) => {}
            // The engine says what is wrong with a ledger that can't be read.
            Ok(Some(_)) | Err(_) => return Ok(()),
        }
        let mut counted = self.counted.clone();
        let known = counted.wait_for(Option::is_some).await.map(|known| known.clone());
        if let Ok(Some(Err(problem))) = known {
            return Err(TooMuch::NotCounted(problem));
        }
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(key.scope().to_owned()).or_insert(0);
        if *count >= self.limit {
            return Err(TooMuch::Keys { scope: key.scope().to_owned(), limit: self.limit });
        }
        *count += 1;
        Ok(())
    }
}

/// Counts the keys again and again, for as long as anybody wants to know.
async fn keep_counting(counts: Weak<Counts>, ledger: Arc<dyn Ledger>, tell: watch::Sender<Option<Result<(), String>>>) {
    while counts.strong_count() > 0 {
        match count(&*ledger).await {
            Ok(fresh) => {
                let Some(counts) = counts.upgrade() else { return };
                *counts.lock().unwrap_or_else(PoisonError::into_inner) = fresh;
                tell.send_replace(Some(Ok(())));
            }
            // An older count is better than none.
            Err(problem) => {
                tracing::warn!(problem, "the operations in the ledger can't be counted");
                tell.send_if_modified(|known| {
                    let first = !matches!(known, Some(Ok(())));
                    if first {
                        *known = Some(Err(problem));
                    }
                    first
                });
            }
        }
        tokio::select! {
            () = tell.closed() => return,
            () = sleep(COUNT) => {}
        }
    }
}

async fn count(ledger: &dyn Ledger) -> Result<HashMap<String, u64>, String> {
    let mut counts = HashMap::new();
    let mut last = None;
    loop {
        let page = ledger.page(Filter::All, last.as_ref(), PAGE).await.map_err(|error| error.to_string())?;
        for entry in page.iter().filter(|entry| !entry.tombstone) {
            *counts.entry(entry.key.scope().to_owned()).or_insert(0) += 1;
        }
        match page.into_iter().last() {
            Some(entry) => last = Some(entry),
            None => return Ok(counts),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use settled::{EngineOptions, MemoryLedger};

    fn key(id: &str) -> Key {
        Key::new("s", "t", id).unwrap()
    }

    async fn admission(limits: LimitsConfig) -> Arc<Admission> {
        let engine = Engine::start(Arc::new(MemoryLedger::new()), EngineOptions::default()).await.unwrap();
        Admission::new(limits, &engine)
    }

    #[tokio::test]
    async fn a_duplicate_that_only_joins_is_taken_beyond_the_limits() {
        let limits = LimitsConfig { calls: 2, calls_per_session: 1, ..LimitsConfig::default() };
        let all = admission(limits).await;
        let (one, two, three) = (all.session(), all.session(), all.session());
        let under_way = all.enter(&key("a"));
        let first = one.take(|| None).map_err(|error| error.to_string());
        assert!(first.is_ok());
        let refused = |places: &Places, id: &str| places.take(|| Some(key(id))).err();
        assert_eq!(refused(&one, "b"), Some(TooMuch::OfThisSession(1)));
        let joins = one.take(|| Some(key("a")));
        assert!(joins.is_ok());
        assert_eq!(refused(&one, "a"), Some(TooMuch::OfThisSession(1)), "memory stays bounded");
        let second = two.take(|| None);
        assert!(second.is_ok());
        assert_eq!(refused(&three, "b"), Some(TooMuch::OfAll(2)));
        assert!(three.take(|| Some(key("a"))).is_ok());
        drop((under_way, joins));
        assert_eq!(refused(&one, "a"), Some(TooMuch::OfThisSession(1)), "nothing to join any more");
        drop(first);
        assert_eq!(refused(&one, "b"), None);
        one.all_free().await;
    }

    #[tokio::test]
    async fn new_keys_beyond_the_limit() {
        let none = admission(LimitsConfig::default()).await;
        assert_eq!(none.admit(&key("a")).await, Ok(()));
        let limited = admission(LimitsConfig { keys_per_scope: Some(2), ..LimitsConfig::default() }).await;
        for id in ["a", "b"] {
            assert_eq!(limited.admit(&key(id)).await, Ok(()));
        }
        let refused = limited.admit(&key("c")).await.unwrap_err();
        assert!(refused.to_string().contains("`s`") && refused.to_string().contains("`window`"), "{refused}");
        let other = Key::new("other", "t", "c").unwrap();
        assert_eq!(limited.admit(&other).await, Ok(()));
    }
}

//! What the cases share: one server for those that leave it as it was, and changes to store.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use settled::protocol::{Action, Digest, Epoch, Event, Key, Policy, Record, Reply, Start, Store, Time, ToolKind, What};
use settled::{Change, Entry, Ledger, Resource, Stored};
use settled_ledger_postgres::{PostgresLedger, PostgresOptions};
use settled_test_services::postgres::{Postgres, Setup};

pub const SECOND: Duration = Duration::from_secs(1);

/// A server that is stopped when it is dropped, with what a test of it needs.
pub fn server() -> Postgres {
    Postgres::start().unwrap()
}

pub fn server_with(name: &str, value: &str) -> Postgres {
    Postgres::start_with(Setup::default().set(name, value)).unwrap()
}

pub async fn open(url: &str) -> PostgresLedger {
    PostgresLedger::connect(url, PostgresOptions::default()).await.unwrap()
}

pub async fn shared(url: &str) -> Arc<PostgresLedger> {
    Arc::new(open(url).await)
}

pub fn key(id: impl ToString) -> Key {
    Key::new("tests", "tool", id.to_string()).unwrap()
}

fn policy() -> Policy {
    Policy::new(ToolKind::Opaque)
}

fn change(key: Key, before: Option<&Record<Digest>>, by: Epoch, what: What<Digest>) -> Change {
    let event = Event { now: Time(1_000_000), by, draw: 0, what };
    let step = policy().step(before, &event);
    let Some(Action::Store(Store { expected, record })) = step.actions.iter().next() else {
        panic!("{what:?} stores nothing");
    };
    Change {
        key,
        expected,
        record,
        at: event.now,
        by,
        event: "test".to_owned(),
        asked: None,
        sent: None,
        outcome: None,
        note: None,
        resource: None,
        keep_until: None,
    }
}

/// A claim: created and dispatched.
pub fn claim(key: Key, by: Epoch) -> Change {
    let asked = bytes(b"{}");
    let what = What::Call { fingerprint: Digest::of(&asked), start: Start::Now };
    Change { asked: Some(asked), ..change(key, None, by, what) }
}

pub fn claim_line(key: Key, by: Epoch, resource: &str) -> Change {
    Change { resource: Some(Resource { scope: "tests".into(), name: resource.into() }), ..claim(key, by) }
}

/// The result of what was dispatched.
pub fn settle(entry: &Entry, body: &'static [u8]) -> Change {
    let body = bytes(body);
    let of = entry.record.attempt_id().unwrap();
    let what = What::Reply { of, reply: Reply::Result(Digest::of(&body)) };
    Change { outcome: Some(body), ..change(entry.key.clone(), Some(&entry.record), entry.by, what) }
}

pub fn bytes(body: &'static [u8]) -> bytes::Bytes {
    bytes::Bytes::from_static(body)
}

pub fn is_durable(stored: &Stored) -> bool {
    matches!(stored, Stored::Durable(_))
}

/// Claims and settles; how many of the two were stored.
pub async fn whole(ledger: &PostgresLedger, key: Key, by: Epoch) -> usize {
    if !is_durable(&ledger.compare_and_set(claim(key.clone(), by)).await.unwrap()) {
        return 0;
    }
    let entry = ledger.get(&key).await.unwrap().unwrap();
    1 + usize::from(is_durable(&ledger.compare_and_set(settle(&entry, b"ok")).await.unwrap()))
}

/// Log lines of the whole test program, to look for what must or must not be in them.
pub fn logged() -> &'static Log {
    static LOG: OnceLock<Log> = OnceLock::new();
    LOG.get_or_init(|| {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_max_level(tracing::Level::TRACE)
            .with_writer(writer)
            .finish();
        tracing::subscriber::set_global_default(subscriber).unwrap();
        log
    })
}

#[derive(Clone, Default)]
pub struct Log(Arc<std::sync::Mutex<Vec<u8>>>);

impl Log {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> tracing_subscriber::fmt::MakeWriter<'a> for Log {
    type Writer = Log;
    fn make_writer(&'a self) -> Log {
        self.clone()
    }
}

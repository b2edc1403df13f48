//! Calls under load, while guards and the ledger are killed and frozen.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use settled_protocol::{Key, Version};

use super::ledgers::Backend;
use super::pool::Pool;
use super::tool::{Behaviour, ToolServer};
use super::truth::{Reader, Truth, compare};
use super::wire::{Request, Settings};

const GUARDS: usize = 3;
const CALLERS: usize = 8;

/// What was done, and how it went.
#[derive(Debug, Default)]
pub struct Report {
    /// The ledger's name.
    pub ledger: &'static str,
    /// How many operations were asked for.
    pub operations: u64,
    /// How many of them by two callers at once.
    pub twice: u64,
    /// How often a guard was killed.
    pub kills: u64,
    /// How often one was stopped.
    pub stops: u64,
    /// How often the ledger's server was killed.
    pub ledger_kills: u64,
    /// How often it was stopped.
    pub ledger_stops: u64,
    /// How often the test read what must never be taken back.
    pub reads: u64,
    /// Versions that were read, and are not there in the end.
    pub taken_back: Vec<String>,
    /// How long the longest answer took.
    pub longest: Duration,
    /// What was true of it.
    pub truth: Truth,
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let told: usize = self.truth.answers.values().sum();
        write!(
            f,
            "{}: calls {told} ({} operations, {} asked for twice at once), kills of workers {}, stops of workers {}, kills of \
             the ledger {}, stops of the ledger {}, answers {:?}, with a person {}, losses = {}, repeats = {}, lies = {}, reads \
             taken back = {} of {}, longest answer {:.1} s",
            self.ledger,
            self.operations,
            self.twice,
            self.kills,
            self.stops,
            self.ledger_kills,
            self.ledger_stops,
            self.truth.answers,
            self.truth.escalated,
            self.truth.losses.len(),
            self.truth.repeats.len(),
            self.truth.lies.len(),
            self.taken_back.len(),
            self.reads,
            self.longest.as_secs_f64(),
        )
    }
}

/// Lets callers call for this long while everything is killed and stopped at random; then lets it settle, and compares.
///
/// # Panics
/// If anything hangs, or doesn't start again.
pub fn havoc(program: &str, mut backend: Backend, lasting: Duration) -> Report {
    let tool = ToolServer::start(Behaviour {
        takes: 0..15,
        late: 0..10,
        lost_before: 2,
        lost_early: 1,
        lost_after: 2,
        hangs: (1, 1_600),
        ..Behaviour::reliable()
    });
    let settings = Settings::new(backend.url(), tool.socket());
    let directory = PathBuf::from(tool.directory());
    let pool = Pool::start(program, settings, directory, GUARDS);
    let mut report = Report { ledger: backend.name(), ..Report::default() };
    let (going_on, operations, twice) = (AtomicBool::new(true), AtomicU64::new(0), AtomicU64::new(0));
    // A test that used the directory itself would hold it, and then no kill would ever take it from anyone.
    let reader = backend.is_server().then(|| Reader::open(&backend.url()));
    let seen = thread::scope(|scope| {
        let reading = reader.as_ref().map(|reader| scope.spawn(|| read(reader, &operations, &going_on)));
        for _ in 0..CALLERS {
            scope.spawn(|| {
                while going_on.load(Ordering::SeqCst) {
                    let request = request(operations.fetch_add(1, Ordering::SeqCst));
                    if fastrand::u8(..4) == 0 {
                        twice.fetch_add(1, Ordering::SeqCst);
                        thread::scope(|both| {
                            both.spawn(|| pool.call(&request));
                            both.spawn(|| pool.call(&request));
                        });
                    } else {
                        pool.call(&request);
                    }
                }
            });
        }
        // Whoever panics here must not leave the others going on for ever.
        let broken = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            break_things(&pool, &mut backend, lasting, &mut report);
        }));
        going_on.store(false, Ordering::SeqCst);
        if let Err(panic) = broken {
            std::panic::resume_unwind(panic);
        }
        reading.map(|reading| reading.join().unwrap()).unwrap_or_default()
    });
    report.operations = operations.into_inner();
    report.twice = twice.into_inner();
    report.longest = pool.longest();
    // The last replies of a tool that hangs.
    thread::sleep(Duration::from_secs(2));
    let reader = reader.unwrap_or_else(|| Reader::open(&backend.url()));
    reader.quiet(Duration::from_secs(60));
    report.truth = compare(&reader, &tool, &pool.told());
    for (key, (version, reads)) in seen {
        report.reads += reads;
        let now = reader.get(&key).map_or(Version(0), |entry| entry.record.version());
        if now < version {
            report.taken_back.push(format!("{key}: {version} was read, {now} is there"));
        }
    }
    report
}

fn request(number: u64) -> Request {
    match number % 3 {
        0 | 1 => Request::opaque(number.to_string()),
        _ => Request::observable(number.to_string()),
    }
}

/// Reads the latest operations, and notes the highest version seen of each.
fn read(reader: &Reader, operations: &AtomicU64, going_on: &AtomicBool) -> HashMap<Key, (Version, u64)> {
    let mut seen: HashMap<Key, (Version, u64)> = HashMap::new();
    while going_on.load(Ordering::SeqCst) {
        let last = operations.load(Ordering::SeqCst);
        let key = request(last.saturating_sub(fastrand::u64(1..20))).key();
        if let Some(Some(entry)) = reader.try_get(&key) {
            let noted = seen.entry(key).or_default();
            *noted = (noted.0.max(entry.record.version()), noted.1 + 1);
        }
        thread::sleep(Duration::from_millis(5));
    }
    seen
}

fn break_things(pool: &Pool, backend: &mut Backend, lasting: Duration, report: &mut Report) {
    let until = Instant::now() + lasting;
    let mut next = Vec::new();
    thread::scope(|scope| {
        while Instant::now() < until {
            thread::sleep(Duration::from_millis(fastrand::u64(50..300)));
            // At random, but each as often as the others.
            if next.is_empty() {
                next = vec![Havoc::Kill, Havoc::Kill, Havoc::Stop, Havoc::Stop];
                if backend.is_server() {
                    next.extend([Havoc::KillLedger, Havoc::StopLedger]);
                }
                fastrand::shuffle(&mut next);
            }
            match next.pop() {
                Some(Havoc::Kill) => {
                    pool.replace_one();
                    report.kills += 1;
                }
                Some(Havoc::Stop) => {
                    // Some for longer than its lease.
                    let (guard, pause) = (pool.any(), fastrand::u64(100..2_500));
                    scope.spawn(move || {
                        guard.stop();
                        thread::sleep(Duration::from_millis(pause));
                        guard.go_on();
                    });
                    report.stops += 1;
                }
                Some(Havoc::KillLedger) => {
                    backend.kill_and_restart();
                    report.ledger_kills += 1;
                }
                Some(Havoc::StopLedger) => {
                    backend.freeze();
                    thread::sleep(Duration::from_millis(fastrand::u64(100..2_500)));
                    backend.thaw();
                    report.ledger_stops += 1;
                }
                None => {}
            }
        }
    });
}

enum Havoc {
    Kill,
    Stop,
    KillLedger,
    StopLedger,
}

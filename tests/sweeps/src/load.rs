//! Callers and guards at work while something is done to the ledger's server.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use settled_ledger_tests::stage::truth::{Reader, Truth, compare};
use settled_ledger_tests::stage::wire::{Request, Settings};
use settled_ledger_tests::stage::{Behaviour, Pool, ToolServer};

use crate::scene::worker;

const GUARDS: usize = 3;
const CALLERS: usize = 8;
/// How many operations must have come through before and after what is done.
const SOME: u64 = 40;

/// How it went.
#[derive(Debug)]
pub struct Report {
    /// How many operations there were.
    pub operations: u64,
    /// How long the longest answer took.
    pub longest: Duration,
    /// What was true of it.
    pub truth: Truth,
}

/// Lets callers call, does this, and lets them go on until many more calls have come through; then compares.
///
/// # Panics
/// If anything hangs.
pub fn under_load(url: &str, act: impl FnOnce()) -> Report {
    let tool = ToolServer::start(Behaviour { takes: 0..10, lost_after: 2, ..Behaviour::reliable() });
    let settings = Settings::new(url.to_owned(), tool.socket());
    let pool = Pool::start(worker().to_str().unwrap(), settings, tool.directory().to_owned(), GUARDS);
    let (going_on, begun, done) = (AtomicBool::new(true), AtomicU64::new(0), AtomicU64::new(0));
    let come = |count: u64| {
        while done.load(Ordering::SeqCst) < count {
            thread::sleep(Duration::from_millis(10));
        }
    };
    thread::scope(|scope| {
        for _ in 0..CALLERS {
            scope.spawn(|| {
                while going_on.load(Ordering::SeqCst) {
                    let number = begun.fetch_add(1, Ordering::SeqCst);
                    let kind = ["opaque", "observable", "deduplicates"][usize::try_from(number % 3).unwrap()];
                    let request = Request::to(kind, number.to_string());
                    // Now and then by two callers at once.
                    thread::scope(|both| {
                        (0..=u8::from(number % 4 == 0)).for_each(|_| drop(both.spawn(|| pool.call(&request))));
                    });
                    done.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        come(SOME);
        let acted = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act));
        if acted.is_ok() {
            come(done.load(Ordering::SeqCst) + SOME);
        }
        // Whoever panics here must not leave the others going on for ever.
        going_on.store(false, Ordering::SeqCst);
        acted.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    let reader = Reader::open(url);
    reader.quiet(Duration::from_secs(60));
    let truth = compare(&reader, &tool, &pool.told());
    Report { operations: begun.into_inner(), longest: pool.longest(), truth }
}

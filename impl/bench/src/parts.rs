//! Single parts of a call, without any waiting: time on processors, not by the clock on the wall.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde::Serialize;
use settled::protocol::{Digest, Epoch, Event, Policy, Reply, Start, Time, ToolKind, Version, What, fingerprint};
use settled::{Body, Engine, HISTORY_VERSION, Happened, History, HistoryLine, JsonLines, MemoryLedger, NoHistory};

use crate::error::BenchError;
use crate::guarded::{self, Nothing, RESULT, Scope, arguments};
use crate::usage::{Usage, of_this_thread};

/// What one part takes.
#[derive(Clone, Debug, Serialize)]
pub struct Part {
    /// Which one.
    pub what: &'static str,
    /// Microseconds for each call.
    pub micros: f64,
}

/// All parts.
///
/// # Errors
/// If one does not work.
pub async fn parts(dir: &Path, span: Duration) -> Result<Vec<Part>, BenchError> {
    let scope = Scope::new();
    let key = scope.key(0)?;
    let mut parts = vec![
        timed("the key", span, |number| {
            black_box(scope.key(number)?);
            Ok(())
        })?,
        timed("the fingerprint of the arguments", span, |number| {
            let digest = fingerprint(&arguments(number)).map_err(|error| BenchError::Other(error.to_string()))?;
            black_box(digest);
            Ok(())
        })?,
        timed("the digest of the result", span, |_| {
            black_box(Digest::of(black_box(RESULT)));
            Ok(())
        })?,
        timed("two steps of the core", span, |_| steps())?,
    ];
    let path = dir.join("history");
    let history = JsonLines::append_in_parts(&path, u64::MAX, 0).map_err(BenchError::file(&path))?;
    let mut written = 0;
    let before = Usage::now();
    let noted = timed("the history, in the call", span, |number| {
        written += 1;
        for what in story(number) {
            let line = HistoryLine { v: HISTORY_VERSION, at: Time(1), by: Epoch(1), key: Some(key.clone()), what };
            history.record(&line);
        }
        // It is not to leave lines out because nothing else is done here.
        if number % 1_000 == 0 {
            history.flush();
        }
        Ok(())
    })?;
    history.flush();
    let used = Usage::now().since(before).cpu;
    let whole = used.map_or(noted.micros, |cpu| cpu.as_secs_f64() * 1e6 / f64::from(written));
    drop(history);
    std::fs::remove_file(&path).map_err(BenchError::file(&path))?;
    let writing = Part { what: "the history, in its own thread", micros: (whole - noted.micros).max(0.0) };
    parts.extend([noted, writing]);
    parts.push(in_memory(span).await?);
    Ok(parts)
}

/// A whole call where nothing is to be waited for.
async fn in_memory(span: Duration) -> Result<Part, BenchError> {
    let engine: Engine = guarded::engine(Arc::new(MemoryLedger::new()), Arc::new(NoHistory)).await?;
    let scope = Scope::new();
    let (before, begun, mut calls) = (Usage::now(), Instant::now(), 0_u64);
    while begun.elapsed() < span {
        let told = engine.call(guarded::operation(&scope, calls)?, Arc::new(Nothing)).await?;
        black_box(told);
        calls += 1;
    }
    let took = Usage::now().since(before).cpu.unwrap_or(begun.elapsed());
    let micros = took.as_secs_f64() * 1e6 / calls as f64;
    Ok(Part { what: "a whole call on a ledger in memory, without a history", micros })
}

fn timed(
    what: &'static str,
    span: Duration,
    mut part: impl FnMut(u64) -> Result<(), BenchError>,
) -> Result<Part, BenchError> {
    let (before, begun) = (of_this_thread(), Instant::now());
    let mut number = 0;
    while begun.elapsed() < span {
        for _ in 0..100 {
            part(number)?;
            number += 1;
        }
    }
    let took = of_this_thread().zip(before).map_or(begun.elapsed(), |(now, before)| now.saturating_sub(before));
    Ok(Part { what, micros: took.as_secs_f64() * 1e6 / number as f64 })
}

fn steps() -> Result<(), BenchError> {
    let policy = Policy::new(ToolKind::Opaque);
    let digest = Digest::from_bytes([7; 32]);
    let event = |what| Event { now: Time(1), by: Epoch(1), draw: 0, what };
    let begun = guarded::stored_by(&policy.step(None, &event(What::Call { fingerprint: digest, start: Start::Now })))?;
    let of = begun.record.attempt_id().ok_or(BenchError::Ended("the core"))?;
    let reply = What::Reply { of, reply: Reply::Result(digest) };
    black_box(policy.step(Some(&begun.record), &event(reply)));
    Ok(())
}

/// The lines of a call that goes well.
fn story(number: u64) -> [Happened; 6] {
    let digest = Digest::from_bytes([7; 32]);
    let asked: Bytes = arguments(number);
    let stored = |version, state: &str, because: &str| Happened::Stored {
        version: Version(version),
        generation: 1,
        state: state.to_owned(),
        because: because.to_owned(),
    };
    [
        Happened::Asked { fingerprint: digest, arguments: Body(asked.clone()) },
        stored(1, "dispatched", "call"),
        Happened::Sent { generation: 1, attempt: 1, epoch: Epoch(1), because: None, arguments: Body(asked) },
        Happened::Replied { generation: 1, attempt: 1, reply: "result".to_owned(), digest },
        stored(2, "settled", "reply"),
        Happened::Answered { generation: 1, answer: "done".to_owned(), digest: Some(digest), replayed: false },
    ]
}

//! Single parts of a call, without any waiting: time on processors, not by the clock on the wall.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde::Serialize;
use settled::protocol::{Digest, Epoch, Event, Policy, Record, Reply, Start, Time, ToolKind, What, fingerprint};
use settled::{
    Body, Engine, HISTORY_VERSION, Happened, History, HistoryLine, JsonLines, MemoryLedger, NoHistory, Taken,
};

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
        for what in story(number)? {
            let (at, by) = (Time(1), Epoch(1));
            let line = HistoryLine { v: HISTORY_VERSION, at, by, run: by, n: written, key: Some(key.clone()), what };
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
    let whole = used.map_or(noted.micros, |cpu| cpu.as_secs_f64() * 1e6 / written as f64);
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
fn story(number: u64) -> Result<[Happened; 6], BenchError> {
    let digest = Digest::from_bytes([7; 32]);
    let asked: Bytes = arguments(number);
    let policy = Policy::new(ToolKind::Opaque);
    let taken = |before: Option<&Record<Digest>>, what| {
        let event = Event { now: Time(1), by: Epoch(1), draw: 0, what };
        let step = policy.step(before, &event);
        let record = guarded::stored_by(&step)?.record;
        let because = settled::because(&what, before.map(Record::state), &record);
        let stored = Happened::Stored {
            state: record.state().name().into(),
            because: because.into(),
            expected: before.map(Record::version),
            record: Box::new(record),
            resource: None,
            step: Box::new(Taken::new(policy, &event, &step.actions)),
        };
        Ok::<_, BenchError>((stored, record))
    };
    let (begun, record) = taken(None, What::Call { fingerprint: digest, start: Start::Now })?;
    let of = record.attempt_id().ok_or(BenchError::Ended("the core"))?;
    let (generation, attempt) = (of.generation, of.attempt.get());
    let (ended, _) = taken(Some(&record), What::Reply { of, reply: Reply::Result(digest) })?;
    let call = number;
    Ok([
        Happened::Asked { call, fingerprint: digest, policy, arguments: Body(asked.clone()) },
        begun,
        Happened::Sent { generation, attempt, epoch: Epoch(1), because: None, arguments: Body(asked) },
        Happened::Replied { generation, attempt, reply: "result".to_owned(), digest },
        ended,
        Happened::Answered { call, generation, answer: "done".to_owned(), digest: Some(digest), replayed: false },
    ])
}

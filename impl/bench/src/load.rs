//! A closed loop: so many callers, each of which begins its next call when the last one has ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Serialize;
use tokio::task::JoinSet;

use crate::error::BenchError;
use crate::usage::Usage;

/// What so many callers achieved.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// How many callers there were.
    pub callers: usize,
    /// Calls that ended.
    pub calls: u64,
    /// Calls a second.
    pub per_second: f64,
    /// Half of the calls took at most this long, in microseconds.
    pub p50: f64,
    /// 99 % of the calls took at most this long, in microseconds.
    pub p99: f64,
    /// Time on processors for each call, in microseconds, everything in this process included; `None` where the system doesn't
    /// tell.
    pub cpu: Option<f64>,
    /// Bytes written to the disk for each call, by whomever; `None` where the system doesn't tell.
    pub written: Option<f64>,
}

const WARMING_UP: u8 = 0;
const MEASURING: u8 = 1;
const OVER: u8 = 2;

/// Keeps the callers busy for this long, after a fifth of that to warm up. `caller` is given the number of a caller and makes
/// its call: a function from the number of the call (unique within the run) to the call itself.
///
/// # Errors
/// The first error of a call.
pub async fn closed_loop<M, C, F>(callers: usize, span: Duration, caller: M) -> Result<Measured, BenchError>
where
    M: Fn(usize) -> C,
    C: FnMut(u64) -> F + Send + 'static,
    F: Future<Output = Result<(), BenchError>> + Send + 'static,
{
    let phase = Arc::new(AtomicU8::new(WARMING_UP));
    let mut running = JoinSet::new();
    for number in 0..callers {
        running.spawn(one_caller(phase.clone(), (number as u64) << 40, caller(number)));
    }
    tokio::time::sleep(span / 5).await;
    let before = Usage::now();
    let begun = Instant::now();
    phase.store(MEASURING, Ordering::Relaxed);
    tokio::time::sleep(span).await;
    phase.store(OVER, Ordering::Relaxed);
    let took = begun.elapsed();
    let used = Usage::now().since(before);
    let mut times = new_histogram();
    while let Some(ended) = running.join_next().await {
        let its = ended.map_err(|_| BenchError::Ended("a caller"))??;
        // All have the same bounds.
        let _ = times.add(its);
    }
    Ok(measured(callers, &times, took, used))
}

/// The numbers of a run that is over.
pub(crate) fn measured(callers: usize, times: &Histogram<u64>, took: Duration, used: Usage) -> Measured {
    let calls = times.len();
    let each = calls.max(1) as f64;
    Measured {
        callers,
        calls,
        per_second: calls as f64 / took.as_secs_f64().max(1e-9),
        p50: times.value_at_quantile(0.5) as f64 / 1e3,
        p99: times.value_at_quantile(0.99) as f64 / 1e3,
        cpu: used.cpu.map(|cpu| cpu.as_secs_f64() * 1e6 / each),
        written: used.written.map(|bytes| bytes as f64 / each),
    }
}

/// Nanoseconds, up to a minute, to three digits.
pub(crate) fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).unwrap_or_else(|_| unreachable!("bounds that are allowed"))
}

pub(crate) fn note(times: &mut Histogram<u64>, took: Duration) {
    times.saturating_record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
}

async fn one_caller<C, F>(phase: Arc<AtomicU8>, first: u64, mut call: C) -> Result<Histogram<u64>, BenchError>
where
    C: FnMut(u64) -> F,
    F: Future<Output = Result<(), BenchError>>,
{
    let mut times = new_histogram();
    let mut number = first;
    let mut begun = Instant::now();
    loop {
        call(number).await?;
        number += 1;
        let ended = Instant::now();
        match phase.load(Ordering::Relaxed) {
            WARMING_UP => {}
            MEASURING => note(&mut times, ended - begun),
            _ => return Ok(times),
        }
        begun = ended;
        // A call that never waits must not keep its thread for itself.
        tokio::task::consume_budget().await;
    }
}

/// The run in the middle, of several of the same: as many were faster as were slower.
pub fn median(mut runs: Vec<Measured>) -> Option<Measured> {
    runs.sort_by(|a, b| a.per_second.total_cmp(&b.per_second));
    let middle = runs.len() / 2;
    runs.into_iter().nth(middle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn calls_are_counted_and_timed() {
        let call = |_| {
            |_| async {
                tokio::time::sleep(Duration::from_millis(10)).await;
                Ok(())
            }
        };
        let measured = closed_loop(4, Duration::from_millis(500), call).await.unwrap();
        assert!((50.0..=401.0).contains(&measured.per_second), "{measured:?}");
        assert!(measured.p50 >= 9_900.0 && measured.p99 >= measured.p50, "{measured:?}");
    }

    #[tokio::test]
    async fn an_error_ends_it() {
        let call = |_| {
            |number| async move {
                tokio::task::yield_now().await;
                if number % 7 == 6 { Err(BenchError::Other("no more".into())) } else { Ok(()) }
            }
        };
        assert!(closed_loop(2, Duration::from_millis(20), call).await.is_err());
    }

    #[test]
    fn the_run_in_the_middle_counts() {
        let run = |per_second| {
            let its = measured(1, &new_histogram(), Duration::from_secs(1), Usage::default());
            Measured { per_second, ..its }
        };
        let middle = median([5.0, 1.0, 3.0, 4.0, 2.0].map(run).into()).unwrap();
        assert!((middle.per_second - 3.0).abs() < 1e-9);
        assert!(median(Vec::new()).is_none());
    }
}

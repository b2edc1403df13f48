//! Very many calls through one proxy, and what it holds in memory meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde::Serialize;
use tokio::task::JoinSet;

use crate::error::BenchError;
use crate::mcp::{Tool, stdio};
use crate::usage;

/// How many calls are in flight.
pub const IN_FLIGHT: usize = 16;

/// How often memory is looked at.
const LOOKS: u64 = 10;

/// What one run of very many calls took.
#[derive(Clone, Debug, Serialize)]
pub struct Memory {
    /// What was called.
    pub tool: Tool,
    /// After so many calls, so many bytes resident; nothing where the system doesn't tell.
    pub resident: Vec<(u64, u64)>,
    /// Calls a second, over all of them.
    pub per_second: f64,
}

/// Makes so many calls.
///
/// # Errors
/// If one is not answered as it should be.
pub async fn over(session: &Arc<stdio::Session>, tool: Tool, calls: u64) -> Result<Memory, BenchError> {
    let each = (calls / LOOKS).max(1);
    let begun = Instant::now();
    let mut resident = Vec::new();
    let mut look = |made: u64| {
        resident.extend(session.pid().and_then(usage::resident_of).map(|bytes| (made, bytes)));
    };
    // The first calls fill caches and buffers.
    some(session, tool, each.min(10_000)).await?;
    look(0);
    for part in 1..=LOOKS {
        some(session, tool, each).await?;
        look(part * each);
    }
    let made = each * LOOKS + each.min(10_000);
    Ok(Memory { tool, resident, per_second: made as f64 / begun.elapsed().as_secs_f64() })
}

async fn some(session: &Arc<stdio::Session>, tool: Tool, calls: u64) -> Result<(), BenchError> {
    let left = Arc::new(AtomicU64::new(calls));
    let mut running = JoinSet::new();
    for _ in 0..IN_FLIGHT {
        let (session, left) = (session.clone(), left.clone());
        running.spawn(async move {
            while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
                session.call(tool).await?;
            }
            Ok::<_, BenchError>(())
        });
    }
    while let Some(ended) = running.join_next().await {
        ended.map_err(|_| BenchError::Ended("a caller"))??;
    }
    Ok(())
}

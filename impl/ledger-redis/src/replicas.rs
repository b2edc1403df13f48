//! Waiting for replicas: one `WAIT` for all stores that have come since the last one.

use std::sync::atomic::{AtomicU64, Ordering};

use redis::RedisResult;
use redis::aio::MultiplexedConnection;

use crate::options::Wait;

/// The acknowledgements for what went over one connection. `WAIT` tells only of the connection that it comes by.
#[derive(Debug, Default)]
pub(crate) struct Replicas {
    stored: AtomicU64,
    told: tokio::sync::Mutex<Told>,
}

#[derive(Debug, Default)]
struct Told {
    /// The last store that the answer covers.
    upto: u64,
    acknowledged: u32,
}

impl Replicas {
    /// How many replicas have acknowledged what was stored before this call.
    pub(crate) async fn acknowledged(&self, connection: &MultiplexedConnection, wait: Wait) -> RedisResult<u32> {
        let mine = self.stored.fetch_add(1, Ordering::AcqRel) + 1;
        let mut told = self.told.lock().await;
        if told.upto < mine {
            let upto = self.stored.load(Ordering::Acquire);
            // 0 would be for ever.
            let millis = wait.timeout.as_millis().clamp(1, 3_600_000) as u64;
            let mut connection = connection.clone();
            let acknowledged = redis::cmd("WAIT").arg(wait.replicas).arg(millis).query_async(&mut connection).await?;
            *told = Told { upto, acknowledged };
        }
        Ok(told.acknowledged)
    }
}

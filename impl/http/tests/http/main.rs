//! The guard around HTTP, with real servers and clients on the loopback interface.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod classes;
mod client;
mod keyed;
mod keys;
mod messages;
mod server;
mod service;

use std::sync::Arc;
use std::time::Duration;

use settled::protocol::{Backoff, Policy, Retry, ToolKind};
use settled::{Engine, EngineOptions, MemoryLedger};

/// A process on this ledger.
async fn engine(ledger: &Arc<MemoryLedger>) -> Engine {
    Engine::start(ledger.clone(), EngineOptions::default()).await.unwrap()
}

/// A policy with short waits.
fn policy(tool: ToolKind) -> Policy {
    let retry = Retry { attempts: 3, backoff: Backoff { base: 1, cap: 2 }, ..Retry::default() };
    Policy { retry, ..Policy::new(tool) }
}

/// A tool that deduplicates for an hour.
const DEDUPLICATES: ToolKind = ToolKind::Deduplicates { limit: 3_600_000, margin: 1_000, remembers_rejections: false };

/// Waits until something holds.
async fn until(mut holds: impl AsyncFnMut() -> bool) {
    tokio::time::timeout(Duration::from_secs(20), async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("it never held");
}

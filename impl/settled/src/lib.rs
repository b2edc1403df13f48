//! Tool calls that take effect at most once, and whose callers are told the truth: everything that a program needs of it, in one
//! crate. The parts are crates of their own; here they are under one name.
//!
//! | what | where | feature |
//! | --- | --- | --- |
//! | guard a function, or drive a tool of your own | [`Guard`], [`Engine`] | |
//! | a client that retries with one key, a guarded service | [`http`] | `http` (default) |
//! | the ledger in a directory | [`ledger::file`] | `file` (default) |
//! | the ledger in PostgreSQL, in Redis | `ledger::postgres`, `ledger::redis` | `postgres`, `redis` |
//! | find out whether it happened | `observers` | `observers` |
//!
//! ```
//! use settled::{Engine, EngineOptions, MemoryLedger};
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let engine = Engine::start(std::sync::Arc::new(MemoryLedger::new()), EngineOptions::default()).await?;
//! # drop(engine);
//! # Ok(())
//! # }
//! ```

pub use settled_engine::*;

#[cfg(feature = "http")]
pub use settled_http as http;

#[cfg(feature = "observers")]
pub use settled_observers as observers;

/// Ledgers.
pub mod ledger {
    #[cfg(feature = "file")]
    pub use settled_ledger_file as file;
    #[cfg(feature = "postgres")]
    pub use settled_ledger_postgres as postgres;
    #[cfg(feature = "redis")]
    pub use settled_ledger_redis as redis;
}

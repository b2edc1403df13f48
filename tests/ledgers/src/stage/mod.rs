//! Real processes: guards (the `ledger_worker` program) on one ledger, the tool that they guard, and callers. The test is the
//! callers and the tool; so what was told and what happened is known, whatever is killed.

pub mod guard;
pub mod havoc;
pub mod ledgers;
pub mod open;
pub mod pool;
pub mod tool;
pub mod truth;
pub mod wire;

pub use guard::Guard;
pub use ledgers::Backend;
pub use pool::Pool;
pub use tool::{Behaviour, Effect, ToolServer};
pub use wire::{Answer, Request, Settings, Told};

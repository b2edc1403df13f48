//! Audit of a tool server: the same call twice, with a lost answer, across a restart, concurrently; and what came of it.
//!
//! An MCP server is driven as a client whose network and processes fail would drive it, and what changes in the world is watched
//! from outside: in a directory, in a database, or through a tool of the server that tells its state. What the server claims of its
//! tools (`readOnlyHint`, `idempotentHint`) is compared with what was seen.

mod answer;
mod audit;
mod claims;
mod client;
mod difference;
mod error;
mod experiment;
mod file;
mod generate;
mod judge;
mod leaves;
mod options;
mod redact;
mod report;
mod stage;
mod state;
mod template;
mod tool;
mod watch;

pub use self::audit::{Progress, audit};
pub use self::error::AuditError;
pub use self::file::{ArgumentsFile, Before, Prepared};
pub use self::options::{Choice, Observer, Options, Remote, Target};
pub use self::redact::Secrets;
pub use self::report::{
    Claim, Experiment, ExperimentReport, Found, Listed, Outcome, Report, ServerReport, ToolReport, Transport, Verdict,
    schema,
};
pub use self::tool::Annotations;

//! What can go wrong in the example server and client themselves, as opposed to what a call can end with.

use std::{io, path::PathBuf};

use rmcp::service::ServerInitializeError;
use thiserror::Error;
use tokio::task::JoinError;

/// Why the example server or client could not do its work.
///
/// How a call ended is not an error of the client but an [`Outcome`](crate::Outcome): a timeout is something to report.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ExampleError {
    /// The server cannot use its effects file.
    #[error(
        "cannot use the effects file {}: {source}; check that its directory exists and is writable",
        path.display()
    )]
    Effects {
        /// The file as given in the options.
        path: PathBuf,
        /// What the operating system answered.
        source: io::Error,
    },
    /// What arrived on the server's standard input was not the start of an MCP connection.
    #[error("no MCP connection on standard input: {0}; let an MCP client start this server")]
    Handshake(#[source] Box<ServerInitializeError>),
    /// The client was given no command to start a server with.
    #[error("no server command; give one after `--`, for example `-- charge_server --effects effects.txt`")]
    NoCommand,
    /// The client could not start the server's process.
    #[error("cannot start the server `{command}`: {source}; check that the program exists and is executable")]
    Spawn {
        /// The command with its arguments, separated by blanks.
        command: String,
        /// What the operating system answered.
        source: io::Error,
    },
    /// The client could not write its lines.
    #[error("cannot write to standard output: {0}")]
    Output(#[source] io::Error),
    /// The task that serves a connection ended abnormally.
    #[error("the connection's task ended abnormally: {0}; this is a bug, please report it")]
    Task(#[from] JoinError),
}

//! What can go wrong on a device.

use std::path::PathBuf;

use settled_ledger_file::log::LogError;

use crate::schema::{SchemaError, Unfit};

/// Why a device can't do something. Nothing that was done before is lost.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// Another process has it open.
    #[error("{}: another process has this device open; end it, or wait", directory.display())]
    InUse {
        /// The device's directory.
        directory: PathBuf,
    },
    /// Its directory can't be used.
    #[error("{}: {error}", directory.display())]
    Directory {
        /// The device's directory.
        directory: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// Its log can't be read or written.
    #[error(transparent)]
    Log(#[from] LogError),
    /// Its log is not one of a device.
    #[error("the log in this directory is not that of a device")]
    Unreadable,
    /// The schema can't follow the one that it had.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// A device is made with a schema.
    #[error("there is no device there yet: make one with a schema")]
    NoSchema,
    /// The schema does not allow the change.
    #[error(transparent)]
    Unfit(Unfit),
    /// The operating system gave no random numbers.
    #[error("no name could be drawn: {0}")]
    Random(String),
}

//! How commands end.

use std::fmt::Display;
use std::process::ExitCode;

use settled::LedgerError;

/// A command's ending that is not an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// All is well: 0.
    Good,
    /// A property is violated, or something that was asked for is not so: 1.
    Violated,
    /// A limit was reached before everything was decided: 3.
    NotFinished,
    /// What another program ended with.
    Code(u8),
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        match exit {
            Exit::Good => ExitCode::SUCCESS,
            Exit::Violated => ExitCode::from(1),
            Exit::NotFinished => ExitCode::from(3),
            Exit::Code(code) => ExitCode::from(code),
        }
    }
}

/// An error that ends a command: one message, and an exit code.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    message: String,
    code: u8,
}

impl Failure {
    /// What was given can't be used: 2.
    pub fn input(message: impl Into<String>) -> Failure {
        Failure { message: message.into(), code: 2 }
    }

    /// What was asked for is not there: 1.
    pub fn nothing(message: impl Into<String>) -> Failure {
        Failure { message: message.into(), code: 1 }
    }

    /// Something that should not happen: 70, as `sysexits.h` has it.
    pub fn internal(message: impl Into<String>) -> Failure {
        Failure { message: message.into(), code: 70 }
    }

    /// A ledger that can't be used: 1.
    pub fn unavailable(ledger: &str, error: &dyn Display) -> Failure {
        Failure { message: format!("{ledger}: {error}"), code: 1 }
    }

    /// Its exit code.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        Failure::internal(error.to_string())
    }
}

impl From<LedgerError> for Failure {
    fn from(error: LedgerError) -> Failure {
        Failure::nothing(error.to_string())
    }
}

//! PostgreSQL's errors as the ledger's.

use std::error::Error as _;

use settled::LedgerError;
use tokio_postgres::Error;
use tokio_postgres::error::{DbError, Severity, SqlState};

/// What an error says, with its causes. The library's errors never hold passwords.
pub(crate) fn text(error: &Error) -> String {
    if let Some(db) = error.as_db_error() {
        return format!("the server says: {} ({})", db.message(), db.code().code());
    }
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// The error of a request, as the ledger's.
pub(crate) fn from_postgres(error: &Error) -> LedgerError {
    match error.code() {
        Some(code) if *code == SqlState::DATA_CORRUPTED || *code == SqlState::INDEX_CORRUPTED => {
            LedgerError::Corrupt(text(error))
        }
        _ => LedgerError::Unavailable(text(error)),
    }
}

/// Whether the server refused the statement, so that its transaction has certainly been undone. All other errors leave it
/// open: also those that end a session, because a commit may have come before.
pub(crate) fn is_undone(error: &Error) -> bool {
    error.as_db_error().and_then(DbError::parsed_severity) == Some(Severity::Error)
}

/// Whether the same again may succeed.
pub(crate) fn is_passing(error: &Error) -> bool {
    let Some(code) = error.code() else {
        return true;
    };
    // Transactions that were in each other's way; resources; operators; connections.
    ["40", "53", "57", "08"].iter().any(|class| code.code().starts_with(class)) || *code == SqlState::LOCK_NOT_AVAILABLE
}

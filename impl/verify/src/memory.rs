//! Histories and their judgement in memory.

use std::sync::{Arc, Mutex, PoisonError};

use settled::{History, HistoryLine, Ledger, LedgerError};

use crate::report::Report;
use crate::verifier::{Options, Verifier};

/// A history that is kept in memory: for tests and simulations. Any number of engines may share it.
#[derive(Clone, Debug, Default)]
pub struct Lines(Arc<Mutex<Vec<HistoryLine>>>);

impl Lines {
    /// The lines so far.
    pub fn lines(&self) -> Vec<HistoryLine> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl History for Lines {
    fn record(&self, line: &HistoryLine) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line.clone());
    }
}

/// Judges lines of any number of engines, in any order, and what their ledger holds now, if it is given.
///
/// # Errors
/// If the ledger can't be read.
pub async fn verify_lines(
    lines: impl IntoIterator<Item = HistoryLine>,
    ledger: Option<&dyn Ledger>,
    options: Options,
) -> Result<Report, LedgerError> {
    let mut verifier = Verifier::new(options);
    for line in lines {
        verifier.line(line);
    }
    if let Some(ledger) = ledger {
        verifier.read_ledger(ledger).await?;
    }
    Ok(verifier.finish())
}

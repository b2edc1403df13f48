//! Where the evidence comes from.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use settled::{Filter, HistoryLine, Ledger, LedgerError};

use crate::effects::Effect;
use crate::report::Report;
use crate::verifier::{Options, Verifier, is_known_version};

/// What a run has left.
#[derive(Clone, Default)]
pub struct Evidence {
    /// Histories: files, of which the older parts (`PATH.1` …) are found, or directories, of which every `*.jsonl` is one.
    pub histories: Vec<PathBuf>,
    /// The ledger that its processes shared.
    pub ledger: Option<Arc<dyn Ledger>>,
    /// What the tool itself noted.
    pub effects: Vec<Effect>,
    /// Whether that is all that there was: what isn't in it did not happen.
    pub effects_known: bool,
    /// Nothing is under way any more.
    pub ended: bool,
}

impl std::fmt::Debug for Evidence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Evidence").field("histories", &self.histories).finish_non_exhaustive()
    }
}

/// Why evidence can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// A file can't be read.
    #[error("{}: {error}", .path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A history in another format.
    #[error(
        "{}, line {line}: written in format {found} of histories, this program reads {}: use the version of settled that wrote it",
        .path.display(),
        settled::HISTORY_VERSION
    )]
    Version {
        /// Which file.
        path: PathBuf,
        /// Which line.
        line: u32,
        /// Its format.
        found: u64,
    },
    /// A file in which nothing is a line of a history.
    #[error("{}: this is no history: {error} (line 1, and so every other one); leave the file out if it was never one", .path.display())]
    NoHistory {
        /// Which file.
        path: PathBuf,
        /// What is wrong with its first line.
        error: serde_json::Error,
    },
    /// A line of a journal of effects that is none.
    #[error(
        "{}, line {line}: not an effect: {error}; write {{\"key\":\"scope/tool/id\"}}, with \"generation\" and \"attempt\" if known",
        .path.display()
    )]
    Effect {
        /// Which file.
        path: PathBuf,
        /// Which line.
        line: u32,
        /// What is wrong.
        error: serde_json::Error,
    },
    /// There is nothing to verify.
    #[error("there is no history in {}: name a file or a directory with *.jsonl files", .0.display())]
    Nothing(PathBuf),
    /// The ledger can't be read.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// Judges a run by what it has left. Histories are read before the ledger, so that it may go on meanwhile.
///
/// # Errors
/// If evidence can't be read, or is of another format. What is merely missing or damaged is in the report.
pub async fn verify(evidence: &Evidence) -> Result<Report, VerifyError> {
    let options = Options { ended: evidence.ended, effects_known: evidence.effects_known, ..Options::default() };
    let mut verifier = Verifier::new(options);
    for path in &evidence.histories {
        verifier.read_history(path)?;
    }
    for effect in &evidence.effects {
        verifier.effect(effect.clone());
    }
    if let Some(ledger) = &evidence.ledger {
        verifier.read_ledger(&**ledger).await?;
    }
    if !evidence.histories.is_empty() {
        verifier.nothing_at_all();
    }
    Ok(verifier.finish())
}

/// Reads a journal of effects: one [`Effect`] in each line, as JSON.
///
/// # Errors
/// If it can't be read, or a line is none.
pub fn read_effects(path: &Path) -> Result<Vec<Effect>, VerifyError> {
    let failed = |error| VerifyError::File { path: path.to_owned(), error };
    let mut effects = Vec::new();
    for (number, line) in (1..).zip(BufReader::new(File::open(path).map_err(failed)?).lines()) {
        let line = line.map_err(failed)?;
        if !line.trim().is_empty() {
            let effect = serde_json::from_str(&line);
            effects.push(effect.map_err(|error| VerifyError::Effect { path: path.to_owned(), line: number, error })?);
        }
    }
    Ok(effects)
}

impl Verifier {
    /// Takes in a history: a file with its older parts, or every one in a directory.
    ///
    /// # Errors
    /// If it can't be read, or is of another format.
    pub fn read_history(&mut self, path: &Path) -> Result<(), VerifyError> {
        for file in files(path)? {
            self.read_file(&file)?;
        }
        Ok(())
    }

    fn read_file(&mut self, path: &Path) -> Result<(), VerifyError> {
        let failed = |error| VerifyError::File { path: path.to_owned(), error };
        let index = self.file(path.display().to_string());
        let mut reader = BufReader::with_capacity(1 << 20, File::open(path).map_err(failed)?);
        let mut text = Vec::new();
        let mut number = 0;
        let mut strange = None;
        let mut is_history = false;
        loop {
            text.clear();
            if reader.read_until(b'\n', &mut text).map_err(failed)? == 0 {
                return match strange.filter(|_| !is_history) {
                    Some(error) => Err(VerifyError::NoHistory { path: path.to_owned(), error }),
                    None => Ok(()),
                };
            }
            number += 1;
            // A power failure can leave a file longer than what was written of it: the rest is zeros.
            let zeros = text.iter().take_while(|byte| **byte == 0).count();
            if zeros > 0 {
                self.unreadable(index, number, true, "");
                text.drain(..zeros);
                if text.trim_ascii().is_empty() {
                    continue;
                }
            }
            match serde_json::from_slice::<HistoryLine>(&text) {
                Ok(line) if is_known_version(u64::from(line.v)) => {
                    is_history = true;
                    self.line_of(line, index, number);
                }
                Ok(line) => {
                    return Err(VerifyError::Version { path: path.to_owned(), line: number, found: u64::from(line.v) });
                }
                Err(error) => {
                    if let Some(found) = version(&text).filter(|found| !is_known_version(*found)) {
                        return Err(VerifyError::Version { path: path.to_owned(), line: number, found });
                    }
                    self.unreadable(index, number, error.is_eof(), &error.to_string());
                    is_history |= error.is_eof();
                    strange = strange.or(Some(error));
                }
            }
        }
    }

    /// Takes in what a ledger holds now. Read histories first.
    ///
    /// # Errors
    /// If it can't be read.
    pub async fn read_ledger(&mut self, ledger: &dyn Ledger) -> Result<(), LedgerError> {
        self.with_ledger();
        let mut keys: Vec<_> = self.keys().cloned().collect();
        keys.extend(ledger.scan(Filter::All).await?.into_iter().map(|entry| entry.key));
        keys.sort();
        keys.dedup();
        for key in keys {
            // Until nothing changes between the two looks.
            let mut tries = 0;
            loop {
                let entry = ledger.get(&key).await?;
                let changes = ledger.history(&key).await?;
                let same = ledger.get(&key).await? == entry;
                tries += 1;
                if same || tries == 100 {
                    self.kept(&key, entry, changes);
                    break;
                }
            }
        }
        Ok(())
    }
}

/// The format of a line that can't be read.
fn version(text: &[u8]) -> Option<u64> {
    serde_json::from_slice::<serde_json::Value>(text).ok()?.get("v")?.as_u64()
}

/// The files of a history, the oldest lines first.
fn files(path: &Path) -> Result<Vec<PathBuf>, VerifyError> {
    let failed = |error| VerifyError::File { path: path.to_owned(), error };
    if !fs::metadata(path).map_err(failed)?.is_dir() {
        return Ok(with_parts(path));
    }
    let mut histories = Vec::new();
    for entry in fs::read_dir(path).map_err(failed)? {
        let found = entry.map_err(failed)?.path();
        if found.extension().is_some_and(|extension| extension == "jsonl") {
            histories.push(found);
        }
    }
    if histories.is_empty() {
        return Err(VerifyError::Nothing(path.to_owned()));
    }
    histories.sort();
    Ok(histories.iter().flat_map(|history| with_parts(history)).collect())
}

fn with_parts(path: &Path) -> Vec<PathBuf> {
    let part = |number: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{number}"));
        PathBuf::from(name)
    };
    let mut parts: Vec<PathBuf> = (1..).map(part).take_while(|part| part.exists()).collect();
    parts.reverse();
    parts.push(path.to_owned());
    parts
}

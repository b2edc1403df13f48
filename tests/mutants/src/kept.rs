//! What earlier runs found, so that a run that was interrupted can go on.

use std::fs;
use std::path::PathBuf;

use crate::error::MutantError;
use crate::mutant::Mutant;
use crate::outcome::{Kept, Tried, Verdict};
use crate::tree::Place;

/// What was found of mutants, in a file.
#[derive(Debug)]
pub struct Results {
    file: PathBuf,
    all: Vec<Kept>,
}

impl Results {
    /// Those of earlier runs; none if there were none, or their file can't be read.
    pub fn open(place: &Place) -> Results {
        let file = place.logs.join("results.json");
        let all = fs::read(&file).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        Results { file, all }
    }

    /// What found this very patch.
    pub fn of(&self, mutant: &Mutant) -> Option<Tried> {
        let is_this = |kept: &&Kept| kept.mutant == mutant.id() && is_same(&kept.patch, &mutant.patch);
        // What was not found may be found now.
        let is_found = |kept: &&Kept| matches!(kept.verdict, Verdict::Found(_));
        let kept = self.all.iter().find(|kept| is_this(kept) && is_found(kept))?;
        Some(Tried { mutant: mutant.clone(), verdict: kept.verdict.clone(), took: kept.took })
    }

    /// Keeps what was found of one.
    ///
    /// # Errors
    /// If the file can't be written.
    pub fn keep(&mut self, tried: &Tried) -> Result<(), MutantError> {
        self.all.retain(|kept| kept.mutant != tried.mutant.id());
        self.all.push(Kept {
            mutant: tried.mutant.id(),
            patch: tried.mutant.patch.clone(),
            verdict: tried.verdict.clone(),
            took: tried.took,
        });
        let text = serde_json::to_string_pretty(&self.all).map_err(std::io::Error::other);
        text.and_then(|text| fs::write(&self.file, text)).map_err(MutantError::io("write", &self.file))
    }
}

/// Whether two patches change the same, wherever it stands.
fn is_same(one: &str, other: &str) -> bool {
    let changes = |patch: &str| patch.lines().filter(|line| !line.starts_with("@@")).collect::<Vec<_>>().join("\n");
    changes(one) == changes(other)
}

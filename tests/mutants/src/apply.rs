//! Applying a patch.

use std::fs;
use std::path::Path;

use crate::error::MutantError;
use crate::mutant::Mutant;

/// The text of a mutant's file below `root`: as it is, and as the mutant has it. Changes nothing.
///
/// # Errors
/// [`MutantError::Stale`] if the patch does not fit.
pub fn mutated(root: &Path, mutant: &Mutant) -> Result<(String, String), MutantError> {
    let stale = |reason: String| MutantError::Stale { patch: mutant.id(), file: mutant.file.clone(), reason };
    let patch = diffy::Patch::from_str(&mutant.patch).map_err(|error| stale(error.to_string()))?;
    let path = root.join(&mutant.file);
    let before = fs::read_to_string(&path).map_err(|error| stale(error.to_string()))?;
    let after = diffy::apply(&before, &patch).map_err(|error| stale(error.to_string()))?;
    if before == after {
        return Err(stale("it changes nothing".to_owned()));
    }
    Ok((before, after))
}

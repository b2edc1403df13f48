//! What the model says can come of a cell: the adapter's protocol is explored with exactly that cell's fault, at the moment at
//! which the harness strikes, and every way in which it can end is put as the kind of an [`Outcome`](crate::Outcome).

mod explore;
mod strike;
mod words;
mod world;

use std::collections::{BTreeSet, HashMap};
use std::sync::{LazyLock, Mutex, PoisonError};

use settled_model::{Description, LoadError, library, load_file};

use crate::adapter::{Adapter, Variant};
use crate::cell::Cell;
use crate::outcome::Bite;
use crate::profile::{CellResult, Prediction, Profile, Run};

pub use words::{fault, property};

/// Kinds of outcomes.
pub type Kinds = BTreeSet<&'static str>;

/// What was predicted: of a world, a cell, alone or behind `settled`.
type Known = HashMap<(String, Cell, bool), Option<Kinds>>;

/// Why nothing can be predicted.
#[derive(Debug, thiserror::Error)]
#[error("the adapter {adapter}: `protocol`: {error}")]
pub struct PredictError {
    /// The adapter.
    pub adapter: String,
    /// What is wrong with its protocol.
    pub error: Box<LoadError>,
}

/// The protocol that a variant's profile is predicted from, if its adapter names one.
///
/// # Errors
/// [`PredictError`] if there is no such protocol, or it can't be read.
pub fn protocol(adapter: &Adapter, variant: &Variant) -> Result<Option<Description>, PredictError> {
    let Some(named) = variant.protocol.as_ref().or(adapter.protocol.as_ref()) else { return Ok(None) };
    let is_file = std::path::Path::new(named).extension().is_some_and(|extension| extension == "toml");
    let loaded = if is_file { load_file(&adapter.directory.join(named)) } else { library::load(named) };
    loaded.map(Some).map_err(|error| PredictError { adapter: adapter.name.clone(), error: Box::new(error) })
}

/// The kinds of outcomes that the model can reach in a cell; `None` if the adapter names no protocol, or the model can't say.
///
/// # Errors
/// [`PredictError`] if there is no such protocol, or it can't be read.
pub fn predict(adapter: &Adapter, variant: &Variant, cell: Cell) -> Result<Option<Kinds>, PredictError> {
    Ok(protocol(adapter, variant)?.and_then(|protocol| possible(&protocol, false, cell)))
}

/// The kinds of outcomes that a protocol can reach in a cell, alone or behind `settled`; `None` if the model can't say.
#[must_use]
pub fn possible(protocol: &Description, behind: bool, cell: Cell) -> Option<Kinds> {
    /// One protocol predicts many variants.
    static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);
    let (description, strike) = (world::of(protocol, behind, cell)?, strike::of(cell, behind)?);
    let key = (serde_json::to_string(&description).ok()?, cell, behind);
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = known().get(&key) {
        return known.clone();
    }
    let found = explore::endings(description, cell, strike);
    known().insert(key, found.clone());
    found
}

/// Fills in what the model says of each cell of a profile: its property, its fault, and what the protocol predicts.
///
/// # Errors
/// [`PredictError`] if the adapter names a protocol that can't be read. Properties and faults are filled in all the same.
pub fn annotate(profile: &mut Profile, adapter: &Adapter, variant: &Variant) -> Result<(), PredictError> {
    for result in &mut profile.cells {
        result.property = property(result.cell).map(|property| property.name().to_owned());
        result.fault = fault(result.cell).map(|fault| fault.name().to_owned());
        result.predicted = None;
    }
    let Some(protocol) = protocol(adapter, variant)? else { return Ok(()) };
    let behind = profile.behind.is_some();
    for result in &mut profile.cells {
        let Some(possible) = possible(&protocol, behind, result.cell) else { continue };
        let possible: Vec<_> = possible.into_iter().map(str::to_owned).collect();
        result.predicted =
            Some(Prediction { protocol: protocol.name.clone(), agrees: agrees(result, &possible), possible });
    }
    Ok(())
}

/// Whether every struck run ended in one of these kinds. A run in the model begins with its first call: of one that was killed
/// before that, and never did anything, it says nothing.
fn agrees(result: &CellResult, possible: &[String]) -> bool {
    let anywhere = matches!(result.cell, Cell::KillAtWrites | Cell::KillAtRandom);
    let told = |run: &&Run| run.bite == Bite::Struck && !(anywhere && run.effects.values().all(|times| *times == 0));
    let mut struck = result.runs.iter().filter(told);
    struck.all(|run| possible.iter().any(|kind| kind == run.outcome.kind()))
}

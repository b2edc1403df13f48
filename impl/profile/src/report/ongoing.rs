//! A report that grows while it is measured: what has been measured is never lost, and need not be measured again.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::read::{ReadError, read};
use crate::cell::Cell;
use crate::matrix::Plan;
use crate::profile::{Profile, Report, Run};
use crate::{Adapter, Variant};

/// A report under way, in its file if it has one.
#[derive(Debug)]
pub struct Ongoing {
    report: Report,
    file: Option<PathBuf>,
}

/// Why a report can't be begun, gone on with, or written down.
#[derive(Debug, thiserror::Error)]
pub enum OngoingError {
    /// What there is can't be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// It was measured elsewhere.
    #[error(
        "{}: this was begun {what}, and counts of both in one report would mislead: name another file, \
         or leave `--continue` out to begin anew",
        path.display()
    )]
    Elsewhere {
        /// The file.
        path: PathBuf,
        /// What is different.
        what: &'static str,
    },
    /// It can't be written.
    #[error("{}: {error}", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
}

impl Ongoing {
    /// A report with no profiles yet.
    #[must_use]
    pub fn new(report: Report, file: Option<PathBuf>) -> Self {
        Self { report, file }
    }

    /// Goes on with the report in a file, if there is one: its seed and its beginning stay as they are.
    ///
    /// # Errors
    /// [`OngoingError`] if the file is no report, or one of another machine or version of `settled`.
    pub fn go_on(begun: Report, file: &Path) -> Result<Self, OngoingError> {
        if !file.exists() {
            return Ok(Self::new(begun, Some(file.to_owned())));
        }
        let report = read(file)?;
        let elsewhere = |what| OngoingError::Elsewhere { path: file.to_owned(), what };
        if report.machine != begun.machine {
            return Err(elsewhere("on another machine"));
        }
        if report.settled != begun.settled {
            return Err(elsewhere("by another version of settled"));
        }
        Ok(Self::new(report, Some(file.to_owned())))
    }

    /// What there is so far.
    #[must_use]
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// The cells that a plan would measure of a variant and that are not measured as often as that yet.
    #[must_use]
    pub fn lacks(&self, plan: &Plan, adapter: &Adapter, variant: &Variant) -> Vec<Cell> {
        let profile = self.report.profiles.iter().find(|profile| is_of(profile, plan, adapter, variant));
        let tried = plan.cells.iter().copied().filter(|cell| adapter.left_out(variant, *cell).is_none());
        tried.filter(|cell| profile.is_none_or(|profile| !has_cell(profile, *cell, plan.repeat as usize))).collect()
    }

    /// The runs of these cells of a variant that there are already, as far as they stay what they are when there are more. (Which
    /// writes are struck depends on how many of them are.)
    #[must_use]
    pub fn made(&self, plan: &Plan, adapter: &Adapter, variant: &Variant, cells: &[Cell]) -> BTreeMap<Cell, Vec<Run>> {
        let profile = self.report.profiles.iter().find(|profile| is_of(profile, plan, adapter, variant));
        let results = profile.into_iter().flat_map(|profile| &profile.cells);
        let kept = results.filter(|result| cells.contains(&result.cell) && result.cell != Cell::KillAtWrites);
        kept.map(|result| (result.cell, result.runs.clone())).collect()
    }

    /// What has been measured of a variant.
    pub fn measured(&mut self, plan: &Plan, adapter: &Adapter, variant: &Variant) -> Option<&mut Profile> {
        self.report.profiles.iter_mut().find(|profile| is_of(profile, plan, adapter, variant))
    }

    /// Takes the cells of a profile in, instead of the same that were measured before, and writes the report down.
    ///
    /// # Errors
    /// [`OngoingError::Unwritable`]: what is in the file stays.
    pub fn add(&mut self, mut profile: Profile) -> Result<(), OngoingError> {
        let before = self.report.profiles.iter().position(|other| {
            let key = |of: &Profile| (of.adapter.clone(), of.variant.clone(), of.version.clone(), of.behind.clone());
            key(other) == key(&profile)
        });
        if let Some(before) = before.map(|place| self.report.profiles.remove(place)) {
            let new = |cell: Cell| profile.cells.iter().any(|result| result.cell == cell);
            let kept: Vec<_> = before.cells.into_iter().filter(|result| !new(result.cell)).collect();
            profile.cells.extend(kept);
            profile.cells.sort_by_key(|result| Cell::ALL.iter().position(|cell| *cell == result.cell));
        }
        self.report.profiles.push(profile);
        self.write()
    }

    /// Puts the profiles into this order of adapters and variants, writes the report down, and gives it out.
    ///
    /// # Errors
    /// [`OngoingError::Unwritable`]: what is in the file stays.
    pub fn end(mut self, order: &[(Adapter, Variant)]) -> Result<Report, OngoingError> {
        let place = |profile: &Profile| {
            order
                .iter()
                .position(|(adapter, variant)| profile.adapter == adapter.name && profile.variant == variant.name)
                .unwrap_or(order.len())
        };
        self.report.profiles.sort_by_key(place);
        self.write()?;
        Ok(self.report)
    }

    fn write(&self) -> Result<(), OngoingError> {
        let Some(path) = &self.file else { return Ok(()) };
        let unwritable = |error| OngoingError::Unwritable { path: path.clone(), error };
        // Beside it first: a harness that is killed while it writes leaves the last report whole.
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut beside = tempfile::Builder::new();
        // As any file: it is for others to read, too, if the user's files are.
        let mut beside =
            beside.permissions(Permissions::from_mode(0o666)).tempfile_in(directory).map_err(unwritable)?;
        serde_json::to_writer(std::io::BufWriter::new(&mut beside), &self.report)
            .map_err(|error| unwritable(error.into()))?;
        std::io::Write::write_all(&mut beside, b"\n").map_err(unwritable)?;
        beside.as_file().sync_all().map_err(unwritable)?;
        beside.persist(path).map_err(|error| unwritable(error.error))?;
        Ok(())
    }
}

fn is_of(profile: &Profile, plan: &Plan, adapter: &Adapter, variant: &Variant) -> bool {
    profile.adapter == adapter.name
        && profile.variant == variant.name
        && profile.version == adapter.version
        && profile.behind.is_some() == plan.behind.is_some()
}

fn has_cell(profile: &Profile, cell: Cell, repeat: usize) -> bool {
    // Writes are struck as often as there are writes, which may be fewer.
    let least = if cell == Cell::KillAtWrites { 1 } else { repeat };
    profile.cells.iter().any(|result| result.cell == cell && result.runs.len() >= least)
}

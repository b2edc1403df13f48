//! One trace, replayed.

use std::path::PathBuf;

use serde::Serialize;
use settled_model::world::{Input, Move};
use settled_model::{PropertyName, Trace};

use crate::conductor::{Options, Parted, Stage};
use crate::run::{Run, TraceError};
use crate::verified::verified;

/// How often a round that goes on for ever is made.
const ROUNDS: usize = 3;

/// Whether reality agrees with a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The violation was seen, and there are as many effects as in the model.
    Agrees,
    /// Every step was made, but there are other effects, or the violation was not to be seen.
    Differs,
    /// Reality did something else at this step (from 1; 0: before the first).
    Parted {
        /// The step.
        step: usize,
        /// What it says.
        text: String,
        /// What was expected, and what there was instead.
        #[serde(flatten)]
        parted: Parted,
    },
    /// There is nothing to replay it on.
    NoImplementation {
        /// Why.
        reason: String,
    },
}

/// What came of a replay.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The protocol.
    pub protocol: String,
    /// The property that the trace violates.
    pub property: PropertyName,
    /// How many steps the trace has.
    pub steps: usize,
    /// The effects for each logical call, in the model.
    pub model: Vec<usize>,
    /// The effects for each logical call, in the tool's own file.
    pub reality: Vec<usize>,
    /// What callers were told, in order.
    pub told: Vec<String>,
    /// Whether the property was seen to be violated.
    pub violated: bool,
    /// Whether reality agrees.
    pub verdict: Verdict,
    /// What the recorded run itself says of the properties, checked independently of this replay: those that it shows
    /// violated. `None`: there is no record of it.
    pub verified: Option<Vec<String>>,
    /// Where the files are, if they were kept.
    pub kept: Option<PathBuf>,
}

impl Outcome {
    /// Before the first step.
    pub(crate) fn of(trace: &Trace, property: PropertyName, steps: usize, model: Vec<usize>) -> Outcome {
        Outcome {
            protocol: trace.protocol.clone(),
            property,
            steps,
            model,
            reality: Vec::new(),
            told: Vec::new(),
            violated: false,
            verdict: Verdict::Differs,
            verified: None,
            kept: None,
        }
    }

    /// Whether reality agrees.
    pub fn agrees(&self) -> bool {
        self.verdict == Verdict::Agrees
    }
}

/// A directory for the files of one replay; the path is short, for sockets.
pub(crate) struct Files {
    temporary: tempfile::TempDir,
    keep: Option<PathBuf>,
}

impl Files {
    pub(crate) fn new(options: &Options, name: &str) -> Result<Files, Parted> {
        let made = || -> std::io::Result<Files> {
            let temporary = tempfile::Builder::new().prefix("replay").tempdir()?;
            let keep = options.keep.as_ref().map(|keep| new_directory(keep, name)).transpose()?;
            Ok(Files { temporary, keep })
        };
        made().map_err(|error| Parted { expected: "a directory".to_owned(), seen: error.to_string() })
    }

    /// For a replay of this trace.
    pub(crate) fn of(options: &Options, trace: &Trace, property: PropertyName) -> Result<Files, Parted> {
        Files::new(options, &format!("{}.{}", trace.protocol, property.name().replace(' ', "-")))
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.temporary.path().to_owned()
    }

    /// Removes the files, or puts them where they are to be kept.
    pub(crate) fn end(self) -> Option<PathBuf> {
        let keep = self.keep?;
        copy(self.temporary.path(), &keep).ok().map(|()| keep)
    }
}

/// A new directory of about this name: what another replay has kept stays as it is. The name comes from a file, and must not lead
/// out of the directory.
fn new_directory(parent: &std::path::Path, name: &str) -> std::io::Result<PathBuf> {
    let is_plain = |letter: &char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    let plain: String = name.chars().filter(is_plain).take(200).collect();
    let plain = plain.trim_start_matches('.');
    std::fs::create_dir_all(parent)?;
    let mut number = 1_u32;
    loop {
        let path = match number {
            1 => parent.join(plain),
            _ => parent.join(format!("{plain}.{number}")),
        };
        match std::fs::create_dir(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && number < u32::MAX => number += 1,
            made => return made.map(|()| path),
        }
    }
}

fn copy(from: &std::path::Path, to: &std::path::Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy(&entry.path(), &to.join(entry.file_name()))?;
        } else if kind.is_file() {
            std::fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

/// The keys of which an attempt may run out of time: those of which one does in these moves; all, if the rest of the run is
/// to be seen.
fn hasty(run: &Run) -> Vec<u8> {
    if matches!(run.property, PropertyName::Settles | PropertyName::CanSettle) {
        return (0..=u8::MAX).collect();
    }
    let key = |what: Move| match what {
        Move::Guard { input: Input::TimeOut { key }, .. } => Some(key),
        _ => None,
    };
    run.steps.iter().filter_map(|(taken, _)| key(taken.what)).collect()
}

/// Replays a trace.
///
/// # Errors
/// If it can't be carried out at all: it is no run of its description, or there is nothing to replay it on.
pub async fn replay(trace: &Trace, options: &Options) -> Result<Outcome, TraceError> {
    if trace.description.get("devices").is_some_and(|devices| !devices.is_null()) {
        return crate::devices::replay(trace, options).await;
    }
    let run = Run::of(trace)?;
    let mut outcome = Outcome::of(trace, run.property, run.steps.len(), run.effects.clone());
    let files = match Files::of(options, trace, run.property) {
        Ok(files) => files,
        Err(parted) => return Ok(not_begun(outcome, parted)),
    };
    let stage = Stage::start(run.rules.clone(), hasty(&run), files.path(), options.clone()).await;
    match stage {
        Err(parted) => outcome = not_begun(outcome, parted),
        Ok(mut stage) => {
            let verdict = play(&mut stage, &run, &mut outcome.reality).await;
            let description = &run.rules.description;
            let shared = description.caller.same_resource;
            stage.end().await;
            outcome.verified = verified(&files.path(), stage.keys(), shared, false).await;
            let evidence = &stage.evidence;
            outcome.violated = evidence.violates(run.property, description).unwrap_or(false);
            outcome.told = evidence
                .told
                .iter()
                .map(|told| format!("{}: {}", settled_model::call_name(told.call), told.told))
                .collect();
            outcome.verdict = match verdict {
                Some(verdict) => verdict,
                None if outcome.violated && outcome.reality == outcome.model => Verdict::Agrees,
                None => Verdict::Differs,
            };
        }
    }
    outcome.kept = files.end();
    Ok(outcome)
}

pub(crate) fn not_begun(outcome: Outcome, parted: Parted) -> Outcome {
    Outcome { verdict: Verdict::Parted { step: 0, text: "the processes start".to_owned(), parted }, ..outcome }
}

/// Makes every step. Returns a verdict if reality parts from the trace.
async fn play(stage: &mut Stage, run: &Run, effects: &mut Vec<usize>) -> Option<Verdict> {
    let mut count = |stage: &Stage| {
        let calls = 0..run.rules.description.caller.operations;
        *effects = calls.map(|call| stage.evidence.effects_of(call)).collect();
    };
    let round = run.round.map_or(&[][..], |begins| &run.steps[begins.min(run.steps.len())..]);
    let again = std::iter::repeat_n(round, ROUNDS - 1).flatten();
    for (number, (taken, text)) in
        (1..=run.steps.len()).chain(std::iter::repeat(run.steps.len())).zip(run.steps.iter().chain(again))
    {
        stage.log_step(number, text);
        let made = stage.carry_out(taken).await;
        let made = match made {
            Ok(()) => stage.compare_effects(taken),
            parted => parted,
        };
        count(stage);
        if let Err(parted) = made {
            return Some(match stage.leaves_to_another(taken) {
                Some(why) => Verdict::NoImplementation { reason: format!("step {number} ({text}): {why}") },
                None => Verdict::Parted { step: number, text: text.clone(), parted },
            });
        }
    }
    let ended = match run.property {
        // A guard whose callers keep it from its own timers: they go on calling.
        PropertyName::Settles if run.round.is_some() && stage.is_starved() => stage.look_what_is_open().await,
        PropertyName::Settles | PropertyName::CanSettle => stage.let_end().await,
        PropertyName::BoundedMemory if !stage.evidence.slipped_in => match stage.let_end().await {
            Ok(()) => stage.let_be_forgotten().await,
            parted => parted,
        },
        _ => Ok(()),
    };
    let parted = ended.err()?;
    Some(Verdict::Parted { step: run.steps.len(), text: "after the last step".to_owned(), parted })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::new_directory;

    #[test]
    fn what_is_kept_stays_in_its_directory_and_replaces_nothing() {
        let parent = tempfile::tempdir().unwrap();
        for name in ["../../evil", "/etc/evil", "..", "a\u{1b}[31m/b\0c", &"x".repeat(300), "same", "same", "same"] {
            let made = new_directory(parent.path(), name).unwrap();
            assert_eq!(made.parent().unwrap(), parent.path(), "{name:?}");
            assert!(made.is_dir());
        }
        assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 8);
    }
}

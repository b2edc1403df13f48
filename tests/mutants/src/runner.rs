//! Trying mutants, one after the other.

use std::collections::HashMap;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::apply::mutated;
use crate::command::{Ended, compile_errors, failed, run};
use crate::error::MutantError;
use crate::layer::Layer;
use crate::mutant::Mutant;
use crate::outcome::{Found, Tried, Verdict};
use crate::plan::{Check, checks};
use crate::tree::Place;

/// How to run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The layers to run, of those that apply.
    pub layers: Vec<Layer>,
    /// How many crates are built at once; `None`: as many as there are processors.
    pub jobs: Option<usize>,
    /// Whether the code without a mutant is checked first. Where that has just been done, it may be left out.
    pub baseline: bool,
    /// Run nothing but the one test that each patch names.
    pub sample: bool,
}

/// Tries mutants in a copy of the tree.
#[derive(Debug)]
pub struct Runner {
    place: Place,
    settings: Settings,
    /// Checks that the code passes without a mutant, and how long that takes.
    passed: HashMap<Check, Duration>,
}

/// What any check may take more than without a mutant.
const SLACK: Duration = Duration::from_secs(60);

/// How a check ended.
enum Ran {
    Passed(Duration),
    NotCompiled,
    Failed(String),
}

impl Runner {
    /// Tries mutants in a copy that has been [prepared](Place::prepare).
    pub fn new(place: Place, settings: Settings) -> Runner {
        Runner { place, settings, passed: HashMap::new() }
    }

    /// Tries one mutant: the checks that can see it, up to the first that fails.
    ///
    /// # Errors
    /// If the patch does not apply, or the code fails without it.
    pub fn try_one(&mut self, mutant: &Mutant) -> Result<Tried, MutantError> {
        let checks = self.checks(mutant);
        let (_, after) = mutated(&self.place.tree, mutant)?;
        if self.settings.baseline {
            // Up to the one that is to find it. The rest is checked if it comes to that.
            let last = checks.iter().position(|check| check.layer == mutant.layer).map_or(0, |at| at + 1);
            for check in checks.iter().take(last) {
                self.baseline(check)?;
            }
        }
        let file = self.place.tree.join(&mutant.file);
        let begun = Instant::now();
        self.place.change(&file, &after)?;
        let verdict = self.verdict(mutant, &checks);
        let took = begun.elapsed();
        self.place.restore()?;
        let (verdict, by) = verdict?;
        if let (Some(check), true) = (by, self.settings.baseline) {
            self.baseline(&check)?;
        }
        Ok(Tried { mutant: mutant.clone(), verdict, took })
    }

    fn checks(&self, mutant: &Mutant) -> Vec<Check> {
        let mut all = checks(&mutant.file).to_vec();
        let known = all.iter().position(|check| check.layer == mutant.layer).zip(mutant.test.as_ref());
        if let Some((at, test)) = known
            && let Some(check) = all.get(at).map(|check| check.only(test))
        {
            if self.settings.sample {
                return vec![check];
            }
            all.insert(at, check);
        }
        all.retain(|check| self.settings.layers.contains(&check.layer));
        all
    }

    /// What becomes of the mutant that the copy holds now, and which check told.
    fn verdict(&self, mutant: &Mutant, checks: &[Check]) -> Result<(Verdict, Option<Check>), MutantError> {
        for (number, check) in checks.iter().enumerate() {
            let arguments = check.arguments(&self.place.tree);
            let name = format!("{}-{number}", mutant.name);
            match self.run(check, &arguments, &name)? {
                Ran::Passed(_) => {}
                Ran::NotCompiled => {
                    let errors = compile_errors(&self.place.logs.join(format!("{name}-build.log")));
                    let code = mutant.error.as_ref().map(|code| format!("error[{code}]"));
                    let meant = errors.iter().find(|error| code.as_ref().is_some_and(|code| error.starts_with(code)));
                    let verdict = match meant {
                        Some(error) => Verdict::Found(Found { layer: Layer::Types, by: error.clone() }),
                        None => Verdict::Broken(errors.first().cloned().unwrap_or_default()),
                    };
                    return Ok((verdict, None));
                }
                // Tests of processes wait for each other; one that fails by chance has found nothing.
                Ran::Failed(_) if check.layer == Layer::Process && !self.fails_again(check, &arguments, &name)? => {}
                Ran::Failed(by) => return Ok((Verdict::Found(Found { layer: check.layer, by }), Some(check.clone()))),
            }
        }
        Ok((Verdict::Survived, None))
    }

    fn fails_again(&self, check: &Check, arguments: &[String], name: &str) -> Result<bool, MutantError> {
        Ok(matches!(self.run(check, arguments, &format!("{name}-again"))?, Ran::Failed(_)))
    }

    fn baseline(&mut self, check: &Check) -> Result<(), MutantError> {
        if self.passed.contains_key(check) {
            return Ok(());
        }
        let arguments = check.arguments(&self.place.tree);
        let name = format!("without-{}-{}", check.package, self.passed.len());
        let by = match self.run(check, &arguments, &name)? {
            Ran::Passed(took) => {
                self.passed.insert(check.clone(), took);
                return Ok(());
            }
            Ran::NotCompiled => "it can't be built".to_owned(),
            Ran::Failed(by) => by,
        };
        let command = format!("cargo test {}", arguments.join(" "));
        Err(MutantError::Baseline { command, by, log: self.place.logs.join(format!("{name}.log")) })
    }

    fn run(&self, check: &Check, arguments: &[String], name: &str) -> Result<Ran, MutantError> {
        let log = self.place.logs.join(format!("{name}-build.log"));
        match run(self.cargo(check.layer, arguments).arg("--no-run"), &log, Layer::Types.timeout())? {
            Ended::Exited(status) if status.success() => {}
            Ended::Exited(_) => return Ok(Ran::NotCompiled),
            Ended::TimedOut => return Ok(Ran::Failed("timeout of the compiler".to_owned())),
        }
        let log = self.place.logs.join(format!("{name}.log"));
        let longest = check.layer.timeout();
        // What takes so much longer than without a mutant hangs, or would take for ever.
        let timeout = self.passed.get(check).map_or(longest, |took| (*took * 5 + SLACK).min(longest));
        let begun = Instant::now();
        Ok(match run(&mut self.cargo(check.layer, arguments), &log, timeout)? {
            Ended::Exited(status) if status.success() => Ran::Passed(begun.elapsed()),
            Ended::Exited(_) => Ran::Failed(failed(&log)),
            Ended::TimedOut => Ran::Failed(format!("timeout after {} s", Duration::as_secs(&timeout))),
        })
    }

    fn cargo(&self, layer: Layer, arguments: &[String]) -> Command {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.arg("test").arg("--locked").args(arguments).current_dir(&self.place.tree);
        cargo
            .env("CARGO_INCREMENTAL", "1")
            .env("CARGO_TERM_COLOR", "never")
            .env_remove("UPDATE")
            .env_remove("SETTLED_BIN");
        // What random runs find must not be found again by the next mutant.
        cargo.env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true");
        if let Some(jobs) = self.settings.jobs {
            cargo.env("CARGO_BUILD_JOBS", jobs.to_string());
        }
        match layer {
            Layer::Loom => cargo.env("CARGO_TARGET_DIR", &self.place.loom).env("RUSTFLAGS", "--cfg loom"),
            _ => cargo.env("CARGO_TARGET_DIR", &self.place.target),
        };
        cargo
    }
}

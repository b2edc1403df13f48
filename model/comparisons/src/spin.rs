//! Runs Spin: translates a Promela model, compiles the verifier that comes out, runs it, and reads its report.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The models that come with this project, in `proofs/spin`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Promela {
    /// Two-phase commit. `MANAGERS`: how many resource managers.
    TwoPhaseCommit,
    /// The protocol `mcp-2025-11-25`. Bounds: `CALLS`, and each fault by its name in capitals, such as `LOST_REPLIES`.
    Mcp,
    /// The protocol `settled-sealable`. Bounds as above, and `GUARDS` and `ATTEMPTS`; with `FAULTS_STOP` faults may end at any
    /// moment, with `KEEPS_ALL` no message is dropped that can't matter any more, and `ROUNDS` goes with [`Options::rounds`].
    Sealable,
}

impl Promela {
    /// All of them.
    pub const ALL: [Promela; 3] = [Promela::TwoPhaseCommit, Promela::Mcp, Promela::Sealable];

    /// Its name, as that of its file.
    pub fn name(self) -> &'static str {
        match self {
            Promela::TwoPhaseCommit => "two-phase-commit",
            Promela::Mcp => "mcp-2025-11-25",
            Promela::Sealable => "settled-sealable",
        }
    }

    /// What the file holds.
    pub fn text(self) -> &'static str {
        match self {
            Promela::TwoPhaseCommit => include_str!("../../../proofs/spin/two-phase-commit.pml"),
            Promela::Mcp => include_str!("../../../proofs/spin/mcp-2025-11-25.pml"),
            Promela::Sealable => include_str!("../../../proofs/spin/settled-sealable.pml"),
        }
    }
}

/// How to run Spin.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How deep to search. A run that is longer is an error.
    pub depth: usize,
    /// How much memory the verifier may use, in MiB.
    pub memory: usize,
    /// How long it may run.
    pub time: Duration,
    /// The hash table's size: 2 to the power of this. Best near the number of states: it is part of the memory.
    pub hash_bits: u32,
    /// Whether states are stored compressed: less memory, more time.
    pub collapse: bool,
    /// Whether the verifier is compiled for speed. For small models that takes longer than it saves.
    pub optimised: bool,
    /// Whether to look for runs that go round for ever, rather than at single states. Such a run violates `settles`. (Spin
    /// makes two states of each for that.)
    pub rounds: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            depth: 100_000,
            memory: 8_192,
            time: Duration::from_secs(600),
            hash_bits: 24,
            collapse: false,
            optimised: true,
            rounds: false,
        }
    }
}

/// What Spin found. Everything was explored.
#[derive(Clone, Debug, PartialEq)]
pub struct SpinReport {
    /// Distinct states.
    pub states: usize,
    /// Moves made.
    pub transitions: usize,
    /// The properties that are violated, as the model names them.
    pub violated: Vec<String>,
    /// Failed assertions, each counted once.
    pub errors: usize,
    /// The size of a state in bytes, before it is stored.
    pub state_bytes: usize,
    /// All the memory that the verifier asked for, in bytes.
    pub memory: u64,
    /// How long the verifier ran.
    pub search: Duration,
    /// How long it took to translate and to compile it before that.
    pub building: Duration,
}

impl SpinReport {
    /// The violated properties by the names that they have everywhere else: a macro's name can't have a hyphen.
    pub fn property_names(&self) -> Vec<String> {
        let hyphens = |name: &String| if name == "at most once" { "at-most-once".to_owned() } else { name.clone() };
        self.violated.iter().map(hyphens).collect()
    }
}

/// Why Spin's verdict could not be had.
#[derive(Debug, thiserror::Error)]
pub enum SpinError {
    /// A program is not installed.
    #[error("`{program}` was not found: install Spin and a C compiler (Debian and Ubuntu: `apt-get install spin gcc`)")]
    Missing {
        /// Which.
        program: &'static str,
    },
    /// A program failed.
    #[error("`{program}` failed:\n{output}")]
    Failed {
        /// Which.
        program: &'static str,
        /// What it said.
        output: String,
    },
    /// The verifier gave up before everything was explored.
    #[error("Spin did not explore everything ({reason}): raise that limit, or lower the model's bounds")]
    Unfinished {
        /// Why.
        reason: &'static str,
    },
    /// Its report says nothing of this.
    #[error("Spin's report does not tell {what}: this was written for Spin 6.5. It says:\n{output}")]
    Unreadable {
        /// Of what.
        what: &'static str,
        /// The report.
        output: String,
    },
    /// A file could not be written or read.
    #[error("the directory for Spin's files could not be used: {0}")]
    Io(#[from] io::Error),
}

/// Checks one of the project's models within these bounds.
///
/// # Errors
/// [`SpinError`] if Spin is not installed, fails, or doesn't finish within the limits.
pub fn check(model: Promela, bounds: &[(&str, u32)], options: &Options) -> Result<SpinReport, SpinError> {
    check_text(model.text(), bounds, options)
}

/// Checks a Promela model, given as text, with these macros defined. An assertion `!(violated_some_name)` that fails is
/// reported as the property `some name`.
///
/// # Errors
/// As [`check`].
pub fn check_text(model: &str, bounds: &[(&str, u32)], options: &Options) -> Result<SpinReport, SpinError> {
    let begun = Instant::now();
    let place = tempfile::tempdir()?;
    fs::write(place.path().join("model.pml"), model)?;
    let defines = bounds.iter().map(|(name, value)| format!("-D{name}={value}"));
    run(
        "spin",
        "spin",
        place.path(),
        [String::from("-a")].into_iter().chain(defines).chain(["model.pml".into()]),
        None,
    )?;
    let speed = if options.optimised { "-O2" } else { "-O0" };
    let mut flags: Vec<String> =
        [speed, "-w", if options.rounds { "-DNP" } else { "-DSAFETY" }, "-DNOREDUCE"].map(String::from).into();
    flags.push(format!("-DMEMLIM={}", options.memory));
    flags.extend(options.collapse.then(|| "-DCOLLAPSE".into()));
    flags.extend(["pan.c", "-o", "pan"].map(String::from));
    run("cc", "cc", place.path(), flags, None)?;
    let building = begun.elapsed();
    let begun = Instant::now();
    // -c0: count violations and go on.
    let mut arguments = vec!["-c0".to_owned(), format!("-m{}", options.depth), format!("-w{}", options.hash_bits)];
    if options.rounds {
        // -E: where nothing can happen any more, nothing goes round.
        arguments.extend(["-l", "-E"].map(String::from));
    }
    let output = run("pan", place.path().join("pan"), place.path(), arguments, Some(options.time))?;
    read(&output, begun.elapsed(), building)
}

/// Runs a program to its end and gives what it wrote.
fn run(
    program: &'static str,
    path: impl Into<PathBuf>,
    place: &Path,
    arguments: impl IntoIterator<Item = String>,
    limit: Option<Duration>,
) -> Result<String, SpinError> {
    let written = place.join("output");
    let file = File::create(&written)?;
    let begun = Instant::now();
    let mut child = Command::new(path.into())
        .args(arguments)
        .current_dir(place)
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .spawn()
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => SpinError::Missing { program },
            _ => SpinError::Io(error),
        })?;
    let status = match limit {
        None => child.wait()?,
        Some(limit) => loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if begun.elapsed() > limit {
                child.kill()?;
                child.wait()?;
                return Err(SpinError::Unfinished { reason: "its time was over" });
            }
            // Short against any run that is worth measuring, and not worth a thread of its own.
            std::thread::sleep(Duration::from_millis(1));
        },
    };
    let output = String::from_utf8_lossy(&fs::read(written)?).into_owned();
    if status.success() { Ok(output) } else { Err(SpinError::Failed { program, output }) }
}

fn read(output: &str, search: Duration, building: Duration) -> Result<SpinReport, SpinError> {
    for (sign, reason) in [
        ("max search depth too small", "a run is longer than its depth"),
        ("out of memory", "its memory was full"),
        ("memory bound", "its memory was full"),
        ("Search not completed", "its search ended early"),
    ] {
        if output.contains(sign) {
            return Err(SpinError::Unfinished { reason });
        }
    }
    // The number before (or after) these words. Large ones are written like 1.2e+08.
    let number = |what: &'static str, before: bool| {
        let (head, tail) = output.split_once(what)?;
        let word = if before { head.split_whitespace().next_back() } else { tail.split_whitespace().next() };
        word?.trim_end_matches(',').parse::<f64>().ok()
    };
    let need = |what: &'static str, before| {
        number(what, before).ok_or_else(|| SpinError::Unreadable { what, output: output.to_owned() })
    };
    let mut violated: Vec<String> = output
        .lines()
        .filter(|line| line.contains("assertion violated"))
        .filter_map(|line| line.split_once("violated_")?.1.split(')').next())
        .map(|name| name.replace('_', " "))
        .collect();
    violated.extend(output.contains("non-progress cycle (at depth").then(|| "settles".to_owned()));
    violated.sort();
    violated.dedup();
    Ok(SpinReport {
        states: need("states, stored", true)? as usize,
        transitions: need("transitions (=", true)? as usize,
        violated,
        errors: need("errors:", false)? as usize,
        state_bytes: need("State-vector ", false)? as usize,
        memory: (need("total actual memory usage", true)? * f64::from(1 << 20)) as u64,
        search,
        building,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "pan:1: assertion violated  !(violated_at_most_once) (at depth 20)\n\
        State-vector 28 byte, depth reached 28, errors: 1\n\
        \x20      30 states, stored\n 1.235584e+08 transitions (= stored+matched)\n  334.5\ttotal actual memory usage\n";

    #[test]
    fn a_report_is_read() {
        let its = read(REPORT, Duration::ZERO, Duration::ZERO).unwrap();
        assert_eq!((its.states, its.transitions, its.errors, its.state_bytes), (30, 123_558_400, 1, 28));
        assert_eq!((its.violated, its.memory), (vec!["at most once".to_owned()], 334 * (1 << 20) + (1 << 19)));
    }

    #[test]
    fn half_a_search_is_no_verdict() {
        let cut = format!("error: max search depth too small\n{REPORT}");
        assert!(matches!(read(&cut, Duration::ZERO, Duration::ZERO), Err(SpinError::Unfinished { .. })));
        let other = REPORT.replace("stored\n", "kept\n");
        let what = read(&other, Duration::ZERO, Duration::ZERO).unwrap_err();
        assert!(what.to_string().contains("does not tell states, stored"), "{what}");
    }

    #[test]
    fn a_missing_program_says_what_to_install() {
        let place = tempfile::tempdir().unwrap();
        let error = run("spin", "no-such-program", place.path(), [], None).unwrap_err();
        assert!(error.to_string().contains("apt-get install spin gcc"), "{error}");
    }
}

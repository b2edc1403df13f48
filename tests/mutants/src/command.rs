//! Running a command with its output in a file and an end to its time.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::error::MutantError;

/// How often to look whether it has ended.
const LOOK: Duration = Duration::from_millis(50);

/// How it ended.
pub(crate) enum Ended {
    Exited(ExitStatus),
    TimedOut,
}

/// Runs it to its end, or kills it with all its children when its time is over. Both outputs go to `log`.
pub(crate) fn run(command: &mut Command, log: &Path, timeout: Duration) -> Result<Ended, MutantError> {
    let output = File::create(log).map_err(MutantError::io("write", log))?;
    let errors = output.try_clone().map_err(MutantError::io("write", log))?;
    let program = command.get_program().to_owned();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .process_group(0)
        .spawn()
        .map_err(MutantError::io("start", Path::new(&program)))?;
    let until = Instant::now() + timeout;
    loop {
        if let Some(status) = child.try_wait().map_err(MutantError::io("wait for", Path::new(&program)))? {
            return Ok(Ended::Exited(status));
        }
        if Instant::now() >= until {
            if let Ok(group) = i32::try_from(child.id()) {
                // It may have ended just now.
                let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
            }
            child.wait().map_err(MutantError::io("wait for", Path::new(&program)))?;
            return Ok(Ended::TimedOut);
        }
        sleep(LOOK);
    }
}

/// The tests that failed, by what cargo and the test runner printed; else cargo's last words.
pub(crate) fn failed(log: &Path) -> String {
    let text = String::from_utf8_lossy(&fs::read(log).unwrap_or_default()).into_owned();
    let mut program = "";
    let mut names = BTreeSet::new();
    for line in text.lines().map(str::trim_start) {
        if let Some(running) = line.strip_prefix("Running ") {
            program = running.split(" (").next().unwrap_or(running);
        } else if let Some(name) = line.strip_prefix("test ").and_then(|it| it.strip_suffix(" ... FAILED")) {
            names.insert(format!("{program}: {}", name.split(" - ").next().unwrap_or(name)));
        }
    }
    let more = match names.len() {
        0 | 1 => String::new(),
        count => format!(" and {} more", count - 1),
    };
    match names.first() {
        Some(first) => format!("{first}{more}"),
        None => text.lines().rev().find(|line| line.starts_with("error")).unwrap_or("no test by name").to_owned(),
    }
}

/// The compiler's errors: those with a number, or the first line.
pub(crate) fn compile_errors(log: &Path) -> Vec<String> {
    let text = String::from_utf8_lossy(&fs::read(log).unwrap_or_default()).into_owned();
    text.lines().filter(|line| line.starts_with("error")).map(str::to_owned).collect()
}

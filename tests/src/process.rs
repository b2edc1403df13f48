//! Processes as `/proc` shows them, and kills that certainly hit the process meant.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::wait::until;

/// The variable that marks every process of a stage with the stage's directory.
pub(crate) const MARK: &str = "TEST_STAGE";

/// A process: pids are used again, so its start time belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Its parent's.
    pub parent: u32,
    /// Its command line.
    pub argv: Vec<String>,
    started: u64,
    state: char,
}

impl Process {
    /// The process of that number, unless it has ended (a zombie has).
    pub fn find(pid: u32) -> Option<Process> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name is in parentheses and can hold anything.
        let fields: Vec<&str> = stat.get(stat.rfind(')')? + 1..)?.split_whitespace().collect();
        let state = fields.first()?.chars().next()?;
        if matches!(state, 'Z' | 'X') {
            return None;
        }
        let argv = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let argv = argv.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        Some(Process { pid, parent: fields.get(1)?.parse().ok()?, argv, started: fields.get(19)?.parse().ok()?, state })
    }

    /// All that carry the mark of a stage.
    pub(crate) fn of_stage(directory: &Path) -> Vec<Process> {
        let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
        let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        pids.filter(|pid| marked(*pid, directory)).filter_map(Process::find).collect()
    }

    /// Whether it still runs.
    pub fn is_alive(&self) -> bool {
        Process::find(self.pid).is_some_and(|now| now.started == self.started)
    }

    /// Whether a word of its command line ends so.
    pub fn has_word(&self, end: &str) -> bool {
        self.argv.iter().any(|word| word.ends_with(end))
    }

    /// Tells it to end.
    pub fn terminate(&self) {
        kill(Pid::from_raw(i32::try_from(self.pid).expect("a pid")), Signal::SIGTERM).expect("it runs");
    }

    /// Kills it, and returns when it is gone. It is stopped first, so that it can't end by itself between the look and
    /// the kill. `false` if it had ended before.
    pub(crate) fn kill(&self, directory: &Path) -> bool {
        let pid = Pid::from_raw(i32::try_from(self.pid).expect("a pid"));
        let same = || marked(self.pid, directory) && self.is_alive();
        if !same() || kill(pid, Signal::SIGSTOP).is_err() {
            return false;
        }
        let stopped = until("the process stops, or is gone", || match Process::find(self.pid) {
            Some(now) if now.started == self.started => matches!(now.state, 'T' | 't').then_some(true),
            _ => Some(false),
        });
        if !stopped {
            return false;
        }
        kill(pid, Signal::SIGKILL).expect("a stopped process can be killed");
        until("the killed process is gone", || (!self.is_alive()).then_some(()));
        true
    }
}

fn marked(pid: u32, directory: &Path) -> bool {
    let Ok(environment) = std::fs::read(format!("/proc/{pid}/environ")) else { return false };
    let mark = [OsStr::new(MARK).as_bytes(), b"=", directory.as_os_str().as_bytes()].concat();
    environment.split(|byte| *byte == 0).any(|variable| variable == mark)
}

/// Kills whatever a stage left running, also what is started meanwhile.
pub(crate) fn clear(directory: &Path) {
    let start = Instant::now();
    loop {
        let left = Process::of_stage(directory);
        if left.is_empty() || start.elapsed() > Duration::from_secs(10) {
            return;
        }
        for process in left {
            let _ = kill(Pid::from_raw(i32::try_from(process.pid).unwrap_or_default()), Signal::SIGKILL);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

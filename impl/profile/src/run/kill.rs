//! Signals to all processes of a run, wherever they have gone.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

/// A number for a directory, which its processes carry as a limit that none of them comes to (how many microseconds of real-time
/// priority without a wait: tens of thousands of years): children inherit it, also those that leave the group and the session, and
/// are given another environment. There are so many numbers that runs at once don't have the same.
#[cfg(target_os = "linux")]
fn number(directory: &Path) -> u64 {
    use std::hash::{Hash, Hasher};
    let mut hasher = std::hash::DefaultHasher::new();
    directory.hash(&mut hasher);
    (1 << 62) + (hasher.finish() >> 2)
}

/// Marks a process that has just been started, and so its children, as one of a directory.
pub fn mark(process: u32, directory: &Path) {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Pid, Resource, getrlimit, prlimit};
        let mut limit = getrlimit(Resource::Rttime);
        limit.current = Some(number(directory));
        // Without it, processes are still known by their environment, their command and their group.
        let _ = prlimit(Pid::from_raw(process.cast_signed()), Resource::Rttime, limit);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (process, directory);
}

/// Whether a process carries a directory's number.
fn is_marked(process: u32, directory: &Path) -> bool {
    #[cfg(target_os = "linux")]
    {
        let limits = std::fs::read_to_string(format!("/proc/{process}/limits")).unwrap_or_default();
        let limit = limits.lines().find_map(|line| line.strip_prefix("Max realtime timeout"));
        limit.and_then(|limit| limit.split_whitespace().next()?.parse().ok()) == Some(number(directory))
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (process, directory);
        false
    }
}

/// Sends a signal to a process group, and to every process that has to do with a directory (it is marked so, or names it in its
/// environment or its command): a child may have left the group.
pub fn signal_all(group: u32, directory: &Path, spare: &BTreeSet<u32>, signal: Signal) {
    let _ = killpg(pid(group), signal);
    for process in of_directory(directory, spare) {
        let _ = kill(pid(process), signal);
    }
}

/// Kills them, also those that are started meanwhile, and waits until they are gone.
pub async fn kill_all(group: Option<u32>, directory: &Path, spare: &BTreeSet<u32>) {
    for _ in 0..200 {
        if let Some(group) = group {
            let _ = killpg(pid(group), Signal::SIGKILL);
        }
        let left = of_directory(directory, spare);
        if left.is_empty() {
            return;
        }
        for process in left {
            let _ = kill(pid(process), Signal::SIGKILL);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Sends a signal to one process.
pub fn signal_one(process: u32, signal: Signal) -> bool {
    kill(pid(process), signal).is_ok()
}

/// Whether a process is there and not dead already.
pub fn is_alive(process: u32) -> bool {
    match state(process) {
        Some(state) => state != 'Z' && state != 'X',
        None => !cfg!(target_os = "linux") && kill(pid(process), None).is_ok(),
    }
}

/// Whether a process is stopped.
pub fn is_stopped(process: u32) -> bool {
    matches!(state(process), Some('T' | 't'))
}

fn state(process: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The command's name comes before, in brackets, and can have anything in it.
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

/// The living processes that have to do with a directory.
pub fn of_directory(directory: &Path, spare: &BTreeSet<u32>) -> Vec<u32> {
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let name = directory.as_os_str().as_encoded_bytes();
    let own = std::process::id();
    let numbers = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    numbers
        .filter(|process| *process != own && !spare.contains(process))
        .filter(|process| (names(*process, name) || is_marked(*process, directory)) && is_alive(*process))
        .collect()
}

fn names(process: u32, directory: &[u8]) -> bool {
    ["environ", "cmdline"].into_iter().any(|file| {
        let text = std::fs::read(format!("/proc/{process}/{file}")).unwrap_or_default();
        text.windows(directory.len()).any(|part| part == directory)
    })
}

fn pid(process: u32) -> Pid {
    Pid::from_raw(i32::try_from(process).unwrap_or(i32::MAX))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::collections::HashSet;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn no_two_runs_have_the_same_number() {
        let runs = 200_000;
        let numbers: HashSet<_> = (0..runs).map(|run| number(Path::new(&format!("/tmp/settled-{run}")))).collect();
        assert_eq!(numbers.len(), runs);
    }

    #[test]
    fn children_are_known_by_their_parents_number_and_others_are_not() {
        let [one, other] = ["/no/such/one", "/no/such/other"].map(Path::new);
        let mut shell = Command::new("sh");
        // It goes on when it is told to, which is after it was marked.
        let mut shell = shell.args(["-c", "read go; sleep 60 & wait"]).stdin(Stdio::piped()).spawn().unwrap();
        mark(shell.id(), one);
        drop(shell.stdin.take());
        while of_directory(one, &BTreeSet::new()).len() < 2 {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(of_directory(other, &BTreeSet::new()), [] as [u32; 0]);
        for process in of_directory(one, &BTreeSet::new()) {
            assert!(signal_one(process, Signal::SIGKILL));
        }
        shell.wait().unwrap();
    }
}

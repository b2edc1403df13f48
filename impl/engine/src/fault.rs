//! Places at which a test can kill this process: compiled in under the feature `fault-points` only, and absent from every
//! other build.
//!
//! With `SETTLED_KILL_AT=N` the process kills itself (SIGKILL) when it comes to its N-th fault point. It says so first, by
//! appending `N NAME PID` to the file that `SETTLED_KILL_LOG` names: a test can tell a kill that happened from one that did
//! not. With `SETTLED_STOP_AT=NAME` it stops itself (SIGSTOP) when it first comes to the point of that name; with
//! `SETTLED_STOP_AT=NAME:N`, when it comes there for the N-th time.

/// A named place at which the process may be killed.
#[cfg(not(feature = "fault-points"))]
#[inline(always)]
pub fn point(_name: &str) {}

/// A named place at which the process may be killed.
#[cfg(feature = "fault-points")]
pub fn point(name: &str) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    static KILL_AT: OnceLock<Option<u64>> = OnceLock::new();
    static PASSED: AtomicU64 = AtomicU64::new(0);

    stop(name);
    let Some(kill_at) = *KILL_AT.get_or_init(|| std::env::var("SETTLED_KILL_AT").ok()?.parse().ok()) else { return };
    if PASSED.fetch_add(1, Ordering::SeqCst) + 1 != kill_at {
        return;
    }
    note(kill_at, name);
    let _ = nix::sys::signal::kill(nix::unistd::Pid::this(), nix::sys::signal::Signal::SIGKILL);
    loop {
        std::thread::park();
    }
}

#[cfg(feature = "fault-points")]
fn note(number: u64, name: &str) {
    use std::io::Write;

    if let Some(path) = std::env::var_os("SETTLED_KILL_LOG") {
        let line = format!("{number} {name} {}\n", std::process::id());
        let log = std::fs::OpenOptions::new().create(true).append(true).open(path);
        // A kill that can't be told of still has to happen.
        let _ = log.and_then(|mut log| log.write_all(line.as_bytes()));
    }
}

#[cfg(feature = "fault-points")]
fn stop(name: &str) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    static STOP_AT: OnceLock<Option<(String, u64)>> = OnceLock::new();
    static MET: AtomicU64 = AtomicU64::new(0);

    let stop_at = STOP_AT.get_or_init(|| {
        let given = std::env::var("SETTLED_STOP_AT").ok()?;
        Some(match given.rsplit_once(':').and_then(|(name, times)| Some((name, times.parse().ok()?))) {
            Some((name, times)) => (name.to_owned(), times),
            None => (given, 1),
        })
    });
    let Some((_, times)) = stop_at.as_ref().filter(|(at, _)| at == name) else { return };
    let met = MET.fetch_add(1, Ordering::SeqCst) + 1;
    if met == *times {
        note(met, name);
        // To this very thread: none of its steps is taken before the process is stopped.
        let _ = nix::sys::signal::raise(nix::sys::signal::Signal::SIGSTOP);
    }
}

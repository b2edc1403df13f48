//! That all processes of a program are watched and killed, and nothing else of them is different.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use settled_profile::tracer::{self, DiskFault, TraceError, Traced, Trigger};
use tempfile::TempDir;

use super::{LONG, ended, plan, python, run, text};

fn gone(process: &str) -> bool {
    // A zombie that nobody waits for is dead too.
    let status = fs::read_to_string(format!("/proc/{}/status", process.trim())).unwrap_or_default();
    !status.contains("State:") || status.contains("State:\tZ")
}

/// A child, and a grandchild that has left the session and the group; both go on for ever.
const DETACHED: &str = r#"
import os, subprocess, sys, time
read, write = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open("detached", "w").write("x")
        os.write(write, b"%d " % os.getpid())
        time.sleep(1000)
    time.sleep(1000)
pids = os.read(read, 100).decode()
child = subprocess.Popen([sys.executable, "-S", "-c", "open('child', 'w').write('x'); import time; time.sleep(1000)"])
while not os.path.exists("child") or not os.path.getsize("child"):
    time.sleep(0.01)
print(pids, child.pid, flush=True)
"#;

#[tokio::test]
async fn children_are_watched_and_killed_wherever_they_went() {
    let directory = TempDir::new().unwrap();
    let program = format!("{DETACHED}\nopen('last', 'w').write('x')");
    let left = run(&program, directory.path(), (Trigger::AtWrite(6), DiskFault::Kill)).await;
    assert_eq!(
        left.calls(),
        ["openat detached", "write detached", "openat child", "write child", "openat last", "write last"]
    );
    assert!(left.killed() && left.struck() == Some((6, "write")));
    assert!(!left.printed.is_empty() && left.printed.split_whitespace().all(gone), "{}", left.printed);
    assert_eq!(text(directory.path(), "last"), Some(String::new()));
}

#[tokio::test]
async fn what_a_process_leaves_behind_is_killed_with_its_tracer() {
    let directory = TempDir::new().unwrap();
    let mut traced = Traced::spawn(python(DETACHED, directory.path()), plan(directory.path(), None)).unwrap();
    let mut printed = String::new();
    BufReader::new(traced.take_stdout().unwrap()).read_line(&mut printed).unwrap();
    assert!(ended(&mut traced).await.status.success());
    assert!(!printed.split_whitespace().any(gone), "{printed}");
    drop(traced);
    let deadline = tokio::time::Instant::now() + LONG;
    while !printed.split_whitespace().all(gone) {
        assert!(tokio::time::Instant::now() < deadline, "still there: {printed}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn signals_and_exit_codes_are_the_programs_own() {
    let program = r#"
import signal, sys, time
# Whoever starts the tests may have it ignored: `nohup`, or a script that has them in its background.
signal.signal(signal.SIGINT, signal.default_int_handler)
print("ready")
try:
    time.sleep(1000)
except KeyboardInterrupt:
    sys.exit(75)
"#;
    let directory = TempDir::new().unwrap();
    let mut traced = Traced::spawn(python(program, directory.path()), plan(directory.path(), None)).unwrap();
    BufReader::new(traced.take_stdout().unwrap()).read_line(&mut String::new()).unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(50), traced.wait()).await.is_err(), "it still runs");
    Command::new("kill").args(["-INT", "--", &format!("-{}", traced.pid())]).status().unwrap();
    assert_eq!(ended(&mut traced).await.status.code(), Some(75));
    assert_eq!(ended(&mut traced).await.status.code(), Some(75), "it may be asked again");
}

#[tokio::test]
async fn a_process_that_ignores_signals_can_be_killed() {
    let program = r#"
import signal, time
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
print("ready")
while True:
    open("busy", "w").write("x")
"#;
    let directory = TempDir::new().unwrap();
    let mut traced = Traced::spawn(python(program, directory.path()), plan(directory.path(), None)).unwrap();
    BufReader::new(traced.take_stdout().unwrap()).read_line(&mut String::new()).unwrap();
    traced.kill();
    let ended = ended(&mut traced).await;
    assert_eq!(ended.status.signal(), Some(9));
    assert!(ended.struck.is_none() && traced.struck().is_none(), "it was no fault");
}

#[tokio::test]
async fn a_growing_chain_of_processes_is_killed_to_its_end() {
    let program = r#"
import os
print("ready")
while os.fork() == 0:
    os.setsid()
os.wait()
"#;
    for _ in 0..3 {
        let directory = TempDir::new().unwrap();
        let mut traced = Traced::spawn(python(program, directory.path()), plan(directory.path(), None)).unwrap();
        BufReader::new(traced.take_stdout().unwrap()).read_line(&mut String::new()).unwrap();
        traced.kill();
        // It is over only when none of them is left.
        assert_eq!(ended(&mut traced).await.status.signal(), Some(9));
    }
}

#[tokio::test]
async fn other_children_of_this_program_are_left_alone() {
    let directory = TempDir::new().unwrap();
    let mut traced =
        Traced::spawn(python("import time; time.sleep(1000)", directory.path()), plan(directory.path(), None)).unwrap();
    for code in 0..20 {
        let mut other = tokio::process::Command::new("sh").args(["-c", &format!("exit {code}")]).spawn().unwrap();
        let status = tokio::time::timeout(LONG, other.wait()).await.unwrap().unwrap();
        assert_eq!(status.code(), Some(code));
    }
    traced.kill();
    ended(&mut traced).await;
}

#[tokio::test]
async fn what_can_not_be_traced_is_said() {
    let directory = TempDir::new().unwrap();
    let error = Traced::spawn(Command::new("true"), plan(directory.path(), None)).unwrap_err();
    assert!(matches!(error, TraceError::NotPrepared));
    let error = Traced::spawn(tracer::command("true"), plan(&directory.path().join("none"), None)).unwrap_err();
    assert!(matches!(error, TraceError::Watch { .. }));
    let mut missing = tracer::command("./no-such-program");
    missing.stderr(Stdio::null());
    let mut missing = Traced::spawn(missing, plan(directory.path(), None)).unwrap();
    assert_eq!(ended(&mut missing).await.status.code(), Some(127));
}

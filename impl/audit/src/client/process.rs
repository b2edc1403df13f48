//! The server's process, in a process group of its own, so that nothing of it stays when it is killed.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::answer::short;
use crate::error::AuditError;

const LINES_KEPT: usize = 5;

/// The last lines that the server wrote to its standard error.
type Tail = Arc<Mutex<VecDeque<String>>>;

/// A started server.
pub(super) struct Process {
    child: Child,
    group: Option<Pid>,
    tail: Tail,
}

impl Process {
    pub(super) fn start(command: &[OsString]) -> Result<(Process, ChildStdin, ChildStdout), AuditError> {
        let [program, arguments @ ..] = command else {
            return Err(AuditError::Input("name the server: its command after `--`, or `--url URL`".to_owned()));
        };
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| AuditError::server(format!("`{}` does not start: {error}", program.display())))?;
        let group = child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(AuditError::server("its standard input and output can't be reached"));
        };
        let tail = Tail::default();
        if let Some(stderr) = child.stderr.take() {
            tokio::spawn(keep(stderr, Arc::clone(&tail)));
        }
        Ok((Process { child, group, tail }, stdin, stdout))
    }

    /// How it ended, if it has, and its last words: ` with status 1: no such file`.
    pub(super) async fn end(&mut self) -> String {
        const A_MOMENT: Duration = Duration::from_millis(500);
        let status = match timeout(A_MOMENT, self.child.wait()).await {
            Ok(Ok(status)) => format!(" ({status})"),
            _ => " (its standard output is closed)".to_owned(),
        };
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        let words: Vec<&str> = tail.iter().map(String::as_str).collect();
        if words.is_empty() { status } else { format!("{status}: {}", short(&words.join(" / "), 300)) }
    }

    /// Gives it time to end by itself, and then kills what is left.
    pub(super) async fn leave(mut self) {
        const PATIENCE: Duration = Duration::from_secs(3);
        // Whether it ended in time makes no difference: what is left is killed.
        let _ = timeout(PATIENCE, self.child.wait()).await;
        self.kill().await;
    }

    /// Kills it and all that it has started, and waits until it is gone.
    pub(super) async fn kill(mut self) {
        self.strike();
        // It can't refuse: what is waited for is only that the system has cleared it away.
        let _ = self.child.wait().await;
    }

    fn strike(&mut self) {
        // A process that has been waited for may have given its number to another.
        if self.child.id().is_some()
            && let Some(group) = self.group
        {
            // It fails only if nothing of the group is left.
            let _ = killpg(group, Signal::SIGKILL);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.strike();
    }
}

async fn keep(stderr: ChildStderr, tail: Tail) {
    let mut lines = BufReader::new(stderr).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
        if tail.len() == LINES_KEPT {
            tail.pop_front();
        }
        tail.push_back(line);
    }
}

//! A process of our own, its lines of output as they come.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

use crate::process::Process;
use crate::wait::{PATIENCE, until};

/// A child process. It is killed when this is dropped.
pub struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Vec<u8>>,
    stderr: PathBuf,
}

/// How a process ended.
#[derive(Debug)]
pub struct Ended {
    /// Its status.
    pub status: ExitStatus,
    /// The lines of its output that were not read before.
    pub lines: Vec<String>,
    /// All of its standard error (and of those that inherited it).
    pub stderr: String,
}

impl Ended {
    /// Those lines as one text.
    pub fn text(&self) -> String {
        self.lines.iter().flat_map(|line| [line, "\n"]).collect()
    }
}

impl Running {
    pub(crate) fn new(mut child: Child, stderr: PathBuf) -> Running {
        let stdout = child.stdout.take().expect("its output is piped");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let mut stdout = BufReader::new(stdout);
            loop {
                let mut line = Vec::new();
                match stdout.read_until(b'\n', &mut line) {
                    Ok(0) | Err(_) => return,
                    Ok(_) => {}
                }
                if line.last() == Some(&b'\n') {
                    line.pop();
                }
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Running { stdin: child.stdin.take(), child, lines, stderr }
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Writes bytes to its input; `false` if it does not take them any more.
    pub fn write(&mut self, bytes: &[u8]) -> bool {
        self.stdin.as_mut().is_some_and(|stdin| stdin.write_all(bytes).and_then(|()| stdin.flush()).is_ok())
    }

    /// Closes its input.
    pub fn close_input(&mut self) {
        self.stdin = None;
    }

    /// The next line of its output, as it is but for its end; `None` when there are no more.
    ///
    /// # Panics
    /// After [`PATIENCE`].
    #[track_caller]
    pub fn next_bytes(&mut self) -> Option<Vec<u8>> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                panic!("no line came in {PATIENCE:?}; standard error:\n{}", self.stderr())
            }
        }
    }

    /// The next line, as text.
    #[track_caller]
    pub fn next_line(&mut self) -> Option<String> {
        self.next_bytes().map(|line| String::from_utf8(line).expect("UTF-8"))
    }

    /// A line that has come already.
    pub fn line_at_hand(&mut self) -> Option<String> {
        self.lines.try_recv().ok().map(|line| String::from_utf8(line).expect("UTF-8"))
    }

    /// What it wrote to standard error so far.
    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.stderr).unwrap_or_default()).into_owned()
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a child can be waited for").is_some()
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// After [`PATIENCE`].
    #[track_caller]
    pub fn wait(mut self) -> Ended {
        let about = Process::find(self.pid()).map(|process| process.argv.join(" ")).unwrap_or_default();
        let status =
            until(&format!("the end of {about}"), || self.child.try_wait().expect("a child can be waited for"));
        let mut lines = Vec::new();
        // What it started can hold its output open; what is there by then is all that is looked at.
        while let Ok(line) = self.lines.recv_timeout(std::time::Duration::from_millis(500)) {
            lines.push(String::from_utf8_lossy(&line).into_owned());
        }
        Ended { status, lines, stderr: self.stderr() }
    }

    /// Kills it, and makes sure that it was the kill that ended it. `None` if it had ended by itself before.
    #[track_caller]
    pub fn kill(mut self) -> Option<Ended> {
        if self.has_ended() {
            return None;
        }
        self.child.kill().expect("a running child can be killed");
        let ended = self.wait();
        (ended.status.signal() == Some(9)).then_some(ended)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

//! One process of the MCP server.

use std::ffi::OsString;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use settled::{Permit, fault};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::process::{ChildStdin, Command};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::lines::Lines;

/// How long an ended process's output may stay silent before it counts as over: something that it started may still
/// hold the pipe.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// How long a process may take to end once its input is closed.
const AFTER_CLOSE: Duration = Duration::from_secs(5);

/// How long it may take to end once it was told to.
const AFTER_TERM: Duration = Duration::from_secs(2);

/// How much of a line has been handed to the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// All of it.
    All,
    /// Part of it, or all.
    Perhaps,
    /// Certainly nothing.
    Nothing,
    /// Certainly nothing, because the right to send it had ended.
    NotPermitted,
}

/// Takes the server's lines.
pub(crate) trait OnLine: Clone + Send + Sync + 'static {
    /// One line, in order.
    fn line(&self, line: Bytes) -> impl Future<Output = ()> + Send;
}

/// A running (or just ended) process.
pub(crate) struct Process {
    stdin: Option<ChildStdin>,
    group: Option<Pid>,
    exited: watch::Receiver<Option<ExitStatus>>,
    silent: watch::Receiver<bool>,
    spoke: Arc<AtomicBool>,
}

impl Process {
    /// Starts the command with its standard error inherited. It leads a process group of its own, so that a signal from
    /// the terminal does not reach it before its calls are done.
    pub(crate) fn start(program: &OsString, arguments: &[OsString], on_line: impl OnLine) -> io::Result<Process> {
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("its standard input and output can't be connected"));
        };
        let group = child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
        let (exit, exited) = watch::channel(None);
        let (silence, silent) = watch::channel(false);
        let spoke = Arc::new(AtomicBool::new(false));

        tokio::spawn(async move {
            match child.wait().await {
                Ok(status) => drop(exit.send(Some(status))),
                Err(error) => tracing::error!(%error, "the server's end can't be waited for"),
            }
        });
        let (heard, mut ended) = (spoke.clone(), exited.clone());
        tokio::spawn(async move {
            let mut lines = Lines::new(stdout);
            loop {
                let line = tokio::select! {
                    biased;
                    line = lines.next() => line,
                    () = last_words(&mut ended) => break,
                };
                match line {
                    Ok(Some(line)) => {
                        heard.store(true, Ordering::Release);
                        on_line.line(line).await;
                    }
                    Ok(None) => break,
                    Err(error) => {
                        tracing::error!(%error, "the server's output can't be read");
                        break;
                    }
                }
            }
            let _ = silence.send(true);
        });
        Ok(Process { stdin: Some(stdin), group, exited, silent, spoke })
    }

    /// Whether it has sent anything at all.
    pub(crate) fn spoke(&self) -> bool {
        self.spoke.load(Ordering::Acquire)
    }

    /// Resolves when no more output can come from it, and all of it has been handed on. May be dropped and awaited again.
    pub(crate) async fn silent(&mut self) {
        // An error means that the reading task is gone, and so is the output.
        let _ = self.silent.wait_for(|silent| *silent).await;
    }

    /// Writes a line. If this is dropped, part of the line may have been written.
    pub(crate) async fn write(&mut self, line: &[u8], permit: Option<&Permit>) -> Written {
        let Some(stdin) = self.stdin.as_mut() else {
            return Written::Nothing;
        };
        let mut whole = Vec::with_capacity(line.len() + 1);
        whole.extend_from_slice(line);
        whole.push(b'\n');
        fault::point("before-write-to-server");
        // A pipe that refuses the first byte has taken none: this line can go to another process.
        let first = poll_fn(|context| {
            // It may have waited in a full pipe for longer than this process may send it.
            if permit.is_some_and(|permit| !permit.holds()) {
                return Poll::Ready(None);
            }
            Pin::new(&mut *stdin).poll_write(context, &whole).map(Some)
        });
        let first = match first.await {
            None => return Written::NotPermitted,
            Some(Ok(0) | Err(_)) => return Written::Nothing,
            Some(Ok(first)) => first,
        };
        let rest = whole.get(first..).unwrap_or_default();
        let written = (stdin.write_all(rest).await, stdin.flush().await);
        fault::point("after-write-to-server");
        match written {
            (Ok(()), Ok(())) => Written::All,
            _ => Written::Perhaps,
        }
    }

    /// Resolves as [`silent`](Self::silent) does, and borrows nothing.
    pub(crate) fn silence(&self) -> impl Future<Output = ()> + use<> {
        let mut silent = self.silent.clone();
        async move {
            let _ = silent.wait_for(|silent| *silent).await;
        }
    }

    /// Closes its input and makes sure that it ends: by itself, else by SIGTERM, else by SIGKILL. Its output is still
    /// read until then.
    pub(crate) async fn stop(&mut self) -> Option<ExitStatus> {
        self.stdin = None;
        if timeout(AFTER_CLOSE, self.ended()).await.is_err() {
            self.signal(Signal::SIGTERM);
            if timeout(AFTER_TERM, self.ended()).await.is_err() {
                self.signal(Signal::SIGKILL);
                let _ = timeout(AFTER_TERM, self.ended()).await;
            }
        }
        let _ = timeout(AFTER_CLOSE, self.silent()).await;
        *self.exited.borrow()
    }

    async fn ended(&mut self) {
        let _ = self.exited.wait_for(Option::is_some).await;
    }

    fn signal(&self, signal: Signal) {
        // Not once it was waited for: its number may belong to others then.
        if self.exited.borrow().is_none()
            && let Some(group) = self.group
        {
            tracing::warn!(%signal, "the server does not end by itself");
            let _ = killpg(group, signal);
        }
    }
}

async fn last_words(ended: &mut watch::Receiver<Option<ExitStatus>>) {
    if ended.wait_for(Option::is_some).await.is_err() {
        std::future::pending::<()>().await;
    }
    tokio::time::sleep(LAST_WORDS).await;
}

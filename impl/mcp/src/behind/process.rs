//! One process of the MCP server.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use settled::{fault, task};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::behind::server::TRANSPORT_ERROR;
use crate::behind::start::{EndBy, StartServer, Started};
use crate::messages::lines::{Line, Lines};
use crate::messages::oversized::Oversized;
use crate::told::answer::error_line;

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
    /// Certainly nothing, because the right to send it had ended, or nobody waited for it any more.
    NotPermitted,
}

/// Takes the server's lines.
pub(crate) trait OnLine: Clone + Send + Sync + 'static {
    /// One line, in order.
    fn line(&self, line: Bytes) -> impl Future<Output = ()> + Send;
}

/// What stands in for a message of the server that is too large to be read. Nobody waits for it if it is no answer.
fn instead_of_answer(about: &Oversized, longest: usize) -> Option<String> {
    let bytes = about.bytes;
    match &about.id {
        Some(id) if about.is_answer() => {
            let text = format!(
                "the server's answer has {bytes} bytes, and `frame_bytes` in settled.toml allows {longest}: it was not read, so what \
                 it says is not known"
            );
            Some(error_line(id, TRANSPORT_ERROR, &text, None))
        }
        _ => {
            let method = about.method.as_deref().unwrap_or("?");
            tracing::warn!(
                bytes,
                method,
                "a message of the server is larger than `frame_bytes` allows: it was not passed on"
            );
            None
        }
    }
}

/// A running (or just ended) process.
pub(crate) struct Process {
    stdin: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    end: Box<dyn Fn(EndBy) + Send + Sync>,
    exited: watch::Receiver<Option<ExitStatus>>,
    silent: watch::Receiver<bool>,
    spoke: Arc<AtomicBool>,
}

impl Process {
    /// Starts the server. `longest`: how many bytes a line of it may have.
    pub(crate) fn start(server: &dyn StartServer, longest: usize, on_line: impl OnLine) -> io::Result<Process> {
        let Started { input, output, ended: ending, end } = server.start()?;
        let (exit, exited) = watch::channel(None);
        let (silence, silent) = watch::channel(false);
        let spoke = Arc::new(AtomicBool::new(false));

        task::spawn(async move {
            match ending.await {
                Ok(status) => drop(exit.send(Some(status))),
                Err(error) => tracing::error!(%error, "the server's end can't be waited for"),
            }
        });
        let (heard, mut ended) = (spoke.clone(), exited.clone());
        task::spawn(async move {
            let mut lines = Lines::new(output, longest);
            loop {
                let line = tokio::select! {
                    biased;
                    line = lines.next() => line,
                    () = last_words(&mut ended) => break,
                };
                match line {
                    Ok(Some(Line::Whole(line))) => {
                        heard.store(true, Ordering::Release);
                        on_line.line(line).await;
                    }
                    Ok(Some(Line::TooLong(about))) => {
                        heard.store(true, Ordering::Release);
                        if let Some(line) = instead_of_answer(&about, longest) {
                            on_line.line(line.into()).await;
                        }
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
        Ok(Process { stdin: Some(input), end, exited, silent, spoke })
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

    /// Writes a line, unless it may not be begun any more when the process takes its first byte. If this is dropped, part of
    /// the line may have been written.
    pub(crate) async fn write(&mut self, line: &[u8], may_begin: impl Fn() -> bool) -> Written {
        let Some(stdin) = self.stdin.as_mut() else {
            return Written::Nothing;
        };
        let mut whole = Vec::with_capacity(line.len() + 1);
        whole.extend_from_slice(line);
        whole.push(b'\n');
        fault::point("before-write-to-server");
        // A pipe that refuses the first byte has taken none: this line can go to another process.
        let first = poll_fn(|context| {
            // It may have waited in a full pipe for longer than this process may send it, or than anybody waits for it.
            if !may_begin() {
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
            self.force(EndBy::Term);
            if timeout(AFTER_TERM, self.ended()).await.is_err() {
                self.force(EndBy::Kill);
                let _ = timeout(AFTER_TERM, self.ended()).await;
            }
        }
        let _ = timeout(AFTER_CLOSE, self.silent()).await;
        *self.exited.borrow()
    }

    async fn ended(&mut self) {
        let _ = self.exited.wait_for(Option::is_some).await;
    }

    fn force(&self, by: EndBy) {
        // Not once it was waited for: its number may belong to others then.
        if self.exited.borrow().is_none() {
            tracing::warn!(?by, "the server does not end by itself");
            (self.end)(by);
        }
    }
}

async fn last_words(ended: &mut watch::Receiver<Option<ExitStatus>>) {
    if ended.wait_for(Option::is_some).await.is_err() {
        std::future::pending::<()>().await;
    }
    tokio::time::sleep(LAST_WORDS).await;
}

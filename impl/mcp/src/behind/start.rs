//! How the server is started: as a process, or as anything else that takes lines and gives lines.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::process::{ExitStatus, Stdio};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::process::Command;

/// Starts the server, again and again if need be.
pub trait StartServer: Send + Sync + 'static {
    /// Starts it.
    ///
    /// # Errors
    /// If it can't be started.
    fn start(&self) -> io::Result<Started>;
}

/// A server that has been started. Dropping all of it ends the server.
pub struct Started {
    /// What it reads.
    pub input: Box<dyn AsyncWrite + Send + Unpin>,
    /// What it writes.
    pub output: Box<dyn AsyncRead + Send + Unpin>,
    /// Resolves when it has ended.
    pub ended: Pin<Box<dyn Future<Output = io::Result<ExitStatus>> + Send>>,
    /// Tells it, and whatever it has started, to end. Never called once it is known to have ended.
    pub end: Box<dyn Fn(EndBy) + Send + Sync>,
}

/// How a server is made to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndBy {
    /// It may clean up.
    Term,
    /// At once.
    Kill,
}

/// A command that is run as a process of its own.
pub(crate) struct Program {
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
    /// Variables that are added to its environment.
    pub(crate) env: BTreeMap<String, String>,
}

impl StartServer for Program {
    /// Starts the command with its standard error inherited. It leads a process group of its own, so that a signal from
    /// the terminal does not reach it before its calls are done.
    fn start(&self) -> io::Result<Started> {
        let mut child = Command::new(&self.program)
            .args(&self.arguments)
            .envs(&self.env)
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
        let end = move |by| {
            let signal = match by {
                EndBy::Term => Signal::SIGTERM,
                EndBy::Kill => Signal::SIGKILL,
            };
            if let Some(group) = group {
                let _ = killpg(group, signal);
            }
        };
        Ok(Started {
            input: Box::new(stdin),
            output: Box::new(stdout),
            ended: Box::pin(async move { child.wait().await }),
            end: Box::new(end),
        })
    }
}

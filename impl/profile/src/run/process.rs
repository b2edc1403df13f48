//! A process of the framework.

use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use super::{RunError, kill};
use crate::tracer::{Ended as Traces, Plan, TraceError, Traced, Write};

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself, with this code.
    Exit(i32),
    /// By this signal.
    Signal(i32),
    /// Not, until the time was over, when it was killed.
    Overdue,
}

impl End {
    fn of(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Exit(code),
            (None, signal) => Self::Signal(signal.unwrap_or_default()),
        }
    }

    /// The framework says that the run is over.
    pub fn is_over(self) -> bool {
        self == Self::Exit(0)
    }

    /// The run waits for an approval.
    pub fn waits(self) -> bool {
        self == Self::Exit(75)
    }

    /// The framework knows no such run.
    pub fn knows_none(self) -> bool {
        self == Self::Exit(69)
    }
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exit(code) => write!(f, "exit {code}"),
            Self::Signal(9) => f.write_str("ended by SIGKILL"),
            Self::Signal(2) => f.write_str("ended by SIGINT"),
            Self::Signal(signal) => write!(f, "ended by signal {signal}"),
            Self::Overdue => f.write_str("not over in time"),
        }
    }
}

/// A process has ended.
#[derive(Debug)]
pub struct Ended {
    /// Which: its place in the order of starts.
    pub number: usize,
    pub end: End,
    /// What it wrote, if it was watched.
    pub trace: Option<Result<Trace, TraceError>>,
}

/// What a process wrote to its state.
#[derive(Clone, Debug)]
pub struct Trace {
    pub writes: Vec<Write>,
    pub struck: Option<Write>,
    /// Whether it was told a time of a clock that is ahead.
    pub told_time: bool,
}

/// A process of the framework, running or not.
#[derive(Debug)]
pub struct Process {
    pub pid: u32,
    pub end: Option<End>,
    errors: PathBuf,
    arm: Option<mpsc::UnboundedSender<oneshot::Sender<()>>>,
}

impl Process {
    /// Starts it, in a group of its own, watched or not. What it prints goes to files of the run's directory: a pipe would be
    /// held open by whatever it leaves behind.
    pub fn start(
        mut command: Command,
        watch: Option<Plan>,
        number: usize,
        directory: &Path,
        ends: mpsc::UnboundedSender<Ended>,
    ) -> Result<Self, StartError> {
        let logs = directory.join("logs");
        let errors = logs.join(format!("{number}.err"));
        command
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(File::create(logs.join(format!("{number}.out")))?)
            .stderr(File::create(&errors)?);
        match watch {
            Some(plan) => {
                let traced = Traced::spawn(command, plan)?;
                let pid = traced.pid();
                kill::mark(pid, directory);
                let (arm, arming) = mpsc::unbounded_channel();
                tokio::spawn(watched(traced, number, arming, ends));
                Ok(Self { pid, end: None, errors, arm: Some(arm) })
            }
            None => {
                let program = command.get_program().to_string_lossy().into_owned();
                let started = tokio::process::Command::from(command).spawn();
                let mut child = started.map_err(|error| RunError::Start { program, error })?;
                let pid = child.id().unwrap_or_default();
                kill::mark(pid, directory);
                tokio::spawn(async move {
                    let end = child.wait().await.map_or(End::Overdue, End::of);
                    let _ = ends.send(Ended { number, end, trace: None });
                });
                Ok(Self { pid, end: None, errors, arm: None })
            }
        }
    }

    /// Has the next write struck; when this returns, it will be.
    pub async fn arm(&self) {
        let (done, armed) = oneshot::channel();
        if self.arm.as_ref().is_some_and(|arm| arm.send(done).is_ok()) {
            let _ = armed.await;
        }
    }

    /// The last lines that it wrote to standard error.
    pub fn last_words(&self, most: usize) -> Vec<String> {
        let text = std::fs::read(&self.errors).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        lines[lines.len().saturating_sub(most)..].iter().map(|line| (*line).to_owned()).collect()
    }
}

/// How long a process may go on when its disk fails. One that waits for room would do so for ever: whoever operates it ends it.
const WAITING: Duration = Duration::from_secs(15);

async fn watched(
    mut traced: Traced,
    number: usize,
    mut arming: mpsc::UnboundedReceiver<oneshot::Sender<()>>,
    ends: mpsc::UnboundedSender<Ended>,
) {
    let mut look = tokio::time::interval(Duration::from_millis(100));
    let mut struck = None;
    let ended = loop {
        tokio::select! {
            ended = traced.wait() => break ended,
            _ = look.tick(), if struck.is_none() => struck = traced.struck().map(|_| Instant::now() + WAITING),
            () = sleep_until(struck.unwrap_or_else(Instant::now)), if struck.is_some() => {
                traced.kill();
                struck = Some(Instant::now() + WAITING);
            }
            Some(done) = arming.recv() => {
                traced.arm();
                let _ = done.send(());
            }
        }
    };
    let ended = match ended {
        Ok(Traces { status, writes, struck, told_time }) => {
            Ended { number, end: End::of(status), trace: Some(Ok(Trace { writes, struck, told_time })) }
        }
        Err(error) => Ended { number, end: End::Overdue, trace: Some(Err(error)) },
    };
    let _ = ends.send(ended);
    // What the process has left behind lives as long as the run does, as it would if it were not watched.
    while let Some(done) = arming.recv().await {
        let _ = done.send(());
    }
}

/// Why a process does not run.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// It can't be started.
    #[error(transparent)]
    Run(#[from] RunError),
    /// It can't be watched.
    #[error(transparent)]
    Trace(#[from] TraceError),
}

impl From<std::io::Error> for StartError {
    fn from(error: std::io::Error) -> Self {
        Self::Run(error.into())
    }
}

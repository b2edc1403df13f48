//! Faults of the disk, at a chosen moment: a process is watched with ptrace, with all its threads and children, and each of
//! its calls that change what is durable in one directory is counted, and can be made the last one, be cut short, or fail.
//! And a wall clock that is ahead of the machine's.
//!
//! ```no_run
//! # use settled_profile::tracer::{self, DiskFault, Plan, Traced, Trigger};
//! # async fn example() -> Result<(), tracer::TraceError> {
//! let mut command = tracer::command("python3");
//! command.arg("run.py");
//! let strike = Some((Trigger::AtWrite(3), DiskFault::Kill));
//! let mut traced = Traced::spawn(command, Plan { watch: "/var/lib/runs".into(), strike, ahead: None })?;
//! let ended = traced.wait().await?;
//! assert!(ended.struck.is_some(), "it ended before its third write");
//! # Ok(()) }
//! ```
//!
//! Not seen: stores to a mapped file (but `msync` is), and POSIX's asynchronous I/O of the kernel. `io_uring` is refused with
//! `ENOSYS`, which its users take as a system without it. SIGSTOP does not stop a traced process, and real-time signals do not
//! reach it. With a wall clock that is ahead, files still get their times from the machine's, and `timer_settime(2)` and message
//! queues wait by it.

#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
mod calls;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
mod clock;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
mod memory;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
mod session;
#[cfg(not(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu")))]
#[path = "unsupported.rs"]
mod session;
mod shared;

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use shared::Shared;

/// What a disk does to the process that writes to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskFault {
    /// All processes are killed before the call is carried out.
    Kill,
    /// From this call on, whatever needs more room fails with `ENOSPC`.
    Full,
    /// From this call on, whatever changes something, and whatever is opened for writing, fails with `EROFS`.
    ReadOnly,
    /// Half of the write is carried out, and then all processes are killed. A call that is no write is let through, and the next
    /// write is meant.
    Torn,
}

/// When it strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// At the watched call of this [`Write::number`].
    AtWrite(u32),
    /// At the first watched call after [`Traced::arm`].
    WhenArmed,
}

/// What is watched, and what is done.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The directory; SQLite's shared memory (`-shm`) in it does not count, because no reader of a dead process's state needs it.
    pub watch: PathBuf,
    /// The fault, if there shall be one.
    pub strike: Option<(Trigger, DiskFault)>,
    /// How far the wall clock is ahead of the machine's, in whole seconds, if it is.
    pub ahead: Option<Duration>,
}

/// A call that changes what is durable in the watched directory, carried out or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// From 1, over all processes and threads.
    pub number: u32,
    /// The system call: `pwrite64`, `fsync`, `rename`.
    pub call: String,
    /// The file; of a `rename`, its new name.
    pub path: PathBuf,
    /// How many bytes were to be written, if it is a write.
    pub bytes: Option<u64>,
    /// When.
    pub at: Instant,
}

/// What became of a traced process.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Of the process that was started, not of its children.
    pub status: ExitStatus,
    /// All watched calls, until it ended.
    pub writes: Vec<Write>,
    /// The first call that was kept from being carried out in full; none if the fault did not strike.
    pub struck: Option<Write>,
    /// Whether a process was told a time of a clock that is ahead.
    pub told_time: bool,
}

/// Why a process can't be traced.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// There is no tracer for this system.
    #[error(
        "processes can be traced on Linux on x86-64 only; leave out the cells whose faults are the disk's or the clock's"
    )]
    Unsupported,
    /// The command was made otherwise.
    #[error("make the command with `tracer::command`: its process must wait until it is traced")]
    NotPrepared,
    /// The directory is not there.
    #[error("{}: {error}; make the directory before its writers are started", path.display())]
    Watch {
        /// The directory.
        path: PathBuf,
        /// Why it can't be watched.
        error: std::io::Error,
    },
    /// The process could not be started.
    #[error("{program}: {error}")]
    Start {
        /// The program.
        program: String,
        /// Why not.
        error: std::io::Error,
    },
    /// The system does not let it be traced.
    #[error(
        "the process can't be traced: {0}; in a container, allow ptrace (`--cap-add SYS_PTRACE`), and see that no other tracer \
         (strace, a debugger) runs it"
    )]
    Refused(std::io::Error),
    /// The tracer itself failed.
    #[error("the tracer ended early: {0}")]
    Lost(String),
}

/// Waits in front of the program until it is traced: there is no other way to see its first call.
const WAIT: &str = r#"kill -STOP $$; exec "$@""#;

/// A command for [`Traced::spawn`]; arguments and everything else are added as usual.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", WAIT, "sh"]).arg(program);
    command
}

/// A process that is watched. All its processes are killed when this is dropped.
#[derive(Debug)]
pub struct Traced {
    /// Only for its pipes: it is waited for by the tracer.
    child: Child,
    shared: Arc<Shared>,
    ending: oneshot::Receiver<Result<Ended, TraceError>>,
    ended: Option<Ended>,
}

impl Traced {
    /// Starts a command made by [`command`], in a process group of its own if it says so.
    ///
    /// # Errors
    /// [`TraceError`] if it can't be started or not be traced; then it does not run.
    pub fn spawn(command: Command, plan: Plan) -> Result<Self, TraceError> {
        if command.get_program() != "/bin/sh" || command.get_args().nth(1).is_none_or(|script| script != WAIT) {
            return Err(TraceError::NotPrepared);
        }
        let watch = plan.watch.canonicalize().map_err(|error| TraceError::Watch { path: plan.watch.clone(), error })?;
        let shared = Arc::new(Shared::default());
        let (end, ending) = oneshot::channel();
        let child = session::start(command, Plan { watch, ..plan }, Arc::clone(&shared), end)?;
        Ok(Self { child, shared, ending, ended: None })
    }

    /// The process that was started.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// From now on, the next watched call is struck, if the plan is [`Trigger::WhenArmed`].
    pub fn arm(&self) {
        self.shared.arm();
    }

    /// The first call that was kept from being carried out in full, so far.
    #[must_use]
    pub fn struck(&self) -> Option<Write> {
        self.shared.struck()
    }

    /// Its standard input, if it was piped.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Its standard output, if it was piped.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Its standard error, if it was piped.
    pub fn take_stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// Waits until it ends; if it was killed by its fault or by [`Self::kill`], until none of its processes is left. May be
    /// dropped and called again.
    ///
    /// # Errors
    /// [`TraceError::Lost`] if the tracer failed.
    pub async fn wait(&mut self) -> Result<Ended, TraceError> {
        if let Some(ended) = &self.ended {
            return Ok(ended.clone());
        }
        let ended = (&mut self.ending).await.unwrap_or_else(|_| Err(TraceError::Lost("its thread is gone".into())))?;
        self.ended = Some(ended.clone());
        Ok(ended)
    }

    /// Kills all its processes, also those that have left its process group.
    pub fn kill(&self) {
        self.shared.kill();
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        self.kill();
    }
}

//! The thread that traces one process with its threads and children: all of ptrace is bound to the thread that began it.

use std::collections::HashMap;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::libc::{self, user_regs_struct};
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::process::{WaitOptions, WaitStatus};
use tokio::sync::oneshot;

use super::calls::{self, Call, Change};
use super::clock;
use super::memory::Thread;
use super::shared::Shared;
use super::{DiskFault, Ended, Plan, TraceError, Trigger, Write};

/// Only what this thread has started or traces, or another part of the program would be robbed of its children.
fn own_children() -> WaitOptions {
    WaitOptions::from_bits_retain((libc::__WALL | libc::__WNOTHREAD).cast_unsigned())
}

/// Starts a command, and the thread that traces it.
pub(super) fn start(
    command: Command,
    plan: Plan,
    shared: Arc<Shared>,
    end: oneshot::Sender<Result<Ended, TraceError>>,
) -> Result<Child, TraceError> {
    let (started, start) = mpsc::sync_channel(1);
    let run = move || {
        let leader = match seize(command) {
            Ok(child) => {
                let leader = pid(child.id());
                shared.add(leader);
                let _ = started.send(Ok(child));
                leader
            }
            Err(error) => {
                let _ = started.send(Err(error));
                return;
            }
        };
        let writes = Vec::new();
        let exits = HashMap::new();
        Session { plan, shared, leader, writes, on: false, exits, told_time: false, failed: None }.run(end);
    };
    std::thread::Builder::new()
        .name("tracer".into())
        .spawn(run)
        .map_err(|error| TraceError::Lost(format!("its thread can't be started: {error}")))?;
    start.recv().unwrap_or_else(|_| Err(TraceError::Lost("its thread is gone".into())))
}

fn pid(id: u32) -> Pid {
    Pid::from_raw(id.cast_signed())
}

/// Starts the command, waits until it has stopped itself, and sends it on its way, traced.
fn seize(mut command: Command) -> Result<Child, TraceError> {
    let program = command.get_args().nth(3).unwrap_or_default().to_string_lossy().into_owned();
    let mut child = command.spawn().map_err(|error| TraceError::Start { program, error })?;
    let leader = pid(child.id());
    let options = Options::PTRACE_O_TRACESYSGOOD
        | Options::PTRACE_O_TRACECLONE
        | Options::PTRACE_O_TRACEFORK
        | Options::PTRACE_O_TRACEVFORK
        | Options::PTRACE_O_TRACEEXEC
        | Options::PTRACE_O_EXITKILL;
    let traced = stopped(leader)
        .and_then(|()| ptrace::seize(leader, options).map_err(io::Error::from))
        .and_then(|()| kill(leader, Signal::SIGCONT).map_err(io::Error::from));
    if let Err(error) = traced {
        let _ = child.kill();
        let _ = child.wait();
        return Err(TraceError::Refused(error));
    }
    Ok(child)
}

/// Waits until a process has stopped itself.
fn stopped(process: Pid) -> io::Result<()> {
    let options = own_children() | WaitOptions::UNTRACED;
    match rustix::process::waitpid(rustix::process::Pid::from_raw(process.as_raw()), options)? {
        Some((_, status)) if status.stopped() => Ok(()),
        _ => Err(io::Error::other("it ended before it could be traced")),
    }
}

/// What is done when a thread's call comes back.
enum AtExit {
    Fail(Errno),
    KillAll,
    Clock(clock::Back, Duration),
}

/// A program begins, in which the clock is to be read by calls.
fn begins(process: Pid) -> nix::Result<()> {
    match ptrace::getregs(process).and_then(|registers| clock::hide_vdso(Thread(process), &registers).map_err(errno)) {
        // Somebody has killed it.
        Err(Errno::ESRCH) => Ok(()),
        other => other,
    }
}

/// Memory can't be reached any more if its process was killed meanwhile: then it is gone, or about to be.
fn errno(error: io::Error) -> Errno {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof => Errno::ESRCH,
        _ => error.raw_os_error().map_or(Errno::EIO, Errno::from_raw),
    }
}

struct Session {
    plan: Plan,
    shared: Arc<Shared>,
    leader: Pid,
    writes: Vec<Write>,
    /// Whether the plan's moment has come.
    on: bool,
    exits: HashMap<Pid, AtExit>,
    told_time: bool,
    /// Why it could not go on.
    failed: Option<Errno>,
}

impl Session {
    /// Until none of its processes is left.
    fn run(mut self, end: oneshot::Sender<Result<Ended, TraceError>>) {
        let mut end = Some(end);
        let mut status = None;
        let mut send = |session: &Self, result: Option<ExitStatus>| {
            let (writes, struck) = (session.writes.clone(), session.shared.struck());
            let result = match (result, session.failed) {
                (_, Some(error)) => Err(TraceError::Lost(format!("a call could not be looked at: {error}"))),
                (None, _) => Err(TraceError::Lost("the process is gone without a word".into())),
                (Some(status), None) => Ok(Ended { status, writes, struck, told_time: session.told_time }),
            };
            // Nobody may want to know any more.
            let _ = end.take().map(|end| end.send(result));
        };
        loop {
            match rustix::process::wait(own_children()) {
                Ok(Some((process, raw))) => {
                    let process = Pid::from_raw(process.as_raw_nonzero().get());
                    if raw.stopped() {
                        self.stop(process, raw);
                    } else {
                        self.shared.remove(process);
                        self.exits.remove(&process);
                        if process == self.leader {
                            status = Some(ExitStatus::from_raw(raw.as_raw()));
                            if !self.shared.killed() {
                                send(&self, status);
                            }
                        }
                    }
                }
                Err(rustix::io::Errno::INTR) | Ok(None) => {}
                Err(_) => break,
            }
        }
        send(&self, status);
    }

    /// A thread has stopped and waits for what the tracer says.
    fn stop(&mut self, process: Pid, status: WaitStatus) {
        self.shared.add(process);
        if self.shared.killed() {
            let _ = kill(process, Signal::SIGKILL);
            return;
        }
        let signal = status.stopping_signal().unwrap_or(0);
        let event = status.as_raw() >> 16;
        let pass = if event != 0 {
            if event == libc::PTRACE_EVENT_EXEC {
                if self.plan.ahead.is_some()
                    && let Err(error) = begins(process)
                {
                    self.fail(error);
                    return;
                }
                // The thread that called it has taken over its process's number, and its own is free to be used again.
                if let Ok(former) = ptrace::getevent(process) {
                    let former = Pid::from_raw(i32::try_from(former).unwrap_or_default());
                    self.exits.remove(&former);
                    if former != process {
                        self.shared.remove(former);
                    }
                }
            }
            None
        } else if signal == libc::SIGTRAP | 0x80 {
            if let Err(error) = self.call(process)
                && error != Errno::ESRCH
            {
                self.fail(error);
                return;
            }
            None
        } else {
            // A signal on its way to the process.
            Signal::try_from(signal).ok()
        };
        if !self.shared.killed() {
            // It fails if somebody has killed it meanwhile.
            let _ = ptrace::syscall(process, pass);
        }
    }

    /// A call that can't be looked at can't be told from one that should have been struck.
    fn fail(&mut self, error: Errno) {
        self.failed = Some(error);
        self.shared.kill();
    }

    fn call(&mut self, thread: Pid) -> nix::Result<()> {
        match ptrace::syscall_info(thread)?.op {
            libc::PTRACE_SYSCALL_INFO_ENTRY => {
                let mut registers = ptrace::getregs(thread)?;
                if registers.orig_rax.cast_signed() == libc::SYS_io_uring_setup {
                    return self.refuse(thread, registers, Errno::ENOSYS);
                }
                if let Some(ahead) = self.plan.ahead
                    && let Some(back) = clock::entry(Thread(thread), &mut registers, ahead).map_err(errno)?
                {
                    self.exits.insert(thread, AtExit::Clock(back, ahead));
                    return ptrace::setregs(thread, registers);
                }
                match calls::decode(Thread(thread), &registers, &self.plan.watch) {
                    Some(call) => self.entry(thread, &mut registers, &call),
                    None => Ok(()),
                }
            }
            libc::PTRACE_SYSCALL_INFO_EXIT => match self.exits.remove(&thread) {
                Some(AtExit::Fail(error)) => {
                    let mut registers = ptrace::getregs(thread)?;
                    registers.rax = i64::from(-(error as i32)).cast_unsigned();
                    ptrace::setregs(thread, registers)
                }
                Some(AtExit::Clock(back, ahead)) => {
                    let mut registers = ptrace::getregs(thread)?;
                    self.told_time |= back.exit(Thread(thread), &mut registers, ahead).map_err(errno)?;
                    ptrace::setregs(thread, registers)
                }
                Some(AtExit::KillAll) => {
                    self.shared.kill();
                    Ok(())
                }
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// A watched call is about to be made.
    fn entry(&mut self, thread: Pid, registers: &mut user_regs_struct, call: &Call) -> nix::Result<()> {
        let number = u32::try_from(self.writes.len() + usize::from(call.counts())).unwrap_or(u32::MAX);
        let write = Write {
            number,
            call: call.name.to_owned(),
            path: call.path.clone(),
            bytes: call.bytes(),
            at: Instant::now(),
        };
        if call.counts() {
            self.writes.push(write.clone());
        }
        let Some((trigger, fault)) = self.plan.strike else { return Ok(()) };
        self.on |= call.counts()
            && match trigger {
                Trigger::AtWrite(first) => number >= first,
                Trigger::WhenArmed => self.shared.armed(),
            };
        if !self.on {
            return Ok(());
        }
        match (fault, call.change) {
            (DiskFault::Kill, _) if call.counts() => {
                self.shared.strike(write);
                // Whatever the kernel makes of a call whose process is killed at its entry: this one is none.
                registers.orig_rax = u64::MAX;
                let changed = ptrace::setregs(thread, *registers);
                self.shared.kill();
                changed
            }
            (DiskFault::Full, _) if call.grows => {
                self.shared.strike(write);
                self.refuse(thread, *registers, Errno::ENOSPC)
            }
            (DiskFault::ReadOnly, Change::Write(_) | Change::Other | Change::OpenOnly) => {
                self.shared.strike(write);
                self.refuse(thread, *registers, Errno::EROFS)
            }
            (DiskFault::Torn, Change::Write(bytes)) if call.counts() => {
                call.cut(Thread(thread), registers, bytes / 2).map_err(|_| Errno::EIO)?;
                ptrace::setregs(thread, *registers)?;
                self.shared.strike(write);
                self.exits.insert(thread, AtExit::KillAll);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Has a call not carried out, but fail.
    fn refuse(&mut self, thread: Pid, mut registers: user_regs_struct, error: Errno) -> nix::Result<()> {
        registers.orig_rax = u64::MAX;
        ptrace::setregs(thread, registers)?;
        self.exits.insert(thread, AtExit::Fail(error));
        Ok(())
    }
}

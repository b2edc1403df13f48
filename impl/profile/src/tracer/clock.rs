//! A wall clock that is ahead of the machine's, for everything that is traced.
//!
//! What a program is told of the time is moved ahead, and what it waits for by that time is moved back before the kernel sees it.
//! Time that only passes (`CLOCK_MONOTONIC`) is left alone: setting a machine's clock does not change it, and waits for it go on
//! as they are.
//!
//! Most programs read the clock without a system call, from the vDSO. It is hidden from a program as it begins, which
//! then asks the kernel. This needs nothing of the program: it may be linked statically, and start others.

use std::io;
use std::time::Duration;

use nix::libc::{self, user_regs_struct};

use super::memory::Thread;

/// What tells of the vDSO among what the kernel tells a program as it begins (`getauxval(3)`), and what is passed over there.
const AT_SYSINFO_EHDR: u64 = libc::AT_SYSINFO_EHDR;
const AT_IGNORE: u64 = libc::AT_IGNORE;

/// The code segment of a 32-bit program, which is left alone.
const CODE_32: u64 = 0x23;

/// Below this many bytes below its stack, a function may keep nothing (System V ABI, 3.2.2).
const RED_ZONE: u64 = 128;

/// Has a program that is about to begin ask the kernel for the time.
pub(super) fn hide_vdso(thread: Thread, registers: &user_regs_struct) -> io::Result<()> {
    if registers.cs == CODE_32 {
        return Ok(());
    }
    // The number of arguments, they and a zero, the environment and a zero, and then pairs.
    let words = thread.memory()?;
    let arguments = words.u64(registers.rsp)?;
    let mut at = registers.rsp + 8 * (arguments + 2);
    while words.u64(at)? != 0 {
        at += 8;
    }
    at += 8;
    loop {
        match words.u64(at)? {
            0 => return Ok(()),
            AT_SYSINFO_EHDR => return thread.write_u64(at, AT_IGNORE),
            _ => at += 16,
        }
    }
}

/// What is to be done when a call comes back.
#[derive(Clone, Copy, Debug)]
pub(super) enum Back {
    /// The seconds at this address are moved ahead.
    Told(u64),
    /// So are those that the call returns, and those at this address if there is one.
    Returned(u64),
    /// An argument gets the value again that its caller gave it.
    Restore(Argument, u64),
}

/// An argument that points to a time.
#[derive(Clone, Copy, Debug)]
pub(super) enum Argument {
    Third,
    Fourth,
}

impl Argument {
    fn of(self, registers: &mut user_regs_struct) -> &mut u64 {
        match self {
            Argument::Third => &mut registers.rdx,
            Argument::Fourth => &mut registers.r10,
        }
    }
}

fn is_wall(clock: u64) -> bool {
    matches!(clock as i32, libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE | libc::CLOCK_TAI)
}

/// A call is about to be made: if it has to do with the wall clock, this says what is to be done when it comes back. The
/// registers may have changed.
pub(super) fn entry(thread: Thread, registers: &mut user_regs_struct, ahead: Duration) -> io::Result<Option<Back>> {
    let user_regs_struct { rdi, rsi, rdx, r10, .. } = *registers;
    Ok(match registers.orig_rax.cast_signed() {
        libc::SYS_clock_gettime if is_wall(rdi) => Some(Back::Told(rsi)),
        libc::SYS_gettimeofday if rdi != 0 => Some(Back::Told(rdi)),
        libc::SYS_time => Some(Back::Returned(rdi)),
        libc::SYS_futex if r10 != 0 && is_until_wall(rsi as i32) => {
            earlier(thread, registers, Argument::Fourth, 0, ahead)?
        }
        libc::SYS_clock_nanosleep if rdx != 0 && is_wall(rdi) && rsi as i32 & libc::TIMER_ABSTIME != 0 => {
            earlier(thread, registers, Argument::Third, 0, ahead)?
        }
        libc::SYS_timerfd_settime if rdx != 0 && rsi as i32 & libc::TFD_TIMER_ABSTIME != 0 => {
            // After the interval.
            match thread.timer_clock(rdi) {
                Some(clock) if is_wall(clock) => earlier(thread, registers, Argument::Third, 16, ahead)?,
                _ => None,
            }
        }
        _ => None,
    })
}

/// Whether a wait for a futex ends at a time of the wall clock.
fn is_until_wall(operation: i32) -> bool {
    let wall = operation & libc::FUTEX_CLOCK_REALTIME != 0;
    match operation & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME) {
        libc::FUTEX_LOCK_PI => true,
        libc::FUTEX_WAIT_BITSET | libc::FUTEX_WAIT_REQUEUE_PI | libc::FUTEX_LOCK_PI2 => wall,
        _ => false,
    }
}

/// Has an argument point to a copy of what it points to, in which the time `before` bytes in is earlier. What its caller gave stays as it is:
/// it may be constant, and read by others.
fn earlier(
    thread: Thread,
    registers: &mut user_regs_struct,
    argument: Argument,
    before: u64,
    ahead: Duration,
) -> io::Result<Option<Back>> {
    let given = *argument.of(registers);
    let memory = thread.memory()?;
    let words: Vec<u64> = (0..before / 8 + 2).map(|index| memory.u64(given + 8 * index)).collect::<Result<_, _>>()?;
    let place = (before / 8) as usize;
    let [seconds, nanoseconds] = [words[place], words[place + 1]];
    if (seconds, nanoseconds) == (0, 0) && before > 0 {
        // A timer that is put out.
        return Ok(None);
    }
    let copy = (registers.rsp - RED_ZONE - 64) & !0xf;
    for (index, word) in (0..).zip(&words) {
        // What was over before the clock was set is over at once.
        let word = if index == place as u64 { seconds.saturating_sub(ahead.as_secs()) } else { *word };
        thread.write_u64(copy + 8 * index, word)?;
    }
    *argument.of(registers) = copy;
    Ok(Some(Back::Restore(argument, given)))
}

impl Back {
    /// A call has come back; whether the program was told the time. The registers may have changed.
    pub(super) fn exit(self, thread: Thread, registers: &mut user_regs_struct, ahead: Duration) -> io::Result<bool> {
        let failed = registers.rax.cast_signed() < 0;
        let later = |at: u64| thread.write_u64(at, thread.read_u64(at)?.saturating_add(ahead.as_secs()));
        match self {
            Back::Restore(argument, given) => *argument.of(registers) = given,
            Back::Told(_) | Back::Returned(_) if failed => {}
            Back::Told(at) => later(at)?,
            Back::Returned(at) => {
                registers.rax = registers.rax.saturating_add(ahead.as_secs());
                if at != 0 {
                    later(at)?;
                }
            }
        }
        Ok(!failed && !matches!(self, Back::Restore(..)))
    }
}

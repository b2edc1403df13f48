//! Which system calls change what is durable, and where in their registers it stands.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nix::libc::{self, user_regs_struct};

use super::memory::Thread;

/// What a call does to the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Writes to a file, so many bytes.
    Write(u64),
    /// Has what was written made durable.
    Sync,
    /// Changes names, sizes or files otherwise.
    Other,
    /// Opens what is there for writing, and changes nothing yet.
    OpenOnly,
}

/// A call that concerns the directory.
pub(super) struct Call {
    pub name: &'static str,
    pub path: PathBuf,
    pub change: Change,
    /// Whether it needs room on the disk.
    pub grows: bool,
    length: Option<Length>,
}

/// Where the length of a write stands.
#[derive(Clone, Copy)]
enum Length {
    /// In this argument.
    Argument(usize),
    /// In a list of buffers: at this address, so many.
    Buffers(u64, u64),
}

impl Call {
    /// Whether it is counted.
    pub(super) fn counts(&self) -> bool {
        self.change != Change::OpenOnly && !self.path.as_os_str().as_encoded_bytes().ends_with(b"-shm")
    }

    /// How many bytes it writes.
    pub(super) fn bytes(&self) -> Option<u64> {
        match self.change {
            Change::Write(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Makes it write so many bytes only.
    pub(super) fn cut(&self, thread: Thread, registers: &mut user_regs_struct, to: u64) -> io::Result<()> {
        match self.length {
            Some(Length::Argument(index)) => set_argument(registers, index, to),
            Some(Length::Buffers(at, count)) => {
                let mut left = to;
                for length_at in (0..count).map(|index| at + 16 * index + 8) {
                    let length = thread.read_u64(length_at)?;
                    thread.write_u64(length_at, length.min(left))?;
                    left = left.saturating_sub(length);
                }
            }
            None => {}
        }
        Ok(())
    }
}

fn arguments(registers: &user_regs_struct) -> [u64; 6] {
    [registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9]
}

fn set_argument(registers: &mut user_regs_struct, index: usize, value: u64) {
    let arguments = [
        &mut registers.rdi,
        &mut registers.rsi,
        &mut registers.rdx,
        &mut registers.r10,
        &mut registers.r8,
        &mut registers.r9,
    ];
    if let Some(argument) = arguments.into_iter().nth(index) {
        *argument = value;
    }
}

/// The kinds of calls; numbers are those of arguments.
enum Shape {
    Write { file: usize, length: usize, offset: Option<usize> },
    WriteBuffers { offset: Option<usize> },
    Sync,
    SyncMapped,
    Resize,
    Allocate,
    ResizeNamed,
    Open { directory: Option<usize>, name: usize, flags: Flags },
    Make { directory: Option<usize>, name: usize },
    Remove { directory: Option<usize>, name: usize },
    Rename { from: (Option<usize>, usize), to: (Option<usize>, usize) },
}

enum Flags {
    Argument(usize),
    Pointer(usize),
    Creat,
}

fn shape(number: i64) -> Option<(&'static str, Shape)> {
    Some(match number {
        libc::SYS_write => ("write", Shape::Write { file: 0, length: 2, offset: None }),
        libc::SYS_pwrite64 => ("pwrite64", Shape::Write { file: 0, length: 2, offset: Some(3) }),
        libc::SYS_writev => ("writev", Shape::WriteBuffers { offset: None }),
        libc::SYS_pwritev => ("pwritev", Shape::WriteBuffers { offset: Some(3) }),
        libc::SYS_pwritev2 => ("pwritev2", Shape::WriteBuffers { offset: Some(3) }),
        libc::SYS_sendfile => ("sendfile", Shape::Write { file: 0, length: 3, offset: None }),
        libc::SYS_copy_file_range => ("copy_file_range", Shape::Write { file: 2, length: 4, offset: None }),
        libc::SYS_splice => ("splice", Shape::Write { file: 2, length: 4, offset: None }),
        libc::SYS_fsync => ("fsync", Shape::Sync),
        libc::SYS_fdatasync => ("fdatasync", Shape::Sync),
        libc::SYS_msync => ("msync", Shape::SyncMapped),
        libc::SYS_ftruncate => ("ftruncate", Shape::Resize),
        libc::SYS_fallocate => ("fallocate", Shape::Allocate),
        libc::SYS_truncate => ("truncate", Shape::ResizeNamed),
        libc::SYS_open => ("open", Shape::Open { directory: None, name: 0, flags: Flags::Argument(1) }),
        libc::SYS_creat => ("creat", Shape::Open { directory: None, name: 0, flags: Flags::Creat }),
        libc::SYS_openat => ("openat", Shape::Open { directory: Some(0), name: 1, flags: Flags::Argument(2) }),
        libc::SYS_openat2 => ("openat2", Shape::Open { directory: Some(0), name: 1, flags: Flags::Pointer(2) }),
        libc::SYS_mkdir => ("mkdir", Shape::Make { directory: None, name: 0 }),
        libc::SYS_mkdirat => ("mkdirat", Shape::Make { directory: Some(0), name: 1 }),
        libc::SYS_link => ("link", Shape::Make { directory: None, name: 1 }),
        libc::SYS_linkat => ("linkat", Shape::Make { directory: Some(2), name: 3 }),
        libc::SYS_symlink => ("symlink", Shape::Make { directory: None, name: 1 }),
        libc::SYS_symlinkat => ("symlinkat", Shape::Make { directory: Some(1), name: 2 }),
        libc::SYS_unlink => ("unlink", Shape::Remove { directory: None, name: 0 }),
        libc::SYS_unlinkat => ("unlinkat", Shape::Remove { directory: Some(0), name: 1 }),
        libc::SYS_rmdir => ("rmdir", Shape::Remove { directory: None, name: 0 }),
        libc::SYS_rename => ("rename", Shape::Rename { from: (None, 0), to: (None, 1) }),
        libc::SYS_renameat => ("renameat", Shape::Rename { from: (Some(0), 1), to: (Some(2), 3) }),
        libc::SYS_renameat2 => ("renameat2", Shape::Rename { from: (Some(0), 1), to: (Some(2), 3) }),
        _ => return None,
    })
}

/// The call that a thread is about to make, if it concerns the directory. A call that is bound to fail (a file to be removed
/// that is not there) concerns nothing.
pub(super) fn decode(thread: Thread, registers: &user_regs_struct, watch: &Path) -> Option<Call> {
    let (name, shape) = shape(registers.orig_rax.cast_signed())?;
    let arguments = arguments(registers);
    let file = |index: usize| thread.descriptor(arguments[index]).filter(|path| path.starts_with(watch));
    let named = |directory: Option<usize>, name: usize, follow: bool| {
        thread.path(directory.map(|index| arguments[index]), arguments[name], follow)
    };
    let within = |path: &PathBuf| path.starts_with(watch);
    let there = |path: &PathBuf| fs::symlink_metadata(path).is_ok();
    let call = |path, change, grows| Some(Call { name, path, change, grows, length: None });

    match shape {
        Shape::Write { file: index, length, offset } => {
            let path = file(index)?;
            let bytes = arguments[length];
            let grows = grows(thread, &path, arguments[index], offset.map(|offset| arguments[offset]), bytes);
            Some(Call { name, path, change: Change::Write(bytes), grows, length: Some(Length::Argument(length)) })
        }
        Shape::WriteBuffers { offset } => {
            let path = file(0)?;
            // No process passes more than the kernel's limit.
            let (at, count) = (arguments[1], arguments[2].min(1024));
            let bytes = (0..count).filter_map(|index| thread.read_u64(at + 16 * index + 8).ok()).sum();
            // At -1, `pwritev2` writes at the file's position.
            let offset = offset.map(|offset| arguments[offset]).filter(|offset| *offset != u64::MAX);
            let grows = grows(thread, &path, arguments[0], offset, bytes);
            Some(Call { name, path, change: Change::Write(bytes), grows, length: Some(Length::Buffers(at, count)) })
        }
        Shape::Sync => call(file(0)?, Change::Sync, false),
        Shape::SyncMapped => call(thread.mapped(arguments[0]).filter(within)?, Change::Sync, false),
        Shape::Resize => call(file(0)?, Change::Other, false),
        Shape::Allocate => call(file(0)?, Change::Other, true),
        Shape::ResizeNamed => call(named(None, 0, true).filter(within).filter(there)?, Change::Other, false),
        Shape::Open { directory, name, flags } => {
            let path = named(directory, name, true).filter(within)?;
            let flags = match flags {
                Flags::Argument(index) => arguments[index] as i32,
                Flags::Pointer(index) => thread.read_u64(arguments[index]).ok()? as i32,
                Flags::Creat => libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC,
            };
            open(&path, flags).and_then(|(change, grows)| call(path, change, grows))
        }
        Shape::Make { directory, name } => {
            call(named(directory, name, false).filter(within).filter(|path| !there(path))?, Change::Other, true)
        }
        Shape::Remove { directory, name } => {
            call(named(directory, name, false).filter(within).filter(there)?, Change::Other, false)
        }
        Shape::Rename { from, to } => {
            let (from, to) = (named(from.0, from.1, false).filter(there)?, named(to.0, to.1, false)?);
            call(Some(to).filter(within).or(Some(from).filter(within))?, Change::Other, false)
        }
    }
}

/// Whether a write ends beyond its file's end.
fn grows(thread: Thread, path: &Path, descriptor: u64, offset: Option<u64>, bytes: u64) -> bool {
    let size = fs::metadata(path).map_or(0, |metadata| metadata.len());
    let begin = offset.or_else(|| thread.position(descriptor, size)).unwrap_or(size);
    begin.saturating_add(bytes) > size
}

/// What opening a file with these flags changes, and whether that needs room.
fn open(path: &Path, flags: i32) -> Option<(Change, bool)> {
    let size = fs::metadata(path).map(|metadata| metadata.len());
    let writes = flags & libc::O_ACCMODE != libc::O_RDONLY;
    if flags & libc::O_PATH != 0 || path.is_dir() {
        return None;
    }
    match size {
        Err(_) if flags & libc::O_CREAT != 0 => Some((Change::Other, true)),
        Err(_) => None,
        Ok(1..) if flags & libc::O_TRUNC != 0 => Some((Change::Other, false)),
        Ok(_) => writes.then_some((Change::OpenOnly, false)),
    }
}

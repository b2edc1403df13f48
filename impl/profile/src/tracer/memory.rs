//! What the kernel tells of a traced thread: its memory, its files, the paths that it names.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use nix::libc;
use nix::unistd::Pid;

/// The longest path that the kernel takes.
const LONGEST_PATH: usize = libc::PATH_MAX as usize;

/// The unit in which memory is mapped or not.
const PAGE: u64 = 4096;

/// The memory of a process.
pub(super) struct Memory(File);

impl Memory {
    /// A number in it.
    pub(super) fn u64(&self, at: u64) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.0.read_exact_at(&mut bytes, at)?;
        Ok(u64::from_le_bytes(bytes))
    }
}

/// A traced thread.
#[derive(Clone, Copy)]
pub(super) struct Thread(pub Pid);

impl Thread {
    fn file(self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{name}", self.0))
    }

    /// Its memory, for several looks.
    pub(super) fn memory(self) -> io::Result<Memory> {
        File::open(self.file("mem")).map(Memory)
    }

    /// A number in its memory.
    pub(super) fn read_u64(self, at: u64) -> io::Result<u64> {
        self.memory()?.u64(at)
    }

    /// Changes a number in its memory.
    pub(super) fn write_u64(self, at: u64, number: u64) -> io::Result<()> {
        OpenOptions::new().write(true).open(self.file("mem"))?.write_all_at(&number.to_le_bytes(), at)
    }

    /// A string in its memory, up to its zero byte.
    fn string(self, at: u64) -> io::Result<PathBuf> {
        let memory = File::open(self.file("mem"))?;
        let mut string = Vec::new();
        while string.len() < LONGEST_PATH {
            let from = at + string.len() as u64;
            // Not beyond its page: the next one may not be mapped.
            let mut piece = vec![0; usize::try_from((PAGE - from % PAGE).min(256)).unwrap_or(256)];
            memory.read_exact_at(&mut piece, from)?;
            if let Some(end) = piece.iter().position(|byte| *byte == 0) {
                string.extend_from_slice(&piece[..end]);
                return Ok(std::ffi::OsString::from_vec(string).into());
            }
            string.extend(piece);
        }
        Err(io::ErrorKind::InvalidFilename.into())
    }

    /// The file behind a descriptor; none for a pipe, a socket or a file that has no name any more.
    pub(super) fn descriptor(self, number: u64) -> Option<PathBuf> {
        let path = fs::read_link(self.file(&format!("fd/{}", number as u32))).ok()?;
        (path.is_absolute() && !path.as_os_str().as_encoded_bytes().ends_with(b" (deleted)")).then_some(path)
    }

    /// The clock of a timer's descriptor.
    pub(super) fn timer_clock(self, number: u64) -> Option<u64> {
        let text = fs::read_to_string(self.file(&format!("fdinfo/{}", number as u32))).ok()?;
        text.lines().find_map(|line| line.strip_prefix("clockid:"))?.trim().parse().ok()
    }

    /// Where the next write through a descriptor begins; the file's end if it appends.
    pub(super) fn position(self, number: u64, size: u64) -> Option<u64> {
        let text = fs::read_to_string(self.file(&format!("fdinfo/{}", number as u32))).ok()?;
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let flags = i64::from_str_radix(field("flags:")?, 8).ok()?;
        if flags & i64::from(libc::O_APPEND) != 0 { Some(size) } else { field("pos:")?.parse().ok() }
    }

    /// The path that it names by a string, relative to a directory's descriptor or (`None`) to its own directory. Symbolic
    /// links in it are followed, at its end only if `follow`.
    pub(super) fn path(self, directory: Option<u64>, string: u64, follow: bool) -> Option<PathBuf> {
        let named = self.string(string).ok()?;
        let path = if named.is_absolute() {
            named
        } else {
            match directory {
                Some(number) if number as u32 != libc::AT_FDCWD as u32 => self.descriptor(number)?,
                _ => fs::read_link(self.file("cwd")).ok()?,
            }
            .join(named)
        };
        if follow && let Ok(whole) = path.canonicalize() {
            return Some(whole);
        }
        match path.file_name() {
            Some(name) => Some(path.parent().unwrap_or(Path::new("/")).canonicalize().ok()?.join(name)),
            None => path.canonicalize().ok(),
        }
    }

    /// The file that is mapped at an address.
    pub(super) fn mapped(self, at: u64) -> Option<PathBuf> {
        let maps = fs::read_to_string(self.file("maps")).ok()?;
        maps.lines().find_map(|line| {
            let (range, rest) = line.split_once(' ')?;
            let (from, to) = range.split_once('-')?;
            let within = u64::from_str_radix(from, 16).ok()? <= at && at < u64::from_str_radix(to, 16).ok()?;
            // Four more fields, and then the name.
            let name = rest.find('/').map(|begin| &rest[begin..])?;
            within.then(|| PathBuf::from(name))
        })
    }
}

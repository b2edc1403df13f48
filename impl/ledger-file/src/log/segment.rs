//! The files of a log: their names, their growth, and reading a frame from them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use super::disk::{Disk, DiskFile, Displaced, read_full_at, write_all_at};
use super::format::{self, FRAME_HEADER};
use super::{LogError, recovery};

/// What the names of segments begin with.
pub(crate) const PREFIX: &str = "log.";

/// Name of the segment that begins at position `base`.
pub(crate) fn name(base: u64) -> String {
    format!("{PREFIX}{base:016x}")
}

/// What a file's name says: not a segment, a segment's base, or (`Err`) neither.
pub(crate) fn parse(file: &str) -> Result<Option<u64>, ()> {
    if !file.starts_with(PREFIX) {
        return Ok(None);
    }
    let base = u64::from_str_radix(&file[PREFIX.len()..], 16).map_err(|_| ())?;
    if name(base) == file { Ok(Some(base)) } else { Err(()) }
}

/// One file of the log. Position `p` of the log is byte `p - base` of the file.
#[derive(Clone)]
pub(crate) struct Segment {
    pub base: u64,
    pub file: Arc<dyn DiskFile>,
}

impl Segment {
    /// Creates an empty segment, durably.
    pub fn create(disk: &dyn Disk, base: u64) -> Result<Segment, LogError> {
        let name = name(base);
        let file = disk.create(&name).map_err(|e| LogError::io("create", &name, e))?;
        file.sync_all().map_err(|e| LogError::io("sync", &name, e))?;
        disk.sync_dir().map_err(|e| LogError::io("sync", ".", e))?;
        Ok(Segment { base, file })
    }

    pub fn name(&self) -> String {
        name(self.base)
    }

    pub fn error(&self, doing: &'static str, error: std::io::Error) -> LogError {
        LogError::io(doing, &self.name(), error)
    }

    pub fn len(&self) -> Result<u64, LogError> {
        self.file.len().map_err(|e| self.error("measure", e))
    }

    pub fn write(&self, bytes: &[u8], offset: u64) -> Result<(), LogError> {
        write_all_at(&*self.file, bytes, offset).map_err(|e| self.error("write to", e))
    }

    pub fn sync_data(&self) -> Result<(), LogError> {
        self.file.sync_data().map_err(|e| self.error("sync", e))
    }

    /// Cuts the file to `len` bytes, durably.
    pub fn cut(&self, len: u64) -> Result<(), LogError> {
        self.file.truncate(len).map_err(|e| self.error("truncate", e))?;
        self.file.sync_all().map_err(|e| self.error("sync", e))
    }
}

/// The segment being written.
pub(crate) struct Tail {
    pub segment: Segment,
    /// Offset in the file at which the next batch goes.
    pub end: u64,
    /// Length of the file: everything from `end` to here is zeros.
    pub allocated: u64,
}

impl Tail {
    pub fn position(&self) -> u64 {
        self.segment.base + self.end
    }

    /// Checks that nobody has cut the file.
    pub fn check_length(&self) -> Result<(), LogError> {
        let found = self.segment.len()?;
        if found >= self.allocated {
            return Ok(());
        }
        Err(self.displaced(Displaced::Cut { found, expected: self.allocated }))
    }

    /// Checks that the next one to open the log will find this file.
    pub fn check_place(&self) -> Result<(), LogError> {
        self.segment.file.in_place(self.allocated).map_err(|source| self.displaced(source))
    }

    fn displaced(&self, source: Displaced) -> LogError {
        LogError::Displaced { file: self.segment.name(), source }
    }

    /// Writes zeros ahead so that `len` more bytes fit, up to a multiple of `chunk` but no further than `limit` unless `len`
    /// needs it. The range that the next batch fills itself is left out.
    pub fn reserve(&mut self, len: u64, chunk: u64, limit: u64) -> Result<(), LogError> {
        let need = self.end + len;
        if need <= self.allocated {
            return Ok(());
        }
        let target = need.next_multiple_of(chunk.max(1)).min(limit).max(need);
        let zeros = vec![0; (target - need) as usize];
        self.segment.write(&zeros, need)?;
        self.allocated = target;
        Ok(())
    }
}

/// All segments, shared between the log and its readers; ordered by base.
#[derive(Clone, Default)]
pub(crate) struct Segments {
    list: Arc<RwLock<Vec<Segment>>>,
    /// Where the last file ends.
    end: Arc<AtomicU64>,
}

impl Segments {
    pub fn new(list: Vec<Segment>) -> Self {
        Segments { list: Arc::new(RwLock::new(list)), end: Arc::default() }
    }

    /// Notes where the last file ends.
    pub fn reaches(&self, end: u64) {
        self.end.store(end, Ordering::Relaxed);
    }

    /// Where the last file ends.
    pub fn end(&self) -> u64 {
        self.end.load(Ordering::Relaxed)
    }

    pub fn push(&self, segment: Segment) {
        self.list.write().unwrap_or_else(PoisonError::into_inner).push(segment);
    }

    /// The position at which the first one begins.
    pub fn begin(&self) -> u64 {
        self.list.read().unwrap_or_else(PoisonError::into_inner).first().map_or(0, |first| first.base)
    }

    /// The positions at which they begin.
    pub fn bases(&self) -> Vec<u64> {
        self.list.read().unwrap_or_else(PoisonError::into_inner).iter().map(|segment| segment.base).collect()
    }

    /// Leaves out those before the one that begins at `base`, and returns where they begin.
    pub fn remove_before(&self, base: u64) -> Vec<u64> {
        let mut list = self.list.write().unwrap_or_else(PoisonError::into_inner);
        let count = list.partition_point(|segment| segment.base < base);
        list.drain(..count).map(|segment| segment.base).collect()
    }

    pub fn at(&self, position: u64) -> Option<Segment> {
        let list = self.list.read().unwrap_or_else(PoisonError::into_inner);
        let after = list.partition_point(|s| s.base <= position);
        list.get(after.checked_sub(1)?).cloned()
    }
}

/// Reads frames of a log, from any thread, while the log is being written. Clones are cheap.
#[derive(Clone)]
pub struct LogReader {
    segments: Segments,
}

impl LogReader {
    pub(crate) fn new(segments: Segments) -> Self {
        LogReader { segments }
    }

    /// Hands every frame of the file that begins at `base` to `on_frame`, in order, with its position. The file must be
    /// complete: another one follows it.
    pub fn each(&self, base: u64, on_frame: impl FnMut(u64, &[u8])) -> Result<(), LogError> {
        let next = self.segments.bases().into_iter().find(|next| *next > base);
        match (self.segments.at(base).filter(|segment| segment.base == base), next) {
            (Some(segment), Some(next)) => recovery::each(&segment, next, on_frame),
            _ => Err(LogError::NoFrame { position: base }),
        }
    }

    /// The position at which the log begins. What was before has been removed.
    #[must_use]
    pub fn begin(&self) -> u64 {
        self.segments.begin()
    }

    /// The position at which the log's last file ends.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.segments.end()
    }

    /// Bytes of the log's files, as long as they are.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.segments.end().saturating_sub(self.segments.begin())
    }

    /// The positions at which the log's files begin.
    #[must_use]
    pub fn segments(&self) -> Vec<u64> {
        self.segments.bases()
    }

    /// The frame that begins at `position`, checked. Positions come from [`Log::append`](super::Log::append) and from the
    /// callback of [`Log::open`](super::Log::open); any other gives [`LogError::NoFrame`].
    pub fn read(&self, position: u64) -> Result<Vec<u8>, LogError> {
        // One read serves nearly every record.
        const GUESS: usize = 1024;
        let missing = LogError::NoFrame { position };
        let Some(segment) = self.segments.at(position) else {
            return Err(missing);
        };
        let offset = position - segment.base;
        if offset > i64::MAX as u64 {
            // More than an operating system's file offset can say.
            return Err(missing);
        }
        let read =
            |into: &mut [u8], offset| read_full_at(&*segment.file, into, offset).map_err(|e| segment.error("read", e));
        let mut frame = vec![0; GUESS];
        let got = read(&mut frame, offset)?;
        if got < FRAME_HEADER {
            return Err(missing);
        }
        let len = FRAME_HEADER + format::frame_len(&frame);
        if len > got {
            // A wrong position must not make us allocate what some four bytes happen to say.
            if offset.saturating_add(len as u64) > segment.len()? {
                return Err(missing);
            }
            frame.resize(len, 0);
            if read(&mut frame[got..], offset + got as u64)? < len - got {
                return Err(missing);
            }
        }
        frame.truncate(len);
        if !format::frame_intact(&frame, position) {
            return Err(missing);
        }
        frame.drain(..FRAME_HEADER);
        Ok(frame)
    }
}

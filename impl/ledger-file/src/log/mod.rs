//! An append-only log of frames, written in batches that are durable when [`Log::append`] returns.
//!
//! A log is a directory of segments `log.<base>`, where the base, in 16 hexadecimal digits, is the segment's first *position*.
//! A position is a byte's place in the whole log and addresses a frame for good. A batch costs one write and one `fdatasync`.
//! One process writes a directory at a time: take its [`DirLock`] first. Files at the beginning of a log can be removed while it
//! is written ([`LogTrimmer`]); positions and the numbers of batches go on.
//!
//! A file `LEDGER` says that the first batch has become durable, and where the log begins if files were removed. Without it,
//! a log whose files were lost would look like one that hasn't begun.

pub mod disk;
mod error;
mod format;
mod lock;
mod marker;
mod recovery;
mod segment;
mod trim;

use std::sync::Arc;
use std::time::{Duration, Instant};

pub use error::{Corruption, LogError};
pub use lock::DirLock;
#[cfg(not(loom))]
pub(crate) use marker::MARKER;
pub use recovery::Refusal;
pub use segment::LogReader;
#[cfg(not(loom))]
pub(crate) use segment::{PREFIX as SEGMENT, name as segment_name};
pub use trim::LogTrimmer;

use disk::Disk;
use format::HEADER;
use marker::Beginning;
use segment::{Segment, Segments, Tail};

/// Sizes of a log's files. They may differ from one opening to the next.
#[derive(Debug, Clone, Copy)]
pub struct LogOptions {
    /// A batch that doesn't fit into this many bytes of the current segment begins a new one. A larger batch has a segment
    /// to itself.
    pub segment_bytes: u64,
    /// Zeros are written ahead of the data in chunks of this many bytes, because a sync is faster where it needn't make the
    /// file longer.
    pub preallocate_bytes: u64,
}

impl Default for LogOptions {
    /// Segments of 64 MiB, preallocated by 1 MiB.
    fn default() -> Self {
        LogOptions { segment_bytes: 64 << 20, preallocate_bytes: 1 << 20 }
    }
}

/// What [`Log::open`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recovery {
    /// Frames handed to the callback.
    pub frames: u64,
    /// Batches that held them.
    pub batches: u64,
    /// Bytes of a batch torn by a crash, cut from the end of the log. No append of it had returned.
    pub cut_bytes: u64,
    /// Number of the batch to be written next; the first is 1.
    pub next_batch: u64,
}

/// The end of a log between two batches, and the batch before it, by which a log can be told from others.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(not(loom), derive(serde::Serialize, serde::Deserialize))]
pub struct Mark {
    /// Position of the last batch.
    pub batch: u64,
    /// That batch's header: its position, number, length and checksum.
    pub header: [u8; 32],
    /// Where it ends.
    pub end: u64,
    /// Number of the batch that comes next.
    pub next_batch: u64,
}

/// The writer of a log.
///
/// The first write or sync that fails *poisons* the log: that batch and all later ones are refused with
/// [`LogError::Poisoned`], even if the disk was merely full and nothing had been acknowledged. After a failed sync the
/// operating system may have dropped the data and forgotten about it, so only a new [`Log::open`] can tell what is there. A
/// batch that was refused may turn up then, whole, or be absent.
pub struct Log {
    disk: Arc<dyn Disk>,
    options: LogOptions,
    segments: Segments,
    tail: Tail,
    next_batch: u64,
    /// The last batch, once there is one in the last segment.
    last: Option<(u64, [u8; HEADER])>,
    /// Whether the marker has been made.
    marked: bool,
    buffer: Vec<u8>,
    sync_time: Duration,
    poisoned: Option<Arc<LogError>>,
}

impl Log {
    /// Opens the log on `disk`, or begins one where there is none.
    ///
    /// Every frame goes to `on_frame`, in order, with its position. A batch torn by a crash is cut off; corruption, and a
    /// frame that `on_frame` refuses, are errors that leave everything as it was. What was handed to `on_frame` is durable
    /// only once this has returned, so nothing may be concluded from it before.
    pub fn open(
        disk: Arc<dyn Disk>,
        options: LogOptions,
        on_frame: impl FnMut(u64, &[u8]) -> Result<(), Refusal>,
    ) -> Result<(Log, Recovery), LogError> {
        Log::open_from(disk, options, None, on_frame)
    }

    /// Whether there is a log on `disk` with the batch that a mark tells of.
    pub fn has(disk: &dyn Disk, mark: &Mark) -> Result<bool, LogError> {
        recovery::has(disk, marker::read(disk)?.unwrap_or(Beginning::FIRST), mark)
    }

    /// As [`open`](Log::open), but only the frames of the batch before `mark`, and those after it, go to `on_frame`. The log
    /// [`has`](Log::has) that batch. Of files before it no more is checked than that none is missing or too short.
    pub fn open_from(
        disk: Arc<dyn Disk>,
        options: LogOptions,
        mark: Option<&Mark>,
        mut on_frame: impl FnMut(u64, &[u8]) -> Result<(), Refusal>,
    ) -> Result<(Log, Recovery), LogError> {
        let found = marker::read(&*disk)?;
        let beginning = found.unwrap_or(Beginning::FIRST);
        let mut marked = found.is_some();
        let scan = recovery::scan(&*disk, beginning, mark, &mut on_frame)?;
        if marked && scan.batches == 0 {
            return Err(scan.lost(beginning));
        }
        for base in scan.leftovers {
            trim::remove(&*disk, base)?;
        }
        let mut list = scan.segments;
        let last = scan.last.as_ref().and_then(|(offset, batch)| {
            let base = list.last()?.base;
            Some((base + offset, *batch.first_chunk()?))
        });
        let tail = match list.last() {
            Some(last) => {
                let tail = Tail { segment: last.clone(), end: scan.end, allocated: scan.allocated };
                settle(&*disk, tail, scan.torn, scan.last)?
            }
            None => {
                let first = Segment::create(&*disk, 0)?;
                list.push(first.clone());
                Tail { segment: first, end: 0, allocated: 0 }
            }
        };
        if !marked && scan.batches > 0 {
            marker::make(&*disk)?;
            marked = true;
        }
        let (frames, batches) = (scan.frames, scan.batches);
        let recovery = Recovery { frames, batches, cut_bytes: scan.torn, next_batch: scan.next_batch };
        let segments = Segments::new(list);
        segments.reaches(tail.segment.base + tail.allocated);
        let log = Log {
            disk,
            options,
            segments,
            tail,
            next_batch: recovery.next_batch,
            last,
            marked,
            buffer: Vec::new(),
            sync_time: Duration::ZERO,
            poisoned: None,
        };
        Ok((log, recovery))
    }

    /// Appends `frames` as one batch: after a crash all of them are there or none. Returns the position of each. They are
    /// durable when this returns. No frames, no write.
    pub fn append(&mut self, frames: &[&[u8]]) -> Result<Vec<u64>, LogError> {
        if let Some(cause) = &self.poisoned {
            return Err(LogError::Poisoned { cause: Arc::clone(cause) });
        }
        if frames.is_empty() {
            return Ok(Vec::new());
        }
        let len = format::batch_len(frames)?;
        self.write(frames, len as u64).map_err(|error| {
            let cause = Arc::new(error);
            self.poisoned = Some(Arc::clone(&cause));
            LogError::Poisoned { cause }
        })
    }

    /// A reader of this log's frames.
    #[must_use]
    pub fn reader(&self) -> LogReader {
        LogReader::new(self.segments.clone())
    }

    /// What removes this log's beginning.
    #[must_use]
    pub fn trimmer(&self) -> LogTrimmer {
        LogTrimmer::new(Arc::clone(&self.disk), self.segments.clone())
    }

    /// How long the last sync took; zero before the first.
    #[must_use]
    pub fn sync_time(&self) -> Duration {
        self.sync_time
    }

    /// The position at which the log ends.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.tail.position()
    }

    /// Whether a log that takes no more writes can be opened again with all that it has acknowledged; `None` if it takes writes.
    #[cfg_attr(loom, allow(dead_code))]
    pub(crate) fn may_open_again(&self) -> Option<bool> {
        let cause = self.poisoned.as_ref()?;
        // Whatever failed, the file must be where it will be looked for.
        Some(!matches!(**cause, LogError::Displaced { .. }) && self.tail.check_place().is_ok())
    }

    /// Where the log ends; `None` if there is no batch in its last file.
    #[must_use]
    pub fn mark(&self) -> Option<Mark> {
        let (batch, header) = self.last?;
        Some(Mark { batch, header, end: self.end(), next_batch: self.next_batch })
    }

    fn write(&mut self, frames: &[&[u8]], len: u64) -> Result<Vec<u64>, LogError> {
        let LogOptions { segment_bytes, preallocate_bytes } = self.options;
        if self.tail.end > 0 && self.tail.end + len > segment_bytes {
            // Not into another ledger's directory.
            self.tail.check_place()?;
            let segment = Segment::create(&*self.disk, self.tail.position())?;
            self.segments.push(segment.clone());
            self.tail = Tail { segment, end: 0, allocated: 0 };
        }
        // Writing past the end of a file that was cut would make it long enough again, with nothing in it.
        self.tail.check_length()?;
        self.tail.reserve(len, preallocate_bytes, segment_bytes)?;
        self.segments.reaches(self.tail.segment.base + self.tail.allocated);
        let positions =
            format::encode(&mut self.buffer, frames, self.next_batch, self.tail.segment.base, self.tail.end);
        self.tail.segment.write(&self.buffer, self.tail.end)?;
        let before = Instant::now();
        self.tail.segment.sync_data()?;
        self.sync_time = before.elapsed();
        self.tail.check_place()?;
        if !self.marked {
            marker::make(&*self.disk)?;
            self.marked = true;
        }
        self.last = self.buffer.first_chunk().map(|header| (self.tail.position(), *header));
        self.tail.end += len;
        self.next_batch += 1;
        // One exceptional batch shouldn't hold its memory for ever.
        const KEEP: usize = 4 << 20;
        if self.buffer.capacity() > KEEP {
            self.buffer = Vec::new();
        }
        Ok(positions)
    }
}

/// Makes what the scan accepted durable and the rest zeros.
fn settle(disk: &dyn Disk, mut tail: Tail, torn: u64, last: Option<(u64, Vec<u8>)>) -> Result<Tail, LogError> {
    if torn > 0 {
        // Truncating needs no space, so it works on a full disk too.
        tail.segment.cut(tail.end)?;
        tail.allocated = tail.end;
    }
    // The previous process may have died before its sync. Or its sync failed, and the operating system then shows pages that
    // it will never write again: only writing the batch once more makes it durable for certain. Earlier batches were synced.
    if let Some((offset, batch)) = last {
        tail.segment.write(&batch, offset)?;
    }
    tail.segment.sync_data()?;
    disk.sync_dir().map_err(|e| LogError::io("sync", ".", e))?;
    Ok(tail)
}

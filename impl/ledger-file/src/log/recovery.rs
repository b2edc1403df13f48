//! Reading a log from its start and finding its end.
//!
//! # What a crash can leave
//!
//! The log relies on two facts. A disk writes a sector of 512 bytes wholly or not at all. And batch *n + 1* is written only
//! after batch *n* was synced. So a crash can damage only the last batch, and only by leaving some of its sectors unwritten.
//! As everything past the end of the log is zeros (preallocated, or past the end of the file), an unwritten sector is a
//! zero sector or lies past the end of the file. A write that fails or is interrupted may also stop at any byte: then all that
//! follows is zeros. Hence a bad batch is **torn** only if
//!
//! * it is in the last segment, and nothing but itself follows it: no header of a later batch where its own length isn't
//!   known, no byte other than zero after its end where it is;
//! * and it shows one of these signs:
//!   - the file ends inside it;
//!   - its header is zero, with the rest of the header's sector;
//!   - its header is incomplete, and all that follows is zeros;
//!   - more of its sectors, or of the parts of sectors that it covers, are zero than its header says are so by right;
//!   - its trailer is zero.
//!
//! A torn batch was never acknowledged, and is cut off, unless nothing but its trailer is incomplete: then it is kept and
//! completed. Everything else is **corruption**, which is reported and left as it is: the batch may have been acknowledged,
//! and to drop it could make an effect happen twice.
//!
//! What can't be told from a tear: loss of whole sectors of the last batch, or of the end of the last file, or of all of the
//! last segments, by something that isn't a crash. Only the loss of all batches is told, by the marker.

use std::io;

use super::disk::{Disk, DiskFile, SECTOR, read_full_at};
use super::format::{self, ALIGN, Check, HEADER, Header, VERSION};
use super::marker::{Beginning, MARKER};
use super::segment::{self, Segment};
use super::{Corruption, LogError, Mark};

/// What the callback of [`Log::open`](super::Log::open) may refuse a frame with.
pub type Refusal = Box<dyn std::error::Error + Send + Sync>;

type OnFrame<'a> = dyn FnMut(u64, &[u8]) -> Result<(), Refusal> + 'a;

/// What a scan found. The scan itself changes nothing.
pub(crate) struct Scan {
    /// In order; at least one, unless the log is new.
    pub segments: Vec<Segment>,
    /// Offset of the log's end in the last segment.
    pub end: u64,
    /// Length of the last segment's file.
    pub allocated: u64,
    /// Bytes from the end to the last byte that isn't zero: a torn batch.
    pub torn: u64,
    /// The last batch, if it is in the last segment: its offset and its bytes.
    pub last: Option<(u64, Vec<u8>)>,
    pub frames: u64,
    pub batches: u64,
    /// Number of the batch that comes next.
    pub next_batch: u64,
    /// Files before the log's beginning, that a crash has kept from being removed.
    pub leftovers: Vec<u64>,
}

/// Reads the log on `disk` and hands every frame of a valid batch to `on_frame`, in order: from its beginning, or from the
/// batch before `mark`, which must be in it.
pub(crate) fn scan(
    disk: &dyn Disk,
    beginning: Beginning,
    mark: Option<&Mark>,
    on_frame: &mut OnFrame<'_>,
) -> Result<Scan, LogError> {
    let (leftovers, bases) = bases(disk)?.into_iter().partition(|base| *base < beginning.base);
    let segments = segments(disk, beginning, bases)?;
    let mut scan = Scan {
        segments: Vec::new(),
        end: 0,
        allocated: 0,
        torn: 0,
        last: None,
        frames: 0,
        batches: 0,
        next_batch: mark.map_or(beginning.batch, |mark| mark.next_batch - 1),
        leftovers,
    };
    for (i, segment) in segments.iter().enumerate() {
        let next = segments.get(i + 1).map(|s| s.base);
        let from = mark.map_or(0, |mark| mark.batch.saturating_sub(segment.base));
        match next {
            Some(next) if mark.is_some_and(|mark| mark.batch >= next) => skip(segment, next)?,
            _ => scan.segment(segment, from, next, on_frame)?,
        }
    }
    scan.segments = segments;
    Ok(scan)
}

/// Checks no more of a segment than that it isn't too short.
fn skip(segment: &Segment, next: u64) -> Result<(), LogError> {
    let len = segment.len()?;
    match segment.base + len >= next {
        true => Ok(()),
        false => Err(LogError::Corrupt { segment: segment.name(), offset: len, kind: Corruption::Gap { next } }),
    }
}

/// Whether the log on `disk` has the batch that the mark tells of.
pub(crate) fn has(disk: &dyn Disk, beginning: Beginning, mark: &Mark) -> Result<bool, LogError> {
    let bases = bases(disk)?;
    let base = bases.iter().rfind(|base| **base <= mark.batch);
    let Some(&base) = base.filter(|base| **base >= beginning.base && mark.next_batch > 1) else {
        return Ok(false);
    };
    let name = segment::name(base);
    let file = disk.open(&name).map_err(|e| LogError::io("open", &name, e))?;
    let mut header = [0; HEADER];
    let got = read_full_at(&*file, &mut header, mark.batch - base).map_err(|e| LogError::io("read", &name, e))?;
    let decoded = Header::decode(&header, mark.batch);
    let fits = |header: Header| header.number + 1 == mark.next_batch && mark.batch + header.total() as u64 == mark.end;
    Ok(got == HEADER && header == mark.header && decoded.is_some_and(fits))
}

/// Hands every frame of a complete segment to `on_frame`.
pub(crate) fn each(segment: &Segment, next: u64, mut on_frame: impl FnMut(u64, &[u8])) -> Result<(), LogError> {
    let mut window = Window::new(segment)?;
    let mut offset = 0;
    while segment.base + offset < next {
        let corrupt = |kind| LogError::Corrupt { segment: segment.name(), offset, kind };
        let position = segment.base + offset;
        let header =
            Header::decode(window.get(offset, HEADER)?, position).ok_or_else(|| corrupt(Corruption::Header))?;
        let batch = window.get(offset, header.total())?;
        if header.check(batch) != Check::Whole {
            return Err(corrupt(Corruption::Body));
        }
        let payload = batch.get(HEADER..HEADER + header.payload as usize).unwrap_or_default();
        for frame in format::frames(payload, position + HEADER as u64) {
            let (at, bytes) = frame.map_err(|_| corrupt(Corruption::Frames))?;
            on_frame(at, bytes);
        }
        offset += header.total() as u64;
    }
    Ok(())
}

/// Where the files of the log begin, in order.
fn bases(disk: &dyn Disk) -> Result<Vec<u64>, LogError> {
    let mut bases = Vec::new();
    for file in disk.list().map_err(|e| LogError::io("list", ".", e))? {
        match segment::parse(&file) {
            Ok(base) => bases.extend(base),
            Err(()) => {
                return Err(LogError::Corrupt { segment: file, offset: 0, kind: Corruption::Name });
            }
        }
    }
    bases.sort_unstable();
    Ok(bases)
}

fn segments(disk: &dyn Disk, beginning: Beginning, bases: Vec<u64>) -> Result<Vec<Segment>, LogError> {
    if let Some(&first) = bases.first()
        && first != beginning.base
    {
        let kind = Corruption::Gap { next: first };
        return Err(LogError::Corrupt { segment: segment::name(beginning.base), offset: 0, kind });
    }
    let open = |base| {
        let name = segment::name(base);
        let file = disk.open(&name).map_err(|e| LogError::io("open", &name, e))?;
        Ok(Segment { base, file })
    };
    bases.into_iter().map(open).collect()
}

/// What stands at an offset where a batch may begin.
enum Found {
    Batch(Header),
    /// A batch whose trailer was cut; like the next two, good only at the end of the log.
    Unfinished(Header),
    Torn,
    /// Zeros to the end of the file.
    Nothing,
    Bad(Corruption),
}

impl Scan {
    /// The error for a log that had begun, where no batch was found.
    pub fn lost(&self, beginning: Beginning) -> LogError {
        let found = match self.segments.first() {
            None => "missing",
            Some(_) if self.allocated == 0 => "empty",
            Some(_) => "without a whole batch",
        };
        LogError::Lost { marker: MARKER, segment: segment::name(beginning.base), found }
    }

    fn segment(
        &mut self,
        segment: &Segment,
        from: u64,
        next: Option<u64>,
        on_frame: &mut OnFrame<'_>,
    ) -> Result<(), LogError> {
        let mut window = Window::new(segment)?;
        let corrupt = |offset, kind| Err(LogError::Corrupt { segment: segment.name(), offset, kind });
        let mut last = None;
        let mut offset = from;
        while next.is_none_or(|next| segment.base + offset < next) {
            let header = match (examine(&mut window, segment, offset, self.next_batch)?, next) {
                (Found::Batch(header), _) | (Found::Unfinished(header), None) => header,
                (Found::Bad(kind), _) => return corrupt(offset, kind),
                (Found::Nothing, Some(next)) => return corrupt(offset, Corruption::Gap { next }),
                (_, Some(_)) => return corrupt(offset, Corruption::Followed),
                (Found::Nothing, None) => break,
                (Found::Torn, None) => {
                    self.torn = window.last_nonzero(offset)?.map_or(0, |last| last + 1 - offset);
                    break;
                }
            };
            let position = segment.base + offset;
            let batch = window.get(offset, header.total())?;
            let payload = batch.get(HEADER..HEADER + header.payload as usize).unwrap_or_default();
            for frame in format::frames(payload, position + HEADER as u64) {
                let Ok((at, bytes)) = frame else {
                    return corrupt(offset, Corruption::Frames);
                };
                on_frame(at, bytes).map_err(|e| LogError::Refused { position: at, source: e.into() })?;
                self.frames += 1;
            }
            self.batches += 1;
            self.next_batch += 1;
            last = Some((offset, header));
            offset += header.total() as u64;
        }
        if let Some(next) = next {
            if segment.base + offset != next || window.last_nonzero(offset)?.is_some() {
                return corrupt(next - segment.base, Corruption::Overlap { next });
            }
            return Ok(());
        }
        self.end = offset;
        self.allocated = window.file_len.max(offset);
        if let Some((offset, header)) = last {
            let mut batch = window.get(offset, header.total())?.to_vec();
            format::complete(&mut batch, &header);
            self.last = Some((offset, batch));
        }
        Ok(())
    }
}

fn examine(window: &mut Window<'_>, segment: &Segment, offset: u64, expected: u64) -> Result<Found, LogError> {
    let head = window.get(offset, HEADER)?;
    let Some(header) = Header::decode(head, segment.base + offset) else {
        return without_header(window, segment, offset, expected);
    };
    if header.version != VERSION {
        return Err(LogError::UnknownVersion { segment: segment.name(), offset, version: header.version });
    }
    if header.number != expected {
        return Ok(Found::Bad(Corruption::OutOfOrder { expected, found: header.number }));
    }
    let batch = window.get(offset, header.total())?;
    let found = match header.check(batch) {
        Check::Whole => return Ok(Found::Batch(header)),
        Check::TrailerCut => Found::Unfinished(header),
        Check::Cut => Found::Torn,
        Check::Damaged if format::blank_parts(batch, offset) > header.blank => Found::Torn,
        Check::Damaged => return Ok(Found::Bad(Corruption::Body)),
    };
    let followed = window.last_nonzero(offset + header.total() as u64)?.is_some();
    Ok(if followed { Found::Bad(Corruption::Followed) } else { found })
}

/// There is no valid header at `offset`.
fn without_header(window: &mut Window<'_>, segment: &Segment, offset: u64, expected: u64) -> Result<Found, LogError> {
    let Some(last) = window.last_nonzero(offset)? else {
        return Ok(Found::Nothing);
    };
    if last < offset + HEADER as u64 {
        return Ok(Found::Torn);
    }
    let sector_rest = SECTOR - (offset % SECTOR as u64) as usize;
    if !format::is_zero(window.get(offset, sector_rest)?) {
        return Ok(Found::Bad(Corruption::Header));
    }
    let mut at = offset + ALIGN as u64;
    while at <= last {
        let later = Header::decode(window.get(at, HEADER)?, segment.base + at);
        if later.is_some_and(|h| h.number > expected) {
            return Ok(Found::Bad(Corruption::Followed));
        }
        at += ALIGN as u64;
    }
    Ok(Found::Torn)
}

/// Reads a file forwards through a buffer.
struct Window<'a> {
    segment: &'a Segment,
    file: &'a dyn DiskFile,
    file_len: u64,
    start: u64,
    buffer: Vec<u8>,
}

impl<'a> Window<'a> {
    const CHUNK: usize = 1 << 20;

    fn new(segment: &'a Segment) -> Result<Self, LogError> {
        Ok(Window { segment, file: &*segment.file, file_len: segment.len()?, start: 0, buffer: Vec::new() })
    }

    /// `len` bytes at `offset`, or fewer if the file ends before.
    fn get(&mut self, offset: u64, len: usize) -> Result<&[u8], LogError> {
        let len = self.file_len.saturating_sub(offset).min(len as u64) as usize;
        let held = self.start..self.start + self.buffer.len() as u64;
        if offset < held.start || offset + len as u64 > held.end {
            let ask = self.file_len.saturating_sub(offset).min(len.max(Self::CHUNK) as u64) as usize;
            self.buffer.resize(ask, 0);
            let got = read_full_at(self.file, &mut self.buffer, offset).map_err(|e| self.segment.error("read", e))?;
            if got < ask {
                return Err(self.segment.error("read", io::ErrorKind::UnexpectedEof.into()));
            }
            self.start = offset;
        }
        let from = (offset - self.start) as usize;
        Ok(self.buffer.get(from..from + len).unwrap_or_default())
    }

    /// Offset of the last byte at or after `offset` that isn't zero.
    fn last_nonzero(&mut self, offset: u64) -> Result<Option<u64>, LogError> {
        let mut last = None;
        let mut at = offset;
        while at < self.file_len {
            let bytes = self.get(at, Self::CHUNK)?;
            if let Some(i) = bytes.iter().rposition(|&b| b != 0) {
                last = Some(at + i as u64);
            }
            at += bytes.len() as u64;
        }
        Ok(last)
    }
}

//! The bytes of a batch.
//!
//! ```text
//! batch   = header (32) · payload · padding · trailer (16)        a multiple of 32 bytes, at a multiple of 32
//! header  = magic u32 · version u16 · 0 u16 · number u64 · payload length u32 · blank u32 · body crc u32 · header crc u32
//! payload = frame*        frame = length u32 · crc u32 · bytes    the frame crc covers position, length and bytes
//! trailer = magic u64 · number u64
//! ```
//!
//! All integers are little-endian; every crc is CRC-32. The body crc covers payload and padding. The header crc covers the
//! header's other fields and the batch's position, so that a header which was copied elsewhere, or which a caller put into a
//! frame, is not one. Magic, version and header crc keep their places in every version of the format.
//!
//! *Alignment* keeps a header within one sector: it is either on the disk or all zeros, so anything else is damage, and a
//! valid header can be trusted for the batch's length. *Blank* counts the sectors, or parts of sectors, of the batch that hold
//! nothing but zeros by right; a torn write leaves more of them, damage to a written sector does not. The *trailer* is never
//! blank, so that a write which stopped between two sectors' ends shows too.

use crc32fast::Hasher;

use super::LogError;
use super::disk::SECTOR;

/// The version this code writes.
pub(crate) const VERSION: u16 = 1;
pub(crate) const HEADER: usize = 32;
pub(crate) const TRAILER: usize = 16;
/// Batches begin and end at multiples of this, which divides [`SECTOR`] and holds a header.
pub(crate) const ALIGN: usize = 32;
/// Length and checksum before a frame's bytes.
pub(crate) const FRAME_HEADER: usize = 8;
/// The largest payload of a batch, in bytes.
pub(crate) const MAX_PAYLOAD: u64 = 1 << 30;

const MAGIC: [u8; 4] = *b"STLB";
const END_MAGIC: [u8; 8] = *b"STLBEND\n";

/// The header of a batch whose checksum agreed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub version: u16,
    pub number: u64,
    pub payload: u32,
    pub blank: u32,
    body_crc: u32,
}

impl Header {
    /// Reads a header that stands at `position`; `None` if it isn't a valid one of any version.
    pub fn decode(bytes: &[u8], position: u64) -> Option<Header> {
        let bytes: &[u8; HEADER] = bytes.first_chunk()?;
        if bytes[..4] != MAGIC || u32_at(bytes, 28) != header_crc(bytes, position) {
            return None;
        }
        Some(Header {
            version: u16::from_le_bytes([bytes[4], bytes[5]]),
            number: u64_at(bytes, 8),
            payload: u32_at(bytes, 16),
            blank: u32_at(bytes, 20),
            body_crc: u32_at(bytes, 24),
        })
    }

    /// Length of the whole batch in bytes.
    pub fn total(&self) -> usize {
        total(self.payload as usize)
    }

    /// What is left of `batch`, which is as much of the batch as the file holds.
    pub fn check(&self, batch: &[u8]) -> Check {
        let body_end = self.total() - TRAILER;
        let Some((head, end)) = batch.split_at_checked(body_end) else {
            return Check::Cut;
        };
        let expected = trailer(self.number);
        let body = head.get(HEADER..).unwrap_or_default();
        if crc32fast::hash(body) != self.body_crc {
            // A damaged byte can't blank the trailer; a write that stopped before it leaves it blank.
            return if is_zero(end) { Check::Cut } else { Check::Damaged };
        }
        let same = end.iter().zip(&expected).take_while(|(a, b)| a == b).count();
        match end.get(same..) {
            Some([]) if same == TRAILER => Check::Whole,
            Some(rest) if is_zero(rest) => Check::TrailerCut,
            _ => Check::Damaged,
        }
    }
}

/// What is left of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Check {
    Whole,
    /// The write stopped within the trailer, so all of the payload is there.
    TrailerCut,
    /// The write stopped before the trailer, or the file ends there.
    Cut,
    /// None of these.
    Damaged,
}

/// Gives a batch whose trailer was cut its trailer.
pub(crate) fn complete(batch: &mut Vec<u8>, header: &Header) {
    batch.resize(header.total() - TRAILER, 0);
    batch.extend_from_slice(&trailer(header.number));
}

fn total(payload: usize) -> usize {
    (HEADER + payload + TRAILER).next_multiple_of(ALIGN)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u32::from_le_bytes(*b))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u64::from_le_bytes(*b))
}

fn header_crc(header: &[u8; HEADER], position: u64) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(&header[..28]);
    hasher.update(&position.to_le_bytes());
    hasher.finalize()
}

fn trailer(number: u64) -> [u8; TRAILER] {
    let mut trailer = [0; TRAILER];
    trailer[..8].copy_from_slice(&END_MAGIC);
    trailer[8..].copy_from_slice(&number.to_le_bytes());
    trailer
}

fn frame_crc(position: u64, length: u32, bytes: &[u8]) -> u32 {
    let mut head = [0; 12];
    head[..8].copy_from_slice(&position.to_le_bytes());
    head[8..].copy_from_slice(&length.to_le_bytes());
    let mut hasher = Hasher::new();
    hasher.update(&head);
    hasher.update(bytes);
    hasher.finalize()
}

/// Length of the batch that holds `frames`, in bytes.
pub(crate) fn batch_len(frames: &[&[u8]]) -> Result<usize, LogError> {
    let bytes: u64 = frames.iter().map(|f| f.len() as u64 + FRAME_HEADER as u64).sum();
    if bytes > MAX_PAYLOAD {
        return Err(LogError::TooLarge { bytes, limit: MAX_PAYLOAD });
    }
    Ok(total(bytes as usize))
}

/// Writes the batch `number`, which goes to `offset` of the segment that begins at `base`, into `out`; returns the position
/// of each frame. The payload is no larger than [`MAX_PAYLOAD`].
pub(crate) fn encode(out: &mut Vec<u8>, frames: &[&[u8]], number: u64, base: u64, offset: u64) -> Vec<u64> {
    let position = base + offset;
    out.clear();
    out.resize(HEADER, 0);
    let mut positions = Vec::with_capacity(frames.len());
    for frame in frames {
        let at = position + out.len() as u64;
        let length = frame.len() as u32;
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&frame_crc(at, length, frame).to_le_bytes());
        out.extend_from_slice(frame);
        positions.push(at);
    }
    let payload = out.len() - HEADER;
    out.resize(total(payload) - TRAILER, 0);
    let body_crc = crc32fast::hash(&out[HEADER..]);
    out.extend_from_slice(&trailer(number));

    let mut header = [0; HEADER];
    header[..4].copy_from_slice(&MAGIC);
    header[4..6].copy_from_slice(&VERSION.to_le_bytes());
    header[8..16].copy_from_slice(&number.to_le_bytes());
    header[16..20].copy_from_slice(&(payload as u32).to_le_bytes());
    out[..4].copy_from_slice(&MAGIC); // the header's own part isn't blank
    header[20..24].copy_from_slice(&blank_parts(out, offset).to_le_bytes());
    header[24..28].copy_from_slice(&body_crc.to_le_bytes());
    let crc = header_crc(&header, position);
    header[28..].copy_from_slice(&crc.to_le_bytes());
    out[..HEADER].copy_from_slice(&header);
    positions
}

/// How many of the sectors, or parts of sectors, that `bytes` covers hold only zeros. `offset` counts from the
/// start of the *file*: a position won't do, because segments needn't begin at multiples of a sector.
pub(crate) fn blank_parts(bytes: &[u8], offset: u64) -> u32 {
    let first = SECTOR - (offset % SECTOR as u64) as usize;
    let (head, rest) = bytes.split_at(first.min(bytes.len()));
    std::iter::once(head).chain(rest.chunks(SECTOR)).filter(|part| !part.is_empty() && is_zero(part)).count() as u32
}

pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|&b| b == 0)
}

/// The frames of an intact payload which begins at `position`, in order; `Err` after the last whole one if they don't fill
/// it. Their own checksums aren't computed: the batch's has covered them.
pub(crate) fn frames(payload: &[u8], position: u64) -> impl Iterator<Item = Result<(u64, &[u8]), BadFrames>> {
    let mut rest = payload;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let at = position + (payload.len() - rest.len()) as u64;
        let frame = rest.get(FRAME_HEADER..).and_then(|b| b.split_at_checked(u32_at(rest, 0) as usize));
        rest = frame.map_or(&[], |(_, after)| after);
        Some(frame.map(|(bytes, _)| (at, bytes)).ok_or(BadFrames))
    })
}

/// Frames whose lengths don't add up.
#[derive(Debug)]
pub(crate) struct BadFrames;

/// Length of the frame that begins with `header`, without its own header.
pub(crate) fn frame_len(header: &[u8]) -> usize {
    u32_at(header, 0) as usize
}

/// Whether `frame`, header included, is the intact frame of `position`.
pub(crate) fn frame_intact(frame: &[u8], position: u64) -> bool {
    frame.split_at_checked(FRAME_HEADER).is_some_and(|(header, bytes)| {
        frame_len(header) == bytes.len() && u32_at(header, 4) == frame_crc(position, bytes.len() as u32, bytes)
    })
}

//! Copies of chains, which compaction puts in the place of frames at the log's beginning.

use settled::LedgerError;

use crate::body::{Link, Step};
use crate::chain::Chains;
use crate::frame::{self, FrameError, Head, KeyHash, Kind, Stand};
use crate::index::Index;
use crate::slot::Slot;

/// A chain longer than this is copied into several frames.
const FRAME_BYTES: usize = 8 << 20;

/// The end of a chain's copy, which is to take the place of the frame at `position`.
pub(crate) struct Copied {
    pub key: KeyHash,
    pub position: u64,
    pub frame: Vec<u8>,
}

/// Copies the chain of a key, if it has a frame before `limit`. Long ones are written in parts by `write_part`, which returns
/// where.
pub(crate) fn copy(
    (chains, index): (&Chains, &Index),
    (key, slot): (KeyHash, Slot),
    limit: u64,
    mut write_part: impl FnMut(Vec<u8>) -> Result<u64, LedgerError>,
) -> Result<Option<Copied>, LedgerError> {
    if !chains.reaches(slot.position(), limit)? {
        return Ok(None);
    }
    let unwritable = |e: FrameError| LedgerError::Unavailable(e.to_string());
    let links = chains.links(slot.position())?;
    let Some(of) = links.last().map(stand) else {
        return Ok(None);
    };
    let (mut previous, mut chain) = (None, 0);
    let (mut part, mut bytes) = (Vec::new(), 0);
    for link in links {
        let size = size(&link);
        if bytes > 0 && bytes + size > FRAME_BYTES {
            let mut frame = frame::with_body(&Head::new(None, 0, Kind::Part { key }), &part).map_err(unwritable)?;
            frame::link(&mut frame, previous, chain);
            chain += frame.len() as u64;
            previous = Some(write_part(frame)?);
            part.clear();
            bytes = 0;
        }
        bytes += size;
        part.push(link);
    }
    let line = index.place(key).filter(|_| !of.settled).map(|place| (place.line, place.place));
    let mut frame = frame::with_body(&Head::new(None, 0, Kind::Whole { key, of, line }), &part).map_err(unwritable)?;
    frame::link(&mut frame, previous, chain);
    Ok(Some(Copied { key, position: slot.position(), frame }))
}

fn stand(link: &Link) -> Stand {
    match &link.step {
        Step::Changed(body) => Stand::of(&body.record, body.keep_until),
        Step::Buried(tombstone) => Stand::of(&tombstone.record, Some(tombstone.keep_until)),
    }
}

fn size(link: &Link) -> usize {
    const RECORD: usize = 256;
    match &link.step {
        Step::Changed(body) => {
            let bodies = [&body.asked, &body.sent, &body.outcome].into_iter().flatten().map(bytes::Bytes::len);
            RECORD + bodies.sum::<usize>() + body.note.as_ref().map_or(0, String::len) + body.event.len()
        }
        Step::Buried(_) => RECORD,
    }
}

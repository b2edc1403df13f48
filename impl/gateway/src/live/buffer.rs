//! The bytes of one stream, in one place for all of its listeners.

use bytes::Bytes;

/// As much as one listener is given at once.
const AT_ONCE: usize = 64 << 10;

/// How far a stream has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stands {
    Coming,
    Whole,
    Broken,
}

/// What there is for a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// More of it.
    Bytes(Bytes),
    /// Nothing yet.
    Wait,
    /// That was all.
    End,
    /// It broke off.
    Broken,
    /// The listener was too slow: what it wants is not kept any more.
    TooLate,
}

/// All of a stream as long as it is not longer than `limit`, and then the latest part of it.
#[derive(Debug)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
    /// How many bytes came before those that are kept.
    gone: u64,
    /// How many of those that are kept may be shown.
    shown: usize,
    limit: usize,
    stands: Stands,
}

impl Buffer {
    pub(super) fn new(limit: usize) -> Buffer {
        Buffer { bytes: Vec::new(), gone: 0, shown: 0, limit, stands: Stands::Coming }
    }

    /// Takes the next bytes; that many of the latest are not to be shown.
    pub(super) fn push(&mut self, bytes: &[u8], held: usize) {
        if self.stands != Stands::Coming {
            return;
        }
        self.bytes.extend_from_slice(bytes);
        // What was shown once stays so.
        self.shown = self.bytes.len().saturating_sub(held).max(self.shown);
        if self.bytes.len() > self.limit {
            // Half of it at once, so that what is left need not be moved for each chunk. What is held is not shown yet, so
            // that nobody has it.
            let over = (self.bytes.len() - self.limit / 2).min(self.shown);
            self.bytes.drain(..over);
            self.gone += over as u64;
            self.shown -= over;
        }
    }

    pub(super) fn whole(&mut self) {
        if self.stands == Stands::Coming {
            self.stands = Stands::Whole;
            self.shown = self.bytes.len();
        }
    }

    pub(super) fn broken(&mut self) {
        if self.stands == Stands::Coming {
            self.stands = Stands::Broken;
        }
    }

    /// Whether a new listener can have it from its start.
    pub(super) fn is_from_the_start(&self) -> bool {
        self.gone == 0 && self.stands != Stands::Broken
    }

    /// All of it, if all of it is kept.
    pub(super) fn all(&self) -> Option<Bytes> {
        (self.gone == 0).then(|| Bytes::copy_from_slice(&self.bytes))
    }

    /// What may be shown of what is kept.
    pub(super) fn shown(&self) -> Bytes {
        Bytes::copy_from_slice(self.bytes.get(..self.shown).unwrap_or_default())
    }

    /// What there is for a listener that has so many bytes of it.
    pub(super) fn read(&self, has: u64) -> Read {
        let Some(at) = has.checked_sub(self.gone) else {
            return Read::TooLate;
        };
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        match self.bytes.get(at..self.shown) {
            Some(more) if !more.is_empty() => {
                let more = more.get(..AT_ONCE).unwrap_or(more);
                Read::Bytes(Bytes::copy_from_slice(more))
            }
            _ => match self.stands {
                Stands::Coming => Read::Wait,
                Stands::Whole => Read::End,
                Stands::Broken => Read::Broken,
            },
        }
    }

    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        self.bytes.len()
    }
}

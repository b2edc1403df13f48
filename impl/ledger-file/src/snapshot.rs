//! A snapshot of the index, so that opening a ledger needn't read the whole log.
//!
//! ```text
//! snapshot = magic (8) · section*       section = length u64 · crc u32 · bytes     the crc covers the section's number too
//! ```
//!
//! The sections: one for each of the index's shards, those for what is due when, an empty one, one for what is unsettled, and
//! last what the snapshot is of. It is made while the ledger is used: it holds all that the log says before its
//! mark, and perhaps some of what the log says after it. As noting a frame twice does no harm, reading the log from the mark
//! on makes it exact. A snapshot that is damaged, or isn't of the log that is there, is of no use, and does no harm.

use std::io::{self, ErrorKind};
use std::sync::Arc;

use crc32fast::Hasher;
use serde::{Deserialize, Serialize};
use settled_protocol::Epoch;

use crate::frame::KeyHash;
use crate::index::{Index, SHARDS};
use crate::leases::Listed;
use crate::log::Mark;
use crate::log::disk::{Disk, DiskFile, read_full_at, write_all_at};
use crate::open::Place;
use crate::slot::{SLOT_BYTES, Slot};

/// The snapshot's name.
pub(crate) const SNAPSHOT: &str = "snapshot";
/// Where it is prepared.
const PREPARED: &str = "snapshot.new";
/// The last byte is the version of what follows.
const MAGIC: &[u8; 8] = b"STLSNAP\x01";
/// Length and checksum before a section's bytes.
const HEAD: usize = 12;
/// A section of what is due has about so many bytes.
const DUE_BYTES: usize = 1 << 20;
const KEY_BYTES: usize = 16 + SLOT_BYTES;

/// What a snapshot is of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Meta {
    /// All that the log says before this is in it.
    pub mark: Mark,
    /// The log had all of this when it was made.
    pub reaches: u64,
    pub epoch: Epoch,
    pub forgotten: Vec<(KeyHash, u64)>,
    pub leases: Listed,
}

/// The latest snapshot, for whoever makes the next.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Kept {
    /// The end of its mark.
    pub covers: u64,
    pub bytes: u64,
}

/// Writes a snapshot.
pub(crate) struct Writer<'a> {
    disk: &'a dyn Disk,
    file: Arc<dyn DiskFile>,
    offset: u64,
    sections: u32,
}

impl<'a> Writer<'a> {
    pub fn begin(disk: &'a dyn Disk) -> io::Result<Writer<'a>> {
        // One that a crash has left.
        discard(disk)?;
        let file = disk.create(PREPARED)?;
        write_all_at(&*file, MAGIC, 0)?;
        Ok(Writer { disk, file, offset: MAGIC.len() as u64, sections: 0 })
    }

    /// Writes what the index holds, as long as it may go on.
    pub fn index(&mut self, index: &Index, may_go_on: impl Fn() -> bool) -> io::Result<()> {
        for shard in 0..SHARDS {
            if !may_go_on() {
                return Err(ErrorKind::Interrupted.into());
            }
            let keys = index.shard_list(shard);
            let mut bytes = vec![0; HEAD];
            bytes.reserve_exact(keys.len() * KEY_BYTES);
            for (key, slot) in keys {
                bytes.extend_from_slice(&key.0);
                bytes.extend_from_slice(&slot.to_bytes());
            }
            self.section(bytes)?;
        }
        let mut bytes = vec![0; HEAD];
        for bucket in index.with_due(|due| due.buckets()) {
            let points = index.with_due(|due| due.bucket(bucket));
            bytes.extend_from_slice(&bucket.to_le_bytes());
            bytes.extend_from_slice(&(points.len() as u64).to_le_bytes());
            points.iter().for_each(|point| bytes.extend_from_slice(&point.to_le_bytes()));
            if bytes.len() >= DUE_BYTES {
                self.section(std::mem::replace(&mut bytes, vec![0; HEAD]))?;
            }
        }
        if bytes.len() > HEAD {
            self.section(bytes)?;
        }
        self.section(vec![0; HEAD])?;
        let open = index.with_open(|open| open.list());
        self.section(postcard::to_extend(&open, vec![0; HEAD]).map_err(io::Error::other)?)
    }

    /// Writes what it is of, and puts it in its place. Returns its length.
    pub fn finish(mut self, meta: &Meta) -> io::Result<u64> {
        self.section(postcard::to_extend(meta, vec![0; HEAD]).map_err(io::Error::other)?)?;
        self.file.sync_all()?;
        self.disk.rename(PREPARED, SNAPSHOT)?;
        self.disk.sync_dir()?;
        Ok(self.offset)
    }

    /// Writes a section, for whose head there is room in front.
    fn section(&mut self, mut bytes: Vec<u8>) -> io::Result<()> {
        let (head, content) = bytes.split_at_mut(HEAD);
        let (length, crc) = (content.len() as u64, check(self.sections, content));
        head[..8].copy_from_slice(&length.to_le_bytes());
        head[8..].copy_from_slice(&crc.to_le_bytes());
        write_all_at(&*self.file, &bytes, self.offset)?;
        self.offset += bytes.len() as u64;
        self.sections += 1;
        Ok(())
    }
}

/// Removes one that was begun.
pub(crate) fn discard(disk: &dyn Disk) -> io::Result<()> {
    match disk.remove(PREPARED) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

fn check(section: u32, content: &[u8]) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(&section.to_le_bytes());
    hasher.update(&(content.len() as u64).to_le_bytes());
    hasher.update(content);
    hasher.finalize()
}

/// A snapshot that was read.
pub(crate) struct Loaded {
    pub index: Index,
    pub meta: Meta,
    pub bytes: u64,
}

/// Reads the snapshot, if there is one. Whether it is of this log isn't checked here.
pub(crate) fn load(disk: &dyn Disk) -> io::Result<Option<Loaded>> {
    let file = match disk.open(SNAPSHOT) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let bytes = file.len()?;
    let mut reader = Reader { file: &*file, offset: MAGIC.len() as u64, end: bytes, sections: 0 };
    let mut magic = [0; MAGIC.len()];
    if read_full_at(&*file, &mut magic, 0)? < magic.len() || magic != *MAGIC {
        return Err(damaged("it doesn't begin as one of this version"));
    }
    let index = Index::new();
    for shard in 0..SHARDS {
        reader.shard(&index, shard)?;
    }
    loop {
        let section = reader.section()?;
        if section.is_empty() {
            break;
        }
        restore_due(&index, &section)?;
    }
    let open: Vec<(KeyHash, Option<Place>)> = parse(&reader.section()?)?;
    index.with_open(|kept| open.into_iter().for_each(|(key, place)| kept.insert(key, place)));
    let meta = parse(&reader.section()?)?;
    if reader.offset != reader.end {
        return Err(damaged("something follows it"));
    }
    Ok(Some(Loaded { index, meta, bytes }))
}

fn parse<'a, T: Deserialize<'a>>(section: &'a [u8]) -> io::Result<T> {
    postcard::from_bytes(section).map_err(|e| damaged(&e.to_string()))
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what.to_owned())
}

fn restore_due(index: &Index, section: &[u8]) -> io::Result<()> {
    let (words, rest) = section.as_chunks::<8>();
    let mut words = words.iter().map(|word| u64::from_le_bytes(*word));
    while let Some(bucket) = words.next() {
        let count = words.next().and_then(|count| usize::try_from(count).ok()).filter(|count| *count <= words.len());
        let count = count.ok_or_else(|| damaged("a list doesn't fit into it"))?;
        let points = words.by_ref().take(count).collect();
        index.with_due(|due| due.restore(bucket, points));
    }
    if rest.is_empty() { Ok(()) } else { Err(damaged("a list is cut")) }
}

struct Reader<'a> {
    file: &'a dyn DiskFile,
    offset: u64,
    end: u64,
    sections: u32,
}

impl Reader<'_> {
    fn section(&mut self) -> io::Result<Vec<u8>> {
        let mut head = [0; HEAD];
        let got = read_full_at(self.file, &mut head, self.offset)?;
        let (length, crc) = head.split_at(8);
        let length = length.first_chunk().map_or(u64::MAX, |length| u64::from_le_bytes(*length));
        let begin = self.offset + HEAD as u64;
        if got < HEAD || begin.checked_add(length).is_none_or(|end| end > self.end) {
            return Err(damaged("it is cut"));
        }
        let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        let got = read_full_at(self.file, &mut bytes, begin)?;
        if got < bytes.len() || crc != check(self.sections, &bytes).to_le_bytes() {
            return Err(damaged("a checksum is wrong"));
        }
        self.offset = begin + length;
        self.sections += 1;
        Ok(bytes)
    }

    fn shard(&mut self, index: &Index, shard: usize) -> io::Result<()> {
        let bytes = self.section()?;
        let (keys, rest) = bytes.as_chunks::<KEY_BYTES>();
        if !rest.is_empty() {
            return Err(damaged("a key is cut"));
        }
        index.restore_shard(
            shard,
            keys.iter().map(|bytes| {
                let (mut key, mut slot) = ([0; 16], [0; SLOT_BYTES]);
                key.copy_from_slice(&bytes[..16]);
                slot.copy_from_slice(&bytes[16..]);
                (KeyHash(key), Slot::from_bytes(slot))
            }),
        );
        Ok(())
    }
}

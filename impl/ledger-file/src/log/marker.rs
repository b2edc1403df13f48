//! The file that tells a log that was lost from one that hasn't begun, and one whose beginning was removed on purpose from
//! one that has lost it.
//!
//! It is made once the first batch is durable, and before that is acknowledged. So whoever finds it, but not that batch,
//! knows that something acknowledged is gone. It is replaced, as a whole, before files at the log's beginning are removed.

use super::LogError;
use super::disk::{Disk, read_full_at, write_all_at};
use super::format::VERSION;

/// The marker's name.
pub(crate) const MARKER: &str = "LEDGER";
/// Where a new one is prepared.
const PREPARED: &str = "LEDGER.new";
/// The longest marker.
const LONGEST: usize = 512;

/// Where a log begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Beginning {
    pub base: u64,
    /// The number of the first batch.
    pub batch: u64,
}

impl Beginning {
    /// That of a log of which nothing has been removed.
    pub const FIRST: Beginning = Beginning { base: 0, batch: 1 };

    fn line(self) -> String {
        let line = format!("begins at {:016x} with batch {}", self.base, self.batch);
        let check = crc32fast::hash(line.as_bytes());
        format!("{line}, check {check:08x}\n")
    }
}

/// What the marker says: `None` if there is none, so that the log may not have begun.
pub(crate) fn read(disk: &dyn Disk) -> Result<Option<Beginning>, LogError> {
    let files = disk.list().map_err(|e| LogError::io("list", ".", e))?;
    if !files.iter().any(|file| file == MARKER) {
        return Ok(None);
    }
    let file = disk.open(MARKER).map_err(|e| LogError::io("open", MARKER, e))?;
    let mut text = vec![0; LONGEST];
    let got = read_full_at(&*file, &mut text, 0).map_err(|e| LogError::io("read", MARKER, e))?;
    text.truncate(got);
    // One that says nothing of the beginning, or that is damaged, stands for a log that is whole.
    Ok(Some(parse(&String::from_utf8_lossy(&text)).unwrap_or(Beginning::FIRST)))
}

fn parse(text: &str) -> Option<Beginning> {
    let line = text.split_inclusive('\n').find(|line| line.starts_with("begins at "))?;
    let mut words = line.split(' ');
    let base = u64::from_str_radix(words.nth(2)?, 16).ok()?;
    let batch = words.nth(2)?.trim_end_matches(',').parse().ok()?;
    let beginning = Beginning { base, batch };
    (beginning.line() == line).then_some(beginning)
}

/// Makes the marker of a log that has just begun, durably.
pub(crate) fn make(disk: &dyn Disk) -> Result<(), LogError> {
    write(disk, MARKER, Beginning::FIRST)?;
    disk.sync_dir().map_err(|e| LogError::io("sync", ".", e))
}

/// Puts another marker in the place of the one that is there, durably.
pub(crate) fn replace(disk: &dyn Disk, beginning: Beginning) -> Result<(), LogError> {
    // One that a crash has left.
    match disk.remove(PREPARED) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(LogError::io("remove", PREPARED, e)),
        _ => {}
    }
    write(disk, PREPARED, beginning)?;
    disk.rename(PREPARED, MARKER).map_err(|e| LogError::io("rename", PREPARED, e))?;
    disk.sync_dir().map_err(|e| LogError::io("sync", ".", e))
}

fn write(disk: &dyn Disk, name: &str, beginning: Beginning) -> Result<(), LogError> {
    let error = |doing| move |e| LogError::io(doing, name, e);
    let file = disk.create(name).map_err(error("create"))?;
    let mut text = format!("settled ledger, log format {VERSION}\n");
    if beginning != Beginning::FIRST {
        text.push_str(&beginning.line());
    }
    write_all_at(&*file, text.as_bytes(), 0).map_err(error("write to"))?;
    file.sync_all().map_err(error("sync"))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::log::disk::FaultDisk;

    #[test]
    fn a_marker_says_where_the_log_begins_and_a_damaged_one_says_nothing() {
        let disk = FaultDisk::new(1);
        assert_eq!(read(&disk).unwrap(), None);
        make(&disk).unwrap();
        assert_eq!(read(&disk).unwrap(), Some(Beginning::FIRST));
        let beginning = Beginning { base: 0x1234_5678, batch: 77 };
        for _ in 0..2 {
            replace(&disk, beginning).unwrap();
            assert_eq!(read(&disk).unwrap(), Some(beginning));
        }
        let text = disk.bytes(MARKER).unwrap();
        let begins = text.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        for i in begins..text.len() {
            let mut damaged = text.clone();
            damaged[i] ^= 1;
            disk.replace(MARKER, Some(damaged));
            assert_eq!(read(&disk).unwrap(), Some(Beginning::FIRST), "byte {i}");
            disk.replace(MARKER, Some(text[..i].to_vec()));
            assert_eq!(read(&disk).unwrap(), Some(Beginning::FIRST), "cut at {i}");
        }
    }
}

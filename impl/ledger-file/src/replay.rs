//! Opening the log: what it says of keys and owners, from a snapshot and the log's end, or from the whole log.

use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread;

use settled::LedgerError;
use settled_protocol::Epoch;

use crate::error::from_log;
use crate::forgotten::Forgotten;
use crate::frame::{self, Head, Kind};
use crate::index::Index;
use crate::log::disk::Disk;
use crate::log::{Log, LogOptions, Recovery, Refusal};
use crate::ownership::SeenOwners;
use crate::path;
use crate::snapshot::{self, Kept, Loaded};

/// A frame's head, its position and its length.
type Framed = (Head, u64, u64);

/// So many frames go from one thread to the other at once.
const TOGETHER: usize = 4096;
/// And so many of those may be waiting.
const QUEUE: usize = 8;

/// The log, and what it says.
pub(crate) struct Replayed {
    pub log: Log,
    pub index: Index,
    pub forgotten: Forgotten,
    /// The last epoch that was given away.
    pub epoch: Epoch,
    pub seen: SeenOwners,
    pub snapshot: Kept,
}

/// Opens the log on `disk`, or begins one.
pub(crate) fn open(disk: &Arc<dyn Disk>, dir: &Path, options: LogOptions) -> Result<Replayed, LedgerError> {
    let unusable = |why: &str| {
        tracing::warn!(directory = %dir.display(), "the ledger's snapshot is of no use ({why}): the whole log is read");
    };
    match snapshot::load(&**disk) {
        Ok(None) => {}
        Err(error) => unusable(&error.to_string()),
        Ok(Some(loaded)) => {
            let reaches = loaded.meta.reaches;
            if !Log::has(&**disk, &loaded.meta.mark).map_err(|e| from_log(&e, dir))? {
                unusable("it is of another log, or of a part that has been removed");
            } else {
                let replayed = replay(disk, dir, options, Some(loaded))?;
                if replayed.log.end() >= reaches {
                    return Ok(replayed);
                }
                unusable("it is of a longer log");
            }
        }
    }
    replay(disk, dir, options, None)
}

fn replay(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    options: LogOptions,
    loaded: Option<Loaded>,
) -> Result<Replayed, LedgerError> {
    let (mut seen, mut epoch, mut forgotten) = (SeenOwners::default(), Epoch(0), Forgotten::default());
    let (mut mark, mut snapshot, mut index) = (None, Kept::default(), Index::new());
    if let Some(Loaded { index: kept, meta, bytes }) = loaded {
        index = kept;
        epoch = meta.epoch;
        forgotten = Forgotten::restore(meta.forgotten);
        seen.leases.extend(meta.leases.running);
        seen.over.extend(meta.leases.over);
        snapshot = Kept { covers: meta.mark.end, bytes };
        mark = Some(meta.mark);
    }
    // One thread reads and checks while another one notes: each is kept busy by the memory.
    let opened = thread::scope(|scope| {
        let (noting, frames) = mpsc::sync_channel::<Vec<Framed>>(QUEUE);
        let index = &mut index;
        scope.spawn(move || {
            for (head, position, len) in frames.into_iter().flatten() {
                index.note_alone(&head, position, len);
            }
        });
        let mut read = Vec::with_capacity(TOGETHER);
        let opened = Log::open_from(Arc::clone(disk), options, mark.as_ref(), |position, bytes| {
            let (head, _) = frame::read(bytes).map_err(Refusal::from)?;
            match head.kind {
                Kind::Registered { epoch: given, .. } => epoch = epoch.max(given),
                Kind::Forgotten { key } | Kind::Remembered { key } => forgotten.remember(key, position),
                _ => {}
            }
            seen.note(&head.kind);
            read.push((head, position, bytes.len() as u64));
            if read.len() == TOGETHER {
                noting.send(std::mem::replace(&mut read, Vec::with_capacity(TOGETHER))).map_err(Refusal::from)?;
            }
            Ok(())
        });
        // It waits for as long as this one may send.
        let _ = noting.send(read);
        opened
    });
    let (log, recovery) = opened.map_err(|e| from_log(&e, dir))?;
    if recovery.batches == 0 {
        path::check_begun(dir)?;
    }
    report(&recovery, dir);
    index.tidy();
    Ok(Replayed { log, index, forgotten, epoch, seen, snapshot })
}

fn report(recovery: &Recovery, dir: &Path) {
    if recovery.cut_bytes > 0 {
        tracing::warn!(
            directory = %dir.display(),
            bytes = recovery.cut_bytes,
            "cut a write that a crash had torn off the end of the ledger; it had not been acknowledged"
        );
    }
    tracing::debug!(directory = %dir.display(), frames = recovery.frames, "opened the ledger");
}

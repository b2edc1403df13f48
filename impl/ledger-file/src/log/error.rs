//! What can go wrong with a log, and what to do about it.

use std::io;
use std::sync::Arc;

use super::disk::Displaced;

/// An error of the log. Cheap to clone: one failed write is reported to every caller of its batch.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The operating system refused an operation on a file of the log.
    #[error("can't {doing} `{file}` of the log: {source}")]
    Io {
        /// What was attempted, as a verb phrase.
        doing: &'static str,
        /// The file's name within the log's directory (`.` is the directory itself).
        file: String,
        /// The operating system's error.
        source: Arc<io::Error>,
    },
    /// There is no room for the log to grow.
    #[error(
        "the disk is full (or a quota is reached): can't {doing} `{file}` of the log; free some space and open the log again"
    )]
    DiskFull {
        /// What was attempted, as a verb phrase.
        doing: &'static str,
        /// The file's name within the log's directory.
        file: String,
        /// The operating system's error.
        source: Arc<io::Error>,
    },
    /// The log holds something that no crash can have left there. Nothing was skipped and nothing was changed.
    #[error(
        "the log is corrupt: {kind} (`{segment}`, byte {offset}); nothing was changed: restore the directory from a copy, \
         and check the disk"
    )]
    Corrupt {
        /// The segment's file name.
        segment: String,
        /// Bytes from the start of that file.
        offset: u64,
        /// What is wrong there.
        kind: Corruption,
    },
    /// The log had begun, and what it began with is gone: a file was removed, emptied, or not restored.
    #[error(
        "the log is lost: `{marker}` says that there was one, but `{segment}` is {found}; nothing was changed: restore the \
         directory from a backup, or remove the whole directory to begin anew, without all that was recorded"
    )]
    Lost {
        /// The file that says that the log had begun.
        marker: &'static str,
        /// The first segment's file name.
        segment: String,
        /// What became of that: a participle or an adjective.
        found: &'static str,
    },
    /// The file being written is no longer where the log will be looked for. The batch isn't acknowledged.
    #[error(
        "`{file}` of the log was taken away while in use: {source}; what is written now would be lost: put the directory \
         back as it was or restore it from a backup, then restart all processes that use it"
    )]
    Displaced {
        /// The file's name within the log's directory.
        file: String,
        /// What happened to it.
        source: Displaced,
    },
    /// A batch was written in a format that this version doesn't know.
    #[error(
        "`{segment}`, byte {offset}: log format {version} is unknown to this version; use the version that wrote it, or a newer one"
    )]
    UnknownVersion {
        /// The segment's file name.
        segment: String,
        /// Bytes from the start of that file.
        offset: u64,
        /// The version found.
        version: u16,
    },
    /// A batch is larger than the format allows. Nothing was written, and the log stays usable.
    #[error("a batch of {bytes} bytes exceeds the log's limit of {limit}; write fewer or smaller records at once")]
    TooLarge {
        /// Size of the batch's payload, in bytes.
        bytes: u64,
        /// The largest payload, in bytes.
        limit: u64,
    },
    /// An earlier write or sync failed, so what is on the disk is uncertain: nothing more is accepted until the log is
    /// opened again.
    #[error("the log takes no more writes until it is opened again, because one failed: {cause}")]
    Poisoned {
        /// The failure that poisoned the log.
        #[source]
        cause: Arc<LogError>,
    },
    /// No intact frame begins at this position.
    #[error(
        "no intact frame at position {position} of the log: the position is wrong or the disk has damaged the frame"
    )]
    NoFrame {
        /// The position asked for.
        position: u64,
    },
    /// The caller's `on_frame` refused a frame while the log was being opened. Nothing was changed.
    #[error("the frame at position {position} of the log was refused: {source}")]
    Refused {
        /// Where the frame begins.
        position: u64,
        /// The caller's reason.
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
}

/// The ways in which a log can be corrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Corruption {
    /// The header is neither valid nor absent.
    #[error("a batch header is damaged")]
    Header,
    /// The header is valid, the rest of the batch is not, and it doesn't look like a torn write.
    #[error("a batch fails its checksum and shows no sign of a torn write")]
    Body,
    /// A batch looks like a torn write, but something follows it that was written only after it had been synced.
    #[error("a batch is damaged and later data follows it")]
    Followed,
    /// A batch is valid but not the one expected here.
    #[error("batch {found} stands where batch {expected} should")]
    OutOfOrder {
        /// The number that should be here.
        expected: u64,
        /// The number found.
        found: u64,
    },
    /// The checksums agree but the frames don't fill the batch exactly.
    #[error("the frames of a batch don't add up to its length")]
    Frames,
    /// Data ends before the position at which the next segment begins: a segment is missing, or this one lost its end.
    #[error("a segment or a part of one is missing: the log goes on at position {next} only")]
    Gap {
        /// Where the next segment begins.
        next: u64,
    },
    /// Data goes on past the position at which the next segment begins.
    #[error("a segment runs into the next one, which begins at position {next}")]
    Overlap {
        /// Where the next segment begins.
        next: u64,
    },
    /// A file is named almost like a segment.
    #[error("a file has a segment's prefix but not a segment's name")]
    Name,
}

impl LogError {
    /// An operating-system error, told apart by whether space ran out.
    pub(crate) fn io(doing: &'static str, file: &str, source: io::Error) -> Self {
        let file = file.to_owned();
        let full = matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        let source = Arc::new(source);
        if full { LogError::DiskFull { doing, file, source } } else { LogError::Io { doing, file, source } }
    }
}

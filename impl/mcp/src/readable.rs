//! What was kept of confidential calls, for whoever has the keys.

use std::path::PathBuf;

use settled::Entry;

use crate::KeyFileError;
use crate::at_rest::{Lacks, Secrets};
use crate::config::EncryptionConfig;

/// Reads entries of a ledger with the keys that they were encrypted with.
#[derive(Clone)]
pub struct Reader(Secrets);

impl Reader {
    /// With the keys of `[encryption]`.
    ///
    /// # Errors
    /// [`KeyFileError`], if one can't be read.
    pub fn open(config: &EncryptionConfig) -> Result<Reader, KeyFileError> {
        Secrets::open(Some(config)).map(Reader)
    }

    /// With the keys in these files; `None`: there are none.
    ///
    /// # Errors
    /// [`KeyFileError`], if one can't be read.
    pub fn of_files(files: &[PathBuf]) -> Result<Option<Reader>, KeyFileError> {
        let Some((first, rest)) = files.split_first() else { return Ok(None) };
        let config = EncryptionConfig {
            key_file: first.clone(),
            old_key_files: rest.to_vec(),
            // Nothing is compared, so no digests are made.
            digest_key_file: first.clone(),
        };
        Reader::open(&config).map(Some)
    }

    /// The entry with everything that can be read of it.
    pub fn readable(&self, entry: Entry) -> Entry {
        self.0.readable_entry(entry)
    }

    /// The name of the key that an entry is encrypted with, if it is none of these.
    pub fn lacks(&self, entry: &Entry) -> Option<String> {
        match self.0.lacks(&entry.asked)? {
            Lacks::Key(id) => Some(id),
            Lacks::DigestKey(_) => None,
        }
    }
}

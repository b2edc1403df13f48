//! What is kept of requests and answers: HTTP messages as they are, or encrypted.

use bytes::Bytes;
use settled_protocol::{Digest, Key};
use settled_sealing::{KeyFileError, KeyFiles, Keys, open, seal};

use crate::config::Encryption;

/// What an encrypted message begins with; the name of its key follows, and after a line end the message in Base64.
const SEALED: &str = "settled-sealed/1 ";

/// How requests and answers are kept.
#[derive(Debug)]
pub(crate) struct Kept {
    keys: Option<Keys>,
}

/// There is no randomness to be had, so that nothing can be encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotKept;

impl Kept {
    /// # Errors
    /// If a key can't be read.
    pub(crate) fn new(encryption: Option<&Encryption>) -> Result<Kept, KeyFileError> {
        let files = encryption.map(|encryption| KeyFiles {
            key_file: encryption.key_file.clone(),
            old_key_files: encryption.old_key_files.clone(),
            digest_key_file: encryption.digest_key_file.clone().unwrap_or_else(|| encryption.key_file.clone()),
        });
        Ok(Kept { keys: files.as_ref().map(Keys::read).transpose()? })
    }

    /// A digest of a digest that nobody can make, or check a guess by, without the key, if there is one.
    pub(crate) fn digest(&self, of: Digest) -> Digest {
        self.keys.as_ref().map_or(of, |keys| keys.digest(&[of.as_bytes()]))
    }

    /// The name of the key of digests, if there is one.
    pub(crate) fn digest_id(&self) -> Option<&str> {
        self.keys.as_ref().map(Keys::digest_id)
    }

    /// What is kept of a message.
    pub(crate) fn keep(&self, key: &Key, message: Bytes) -> Result<Bytes, NotKept> {
        let Some(keys) = &self.keys else { return Ok(message) };
        let current = keys.current();
        let sealed = seal(current, message.into(), &[key.digest().as_bytes()]).ok_or(NotKept)?;
        Ok(format!("{SEALED}{}\n{sealed}", current.id()).into())
    }

    /// The message again; `None`: it can't be read with these keys.
    pub(crate) fn read(&self, key: &Key, kept: &Bytes) -> Option<Bytes> {
        let Some(sealed) = kept.strip_prefix(SEALED.as_bytes()) else {
            return Some(kept.clone());
        };
        let (id, sealed) = str::from_utf8(sealed).ok()?.split_once('\n')?;
        let master = self.keys.as_ref()?.named(id)?;
        open(master, sealed, &[key.digest().as_bytes()]).map(Bytes::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_read_with_its_key_and_for_its_operation_only() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str, byte: u8| {
            let file = directory.path().join(name);
            std::fs::write(&file, [byte; 32]).unwrap();
            file
        };
        let with = |key: u8, old: &[u8]| {
            let old_key_files = old.iter().map(|byte| file(&format!("k{byte}"), *byte)).collect();
            let digest_key_file = Some(file("k1", 1));
            Kept::new(Some(&Encryption { key_file: file(&format!("k{key}"), key), old_key_files, digest_key_file }))
                .unwrap()
        };
        let (one, other) = (Key::new("s", "t", "1").unwrap(), Key::new("s", "t", "2").unwrap());
        let (first, second, third) = (with(1, &[]), with(2, &[1]), with(3, &[]));
        let kept = first.keep(&one, "HTTP/1.1 200 OK".into()).unwrap();
        assert!(!kept.windows(4).any(|four| four == b"HTTP"));
        for keys in [&first, &second] {
            assert_eq!(keys.read(&one, &kept).as_deref(), Some(&b"HTTP/1.1 200 OK"[..]));
        }
        assert_eq!((first.read(&other, &kept), third.read(&one, &kept)), (None, None));
        assert_eq!(Kept::new(None).unwrap().read(&one, &kept), None);
        assert_eq!(first.read(&one, &"a person's words".into()).as_deref(), Some(&b"a person's words"[..]));
        assert_eq!(first.digest(Digest::of(b"x")), third.digest(Digest::of(b"x")));
        assert_ne!(first.digest(Digest::of(b"x")), Digest::of(b"x"));
    }
}

//! The keys, and where they come from.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::{fmt, fs};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use ring::{hkdf, hmac};
use settled_protocol::Digest;

/// How many bytes a key has.
const BYTES: usize = 32;

/// No file with a key is longer, in whatever form.
const LONGEST: u64 = 4096;

/// Where the keys are. Each file has 32 bytes: as they are, or as 64 hexadecimal digits, or in Base64.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFiles {
    /// The key that everything new is encrypted with.
    pub key_file: PathBuf,
    /// Former ones, to read what they encrypted.
    pub old_key_files: Vec<PathBuf>,
    /// The key of the digests by which calls are recognised. It has to stay the same for as long as calls are to be recognised.
    pub digest_key_file: PathBuf,
}

/// Why a key can't be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// Its file can't be read.
    #[error("the key file {} can't be read: {source}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// There is no key in it.
    #[error(
        "the key file {} does not hold a key: it must have 32 random bytes, as they are, as 64 hexadecimal digits or in Base64; \
         `head -c 32 /dev/urandom > FILE` makes one",
        file.display()
    )]
    NoKey {
        /// The file.
        file: PathBuf,
    },
}

/// A key that others are derived from: one for each thing that is encrypted.
pub struct Master {
    id: String,
    secret: hkdf::Prk,
}

impl Master {
    fn new(bytes: &[u8; BYTES]) -> Master {
        let secret = hkdf::Salt::new(hkdf::HKDF_SHA256, b"settled at rest").extract(bytes);
        Master { id: id(bytes), secret }
    }

    /// Its name, which says nothing of it.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What keys are derived from.
    pub fn secret(&self) -> &hkdf::Prk {
        &self.secret
    }
}

impl fmt::Debug for Master {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Master").field("id", &self.id).finish_non_exhaustive()
    }
}

/// All keys.
#[derive(Debug)]
pub struct Keys {
    current: Master,
    old: Vec<Master>,
    digest: hmac::Key,
    digest_id: String,
}

impl Keys {
    /// Reads them.
    ///
    /// # Errors
    /// [`KeyFileError`], if one can't be read or is none.
    pub fn read(files: &KeyFiles) -> Result<Keys, KeyFileError> {
        let current = Master::new(&read(&files.key_file)?);
        let old = files.old_key_files.iter().map(|file| Ok(Master::new(&read(file)?))).collect::<Result<_, _>>()?;
        let digest = read(&files.digest_key_file)?;
        // The same bytes may well be in use for encryption.
        let derived = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &digest), b"settled digests");
        let digest_id = id(&digest);
        Ok(Keys { current, old, digest: hmac::Key::new(hmac::HMAC_SHA256, derived.as_ref()), digest_id })
    }

    /// The key for what is new.
    pub fn current(&self) -> &Master {
        &self.current
    }

    /// The key of this name.
    pub fn named(&self, id: &str) -> Option<&Master> {
        std::iter::once(&self.current).chain(&self.old).find(|master| master.id == id)
    }

    /// A digest that nobody can make, or check a guess by, without the key.
    pub fn digest(&self, parts: &[&[u8]]) -> Digest {
        let tag = hmac::sign(&self.digest, Digest::of_parts(parts).as_bytes());
        Digest::of(tag.as_ref())
    }

    /// The name of the key of digests.
    pub fn digest_id(&self) -> &str {
        &self.digest_id
    }
}

fn id(bytes: &[u8; BYTES]) -> String {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, bytes), b"settled key name");
    tag.as_ref().iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

fn read(file: &Path) -> Result<[u8; BYTES], KeyFileError> {
    let unreadable = |source| KeyFileError::Unreadable { file: file.to_path_buf(), source };
    let opened = fs::File::open(file).map_err(unreadable)?;
    let open_to_others = opened.metadata().is_ok_and(|about| about.permissions().mode() & 0o077 != 0);
    if open_to_others {
        tracing::warn!(file = %file.display(), "others than its owner can read this key file: `chmod 600` it");
    }
    let mut bytes = Vec::new();
    opened.take(LONGEST).read_to_end(&mut bytes).map_err(unreadable)?;
    key_in(&bytes).ok_or_else(|| KeyFileError::NoKey { file: file.to_path_buf() })
}

/// A key as bytes, as hexadecimal digits, or in Base64.
fn key_in(bytes: &[u8]) -> Option<[u8; BYTES]> {
    if let Ok(key) = <[u8; BYTES]>::try_from(bytes) {
        return Some(key);
    }
    let text = str::from_utf8(bytes).ok()?.trim();
    if text.len() == 2 * BYTES {
        let digit = |at: usize| text.get(2 * at..2 * at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
        let key: Option<Vec<u8>> = (0..BYTES).map(digit).collect();
        return key?.try_into().ok();
    }
    STANDARD.decode(text).or_else(|_| URL_SAFE.decode(text)).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_key() {
        let key: [u8; BYTES] = std::array::from_fn(|at| at as u8 * 7);
        let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        for text in [hex.clone(), format!("{hex}\n"), STANDARD.encode(key), format!(" {}\r\n", URL_SAFE.encode(key))] {
            assert_eq!(key_in(text.as_bytes()), Some(key), "{text}");
        }
        assert_eq!(key_in(&key), Some(key));
        for bad in [&b""[..], b"password", &[0; 31], &[0; 33], &hex.as_bytes()[1..], b"zz"] {
            assert_eq!(key_in(bad), None, "{bad:?}");
        }
    }
}

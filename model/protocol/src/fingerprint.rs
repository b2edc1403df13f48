//! Digests, and the fingerprint that tells whether two calls have the same arguments.

use core::fmt;
use core::str::FromStr;

use sha2::{Digest as _, Sha256};

use crate::canonical::{CanonicalError, canonicalize};

/// The SHA-256 of arguments: equal for two JSON documents exactly when their [canonical forms](crate::canonical) are.
///
/// # Errors
///
/// [`CanonicalError`] if the arguments are not one strict JSON document.
pub fn fingerprint(arguments: &[u8]) -> Result<Digest, CanonicalError> {
    canonicalize(arguments).map(|canonical| Digest::of(&canonical))
}

/// A SHA-256. Shown, read and (in formats for people, such as JSON) serialized as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of the bytes as they are.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The digest of a list of parts, each preceded by its length in bytes (64 bits, big-endian), so that moving a
    /// boundary between parts changes it.
    pub fn of_parts(parts: &[&[u8]]) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        Self(hash.finalize().into())
    }

    /// The digest with these bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The digest's bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The first 12 hexadecimal digits: enough to tell digests apart in a trace.
impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digest(")?;
        let mut head = self.0.iter().take(6);
        head.try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str("…)")
    }
}

/// A text is not a digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DigestError {
    /// The text has another length, in bytes.
    #[error("a digest has 64 hexadecimal digits, this text has {0} bytes; copy it whole")]
    Length(usize),
    /// The byte at this offset is not a hexadecimal digit.
    #[error("a digest has 64 hexadecimal digits, byte {0} of this text is none")]
    NotHexadecimal(usize),
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        if text.len() != 64 {
            return Err(DigestError::Length(text.len()));
        }
        let mut bytes = [0; 32];
        for (at, digit) in text.bytes().enumerate() {
            let value = char::from(digit).to_digit(16).ok_or(DigestError::NotHexadecimal(at))?;
            bytes[at / 2] = bytes[at / 2] << 4 | value as u8;
        }
        Ok(Self(bytes))
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() { serializer.collect_str(self) } else { self.0.serialize(serializer) }
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            let text = alloc::string::String::deserialize(deserializer)?;
            text.parse().map_err(serde::de::Error::custom)
        } else {
            serde::Deserialize::deserialize(deserializer).map(Self)
        }
    }
}

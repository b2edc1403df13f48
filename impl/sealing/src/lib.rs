//! Encryption of what is kept, and digests that nobody can make without a key.
//!
//! ChaCha20-Poly1305, with a key of its own for each thing, derived by HKDF-SHA-256 from a master key and a random salt, and
//! bound to what the thing belongs to.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod keys;
mod seal;

pub use keys::{KeyFileError, KeyFiles, Keys, Master};
pub use seal::{open, seal};

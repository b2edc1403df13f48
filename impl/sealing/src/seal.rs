//! Encryption of one thing: ChaCha20-Poly1305 with a key of its own, derived by HKDF-SHA-256 from the master key and a random
//! salt, so that no number of things is too many for one key.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use settled_protocol::Digest;

use crate::keys::Master;

/// How many bytes the random salt has.
const SALT: usize = 32;

/// Each key is used once, so its nonce need not differ.
const NONCE: [u8; 12] = [0; 12];

/// The salt and the encrypted bytes in Base64; `None`: there is no randomness to be had.
pub fn seal(master: &Master, mut bytes: Vec<u8>, bound_to: &[&[u8]]) -> Option<String> {
    let mut salt = [0; SALT];
    SystemRandom::new().fill(&mut salt).ok()?;
    let bound_to = Digest::of_parts(bound_to);
    derived(master, &salt)?.seal_in_place_append_tag(nonce(), Aad::from(bound_to.as_bytes()), &mut bytes).ok()?;
    Some(STANDARD.encode([&salt[..], &bytes].concat()))
}

/// The bytes again; `None`: it is something else, or bound to something else.
pub fn open(master: &Master, sealed: &str, bound_to: &[&[u8]]) -> Option<Vec<u8>> {
    let bytes = STANDARD.decode(sealed).ok()?;
    let (salt, encrypted) = bytes.split_first_chunk::<SALT>()?;
    let mut encrypted = encrypted.to_vec();
    let bound_to = Digest::of_parts(bound_to);
    let key = derived(master, salt)?;
    let length = key.open_in_place(nonce(), Aad::from(bound_to.as_bytes()), &mut encrypted).ok()?.len();
    encrypted.truncate(length);
    Some(encrypted)
}

fn derived(master: &Master, salt: &[u8; SALT]) -> Option<LessSafeKey> {
    let info: [&[u8]; 1] = [salt];
    let key = master.secret().expand(&info, &CHACHA20_POLY1305).ok()?;
    Some(LessSafeKey::new(UnboundKey::from(key)))
}

fn nonce() -> Nonce {
    Nonce::assume_unique_for_key(NONCE)
}

//! What is kept of confidential calls: parameters with parts that are encrypted or left out, and encrypted answers.
//!
//! Only what goes to the ledger and the history is changed; what is sent to the tool is what the client sent, byte for byte. The
//! text that is kept stays JSON: each hidden part is replaced by a word, and a member at the end holds all of the hidden parts,
//! encrypted together and bound to the operation's key and to the rest of the text.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use settled::{Answer, Answered, Entry};
use settled_protocol::{Key, KeyError};

use crate::config::{ArgumentPath, Confidential, Encrypt, EncryptionConfig};
use crate::guarded::keys::CallKey;
use crate::messages::splice::{self, quoted};

pub use settled_sealing::KeyFileError;

use settled_sealing::{self as seal, Keys};

/// The member that holds what is hidden, in parameters and in place of answers. No client can send it.
pub(crate) const MEMBER: &str = "io.settled/at-rest";

/// Stands for what is encrypted.
const ENCRYPTED: &str = "\"(encrypted)\"";

/// Members of a call that are hidden with its arguments: they can repeat them.
const WITH_THE_ARGUMENTS: [&str; 2] = ["inputResponses", "requestState"];

/// Members that are hidden by `encrypt = ["*"]`.
const EVERYTHING: [&str; 4] = ["arguments", "inputResponses", "requestState", "_meta"];

/// How a confidential call is kept, and read again.
#[derive(Clone, Default)]
pub(crate) struct Secrets {
    keys: Option<Arc<Keys>>,
}

/// Why something that was kept can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unreadable {
    #[error(
        "it is encrypted with the key {0}, which [encryption] does not name: add that key's file to `old_key_files` in \
         settled.toml"
    )]
    NoSuchKey(String),
    #[error("it can't be decrypted: it is damaged, or was moved here from another operation")]
    Damaged,
    #[error("parts of it were not kept (`redact`)")]
    Redacted,
}

/// Nothing can be encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the system has no randomness to encrypt with")]
pub(crate) struct NoRandomness;

/// The member's value.
#[derive(Serialize, Deserialize)]
struct Sealed<'a> {
    /// Which key it is encrypted with.
    #[serde(borrow)]
    key: Cow<'a, str>,
    /// Which key the digests were made with.
    digest: Cow<'a, str>,
    /// What is hidden.
    data: Cow<'a, str>,
}

/// A part of a text that is hidden: where its word stands in the text that is kept, and how long that is; `None`: not kept.
#[derive(Serialize, Deserialize)]
struct Hidden<'a>(usize, usize, #[serde(borrow)] Option<Cow<'a, str>>);

impl Secrets {
    /// With the keys that are configured.
    ///
    /// # Errors
    /// [`KeyFileError`], if one can't be read or is none.
    pub(crate) fn open(config: Option<&EncryptionConfig>) -> Result<Secrets, KeyFileError> {
        Ok(Secrets { keys: config.map(Keys::read).transpose()?.map(Arc::new) })
    }

    /// A confidential call's key and fingerprint, from which nothing can be guessed of its arguments without the key of
    /// digests. The caller's own key stays as it is.
    ///
    /// # Errors
    /// [`KeyError`], if there can't be such a key, which does not happen.
    pub(crate) fn renamed(&self, found: CallKey, confidential: &Confidential) -> Result<CallKey, KeyError> {
        let Some(keys) = self.keys.as_ref().filter(|_| confidential.is_any()) else { return Ok(found) };
        let key = match found.origin.is_callers_own() {
            true => found.key,
            false => {
                let id = keys.digest(&[b"id", found.key.tool().as_bytes(), found.key.id().as_bytes()]);
                Key::new(found.key.scope(), found.key.tool(), format!("keyed:{id}"))?
            }
        };
        let fingerprint = keys.digest(&[b"fingerprint", key.tool().as_bytes(), found.fingerprint.as_bytes()]);
        Ok(CallKey { key, fingerprint, ..found })
    }

    /// How a call's parameters are kept.
    ///
    /// # Errors
    /// [`NoRandomness`], and then nothing may be sent: it could not be recorded.
    pub(crate) fn keep(&self, key: &Key, params: &str, confidential: &Confidential) -> Result<Bytes, NoRandomness> {
        let Some(keys) = self.keys.as_ref().filter(|_| confidential.is_any()) else {
            return Ok(Bytes::from(params.to_owned()));
        };
        let (text, hidden) = hide(params, confidential, keys, key);
        let inner = serde_json::to_vec(&hidden).unwrap_or_default();
        let sealed = sealed(keys, &[b"params", key.to_string().as_bytes(), text.as_bytes()], inner)?;
        // It is an object with a name at least: otherwise it would be no call.
        let end = text.rfind('}').unwrap_or(text.len());
        let (head, tail) = text.split_at_checked(end).unwrap_or((&text, ""));
        Ok(Bytes::from(format!("{head},\"{MEMBER}\":{sealed}{tail}")))
    }

    /// The parameters as they came.
    ///
    /// # Errors
    /// [`Unreadable`], and then nothing may be sent.
    pub(crate) fn read<'a>(&self, key: &Key, kept: &'a str) -> Result<Cow<'a, str>, Unreadable> {
        let (text, hidden_all) = self.reveal(key, kept)?;
        if hidden_all { Ok(text) } else { Err(Unreadable::Redacted) }
    }

    /// The parameters as far as they can be read, to be compared or shown.
    pub(crate) fn read_what_is_there<'a>(&self, key: &Key, kept: &'a str) -> Cow<'a, str> {
        self.reveal(key, kept).map_or(Cow::Borrowed(kept), |(text, _)| text)
    }

    /// The text, and whether all of it is there.
    fn reveal<'a>(&self, key: &Key, kept: &'a str) -> Result<(Cow<'a, str>, bool), Unreadable> {
        let Some(member) = sealed_member(kept) else { return Ok((Cow::Borrowed(kept), true)) };
        let start = offset(kept, member.name()).checked_sub(1).ok_or(Unreadable::Damaged)?;
        let end = offset(kept, member.value) + member.value.len();
        let (Some(head), Some(tail)) = (kept.get(..start), kept.get(end..)) else { return Err(Unreadable::Damaged) };
        let text = format!("{head}{tail}");
        let inner = self.unsealed(member.value, &[b"params", key.to_string().as_bytes(), text.as_bytes()])?;
        let hidden: Vec<Hidden<'_>> = serde_json::from_slice(&inner).map_err(|_| Unreadable::Damaged)?;
        let mut whole = String::with_capacity(text.len() + inner.len());
        let (mut at, mut all) = (0, true);
        for Hidden(start, length, original) in &hidden {
            whole.push_str(text.get(at..*start).ok_or(Unreadable::Damaged)?);
            at = start + length;
            match original {
                Some(original) => whole.push_str(original),
                None => {
                    all = false;
                    whole.push_str(text.get(*start..at).ok_or(Unreadable::Damaged)?);
                }
            }
        }
        whole.push_str(text.get(at..).ok_or(Unreadable::Damaged)?);
        Ok((Cow::Owned(whole), all))
    }

    /// How an answer is kept.
    pub(crate) fn keep_answer(&self, key: &Key, body: Bytes, confidential: &Confidential) -> Bytes {
        match self.keys.as_ref().filter(|_| confidential.is_any()) {
            None => body,
            Some(keys) => match sealed(keys, &[b"answer", key.to_string().as_bytes()], body.to_vec()) {
                Ok(sealed) => Bytes::from(format!("{{\"{MEMBER}\":{sealed}}}")),
                Err(NoRandomness) => {
                    tracing::error!(%key, "an answer could not be encrypted, so it is not kept: {NoRandomness}");
                    Bytes::from_static(b"The tool's own answer could not be encrypted, so it was not kept.")
                }
            },
        }
    }

    /// The answer as it came.
    ///
    /// # Errors
    /// [`Unreadable`]. That it came is known nevertheless.
    pub(crate) fn read_answer(&self, key: &Key, kept: &Bytes) -> Result<Bytes, Unreadable> {
        let begins_so = kept.strip_prefix(b"{\"").is_some_and(|rest| rest.starts_with(MEMBER.as_bytes()));
        let sealed = match str::from_utf8(kept) {
            Ok(text) if begins_so => splice::get(text, MEMBER),
            _ => None,
        };
        let Some(sealed) = sealed else { return Ok(kept.clone()) };
        self.unsealed(sealed, &[b"answer", key.to_string().as_bytes()]).map(Bytes::from)
    }

    /// An answer that can be shown. Of one that can't be read, words say why: that it came is known nevertheless.
    pub(crate) fn readable(&self, mut answered: Answered) -> Answered {
        let Answered { key, answer, .. } = &mut answered;
        match answer {
            Answer::Done { result, .. } => *result = self.shown(key, result),
            Answer::Failed { error: Some(error), .. } | Answer::Unknown { error: Some(error), .. } => {
                *error = self.shown(key, error);
            }
            Answer::Failed { error: None, .. }
            | Answer::Unknown { error: None, .. }
            | Answer::InProgress
            | Answer::Conflict
            | Answer::Expired => {}
        }
        answered
    }

    /// An entry whose parameters and answer can be shown, as far as they can be read.
    pub(crate) fn readable_entry(&self, mut entry: Entry) -> Entry {
        let key = entry.key.clone();
        for kept in [Some(&mut entry.asked), entry.sent.as_mut()].into_iter().flatten() {
            if let Ok(text) = str::from_utf8(kept)
                && let Cow::Owned(text) = self.read_what_is_there(&key, text)
            {
                *kept = text.into();
            }
        }
        if let Some(outcome) = &mut entry.outcome {
            *outcome = self.shown(&key, outcome);
        }
        entry
    }

    fn shown(&self, key: &Key, kept: &Bytes) -> Bytes {
        self.read_answer(key, kept).unwrap_or_else(|problem| {
            tracing::error!(%key, "a recorded answer can't be read: {problem}");
            format!("The tool's own answer was recorded, but {problem}.").into()
        })
    }

    fn unsealed(&self, sealed: &str, bound_to: &[&[u8]]) -> Result<Vec<u8>, Unreadable> {
        let sealed: Sealed<'_> = serde_json::from_str(sealed).map_err(|_| Unreadable::Damaged)?;
        let missing = || Unreadable::NoSuchKey(sealed.key.clone().into_owned());
        let master = self.keys.as_ref().and_then(|keys| keys.named(&sealed.key)).ok_or_else(missing)?;
        seal::open(master, &sealed.data, bound_to).ok_or(Unreadable::Damaged)
    }

    /// Which keys something that was kept needs and are not there: the one it is encrypted with, or the one of the digests that it
    /// is recognised by. `None`: it is not encrypted, or they are there.
    pub(crate) fn lacks(&self, kept: &Bytes) -> Option<Lacks> {
        let text = str::from_utf8(kept).ok()?;
        let sealed: Sealed<'_> = serde_json::from_str(sealed_member(text)?.value).ok()?;
        let keys = self.keys.as_ref();
        if keys.and_then(|keys| keys.named(&sealed.key)).is_none() {
            return Some(Lacks::Key(sealed.key.into_owned()));
        }
        let same = keys.is_some_and(|keys| keys.digest_id() == sealed.digest);
        (!same).then(|| Lacks::DigestKey(sealed.digest.into_owned()))
    }
}

/// What is missing to go on with what a ledger holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Lacks {
    /// A key that something is encrypted with.
    Key(String),
    /// The key of digests.
    DigestKey(String),
}

/// Whether a client's parameters have the member that only this module writes.
pub(crate) fn is_forged(params: &str) -> bool {
    splice::get(params, MEMBER).is_some()
}

/// The member, if the text has it.
fn sealed_member(text: &str) -> Option<splice::Member<'_>> {
    if !text.contains(MEMBER) {
        return None;
    }
    splice::find(&splice::members(text)?, MEMBER)
}

fn sealed(keys: &Keys, bound_to: &[&[u8]], inner: Vec<u8>) -> Result<String, NoRandomness> {
    let master = keys.current();
    let data = seal::seal(master, inner, bound_to).ok_or(NoRandomness)?;
    let sealed = Sealed { key: master.id().into(), digest: keys.digest_id().into(), data: data.into() };
    serde_json::to_string(&sealed).map_err(|_| NoRandomness)
}

/// What is to become of a part.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Encrypted,
    Redacted,
}

/// The text with words in the place of what is hidden, and what that was.
fn hide<'a>(params: &'a str, confidential: &Confidential, keys: &Keys, key: &Key) -> (String, Vec<Hidden<'a>>) {
    let mut parts = parts(params, confidential);
    parts.sort_by_key(|(range, _)| range.start);
    let mut text = String::with_capacity(params.len());
    let (mut hidden, mut at) = (Vec::with_capacity(parts.len()), 0);
    for (range, fate) in parts {
        let (Some(before), Some(part)) = (params.get(at..range.start), params.get(range.clone())) else { continue };
        text.push_str(before);
        let word = match fate {
            Fate::Encrypted => ENCRYPTED.to_owned(),
            Fate::Redacted => {
                let canonical = settled_protocol::canonicalize(part.as_bytes()).unwrap_or_else(|_| part.into());
                let digest = keys.digest(&[b"redacted", key.tool().as_bytes(), &canonical]).to_string();
                quoted(&format!("(redacted {})", digest.get(..16).unwrap_or(&digest)))
            }
        };
        let original = (fate == Fate::Encrypted).then_some(Cow::Borrowed(part));
        hidden.push(Hidden(text.len(), word.len(), original));
        text.push_str(&word);
        at = range.end;
    }
    text.push_str(params.get(at..).unwrap_or_default());
    (text, hidden)
}

/// What is to be hidden, and where it stands.
fn parts(params: &str, confidential: &Confidential) -> Vec<(Range<usize>, Fate)> {
    let members = splice::members(params).unwrap_or_default();
    // Of several members of one name the last one counts, but all of them are kept.
    let values =
        |name: &str| members.iter().filter(|member| member.is(name)).map(|member| member.value).collect::<Vec<_>>();
    let (whole, encrypted): (&[&str], &[ArgumentPath]) = match &confidential.encrypt {
        Encrypt::Everything => (&EVERYTHING, &[]),
        Encrypt::Arguments(paths) => (&WITH_THE_ARGUMENTS, paths),
        Encrypt::Nothing => (&WITH_THE_ARGUMENTS, &[]),
    };
    let mut parts: Vec<(Range<usize>, Fate)> = Vec::new();
    for arguments in values("arguments") {
        for (paths, fate) in [(encrypted, Fate::Encrypted), (confidential.redact.as_slice(), Fate::Redacted)] {
            for path in paths {
                places(arguments, path.steps(), &mut |part| parts.push((range(params, part), fate)));
            }
        }
    }
    for name in whole {
        for value in values(name) {
            parts.push((range(params, value), Fate::Encrypted));
        }
    }
    parts
}

/// Finds every value at a place. A list on the way stands for each of its elements, unless the place names one by its number.
fn places<'a>(value: &'a str, steps: &[String], found: &mut impl FnMut(&'a str)) {
    let Some((step, rest)) = steps.split_first() else { return found(value) };
    if let Some(members) = splice::members(value) {
        for member in members.iter().filter(|member| member.is(step)) {
            places(member.value, rest, found);
        }
    } else if let Some(elements) = splice::elements(value) {
        match step.parse::<usize>() {
            Ok(place) => {
                if let Some(element) = elements.get(place) {
                    places(element, rest, found);
                }
            }
            Err(_) => elements.iter().for_each(|element| places(element, steps, found)),
        }
    }
}

fn range(text: &str, part: &str) -> Range<usize> {
    let start = offset(text, part);
    start..start + part.len()
}

/// Where a part of a text begins in it.
fn offset(text: &str, part: &str) -> usize {
    (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize)
}

#[cfg(test)]
mod tests;

//! Idempotency keys: the name under which an operation happens at most once.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Write as _};
use core::str::FromStr;

use crate::fingerprint::Digest;

/// The longest a part of a key may be, in bytes of UTF-8.
pub const MAX_PART_BYTES: usize = 1024;

/// The longest readable [`composite_id`], in bytes.
pub const MAX_READABLE_BYTES: usize = 256;

/// An idempotency key: `scope / tool / id`.
///
/// Each part has 1 to [`MAX_PART_BYTES`] bytes and no control characters. Keys are ordered by scope, tool, id, each by
/// its bytes. The text form (`Display`, `FromStr`) is one per key: `scope/tool/id`, where in each part `%`, `/` and
/// whatever is not a visible ASCII character is written as the `%XX` of its UTF-8 bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "Unchecked"))]
pub struct Key {
    scope: String,
    tool: String,
    id: String,
}

/// A part of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// What separates tenants, sessions and workflows.
    Scope,
    /// The tool's name.
    Tool,
    /// What names the operation within scope and tool.
    Id,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scope => "scope",
            Self::Tool => "tool",
            Self::Id => "id",
        })
    }
}

/// The parts do not make a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The part is empty.
    #[error("the key's {0} is empty; give it at least one character")]
    Empty(Part),
    /// The part is longer than [`MAX_PART_BYTES`].
    #[error("the key's {part} has {bytes} bytes, more than {MAX_PART_BYTES}; shorten it, or use a digest of it")]
    TooLong {
        /// Which part.
        part: Part,
        /// Its length in bytes.
        bytes: usize,
    },
    /// The part contains a control character.
    #[error("the key's {part} has a control character at byte {offset}; leave it out or encode it")]
    ControlCharacter {
        /// Which part.
        part: Part,
        /// Where in the part, in bytes from its start.
        offset: usize,
    },
}

impl Key {
    /// The key with these parts.
    ///
    /// # Errors
    ///
    /// [`KeyError`] if a part is empty, longer than [`MAX_PART_BYTES`] or contains a control character.
    pub fn new(scope: impl Into<String>, tool: impl Into<String>, id: impl Into<String>) -> Result<Self, KeyError> {
        let key = Self { scope: scope.into(), tool: tool.into(), id: id.into() };
        check(Part::Scope, &key.scope)?;
        check(Part::Tool, &key.tool)?;
        check(Part::Id, &key.id)?;
        Ok(key)
    }

    /// What separates tenants, sessions and workflows.
    pub fn scope(&self) -> &str {
        &self.scope
    }

    /// The tool's name.
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// What names the operation within scope and tool.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The digest of the three parts, each preceded by its length.
    pub fn digest(&self) -> Digest {
        Digest::of_parts(&[self.scope.as_bytes(), self.tool.as_bytes(), self.id.as_bytes()])
    }
}

fn check(part: Part, text: &str) -> Result<(), KeyError> {
    if text.is_empty() {
        return Err(KeyError::Empty(part));
    }
    if text.len() > MAX_PART_BYTES {
        let bytes = text.len();
        return Err(KeyError::TooLong { part, bytes });
    }
    match text.find(char::is_control) {
        Some(offset) => Err(KeyError::ControlCharacter { part, offset }),
        None => Ok(()),
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        encode(f, &self.scope)?;
        f.write_char('/')?;
        encode(f, &self.tool)?;
        f.write_char('/')?;
        encode(f, &self.id)
    }
}

/// Whether a byte stands for itself in the text form.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_graphic() && byte != b'%' && byte != b'/'
}

fn encode(f: &mut fmt::Formatter<'_>, part: &str) -> fmt::Result {
    for byte in part.bytes() {
        if is_plain(byte) {
            f.write_char(char::from(byte))?;
        } else {
            write!(f, "%{byte:02X}")?;
        }
    }
    Ok(())
}

/// A text is not the text form of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseKeyError {
    /// The text does not have three parts.
    #[error("a key is written scope/tool/id, this text has {0} parts; write a slash inside a part as %2F")]
    Parts(usize),
    /// A character must be written as `%XX`.
    #[error("the key's {part} has a character at byte {offset} that must be written as %XX")]
    Unescaped {
        /// Which part.
        part: Part,
        /// Where in the part's text, in bytes from its start.
        offset: usize,
    },
    /// A `%` is not followed by two hexadecimal digits in upper case, or stands for a character that needs no escape.
    #[error(
        "the key's {part} has a % at byte {offset} that is no escape: write two upper-case hexadecimal digits \
         after it, escape only what needs it, and write % itself as %25"
    )]
    Escape {
        /// Which part.
        part: Part,
        /// Where in the part's text, in bytes from its start.
        offset: usize,
    },
    /// The escapes do not spell UTF-8.
    #[error("the key's {0} is not UTF-8 once its escapes are read; escape the bytes of UTF-8")]
    NotUtf8(Part),
    /// The parts do not make a key.
    #[error(transparent)]
    Key(#[from] KeyError),
}

/// Accepts exactly what `Display` writes.
impl FromStr for Key {
    type Err = ParseKeyError;

    fn from_str(text: &str) -> Result<Self, ParseKeyError> {
        let mut parts = text.split('/');
        let (Some(scope), Some(tool), Some(id), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
            return Err(ParseKeyError::Parts(text.split('/').count()));
        };
        let key = Self::new(decode(Part::Scope, scope)?, decode(Part::Tool, tool)?, decode(Part::Id, id)?)?;
        Ok(key)
    }
}

fn decode(part: Part, text: &str) -> Result<String, ParseKeyError> {
    let text = text.as_bytes();
    let mut bytes = Vec::with_capacity(text.len());
    let mut offset = 0;
    while let Some(&byte) = text.get(offset) {
        if is_plain(byte) {
            bytes.push(byte);
            offset += 1;
        } else if byte == b'%' {
            let escaped = text.get(offset + 1..offset + 3).and_then(escaped_byte).filter(|byte| !is_plain(*byte));
            bytes.push(escaped.ok_or(ParseKeyError::Escape { part, offset })?);
            offset += 3;
        } else {
            return Err(ParseKeyError::Unescaped { part, offset });
        }
    }
    String::from_utf8(bytes).map_err(|_| ParseKeyError::NotUtf8(part))
}

fn escaped_byte(digits: &[u8]) -> Option<u8> {
    digits.iter().try_fold(0, |byte, digit| match digit {
        b'0'..=b'9' => Some(byte << 4 | (digit - b'0')),
        b'A'..=b'F' => Some(byte << 4 | (digit - b'A' + 10)),
        _ => None,
    })
}

/// An id made of several parts: different lists of parts give different ids, whatever the parts contain, and every id
/// is fit for a [`Key`].
///
/// Each part is preceded by its length in bytes: `3:a|b,1:c`. A list that is empty, contains control characters or
/// would take more than [`MAX_READABLE_BYTES`] becomes `sha256:` and the [digest of its parts](Digest::of_parts).
pub fn composite_id<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let parts: Vec<&str> = parts.into_iter().collect();
    let bytes: usize = parts.iter().map(|part| part.len()).sum();
    let has_control = parts.iter().any(|part| part.contains(char::is_control));
    if !parts.is_empty() && !has_control && bytes <= MAX_READABLE_BYTES {
        let labelled: Vec<String> = parts.iter().map(|part| alloc::format!("{}:{part}", part.len())).collect();
        let id = labelled.join(",");
        if id.len() <= MAX_READABLE_BYTES {
            return id;
        }
    }
    let parts: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
    alloc::format!("sha256:{}", Digest::of_parts(&parts))
}

/// A key as it comes from outside, before its parts are checked.
#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
struct Unchecked {
    scope: String,
    tool: String,
    id: String,
}

#[cfg(feature = "serde")]
impl TryFrom<Unchecked> for Key {
    type Error = KeyError;

    fn try_from(key: Unchecked) -> Result<Self, KeyError> {
        Self::new(key.scope, key.tool, key.id)
    }
}

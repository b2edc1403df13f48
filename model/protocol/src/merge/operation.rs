//! What a device did while nobody was asked.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::string::String;
use core::fmt;
use core::str::FromStr;

use super::clock::HybridTime;

/// An operation's name, given by its device before anything is sent, so that it is the same in every repeat: a UUID (RFC 9562),
/// version 7 if the device has no name of its own for it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "String", into = "String"))]
pub struct OpId([u8; 16]);

/// Text that is not a UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an operation's id is a UUID, 32 hexadecimal digits in groups of 8-4-4-4-12")]
pub struct NotAnOpId;

impl OpId {
    /// From the bytes of a UUID.
    pub const fn from_bytes(bytes: [u8; 16]) -> OpId {
        OpId(bytes)
    }

    /// A UUID of version 7 (RFC 9562, section 5.7): of this time, and with this randomness of which 74 bits are used.
    pub const fn version_7(millis: u64, random: u128) -> OpId {
        let mut bits = (millis as u128 & 0xffff_ffff_ffff) << 80;
        bits |= 7 << 76;
        bits |= (random >> 62 & 0xfff) << 64;
        bits |= 2 << 62;
        bits |= random & 0x3fff_ffff_ffff_ffff;
        OpId(bits.to_be_bytes())
    }

    /// Its bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for OpId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, byte) in self.0.iter().enumerate() {
            if matches!(place, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for OpId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for OpId {
    type Err = NotAnOpId;

    fn from_str(text: &str) -> Result<OpId, NotAnOpId> {
        if text.len() != 36 {
            return Err(NotAnOpId);
        }
        let mut bits = 0u128;
        for (place, byte) in text.bytes().enumerate() {
            if matches!(place, 8 | 13 | 18 | 23) {
                if byte != b'-' {
                    return Err(NotAnOpId);
                }
                continue;
            }
            let digit = char::from(byte).to_digit(16).ok_or(NotAnOpId)?;
            bits = bits << 4 | u128::from(digit);
        }
        Ok(OpId(bits.to_be_bytes()))
    }
}

impl TryFrom<String> for OpId {
    type Error = NotAnOpId;

    fn try_from(text: String) -> Result<OpId, NotAnOpId> {
        text.parse()
    }
}

impl From<OpId> for String {
    fn from(id: OpId) -> String {
        alloc::format!("{id}")
    }
}

/// A name that is part of an order: of a device, of a target, of a field. Not empty, without control characters, of at most
/// [`Name::MOST`] bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "String", into = "String"))]
pub struct Name(String);

/// Text that is no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a name has 1 to {most} bytes and no control characters", most = Name::MOST)]
pub struct NotAName;

impl Name {
    /// The most bytes of a name.
    pub const MOST: usize = 256;

    /// A name.
    ///
    /// # Errors
    /// If it is empty, too long, or has control characters.
    pub fn new(name: impl Into<String>) -> Result<Name, NotAName> {
        let name = name.into();
        let good = (1..=Name::MOST).contains(&name.len()) && !name.chars().any(char::is_control);
        if good { Ok(Name(name)) } else { Err(NotAName) }
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Name {
    type Error = NotAName;

    fn try_from(name: String) -> Result<Name, NotAName> {
        Name::new(name)
    }
}

impl From<Name> for String {
    fn from(name: Name) -> String {
        name.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A value, with a total order: null, then booleans, numbers, texts. Numbers are integers, so that all devices compare them alike.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(untagged))]
pub enum Value {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// An integer.
    Number(i64),
    /// A text, compared by its bytes.
    Text(String),
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Value {
        Value::Number(number)
    }
}

/// What an operation does to its target.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case", deny_unknown_fields))]
pub enum Change {
    /// Gives a register a value.
    Set(Value),
    /// Adds an element to a set.
    Add(Value),
    /// Removes an element from an add-wins set, as far as its additions were known to the device.
    Remove {
        /// The element.
        value: Value,
        /// The operations that had added it, as far as the device had seen.
        observed: BTreeSet<OpId>,
    },
    /// Counts up, or down.
    Count(i64),
    /// Changes one field of a map.
    Field(Name, Box<Change>),
}

/// An operation that a device made, perhaps offline.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Operation {
    /// Its name, the same in every repeat.
    pub op_id: OpId,
    /// The device that made it.
    pub device: Name,
    /// When, by the device's hybrid logical clock.
    pub time: HybridTime,
    /// What it is about.
    pub target: Name,
    /// What it does.
    pub change: Change,
}

/// What two operations are compared by: event time, then device, then name; never arrival.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Stamp {
    /// The event time.
    pub time: HybridTime,
    /// The device.
    pub device: Name,
    /// The name.
    pub op_id: OpId,
}

impl Operation {
    /// What it is compared by.
    pub fn stamp(&self) -> Stamp {
        Stamp { time: self.time, device: self.device.clone(), op_id: self.op_id }
    }
}

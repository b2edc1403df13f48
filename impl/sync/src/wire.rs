//! What a device and the server say to each other, as JSON over HTTP. `openapi.yaml` describes the same for other languages.

use serde::{Deserialize, Serialize};
use settled_protocol::merge::{HybridTime, Name, OpId, Operation, View};
use settled_protocol::record::Millis;

/// Where an operation stands among all that the server has: counts up by one, in the order in which operations were applied.
pub type Cursor = u64;

/// An operation on its way to the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// The operation.
    #[serde(flatten)]
    pub operation: Operation,
    /// The latest event time of others that its device had heard of when it made it. However an operation is dated, it comes after
    /// that.
    #[serde(default)]
    pub after: HybridTime,
}

/// `POST /v1/operations`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Upload {
    /// The device that sends them, and has made them.
    pub device: Name,
    /// The version of the schema that the device has.
    pub schema: u32,
    /// The device's wall clock, in milliseconds since 1970: how far it is off is found out by it.
    pub now: Millis,
    /// The operations, in the order in which they were made.
    pub operations: Vec<Sent>,
}

/// What the server has done with an upload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Uploaded {
    /// An answer for each operation, in their order.
    pub answers: Vec<Answer>,
    /// The cursor of the last operation that the server has.
    pub head: Cursor,
    /// The server's wall clock.
    pub now: Millis,
    /// What the server makes of the device's clock.
    pub clock: ClockCheck,
    /// How many operations the server takes at once.
    pub most: usize,
}

/// What became of one operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The operation.
    pub op_id: OpId,
    /// What became of it.
    #[serde(flatten)]
    pub is: Became,
}

/// What became of an operation. Whatever it is, it is so for good, and a repeat is told the same, but for
/// [`Held`](Became::Held).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum Became {
    /// It has been applied, now or before.
    Applied {
        /// Where it stands.
        cursor: Cursor,
        /// The event time that it has everywhere from now on.
        time: HybridTime,
        /// That is not the time that its device gave it: that device's clock is not believed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        redated: bool,
        /// It had been applied before.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        repeated: bool,
    },
    /// It will never be applied.
    Refused {
        /// Why.
        reason: Refusal,
        /// Why, in words.
        message: String,
    },
    /// It can't be applied yet: the server's schema is older than the device's. It is to be kept, and sent again later.
    Held {
        /// Why, in words.
        message: String,
    },
}

/// Why an operation will never be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Refusal {
    /// The change does not fit the target's rule, or there is no such target or field.
    Unfit,
    /// Another operation has this name.
    Conflict,
    /// It says that another device has made it.
    NotYours,
    /// It is larger than the server takes.
    TooLarge,
}

/// What the server makes of a device's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockCheck {
    /// How many milliseconds it is ahead of the server's; negative if behind. The time on the way is in it.
    pub ahead: i64,
    /// Whether it is believed: it is not off by more than `bound`.
    pub believed: bool,
    /// How far it may be off, in milliseconds.
    pub bound: Millis,
}

/// An operation that the server has applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applied {
    /// Where it stands.
    pub cursor: Cursor,
    /// It, with the event time that counts.
    #[serde(flatten)]
    pub operation: Operation,
    /// That is not the time that its device gave it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub redated: bool,
}

/// `GET /v1/operations?after=CURSOR&limit=N&wait=SECONDS`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pulled {
    /// The operations after the cursor, in order.
    pub operations: Vec<Applied>,
    /// What to ask for next: the cursor of the last of them, or the one that was given.
    pub cursor: Cursor,
    /// The cursor of the last operation that the server has.
    pub head: Cursor,
}

/// A target's state: `GET /v1/targets/{target}`, and each of `GET /v1/targets`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// The target.
    pub target: Name,
    /// Its state.
    pub view: View,
    /// The last operation that was applied to it.
    pub cursor: Cursor,
}

/// `GET /v1/targets?prefix=…&after=…&limit=…`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Targets {
    /// The targets, by name.
    pub targets: Vec<Target>,
    /// Whether there are more.
    pub more: bool,
}

/// A device that the server has heard of: each of `GET /v1/devices`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceSeen {
    /// The device.
    pub device: Name,
    /// When it was heard of last, by the server's clock.
    pub seen: Millis,
    /// How far its clock was ahead then.
    pub ahead: i64,
    /// Whether that was believed.
    pub believed: bool,
    /// How many of its operations were applied.
    pub applied: u64,
    /// How many of these were redated.
    pub redated: u64,
}

/// `GET /v1/devices?after=…&limit=…`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Devices {
    /// The devices, by name.
    pub devices: Vec<DeviceSeen>,
    /// Whether there are more.
    pub more: bool,
}

/// The server is there, and its store can be read: `GET /v1/health`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// The cursor of the last operation that the server has.
    pub head: Cursor,
    /// The server's wall clock.
    pub now: Millis,
    /// The version of its schema.
    pub schema: u32,
}

/// An error: `application/problem+json` (RFC 9457).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// `urn:settled:sync:` and a word.
    #[serde(rename = "type")]
    pub kind: String,
    /// In a few words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What to do.
    pub detail: String,
}

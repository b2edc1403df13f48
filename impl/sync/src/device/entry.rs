//! The entries of a device's log. Its state is the fold over them.

use serde::{Deserialize, Serialize};
use settled_protocol::merge::Name;

use super::replica::Replica;
use crate::schema::Schema;
use crate::wire::{Answer, Applied, Cursor, Sent};

/// One thing that has happened to a device.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Entry {
    /// It was made.
    Begun {
        /// Its name.
        name: Name,
        /// Its first schema.
        schema: Schema,
    },
    /// It got a later schema.
    Schema(Schema),
    /// It did something.
    Made(Vec<Sent>),
    /// The server answered.
    Uploaded(Vec<Answer>),
    /// The server told what it has.
    Pulled {
        /// Operations, in the server's order.
        operations: Vec<Applied>,
        /// Up to where.
        cursor: Cursor,
    },
    /// What was pulled was dropped, since the server has less than it had.
    StartedOver,
    /// Somebody has seen what was refused.
    RefusedSeen,
    /// All that the entries before this one lead to.
    Whole(Box<Replica>),
}

impl Entry {
    /// Its bytes.
    pub(crate) fn write(&self) -> Vec<u8> {
        // Only a map with keys that are no texts could fail, and there is none.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// From its bytes.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(bytes)
    }
}

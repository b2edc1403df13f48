//! What happened, line by line: for people, for audits, and for checking a recorded run against the properties.

use std::borrow::Cow;

use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use settled_protocol::{Digest, Epoch, Key, Policy, Record, Time, Version};

use crate::ledger::Resource;

mod compact_policy;
mod taken;

pub use taken::{Taken, ToDo};

/// The version of the format that [`HistoryLine`] is written in.
pub const HISTORY_VERSION: u32 = 2;

/// Takes down what happens. Lines of one key come in the order in which this process saw them.
pub trait History: Send + Sync + 'static {
    /// Takes down a line. Called in the middle of calls: must not block for long.
    fn record(&self, line: &HistoryLine);

    /// Whether lines are wanted at all; if not, none is made.
    fn wanted(&self) -> bool {
        true
    }
}

/// Takes down nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHistory;

impl History for NoHistory {
    fn record(&self, _line: &HistoryLine) {}

    fn wanted(&self) -> bool {
        false
    }
}

/// One thing that happened. As JSON it is one object: `{"v":2,"at":…,"by":…,"run":…,"n":…,"key":…,"event":"sent",…}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryLine {
    /// The version of this format: [`HISTORY_VERSION`].
    pub v: u32,
    /// When, by the clock of the process that saw it.
    pub at: Time,
    /// The ownership of that process.
    pub by: Epoch,
    /// The first ownership of that process, which names it: it goes on under others when it is fenced.
    pub run: Epoch,
    /// The line's number among those of that process, from 1: what came first has the smaller one, and a missing one is a
    /// line that was lost. 0: it was put in by whoever writes the lines down.
    pub n: u64,
    /// The operation's key; none where the line is about the process itself.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "key_text")]
    pub key: Option<Key>,
    /// What happened.
    #[serde(flatten)]
    pub what: Happened,
}

/// What happened. Generation and attempt are named wherever they are known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Happened {
    /// The process registered as an owner.
    Started,
    /// The process found that the lease of its ownership had run out: it has been fenced.
    Fenced {
        /// The ownership.
        epoch: Epoch,
    },
    /// The process gave up its ownership: it sends nothing any more.
    Retired {
        /// The ownership.
        epoch: Epoch,
    },
    /// An operation that waited for its resource was given up, unsent.
    GivenUp {
        /// Why.
        reason: String,
    },
    /// A caller asked.
    Asked {
        /// Names the call within its process.
        call: u64,
        /// Of the arguments.
        fingerprint: Digest,
        /// What the tool declares.
        #[serde(with = "compact_policy")]
        policy: Policy,
        /// The arguments asked with.
        arguments: Body,
    },
    /// A caller joined one who had asked before it.
    Joined {
        /// The call that joined.
        call: u64,
        /// Of the arguments.
        fingerprint: Digest,
    },
    /// A change became durable.
    Stored {
        /// The state's name after it.
        state: Cow<'static, str>,
        /// The event that led to it.
        because: Cow<'static, str>,
        /// The version that it replaced; `None`: it claimed the key.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expected: Option<Version>,
        /// What was stored.
        record: Box<Record<Digest>>,
        /// What a new operation must have to itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resource: Option<Resource>,
        /// The step that led to it.
        step: Box<Taken>,
    },
    /// A compare-and-set was refused: someone else was there first.
    Refused {
        /// The version that was to be stored.
        version: Version,
        /// The event that led to it.
        because: String,
    },
    /// An attempt was not handed to the tool: its process had been fenced, or its time was over.
    Withheld {
        /// Which operation under the key.
        generation: u32,
        /// The attempt.
        attempt: u32,
        /// The ownership under which it was to be sent.
        epoch: Epoch,
    },
    /// An attempt was handed to the tool.
    Sent {
        /// Which operation under the key.
        generation: u32,
        /// The attempt.
        attempt: u32,
        /// The ownership under which it was sent.
        epoch: Epoch,
        /// What led to it, if it is not the first one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        because: Option<String>,
        /// The arguments really sent.
        arguments: Body,
    },
    /// The tool answered.
    Replied {
        /// Which operation under the key.
        generation: u32,
        /// The attempt.
        attempt: u32,
        /// `result`, `not run`, `busy` or `error`.
        reply: String,
        /// Of the body.
        digest: Digest,
    },
    /// An answer could not be waited for any longer.
    Lost {
        /// Which operation under the key.
        generation: u32,
        /// The attempt.
        attempt: u32,
        /// `timed out` or `connection lost`.
        how: String,
    },
    /// The tool was asked whether an attempt was applied.
    Observed {
        /// Which operation under the key.
        generation: u32,
        /// The attempt.
        attempt: u32,
        /// `applied`, `not applied`, `sealed` or `unclear`.
        seen: String,
        /// Whether "not applied" counted.
        conclusive: bool,
    },
    /// A caller was answered.
    Answered {
        /// The call that is answered.
        call: u64,
        /// Which operation under the key; 0 if none.
        generation: u32,
        /// `done`, `failed`, `unknown`, `in progress`, `conflict`, `expired` or `not sent`.
        answer: String,
        /// Of the body, if there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        digest: Option<Digest>,
        /// Whether it is told of an earlier call's attempt.
        replayed: bool,
    },
    /// A person was alerted.
    Escalated {
        /// Which operation under the key.
        generation: u32,
    },
    /// A person decided.
    Decided {
        /// Which operation under the key.
        generation: u32,
        /// `succeeded`, `failed` or `abandoned`.
        verdict: String,
        /// What the person wrote.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    /// An answer is known to have reached a caller.
    Delivered {
        /// Which operation under the key.
        generation: u32,
        /// From when on that counts; later than `at` if the caller may have given up.
        from: Time,
    },
    /// What an earlier process left was taken up.
    Recovered {
        /// Which operation under the key.
        generation: u32,
        /// The state's name then.
        state: String,
    },
    /// The record was removed after its window.
    Expired {
        /// Its version.
        version: Version,
        /// The step that led to it.
        step: Box<Taken>,
    },
    /// Lines are missing here: they came faster than they could be written.
    Gap {
        /// How many.
        lines: u64,
    },
}

/// Arguments in a history: a JSON string where they are UTF-8, else `{"hex": …}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body(pub Bytes);

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum BodyText {
    Text(String),
    Hex { hex: String },
}

impl Serialize for Body {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => {
                let hex = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
                BodyText::Hex { hex }.serialize(serializer)
            }
        }
    }
}

impl<'de> Deserialize<'de> for Body {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match BodyText::deserialize(deserializer)? {
            BodyText::Text(text) => Ok(Body(Bytes::from(text))),
            BodyText::Hex { hex } => {
                let digits: Option<Vec<u8>> =
                    hex.chars().map(|digit| digit.to_digit(16).map(|value| value as u8)).collect();
                match digits {
                    Some(digits) if digits.len() % 2 == 0 => {
                        Ok(Body(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()))
                    }
                    _ => Err(serde::de::Error::custom("`hex` is not an even number of hexadecimal digits")),
                }
            }
        }
    }
}

/// Keys in their text form, as people give them to the command line.
mod key_text {
    use serde::{Deserialize, Deserializer, Serializer};
    use settled_protocol::Key;

    pub(super) fn serialize<S: Serializer>(key: &Option<Key>, serializer: S) -> Result<S::Ok, S::Error> {
        match key {
            Some(key) => serializer.collect_str(key),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Key>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| text.parse().map_err(serde::de::Error::custom)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(arguments: &'static [u8]) -> HistoryLine {
        HistoryLine {
            v: HISTORY_VERSION,
            at: Time(5),
            by: Epoch(2),
            run: Epoch(1),
            n: 9,
            key: Some(Key::new("shop", "charge", "order 7").unwrap()),
            what: Happened::Sent {
                generation: 1,
                attempt: 3,
                epoch: Epoch(2),
                because: None,
                arguments: Body(Bytes::from_static(arguments)),
            },
        }
    }

    #[test]
    fn a_line_is_one_json_object_that_reads_back() {
        for arguments in [&b"{\"a\":\n1}"[..], b"\xff\x00"] {
            let text = serde_json::to_string(&line(arguments)).unwrap();
            assert!(!text.contains('\n'));
            assert_eq!(serde_json::from_str::<HistoryLine>(&text).unwrap(), line(arguments));
        }
        assert_eq!(
            serde_json::to_string(&line(b"{}")).unwrap(),
            r#"{"v":2,"at":5,"by":2,"run":1,"n":9,"key":"shop/charge/order%207","event":"sent","generation":1,"attempt":3,"epoch":2,"arguments":"{}"}"#
        );
    }
}

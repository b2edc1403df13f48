//! What says that a stream of a language model's API is whole, and what the call cost.
//!
//! | preset | whole with | an error, which proves nothing |
//! | --- | --- | --- |
//! | `chat-completions` | `data: [DONE]` | an event with a member `error` |
//! | `responses` | `response.completed`, `response.incomplete`, `response.failed` | an event of type `error` |
//! | `messages` | `message_stop` | an event of type `error` |

mod usage;
mod watcher;

use serde::Deserialize;
use serde_json::value::RawValue;
use settled_http::sse::Event;

pub(crate) use self::usage::Usage;
pub(crate) use self::watcher::{StreamEnd, Watcher};

/// An API whose streams say themselves when they are whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// `/v1/chat/completions`.
    ChatCompletions,
    /// `/v1/responses`.
    Responses,
    /// `/v1/messages`.
    Messages,
}

/// What an event says of the stream that it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Says {
    /// There is more to come.
    GoesOn,
    /// It is the last one, and all of it has come.
    Whole,
    /// It went wrong.
    WentWrong,
}

/// What is looked at of an event's data. The members stay text, so that a strange one hides none of the others.
#[derive(Deserialize)]
struct Data<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
}

impl<'a> Data<'a> {
    /// `None`: it is no JSON object.
    fn read(data: &'a [u8]) -> Option<Data<'a>> {
        // An array would be taken for the members in their order.
        data.trim_ascii_start().starts_with(b"{").then(|| serde_json::from_slice(data).ok()).flatten()
    }

    fn kind(&self) -> Option<String> {
        serde_json::from_str(self.kind?.get()).ok()
    }

    /// Its own usage, or that of the object that it brings.
    fn usage(&self) -> Usage {
        let brought = self.response.or(self.message).and_then(|inner| Data::read(inner.get().as_bytes())?.usage);
        self.usage.or(brought).map(|usage| Usage::read(usage.get())).unwrap_or_default()
    }
}

impl Preset {
    /// The preset for requests to this path without any configuration, if it is one that an API is known by.
    pub fn of_path(path: &str) -> Option<Preset> {
        let ends = [
            ("/v1/chat/completions", Preset::ChatCompletions),
            ("/v1/responses", Preset::Responses),
            ("/v1/messages", Preset::Messages),
        ];
        ends.into_iter().find(|(end, _)| path.ends_with(end)).map(|(_, preset)| preset)
    }

    /// What an answer that is no stream says that it cost.
    pub(crate) fn usage_of(self, body: &[u8]) -> Usage {
        Data::read(body).map(|data| data.usage()).unwrap_or_default()
    }

    fn reads(self, event: &Event) -> (Says, Usage) {
        let Some(data) = &event.data else {
            return (Says::GoesOn, Usage::default());
        };
        if self == Preset::ChatCompletions && data.trim_ascii() == b"[DONE]" {
            return (Says::Whole, Usage::default());
        }
        let read = Data::read(data);
        let kind = event.name.clone().or_else(|| read.as_ref()?.kind());
        let usage = read.as_ref().map(Data::usage).unwrap_or_default();
        let says = match (self, kind.as_deref(), read) {
            (_, Some("error"), _) => Says::WentWrong,
            // Its name alone is not all of it.
            (_, _, None) => Says::GoesOn,
            (Preset::ChatCompletions, _, Some(data)) if data.error.is_some() => Says::WentWrong,
            (Preset::Responses, Some("response.completed" | "response.incomplete" | "response.failed"), _) => {
                Says::Whole
            }
            (Preset::Messages, Some("message_stop"), _) => Says::Whole,
            _ => Says::GoesOn,
        };
        (says, usage)
    }
}

#[cfg(test)]
mod tests;

//! The tool `settled_status`: how an operation stands, for a model that wants to know without calling again. The proxy answers
//! it from the ledger; the server never hears of it.

use serde_json::{Value, json};
use settled::Entry;
use settled::protocol::{Cause, Digest, Key, Outcome, State, Verdict};

use crate::behind::server::TRANSPORT_ERROR;
use crate::config::{Config, Kind, Text};
use crate::guarded::call::Call;
use crate::messages::splice;
use crate::relay::Proxy;
use crate::told::answer::{About, INVALID_PARAMS, Next, asks_for_input, command, error_line, result_line, time};

/// Its name.
pub(crate) const TOOL: &str = "settled_status";

/// How it is listed.
pub(crate) fn declaration() -> Value {
    json!({
        "name": TOOL,
        "description": "Tells how an earlier call of another tool stands: whether it happened, failed, is under way or is \
                        unknown, and its recorded answer. Use it instead of repeating a call whose outcome is unknown or in \
                        progress. It changes nothing.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "operation": {
                    "type": "string",
                    "description": "the operation's address, as it was told: `key` in `_meta[\"io.settled/status\"]`, or \
                                    `operation` in `structuredContent`",
                },
            },
            "required": ["operation"],
        },
        "annotations": { "readOnlyHint": true, "idempotentHint": true, "openWorldHint": false },
    })
}

/// How an operation stands, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stands {
    Done,
    Failed,
    Unknown,
    WithAPerson,
    InProgress,
    Abandoned,
    Expired,
    /// The tool has asked for input, and nothing has happened.
    WaitsForInput,
}

impl Stands {
    /// As the record says.
    pub(crate) fn of(entry: &Entry) -> Stands {
        if entry.tombstone {
            return Stands::Expired;
        }
        match entry.record.state() {
            State::Created | State::Dispatched(_) => Stands::InProgress,
            State::Unknown { .. } => Stands::Unknown,
            State::Escalated { .. } => Stands::WithAPerson,
            State::Confirmed { outcome: Outcome::Succeeded(_), .. } => Stands::Done,
            State::Confirmed { outcome: Outcome::Failed(_), .. } => Stands::Failed,
            State::Settled { verdict: Verdict::Succeeded(_), .. } => Stands::Done,
            State::Settled { verdict: Verdict::Failed(_), .. } if waits_for_input(entry) => Stands::WaitsForInput,
            State::Settled { verdict: Verdict::Failed(_), .. } => Stands::Failed,
            State::Settled { verdict: Verdict::Abandoned(_), .. } => Stands::Abandoned,
        }
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Stands::Done => "done",
            Stands::Failed => "failed",
            Stands::Unknown | Stands::WithAPerson => "unknown",
            Stands::InProgress => "in_progress",
            Stands::Abandoned => "abandoned",
            Stands::Expired => "expired",
            Stands::WaitsForInput => "input_required",
        }
    }

    fn next(self) -> Next {
        match self {
            Stands::Failed | Stands::WaitsForInput => Next::MayRetry,
            Stands::InProgress | Stands::Unknown => Next::AskLater,
            Stands::Done | Stands::WithAPerson | Stands::Abandoned | Stands::Expired => Next::Never,
        }
    }

    pub(crate) fn text(self) -> Text {
        match self {
            Stands::Done => Text::StatusDone,
            Stands::Failed => Text::Failed,
            Stands::Unknown => Text::StatusPending,
            Stands::WithAPerson | Stands::Abandoned => Text::Unknown,
            Stands::InProgress => Text::StatusInProgress,
            Stands::Expired => Text::StatusExpired,
            Stands::WaitsForInput => Text::StatusInput,
        }
    }
}

impl Proxy {
    /// Whether a call is one of this tool. A server that has a tool of that name keeps it.
    pub(crate) fn is_status(&self, tool: &str) -> bool {
        self.config.status_tool && tool == TOOL && self.tools.known(tool).flatten().is_none()
    }

    /// Whether there is such a tool to be named.
    pub(crate) fn may_ask_status(&self) -> bool {
        self.is_status(TOOL)
    }

    /// Answers it.
    pub(crate) async fn answer_status(&self, call: &Call) {
        let line = self.status_line(call).await;
        self.client.send(line).await;
    }

    async fn status_line(&self, call: &Call) -> String {
        let arguments = splice::get(&call.params, "arguments").unwrap_or("{}");
        let Some(address) = splice::get_string(arguments, "operation") else {
            let text = "`operation` must be the address of an operation, as it was told with its answer";
            return error_line(&call.id, INVALID_PARAMS, text, None);
        };
        // What other scopes have is not for this caller to know, not even whether it is there.
        let key = address.trim().parse::<Key>().ok().filter(|key| key.scope() == self.scope);
        let entry = match &key {
            Some(key) => match self.engine.ledger().get(key).await {
                Ok(entry) => entry.map(|entry| self.secrets.readable_entry(entry)),
                Err(error) => return error_line(&call.id, TRANSPORT_ERROR, &error.to_string(), None),
            },
            None => None,
        };
        let result = match (&key, &entry) {
            (Some(key), Some(entry)) => self.told(key, entry),
            _ => self.not_known(&address),
        };
        let result = match call.typed_results() {
            true => splice::set(&result, "resultType", "\"complete\"").unwrap_or(result),
            false => result,
        };
        result_line(&call.id, &result)
    }

    fn not_known(&self, address: &str) -> String {
        let text = self.config.messages.text(Text::StatusNotKnown, &About::address(address));
        json!({
            "content": [{ "type": "text", "text": text }],
            "structuredContent": { "status": "not_known", "operation": address },
            "isError": false,
        })
        .to_string()
    }

    /// How an operation stands. Of an opaque tool nothing is being found out, also before a person has been asked.
    pub(crate) fn stands_for(&self, entry: &Entry) -> Stands {
        match Stands::of(entry) {
            Stands::Unknown if !can_tell(&self.config, entry.key.tool()) => Stands::WithAPerson,
            stands => stands,
        }
    }

    /// A text about an operation.
    pub(crate) fn text(&self, text: Text, key: &Key) -> String {
        self.config.messages.text(text, &About::operation(key, command(key, self.config.ledger.as_deref())))
    }

    fn told(&self, key: &Key, entry: &Entry) -> String {
        let record = &entry.record;
        let stands = self.stands_for(entry);
        let text = self.text(stands.text(), key);
        let mut structured = json!({
            "status": stands.word(),
            "operation": key.to_string(),
            "retry": stands.next().name(),
            "state": record.state().name(),
            "createdAt": time(record.created().0),
        });
        if let Some(sent) = record.sent() {
            structured["attempts"] = sent.attempt().get().into();
            structured["sentAt"] = time(sent.at().0).into();
        }
        if let State::Settled { verdict, at, .. } = record.state() {
            structured["verdict"] = verdict_word(verdict).into();
            structured["settledAt"] = time(at.0).into();
        }
        if let State::Unknown { cause, .. } | State::Escalated { cause, .. } = record.state() {
            structured["cause"] = cause_word(cause).into();
        }
        let mut content = vec![json!({ "type": "text", "text": text }).to_string()];
        let mut structured = structured.to_string();
        // What has definitely come of it, as the tool said it. An error that leaves it open would only mislead.
        let answer = entry.outcome.as_ref().filter(|_| matches!(stands, Stands::Done | Stands::Failed));
        if let Some(answer) = answer.map(|body| String::from_utf8_lossy(body)) {
            if let Some(result) = splice::get(&answer, "result") {
                let blocks = splice::get(result, "content").and_then(splice::elements).unwrap_or_default();
                content.extend(blocks.into_iter().map(str::to_owned));
            }
            let value = if splice::valid(&answer).is_some() { answer.into_owned() } else { json!(answer).to_string() };
            structured = splice::set(&structured, "answer", &value).unwrap_or(structured);
        }
        format!(r#"{{"content":[{}],"structuredContent":{structured},"isError":false}}"#, content.join(","))
    }
}

/// Whether it can be found out what became of a tool's calls.
fn can_tell(config: &Config, tool: &str) -> bool {
    config.tools.get(tool).is_some_and(|tool| !matches!(tool.kind, Kind::Opaque | Kind::Passed))
}

/// Whether what ended it was no failure, but a question of the tool's (revision 2026-07-28).
pub(crate) fn waits_for_input(entry: &Entry) -> bool {
    let answer = entry.outcome.as_ref().map(|body| String::from_utf8_lossy(body));
    matches!(entry.record.state(), State::Settled { verdict: Verdict::Failed(_), .. })
        && answer.is_some_and(|answer| splice::get(&answer, "result").is_some_and(asks_for_input))
}

fn verdict_word(verdict: &Verdict<Digest>) -> &'static str {
    match verdict {
        Verdict::Succeeded(_) => "succeeded",
        Verdict::Failed(_) => "failed",
        Verdict::Abandoned(_) => "abandoned",
    }
}

fn cause_word(cause: &Cause<Digest>) -> &'static str {
    match cause {
        Cause::TimedOut => "timed out",
        Cause::ConnectionLost => "connection lost",
        Cause::OwnerLost => "the process that sent it ended",
        Cause::Error(_) => "an error that can follow an effect",
        Cause::Refused(_) => "refused",
    }
}

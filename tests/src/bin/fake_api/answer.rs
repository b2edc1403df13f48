//! Answers as the real APIs write them, with the number of the charge in their text.

use serde_json::{Value, json};

use crate::books::Charge;
use crate::request::Request;

/// An answer, in the parts in which it is sent.
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its content type.
    pub content_type: &'static str,
    /// The events of a stream, or the body as the only part.
    pub parts: Vec<Vec<u8>>,
}

impl Answer {
    /// A JSON body.
    pub fn json(status: u16, body: String) -> Answer {
        Answer { status, content_type: "application/json", parts: vec![body.into_bytes()] }
    }

    /// Whether it is a stream of events.
    pub fn is_stream(&self) -> bool {
        self.content_type == "text/event-stream"
    }

    /// The answer to a request that was carried out; `None` if there is no such path.
    pub fn to(request: &Request, charge: &Charge) -> Option<Answer> {
        let asked: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let streamed = asked["stream"] == true;
        let its = Text { number: charge.number, words: words(charge.number) };
        let (whole, events) = match request.path() {
            "/v1/charges" => (its.charge(), Vec::new()),
            "/v1/chat/completions" => (its.completion(), its.completion_events()),
            "/v1/responses" => (its.response("completed"), its.response_events()),
            "/v1/messages" => (its.message(), its.message_events()),
            _ => return None,
        };
        if streamed && !events.is_empty() {
            return Some(Answer { status: 200, content_type: "text/event-stream", parts: events });
        }
        Some(Answer::json(200, whole.to_string()))
    }
}

/// The status that a request asks to be refused with.
pub fn refusal(request: &Request) -> Option<u16> {
    let asked: Value = serde_json::from_slice(&request.body).ok()?;
    u16::try_from(asked["refuse"].as_u64()?).ok()
}

/// The words that a model says, some with characters of several bytes.
fn words(number: usize) -> Vec<String> {
    let text = format!("charge {number} is done: zwölf Äpfel für 3 € and a ☃");
    text.split_inclusive(' ').map(str::to_owned).collect()
}

struct Text {
    number: usize,
    words: Vec<String>,
}

fn plain_event(data: &Value) -> Vec<u8> {
    format!("data: {data}\n\n").into_bytes()
}

fn named_event(data: &Value) -> Vec<u8> {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap_or_default()).into_bytes()
}

impl Text {
    fn all(&self) -> String {
        self.words.concat()
    }

    fn charge(&self) -> Value {
        json!({ "id": format!("ch_{}", self.number), "object": "charge", "amount": 500, "description": self.all() })
    }

    fn usage(&self) -> Value {
        json!({ "prompt_tokens": 9, "completion_tokens": 12, "total_tokens": 21 })
    }

    fn completion(&self) -> Value {
        let message = json!({ "role": "assistant", "content": self.all(), "refusal": null });
        json!({
            "id": format!("chatcmpl-{}", self.number), "object": "chat.completion", "created": 1_764_000_000,
            "model": "fake-1", "usage": self.usage(),
            "choices": [{ "index": 0, "message": message, "logprobs": null, "finish_reason": "stop" }],
        })
    }

    fn completion_events(&self) -> Vec<Vec<u8>> {
        let chunk = |choices: Value, usage: Value| {
            plain_event(&json!({
                "id": format!("chatcmpl-{}", self.number), "object": "chat.completion.chunk", "created": 1_764_000_000,
                "model": "fake-1", "choices": choices, "usage": usage,
            }))
        };
        let choice = |delta: Value, reason: Value| json!([{ "index": 0, "delta": delta, "finish_reason": reason }]);
        let mut events = vec![chunk(choice(json!({ "role": "assistant", "content": "" }), Value::Null), Value::Null)];
        events
            .extend(self.words.iter().map(|word| chunk(choice(json!({ "content": word }), Value::Null), Value::Null)));
        events.push(chunk(choice(json!({}), json!("stop")), Value::Null));
        events.push(chunk(json!([]), self.usage()));
        events.push(b"data: [DONE]\n\n".to_vec());
        events
    }

    fn response(&self, status: &str) -> Value {
        let done = status == "completed";
        let text = json!({ "type": "output_text", "text": self.all(), "annotations": [] });
        let message = json!({
            "type": "message", "id": "msg_1", "status": status, "role": "assistant", "content": [text],
        });
        json!({
            "id": format!("resp_{}", self.number), "object": "response", "created_at": 1_764_000_000, "model": "fake-1",
            "status": status, "error": null, "incomplete_details": null, "instructions": null, "metadata": {},
            "parallel_tool_calls": true, "temperature": 1.0, "tool_choice": "auto", "tools": [], "top_p": 1.0,
            "output": if done { json!([message]) } else { json!([]) },
            "usage": if done {
                json!({
                    "input_tokens": 9, "output_tokens": 12, "total_tokens": 21,
                    "input_tokens_details": { "cached_tokens": 0 }, "output_tokens_details": { "reasoning_tokens": 0 },
                })
            } else {
                Value::Null
            },
        })
    }

    fn response_events(&self) -> Vec<Vec<u8>> {
        let place = json!({ "item_id": "msg_1", "output_index": 0, "content_index": 0 });
        let with = |kind: &str, more: Value| {
            let mut event = json!({ "type": kind });
            for source in [&place, &more] {
                for (name, value) in source.as_object().into_iter().flatten() {
                    event[name.as_str()] = value.clone();
                }
            }
            event
        };
        let mut events = vec![json!({ "type": "response.created", "response": self.response("in_progress") })];
        events.extend(
            self.words.iter().map(|word| with("response.output_text.delta", json!({ "delta": word, "logprobs": [] }))),
        );
        events.push(with("response.output_text.done", json!({ "text": self.all(), "logprobs": [] })));
        events.push(json!({ "type": "response.completed", "response": self.response("completed") }));
        let numbered = events.into_iter().enumerate().map(|(number, mut event)| {
            event["sequence_number"] = json!(number);
            named_event(&event)
        });
        numbered.collect()
    }

    fn message(&self) -> Value {
        json!({
            "id": format!("msg_{}", self.number), "type": "message", "role": "assistant", "model": "fake-1",
            "content": [{ "type": "text", "text": self.all() }], "stop_reason": "end_turn", "stop_sequence": null,
            "usage": { "input_tokens": 9, "output_tokens": 12 },
        })
    }

    fn message_events(&self) -> Vec<Vec<u8>> {
        let mut begun = self.message();
        begun["content"] = json!([]);
        begun["stop_reason"] = Value::Null;
        begun["usage"] = json!({ "input_tokens": 9, "output_tokens": 1 });
        let block = json!({ "type": "text", "text": "" });
        let mut events = vec![
            json!({ "type": "message_start", "message": begun }),
            json!({ "type": "content_block_start", "index": 0, "content_block": block }),
            json!({ "type": "ping" }),
        ];
        events.extend(self.words.iter().map(|word| {
            json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": word } })
        }));
        events.push(json!({ "type": "content_block_stop", "index": 0 }));
        let end = json!({ "stop_reason": "end_turn", "stop_sequence": null });
        events.push(json!({ "type": "message_delta", "delta": end, "usage": { "output_tokens": 12 } }));
        events.push(json!({ "type": "message_stop" }));
        events.iter().map(named_event).collect()
    }
}

//! Two transcripts, compared.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::transcripts::play::Transcript;

/// What came out.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// How many messages there are without the proxy.
    pub messages: usize,
    /// Of these, how many are the same, byte for byte.
    pub same: usize,
    /// And how many are the same when the proxy's own entries are left out.
    pub but_for_mark: usize,
    /// All others, in words.
    pub differences: Vec<String>,
}

/// Compares what a client got without the proxy and with it. `ordered`: there is one order of all messages. Else there are several
/// streams, and only the order of messages of a kind, and that progress comes before its answer, is fixed.
pub fn compare(direct: &Transcript, through: &Transcript, ordered: bool) -> Compared {
    let mut compared = Compared { messages: direct.raws.len(), ..Compared::default() };
    let (one, other) = (kinds(direct, ordered), kinds(through, ordered));
    let mut names: Vec<&String> = one.keys().chain(other.keys()).collect();
    names.sort();
    names.dedup();
    for name in names {
        let empty = Vec::new();
        let (one, other) = (one.get(name).unwrap_or(&empty), other.get(name).unwrap_or(&empty));
        for place in 0..one.len().max(other.len()) {
            match (one.get(place), other.get(place)) {
                (Some(one), Some(other)) if one == other => compared.same += 1,
                (Some(one), Some(other)) if is_same_but_for_mark(one, other) => compared.but_for_mark += 1,
                (one, other) => {
                    compared.differences.push(format!(
                        "{name}, number {place}\nwithout the proxy: {}\nwith it:           {}",
                        shown(one),
                        shown(other)
                    ));
                    // What comes after a lost message differs, too.
                    break;
                }
            }
        }
    }
    if direct.steps != through.steps {
        let differ = direct.steps.iter().zip(&through.steps).find(|(one, other)| one != other);
        compared.differences.push(format!("what the steps came to: {differ:?}"));
    }
    if direct.tools != through.tools {
        compared.differences.push(format!("the tools: {:?} and {:?}", direct.tools, through.tools));
    }
    if through.again > 0 {
        compared.differences.push(format!("{} events came twice", through.again));
    }
    compared.differences.extend(late(through));
    compared
}

fn shown(raw: Option<&String>) -> String {
    raw.map_or_else(|| "nothing".to_owned(), |raw| raw.chars().take(1_500).collect())
}

fn parsed(raw: &str) -> Value {
    serde_json::from_str(raw).unwrap_or_default()
}

fn kinds(transcript: &Transcript, ordered: bool) -> BTreeMap<String, Vec<String>> {
    let mut kinds: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for raw in &transcript.raws {
        let message = parsed(raw);
        let kind = match message.get("method").and_then(Value::as_str) {
            _ if ordered => "messages",
            Some(method) if message.get("id").is_none() => method,
            Some(_) => "requests",
            None => "answers",
        };
        // Sent while the client opens its stream for such messages: whether it is open by then is chance, without a proxy, too.
        if kind != "notifications/tools/list_changed" {
            kinds.entry(kind.to_owned()).or_default().push(raw.clone());
        }
    }
    kinds
}

/// Progress that came after its answer.
fn late(transcript: &Transcript) -> Vec<String> {
    let mut answered = Vec::new();
    let mut late = Vec::new();
    for raw in &transcript.raws {
        let message = parsed(raw);
        if message.get("method").is_none() {
            answered.push(message.get("id").cloned());
        } else if answered.contains(&message.pointer("/params/progressToken").cloned().map(Some).unwrap_or_default())
            && message.get("method").and_then(Value::as_str) == Some("notifications/progress")
        {
            late.push(format!("progress after its answer: {raw}"));
        }
    }
    late
}

/// Whether the proxy's own entries are all that differs: the mark of a guarded call, the capability in the opened session.
fn is_same_but_for_mark(direct: &str, through: &str) -> bool {
    let (direct, mut through) = (parsed(direct), parsed(through));
    let had = through.clone();
    if let Some(tools) = through.pointer_mut("/result/capabilities/tools").and_then(Value::as_object_mut) {
        tools.shift_remove("idempotency");
    }
    for place in ["/result/_meta", "/error/data", "/result/task/_meta"] {
        let Some(entries) = through.pointer_mut(place).and_then(Value::as_object_mut) else { continue };
        let before = entries.len();
        entries.retain(|name, _| !name.starts_with("io.settled/"));
        let is_ours_alone = entries.is_empty() && before > 0;
        if is_ours_alone && let Some((parent, name)) = place.rsplit_once('/') {
            let parent = through.pointer_mut(parent).and_then(Value::as_object_mut);
            parent.and_then(|parent| parent.shift_remove(name));
        }
    }
    // Something of ours was there: else a difference in spelling alone would pass.
    had != through && direct == through
}

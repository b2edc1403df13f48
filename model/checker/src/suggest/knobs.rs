//! What a designer may change about a protocol: each field that is a choice, with the values it may be given instead.
//!
//! Not among them are bounds and faults, and what is asked of the protocol (`budget`, the workload): a property that holds
//! because less is looked at is not repaired.

use serde_json::Value;

use crate::description::{Description, Kind};

/// A field that is a choice.
pub(super) struct Knob {
    /// The table, as in `guard.rules`.
    pub table: &'static str,
    /// The field.
    pub key: &'static str,
    /// What it may be given.
    choice: Choice,
    /// Whether a change means another tool, which is seldom the designer's to choose.
    pub another_tool: bool,
}

enum Choice {
    /// Any other of these words.
    Words(&'static [&'static str]),
    /// This word only: any other is a promise broken.
    Word(&'static str),
    /// Yes or no.
    Either,
    /// This one only: the other is a claim that can't be made true by writing it down.
    Flag(bool),
    /// A number near the one that it has, within this range.
    Near(u8, u8),
    /// 1 instead of 0.
    One,
    /// Left out, so that the tool is taken for what it is; or taken for one about which nothing can be found out.
    Declared,
}

use Choice::*;

const fn knob(table: &'static str, key: &'static str, choice: Choice) -> Knob {
    Knob { table, key, choice, another_tool: false }
}

const fn another_tool(key: &'static str, choice: Choice) -> Knob {
    Knob { table: "tool", key, choice, another_tool: true }
}

const KINDS: &[&str] = &["deduplicates", "sealable", "transactional", "observable", "idempotent"];
const AGAIN: Choice = Words(&["retry", "stop"]);

/// All of them, the least intrusive first: rules of the guard, then its ways, then its store, then the callers, then a
/// guard where there is none, then another tool.
pub(super) const KNOBS: &[Knob] = &[
    knob("guard.rules", "hold-unknown", Flag(true)),
    knob("guard.rules", "doubt-errors", Flag(true)),
    knob("guard.rules", "wait-for-quiet", Flag(true)),
    knob("guard.rules", "check-arguments", Flag(true)),
    knob("guard.rules", "keep-cancelled", Flag(true)),
    knob("guard", "answers", Word("after-store")),
    knob("guard", "intent", Word("before-send")),
    knob("guard", "claim", Word("compare-and-set")),
    knob("guard", "start", Words(&["one-write", "two-writes"])),
    knob("guard", "without-ledger", Word("refuses")),
    knob("guard", "single-delivery", Flag(false)),
    knob("guard", "gives-up", Flag(true)),
    knob("guard", "in-progress", Words(&["waits", "told"])),
    knob("guard", "repeat", Words(&["replay", "new-after-failure", "new-after-delivery"])),
    knob("guard", "resources", Words(&["one-at-a-time", "line", "ignored"])),
    knob("guard", "frees", Words(&["when-settled", "when-arrived", "when-quiet"])),
    knob("guard", "in-doubt", Word("unknown")),
    knob("guard", "margin", Near(0, 8)),
    knob("guard", "window", Near(0, 8)),
    knob("tool", "declared", Declared),
    knob("tool", "errors-final", Flag(false)),
    knob("tool", "settling", Near(1, 4)),
    knob("ledger", "after-sync-error", Word("stops")),
    knob("ledger", "torn", Word("detected")),
    knob("ledger", "acknowledged", Word("durable")),
    knob("ledger", "keeps", Word("forever")),
    knob("devices", "merge", Words(&["latest", "earliest", "last-arrival", "first-arrival"])),
    knob("devices", "ties", Words(&["device", "arrival"])),
    knob("devices", "clock", Words(&["hybrid-logical", "logical", "wall"])),
    knob("devices", "redated", Words(&["taken-over", "kept"])),
    knob("devices", "op-id", Words(&["device", "server"])),
    knob("devices", "queue", Words(&["until-acknowledged", "until-sent"])),
    knob("devices", "apply", Words(&["atomic", "result-after"])),
    knob("caller", "key", Word("caller")),
    knob("caller", "checkpoint", Words(&["per-answer", "background", "at-end"])),
    knob("caller", "new-key-after-failure", Either),
    knob("caller", "horizon", Near(0, 4)),
    knob("caller", "after-silence", AGAIN),
    knob("caller", "after-failed", AGAIN),
    knob("caller", "after-cancel", AGAIN),
    knob("caller", "after-crash", AGAIN),
    knob("guard", "processes", One),
    another_tool("keeps", Word("forever")),
    another_tool("remembers", Near(0, 8)),
    another_tool("kind", Words(KINDS)),
];

impl Knob {
    /// The values that this description may have instead, the nearest first; none if the field says nothing here.
    pub fn values(&self, description: &Description, json: &Value) -> Vec<Value> {
        let table = self.table.split('.').try_fold(json, |value, key| value.get(key));
        let now = table.and_then(|table| table.get(self.key));
        if table.is_none() || !self.matters(description) {
            return Vec::new();
        }
        let all: Vec<Value> = match self.choice {
            Words(words) => words.iter().map(|word| Value::from(*word)).collect(),
            Word(word) => vec![word.into()],
            Either => vec![true.into(), false.into()],
            Flag(flag) => vec![flag.into()],
            One if now == Some(&Value::from(0)) => vec![1.into()],
            One => Vec::new(),
            Declared => {
                let truth = now.is_some().then_some(Value::Null);
                let may = !matches!(description.tool.kind, Kind::Opaque | Kind::Transactional);
                truth.into_iter().chain(may.then(|| "opaque".into())).collect()
            }
            Near(low, high) => {
                let now = now.and_then(Value::as_u64).and_then(|now| u8::try_from(now).ok()).unwrap_or(low);
                let near = (1..=3).flat_map(|by| [now.checked_add(by), now.checked_sub(by)]).flatten();
                near.filter(|value| (low..=high).contains(value)).map(Value::from).collect()
            }
        };
        all.into_iter().filter(|value| Some(value) != now).collect()
    }

    /// Whether a number is changed, of which one step may do where more do as well.
    pub fn is_number(&self) -> bool {
        matches!(self.choice, Near(..))
    }

    /// Whether it is a choice about the guard or its store, which mean nothing without a guard.
    pub fn needs_guard(&self) -> bool {
        (self.table.starts_with("guard") && self.key != "processes") || self.table == "ledger"
    }

    fn matters(&self, description: &Description) -> bool {
        match (self.table, self.key) {
            ("devices", _) => true,
            _ if description.devices.is_some() => false,
            ("tool", "settling") => description.declared() == Kind::Observable,
            ("guard", "margin") => description.declared() == Kind::Deduplicates && description.tool.remembers > 0,
            ("guard", "frees") => description.guard.resources.is_line(),
            ("tool", "remembers") => description.tool.remembers > 0,
            _ => true,
        }
    }

    /// Whether a description written as JSON has this value there. `null`: none.
    pub fn is_in(&self, json: &Value, value: &Value) -> bool {
        let table = self.table.split('.').try_fold(json, |value, key| value.get(key));
        table.and_then(|table| table.get(self.key)).unwrap_or(&Value::Null) == value
    }

    /// Sets it in a description written as JSON. `null` leaves it out.
    pub fn set(&self, json: &mut Value, value: Value) {
        let table = self.table.split('.').try_fold(json, |value, key| value.get_mut(key));
        if let Some(Value::Object(table)) = table {
            if value.is_null() {
                table.shift_remove(self.key);
            } else {
                table.insert(self.key.to_owned(), value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bounds, and what is asked of the protocol.
    const NO_KNOBS: &[&str] = &[
        "caller.operations",
        "caller.calls",
        "caller.same-arguments",
        "caller.same-resource",
        "caller.sequential",
        "tool.attempts",
        "tool.checks",
        "tool.lasting",
        "tool.rejects",
        "devices.devices",
        "devices.operations",
        "devices.target",
        "devices.dating",
    ];

    fn whole() -> Value {
        let text = "name = \"x\"\nabout = \"y\"\n[tool]\nkind = \"deduplicates\"\nremembers = 3\ndeclared = \"opaque\"\n[devices]\n";
        serde_json::to_value(toml::from_str::<Description>(text).unwrap()).unwrap()
    }

    #[test]
    fn every_field_is_a_knob_or_said_to_be_none() {
        let whole = whole();
        for (table, key) in ["caller", "guard", "ledger", "tool", "devices", "guard.rules"]
            .into_iter()
            .flat_map(|path| {
                let table = path.split('.').try_fold(&whole, |value, key| value.get(key)).unwrap();
                table.as_object().unwrap().keys().map(move |key| (path, key.clone()))
            })
            .filter(|(_, key)| key != "rules")
        {
            let knob = KNOBS.iter().any(|knob| (knob.table, knob.key) == (table, key.as_str()));
            let none = NO_KNOBS.contains(&format!("{table}.{key}").as_str());
            assert!(knob != none, "{table}.{key}");
        }
    }

    #[test]
    fn every_value_of_a_knob_is_one_of_its_field() {
        for knob in KNOBS {
            let all = match knob.choice {
                Words(words) => words.iter().map(|word| Value::from(*word)).collect(),
                Word(word) => vec![Value::from(word)],
                Either | Flag(_) => vec![true.into(), false.into()],
                Near(low, high) => vec![low.into(), high.into()],
                One => vec![1.into()],
                Declared => vec![Value::Null, "opaque".into()],
            };
            for value in all {
                let mut json = whole();
                knob.set(&mut json, value.clone());
                let read = serde_json::from_value::<Description>(json.clone());
                assert!(read.is_ok(), "[{}] {} = {value}: {read:?}", knob.table, knob.key);
            }
        }
    }
}

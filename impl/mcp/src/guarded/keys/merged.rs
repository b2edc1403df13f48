//! Calls that a declared key makes one although their arguments differ.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Mutex, PoisonError};

use metrics::{counter, describe_counter};
use settled_protocol::canonicalize;

use super::ephemeral;
use crate::config::ArgumentPath;
use crate::messages::splice;

/// Says, once for each tool, that its `key` makes one operation of calls with different arguments.
#[derive(Debug)]
pub(crate) struct Merged {
    named: Mutex<HashSet<String>>,
}

/// The counter's name.
const MERGED: &str = "settled_mcp_merged_keys_total";

impl Default for Merged {
    fn default() -> Self {
        describe_counter!(
            MERGED,
            "calls refused because the declared key is that of one with other arguments, by tool"
        );
        Merged { named: Mutex::default() }
    }
}

impl Merged {
    /// A call of a tool was refused because an earlier one with the same declared key had other arguments. Values are never
    /// told, neither here nor to the caller. Whether it was said now.
    pub(crate) fn note(&self, tool: &str, earlier: Option<&str>, params: &str, left_out: &[ArgumentPath]) -> bool {
        counter!(MERGED, "tool" => tool.to_owned()).increment(1);
        let first = self.named.lock().unwrap_or_else(PoisonError::into_inner).insert(tool.to_owned());
        if !first {
            return false;
        }
        let differ = earlier.map(|earlier| differing(earlier, params, left_out)).unwrap_or_default();
        tracing::warn!(
            tool,
            arguments = differ.join(", "),
            "the `key` that settled.toml declares for this tool is the same for two calls with different arguments, so the \
             second one was refused: add the arguments that tell operations apart to `key`, or list those that mean nothing \
             under `ephemeral`"
        );
        true
    }
}

/// The names of the arguments that differ between two calls, sorted.
fn differing(one: &str, other: &str, left_out: &[ArgumentPath]) -> Vec<String> {
    let arguments = |params| splice::get(params, "arguments").unwrap_or("{}");
    let one = ephemeral::without(arguments(one), left_out);
    let other = ephemeral::without(arguments(other), left_out);
    let names = |arguments| -> Vec<String> {
        let members = splice::members(arguments).unwrap_or_default();
        members.iter().filter_map(|member| serde_json::from_str(member.name()).ok()).collect()
    };
    let all: BTreeSet<String> = names(&one).into_iter().chain(names(&other)).collect();
    all.into_iter().filter(|name| value(&one, name) != value(&other, name)).collect()
}

/// An argument's value, comparable.
fn value(arguments: &str, name: &str) -> Option<Vec<u8>> {
    splice::get(arguments, name).map(|value| canonicalize(value.as_bytes()).unwrap_or_else(|_| value.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_once_for_each_tool() {
        let merged = Merged::default();
        let note = |tool| merged.note(tool, Some("{}"), r#"{"arguments":{"a":1}}"#, &[]);
        assert_eq!([note("t"), note("t"), note("other"), note("t")], [true, false, true, false]);
    }

    #[test]
    fn only_names_are_told() {
        let one = r#"{"arguments":{"order":7,"cents":5,"note":"a","gone":1,"token":"x"}}"#;
        let other = r#"{"arguments":{"cents":6,"order":7.0,"note":"\u0061","new":[1],"token":"y"}}"#;
        assert_eq!(differing(one, other, &[]), ["cents", "gone", "new", "token"]);
        let config = "[tools.t]\nephemeral = ['token']";
        let config = crate::Config::parse("settled.toml".as_ref(), config).unwrap();
        assert_eq!(differing(one, other, &config.tools["t"].ephemeral), ["cents", "gone", "new"]);
        assert_eq!(differing("{}", "{}", &[]), [""; 0]);
    }
}

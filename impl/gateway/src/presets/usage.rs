//! What a call cost, as the API itself counts it.

use serde_json::{Map, Value};

/// Tokens, as far as the API told. What it counts as input may or may not include what it read from a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// `input_tokens` or `prompt_tokens`.
    pub(crate) input: Option<u64>,
    /// `output_tokens` or `completion_tokens`.
    pub(crate) output: Option<u64>,
    /// `cache_read_input_tokens`.
    pub(crate) cache_read: Option<u64>,
    /// `cache_creation_input_tokens`.
    pub(crate) cache_write: Option<u64>,
}

impl Usage {
    /// From the text of a `usage` member.
    pub(super) fn read(text: &str) -> Usage {
        let members: Map<String, Value> = serde_json::from_str(text).unwrap_or_default();
        let count = |names: &[&str]| names.iter().find_map(|name| members.get(*name)?.as_u64());
        Usage {
            input: count(&["input_tokens", "prompt_tokens"]),
            output: count(&["output_tokens", "completion_tokens"]),
            cache_read: count(&["cache_read_input_tokens"]),
            cache_write: count(&["cache_creation_input_tokens"]),
        }
    }

    /// Takes over what was told later: counts are told as they stand, not what came on top.
    pub(super) fn update(&mut self, later: Usage) {
        self.input = later.input.or(self.input);
        self.output = later.output.or(self.output);
        self.cache_read = later.cache_read.or(self.cache_read);
        self.cache_write = later.cache_write.or(self.cache_write);
    }

    /// What was told, by its kind.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let kinds = [
            ("input", self.input),
            ("output", self.output),
            ("cache_read", self.cache_read),
            ("cache_write", self.cache_write),
        ];
        kinds.into_iter().filter_map(|(kind, count)| Some((kind, count?)))
    }
}

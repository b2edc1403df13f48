//! `[limits]`: how much one client, and all of them together, may ask for.

use serde::Deserialize;
use serde_json::Value;
use toml::Spanned;

use super::Wrong;

/// The largest message that is read if nothing else is declared.
const FRAME_BYTES: usize = 64 << 20;

/// The bounds of `frame_bytes`: what every client sends, and what a line could be at all.
const FRAME_BOUNDS: (u64, u64) = (4 << 10, 1 << 30);

/// How many guarded calls may be under way at once if nothing else is declared.
const CALLS: usize = 4096;

/// More calls than this would need more memory than they are worth.
const MOST_CALLS: u64 = 1 << 20;

/// How much may be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitsConfig {
    /// The largest message of a client or a server, in bytes. What is larger is refused, unread.
    pub frame_bytes: usize,
    /// How many guarded calls may be under way at once, of all sessions together.
    pub calls: usize,
    /// How many of one session.
    pub calls_per_session: usize,
    /// How many keys a scope may have in the ledger at once; a new one is refused beyond that. `None`: any number.
    pub keys_per_scope: Option<u64>,
}

impl Default for LimitsConfig {
    /// 64 MiB for a message, 4,096 calls, any number of keys.
    fn default() -> Self {
        LimitsConfig { frame_bytes: FRAME_BYTES, calls: CALLS, calls_per_session: CALLS, keys_per_scope: None }
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LimitsTable {
    frame_bytes: Option<Spanned<Value>>,
    calls: Option<Spanned<u64>>,
    calls_per_session: Option<Spanned<u64>>,
    keys_per_scope: Option<Spanned<u64>>,
}

impl LimitsTable {
    pub(super) fn check(self) -> Result<LimitsConfig, Wrong> {
        let without = LimitsConfig::default();
        let frame_bytes = self.frame_bytes.map(|value| frame_bytes(&value)).transpose()?;
        let calls = self.calls.as_ref().map(|value| calls("calls", value)).transpose()?.unwrap_or(without.calls);
        let per_session = self.calls_per_session.as_ref().map(|value| calls_of_one(value, calls)).transpose()?;
        if let Some(keys) = &self.keys_per_scope
            && *keys.get_ref() == 0
        {
            let problem = "must be at least 1: without a key no call could be made; leave it out for any number";
            return Err(Wrong::new(keys.span(), "limits.keys_per_scope", problem));
        }
        Ok(LimitsConfig {
            frame_bytes: frame_bytes.unwrap_or(without.frame_bytes),
            calls,
            calls_per_session: per_session.unwrap_or(calls),
            keys_per_scope: self.keys_per_scope.map(Spanned::into_inner),
        })
    }
}

fn calls(name: &str, value: &Spanned<u64>) -> Result<usize, Wrong> {
    let count = *value.get_ref();
    if !(1..=MOST_CALLS).contains(&count) {
        let problem = format!("must be between 1 and {MOST_CALLS}");
        return Err(Wrong::new(value.span(), format!("limits.{name}"), problem));
    }
    Ok(usize::try_from(count).unwrap_or(CALLS))
}

fn calls_of_one(value: &Spanned<u64>, all: usize) -> Result<usize, Wrong> {
    let own = calls("calls_per_session", value)?;
    if own > all {
        let problem = format!("must not be more than `calls` ({all}), which is for all sessions together");
        return Err(Wrong::new(value.span(), "limits.calls_per_session", problem));
    }
    Ok(own)
}

/// A number of bytes, or a text such as `64MiB`.
fn frame_bytes(value: &Spanned<Value>) -> Result<usize, Wrong> {
    let wrong = |problem: String| Wrong::new(value.span(), "limits.frame_bytes", problem);
    let bytes = match value.get_ref() {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => parse_bytes(text),
        _ => None,
    };
    let bytes = bytes.ok_or_else(|| {
        wrong(format!(
            "{} is not a number of bytes: write one such as `1048576`, `\"64MiB\"` or `\"512KiB\"`",
            value.get_ref()
        ))
    })?;
    let (least, most) = FRAME_BOUNDS;
    if !(least..=most).contains(&bytes) {
        return Err(wrong(format!("is {bytes} bytes: it must be between `4KiB` and `1GiB`")));
    }
    usize::try_from(bytes).map_err(|_| wrong("is too large for this machine".to_owned()))
}

fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits)?;
    let factor = match unit.trim_start() {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

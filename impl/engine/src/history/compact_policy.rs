//! Policies in a history: with nothing said that is as usual, because every call's lines repeat them.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use settled_protocol::{Backoff, Ends, Millis, Policy, Repeat, Retry, Rules, ToolKind};

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Compact {
    tool: ToolKind,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    errors_final: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    many_deliveries: bool,
    ends: Ends,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    window: Option<Millis>,
    /// Attempts, total, checks, base and cap.
    retry: (u32, Millis, u32, Millis, Millis),
    #[serde(default, skip_serializing_if = "is_sound")]
    rules: Rules,
}

fn is_sound(rules: &Rules) -> bool {
    *rules == Rules::SOUND
}

pub(super) fn serialize<S: Serializer>(policy: &Policy, serializer: S) -> Result<S::Ok, S::Error> {
    let Retry { attempts, total, checks, backoff: Backoff { base, cap } } = policy.retry;
    let compact = Compact {
        tool: policy.tool,
        errors_final: policy.errors_final,
        many_deliveries: !policy.single_delivery,
        ends: policy.repeat.ends,
        window: policy.repeat.window,
        retry: (attempts, total, checks, base, cap),
        rules: policy.rules,
    };
    compact.serialize(serializer)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Policy, D::Error> {
    let Compact { tool, errors_final, many_deliveries, ends, window, retry, rules } =
        Compact::deserialize(deserializer)?;
    let (attempts, total, checks, base, cap) = retry;
    Ok(Policy {
        tool,
        errors_final,
        single_delivery: !many_deliveries,
        repeat: Repeat { ends, window },
        retry: Retry { attempts, total, checks, backoff: Backoff { base, cap } },
        rules,
    })
}

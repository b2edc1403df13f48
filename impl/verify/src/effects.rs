//! What the tool itself noted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use settled_protocol::{Key, State, ToolKind, Verdict};

use crate::chain::{Chain, Operation};
use crate::facts::KeyFacts;
use crate::property::Property;
use crate::report::Where;
use crate::verifier::Case;

/// An effect, as the tool noted it: in a file, one JSON object in each line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Effect {
    /// The operation's key, in its text form: `scope/tool/id`.
    #[serde(with = "key_text")]
    pub key: Key,
    /// Which operation under the key, if the tool knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u32>,
    /// The attempt, if the tool knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// What it was done to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// When it began, in milliseconds by the tool's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<u64>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<u64>,
}

mod key_text {
    use serde::{Deserialize, Deserializer, Serializer};
    use settled_protocol::Key;

    pub(super) fn serialize<S: Serializer>(key: &Key, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(key)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Key, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

pub(crate) fn by_key(effects: Vec<Effect>) -> BTreeMap<Key, Vec<Effect>> {
    let mut by_key: BTreeMap<Key, Vec<Effect>> = BTreeMap::new();
    for effect in effects {
        by_key.entry(effect.key.clone()).or_default().push(effect);
    }
    by_key
}

/// Two effects on one resource, by the tool's own clock.
pub(crate) fn overlaps(case: &mut Case<'_>, effects: &[Effect]) {
    let mut spans: BTreeMap<&str, Vec<(u64, u64, &Effect)>> = BTreeMap::new();
    for effect in effects {
        if let (Some(resource), Some(begun), Some(ended)) = (&effect.resource, effect.begun, effect.ended) {
            spans.entry(resource).or_default().push((begun, ended, effect));
        }
    }
    for (resource, mut spans) in spans {
        spans.sort_by_key(|(begun, ended, _)| (*begun, *ended));
        let mut longest: Option<(u64, &Effect)> = None;
        for (begun, ended, effect) in spans {
            case.report.check(Property::NoOverlap);
            if let Some((until, before)) = longest
                && begun < until
            {
                let place = Where { key: Some(effect.key.clone()), ..Where::default() };
                let text = format!("its effect on {resource} began while that of {} went on", before.key);
                case.report.violate(Property::NoOverlap, None, place, text);
            }
            if longest.is_none_or(|(until, _)| ended > until) {
                longest = Some((ended, effect));
            }
        }
    }
}

/// Effects of operations of which the evidence says nothing at all.
pub(crate) fn of_unknown_keys(case: &mut Case<'_>, effects: BTreeMap<Key, Vec<Effect>>) {
    for (key, effects) in effects {
        case.report.check(Property::IntentFirst);
        without_record(case, &key, effects.len());
    }
}

fn without_record(case: &mut Case<'_>, key: &Key, count: usize) {
    let place = Where { key: Some(key.clone()), ..Where::default() };
    let text = format!("{count} effects that no record allows");
    // A ledger forgets, in its time.
    if case.has_all_lines() {
        case.report.violate(Property::IntentFirst, Some(5), place, text);
    } else {
        case.report.gap(place, text + ": it may be missing");
    }
}

/// How many effects there may be, and must be.
#[derive(Default)]
struct Bounds {
    least: usize,
    most: usize,
    repeats_allowed: bool,
    failed: bool,
    /// It is settled: no record of it can be missing at the end.
    settled: bool,
}

pub(crate) fn check(case: &mut Case<'_>, key: &Key, facts: &KeyFacts, chain: &Chain<'_>, effects: Vec<Effect>) {
    if effects.is_empty() && !case.options.effects_known {
        return;
    }
    let named = effects.iter().all(|effect| effect.generation.is_some());
    let mut all = Bounds::default();
    for operation in &chain.operations {
        let bounds = bounds(chain, operation);
        let of_it = effects.iter().filter(|effect| effect.generation == Some(operation.generation)).count();
        if named && operation.is_whole {
            let certain = bounds.settled || chain.has_all_of(case, operation);
            compare(case, key, Some(operation.generation), &bounds, of_it, certain);
        }
        all.least += bounds.least;
        all.most += bounds.most;
        all.repeats_allowed |= bounds.repeats_allowed;
        all.failed |= bounds.failed;
        attempts(case, key, chain, operation, &effects);
    }
    if chain.operations.is_empty() {
        if !effects.is_empty() {
            case.report.check(Property::IntentFirst);
            without_record(case, key, effects.len());
        }
    } else if named {
        // Each was compared with its own operation.
    } else if chain.is_whole {
        let certain = case.has_all_lines() || case.has_all() && facts.is_never_forgotten();
        compare(case, key, None, &all, effects.len(), certain);
    } else {
        let place = Where { key: Some(key.clone()), ..Where::default() };
        case.report.gap(place, "how many effects there may be can't be told: records are missing");
    }
}

fn bounds(chain: &Chain<'_>, operation: &Operation) -> Bounds {
    let kind = chain.kind(operation);
    let was_sent = chain.links_of(operation).any(|link| matches!(link.record.state(), State::Dispatched(_)));
    let verdict = chain.links_of(operation).last().and_then(|link| match link.record.state() {
        State::Settled { verdict, sent, .. } => Some((*verdict, sent.is_some())),
        _ => None,
    });
    // Reading leaves no trace, and what is called an effect of it is none.
    let failed = matches!(verdict, Some((Verdict::Failed(_), _))) && !matches!(kind, None | Some(ToolKind::ReadOnly));
    Bounds {
        least: usize::from(
            matches!(verdict, Some((Verdict::Succeeded(_), _))) && !matches!(kind, Some(ToolKind::ReadOnly)),
        ),
        most: usize::from(was_sent && !failed),
        repeats_allowed: matches!(kind, None | Some(ToolKind::ReadOnly | ToolKind::Idempotent)),
        failed,
        settled: verdict.is_some(),
    }
}

fn compare(case: &mut Case<'_>, key: &Key, generation: Option<u32>, bounds: &Bounds, count: usize, certain: bool) {
    let place = Where { key: Some(key.clone()), generation, ..Where::default() };
    for property in [Property::AtMostOnce, Property::NoPhantomSuccess, Property::NoFalseFailure] {
        case.report.check(property);
    }
    if case.options.effects_known && count < bounds.least {
        let text = format!("{count} effects, {} operations settled as succeeded", bounds.least);
        case.report.violate(Property::NoPhantomSuccess, None, place, text);
    } else if count > bounds.most && !certain && !bounds.repeats_allowed {
        case.report.gap(place, format!("what allows {count} effects: the records there are allow {}", bounds.most));
    } else if count > bounds.most && bounds.failed && (count == 1 || !bounds.repeats_allowed) {
        let text = format!("{count} effects, at most {} may be: the others were settled as failed", bounds.most);
        case.report.violate(Property::NoFalseFailure, Some(2), place, text);
    } else if count > bounds.most && !bounds.repeats_allowed {
        let property = if bounds.most == 0 { Property::IntentFirst } else { Property::AtMostOnce };
        case.report.violate(property, None, place, format!("{count} effects, at most {} may be", bounds.most));
    }
}

/// Each effect is of an attempt that was recorded as dispatched.
fn attempts(case: &mut Case<'_>, key: &Key, chain: &Chain<'_>, operation: &Operation, effects: &[Effect]) {
    let generation = operation.generation;
    for effect in effects.iter().filter(|effect| effect.generation == Some(generation)) {
        let Some(attempt) = effect.attempt else { continue };
        case.report.check(Property::IntentFirst);
        let recorded = chain.links.iter().any(|link| {
            link.record.generation() == generation
                && matches!(link.record.state(), State::Dispatched(sent) if sent.attempt().get() == attempt)
        });
        if !recorded {
            let place = Where { key: Some(key.clone()), ..Where::default() }.of(generation);
            let text = format!("an effect of attempt {attempt}, which no record allows");
            if chain.has_all_of(case, operation) {
                case.report.violate(Property::IntentFirst, Some(5), place, text);
            } else {
                case.report.gap(place, text + ": it may be missing");
            }
        }
    }
}

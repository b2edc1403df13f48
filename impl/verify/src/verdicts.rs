//! What can be said of each property, in view of what was found and what is missing.

use crate::property::Property;
use crate::report::{Judged, Report, Verdict};
use crate::verifier::Options;

pub(crate) fn judge(report: &mut Report, options: Options, has_ledger: bool) {
    report.violations.sort_by(|one, other| {
        (one.property, &one.place.key, one.place.at).cmp(&(other.property, &other.place.key, other.place.at))
    });
    let judged = Property::ALL.map(|property| {
        let checks = report.checks.get(&property).copied().unwrap_or_default();
        let verdict = verdict(report, property, checks, options, has_ledger);
        Judged { property, checks, verdict }
    });
    report.properties = judged.into();
}

fn verdict(report: &Report, property: Property, checks: u64, options: Options, has_ledger: bool) -> Verdict {
    if report.violations.iter().any(|violation| violation.property == property) {
        return Verdict::Broken;
    }
    if matches!(property, Property::Convergence | Property::CausalRespect) {
        return Verdict::NotApplicable { why: "about devices that merge".to_owned() };
    }
    if checks == 0 {
        return Verdict::NotJudged { why: "nothing in the evidence is about it".to_owned() };
    }
    if !report.gaps.is_empty() {
        let count = report.gaps.len();
        let word = if count == 1 { "gap" } else { "gaps" };
        return Verdict::NotJudged { why: format!("{count} {word} in the evidence; held in the rest") };
    }
    if property == Property::Settles && !options.ended && !report.open.is_empty() {
        let count = report.open.len();
        return Verdict::NotJudged { why: format!("{count} still open, which they may be before the end") };
    }
    Verdict::Held { as_far_as: limit(property, options, has_ledger).map(str::to_owned) }
}

/// What can't be seen of a property without more evidence.
fn limit(property: Property, options: Options, has_ledger: bool) -> Option<&'static str> {
    match property {
        Property::AtMostOnce | Property::NoPhantomSuccess | Property::NoFalseFailure if !options.effects_known => {
            Some("the tool's answers tell: its own journal of effects was not given")
        }
        Property::NoSuppression => Some("keys tell wishes apart: two wishes under one key of the caller's own are one"),
        Property::BoundedRetries => Some("operations go: the budget of the fleet is not in a history"),
        Property::BoundedMemory if !(has_ledger && options.ended) => {
            Some("what was forgotten goes: what is kept too long shows in a ledger at the end")
        }
        Property::Kept if !has_ledger => Some("processes tell each other: the ledger was not given"),
        _ => None,
    }
}

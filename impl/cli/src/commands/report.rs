//! A report for programs.

use serde::Serialize;
use settled_model::{Description, FieldChange, Report, Suggestion, Suggestions, Trace, Verdict};

/// A report as JSON.
#[derive(Serialize)]
pub struct ReportJson<'a> {
    protocol: &'a Description,
    exhaustive: bool,
    any_number_of: Vec<&'static str>,
    operations_explored: u8,
    unique_states: usize,
    worlds: usize,
    transitions: usize,
    depth: usize,
    seconds: f64,
    peak_bytes: usize,
    collision_odds: f64,
    properties: Vec<PropertyJson<'a>>,
}

#[derive(Serialize)]
struct PropertyJson<'a> {
    property: &'static str,
    verdict: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    counterexample: Option<&'a Trace>,
    #[serde(skip_serializing_if = "Option::is_none")]
    suggestions: Option<SuggestionsJson<'a>>,
}

#[derive(Serialize)]
struct SuggestionsJson<'a> {
    found: Vec<SuggestionJson<'a>>,
    tried: usize,
    finished: bool,
}

#[derive(Serialize)]
struct SuggestionJson<'a> {
    changes: &'a [FieldChange],
    faults: &'a [FieldChange],
    another_tool: bool,
    verdicts: Vec<PropertyJson<'a>>,
}

/// A verdict in one word or two, and its counterexample.
pub fn verdict_json(verdict: &Verdict) -> (&'static str, Option<&Trace>) {
    match verdict {
        Verdict::Holds => ("holds", None),
        Verdict::Violated(trace) => ("violated", Some(trace.as_ref())),
        Verdict::NotFinished => ("not finished", None),
        Verdict::NotApplicable => ("not applicable", None),
    }
}

impl<'a> ReportJson<'a> {
    /// With what was suggested for its violations.
    pub fn of(report: &'a Report, suggestions: &'a [(settled_model::PropertyName, Suggestions)]) -> Self {
        ReportJson {
            protocol: &report.description,
            exhaustive: report.exhaustive,
            any_number_of: report.any_number_of.iter().map(|fault| fault.name()).collect(),
            operations_explored: report.operations_explored,
            unique_states: report.unique_states,
            worlds: report.worlds,
            transitions: report.transitions,
            depth: report.depth,
            seconds: report.elapsed.as_secs_f64(),
            peak_bytes: report.peak_bytes,
            collision_odds: report.collision_odds,
            properties: report
                .verdicts
                .iter()
                .map(|(property, verdict)| {
                    let (verdict, counterexample) = verdict_json(verdict);
                    let theirs = suggestions.iter().find(|(its, _)| its == property);
                    let suggestions = theirs.map(|(_, suggestions)| SuggestionsJson {
                        found: suggestions.found.iter().map(SuggestionJson::of).collect(),
                        tried: suggestions.tried,
                        finished: suggestions.finished,
                    });
                    PropertyJson { property: property.name(), verdict, counterexample, suggestions }
                })
                .collect(),
        }
    }
}

impl<'a> SuggestionJson<'a> {
    fn of(suggestion: &'a Suggestion) -> Self {
        let each = suggestion.report.verdicts.iter().map(|(property, verdict)| PropertyJson {
            property: property.name(),
            verdict: verdict_json(verdict).0,
            counterexample: None,
            suggestions: None,
        });
        SuggestionJson {
            changes: &suggestion.changes,
            faults: &suggestion.faults,
            another_tool: suggestion.another_tool,
            verdicts: each.collect(),
        }
    }
}

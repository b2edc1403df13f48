//! `settled check --suggest`: what to change in a protocol so that a violated property holds.

use std::fmt::Write;
use std::time::Duration;

use settled_model::{Limits, PropertyName, Report, Suggestion, Suggestions};

use super::protocol::bar;
use crate::failure::Failure;

/// How many suggestions are printed; all are in the JSON.
const SHOWN: usize = 6;

/// Searches for repairs of each violated property of a report.
pub fn search(report: &Report, limits: Limits, time: Duration) -> Result<Vec<(PropertyName, Suggestions)>, Failure> {
    let name = &report.description.name;
    let mut all = Vec::new();
    for (property, _) in report.violations() {
        let bar = bar(name, &format!("{{spinner}} {{prefix}}: searching for a repair of “{}”", property.name()));
        bar.enable_steady_tick(Duration::from_millis(200));
        let found = settled_model::suggest(&report.description, property, Limits { time, ..limits })
            .map_err(|error| Failure::input(format!("{name}: {error}")))?;
        bar.finish_and_clear();
        all.push((property, found));
    }
    Ok(all)
}

/// What was suggested for one property, in lines.
pub fn text(property: PropertyName, suggestions: &Suggestions) -> String {
    let mut text = String::new();
    let fields = |size: usize| if size == 1 { "one field".to_owned() } else { format!("up to {size} fields") };
    let extent = format!("{} changes of {} tried", suggestions.tried, fields(suggestions.size));
    if suggestions.found.is_empty() {
        let _ = write!(text, "\n  No repair of “{}” was found: {extent}", property.name());
        text +=
            if suggestions.finished { "." } else { ", and the time was over before all were (see --suggest-time)." };
        return text;
    }
    let _ = write!(text, "\n  To repair “{}” ({extent}):", property.name());
    for suggestion in suggestions.found.iter().take(SHOWN) {
        text += "\n";
        text += &one(suggestion);
    }
    if let Some(more @ 1..) = suggestions.found.len().checked_sub(SHOWN) {
        let _ = write!(text, "\n    … and {more} more (see --json).");
    }
    if !suggestions.finished {
        text += "\n    Not every change could be decided in the time (see --suggest-time).";
    }
    text
}

fn one(suggestion: &Suggestion) -> String {
    let changes: Vec<_> = suggestion.changes.iter().map(ToString::to_string).collect();
    let mut text = format!("    {}", changes.join("\n    "));
    if suggestion.another_tool {
        text += "   (needs another tool)";
    }
    if !suggestion.faults.is_empty() {
        let faults: Vec<_> = suggestion.faults.iter().map(ToString::to_string).collect();
        let _ = write!(text, "\n        checked with {}", faults.join(", "));
    }
    let left: Vec<_> = suggestion.left().iter().map(|property| property.name()).collect();
    let after = if left.is_empty() {
        "every property holds".to_owned()
    } else {
        format!("still violated, as before: {}", left.join(", "))
    };
    let _ = write!(text, "\n        then {after} ({} states)", suggestion.report.unique_states);
    text
}

//! Protocols in a few lines, and what is found of them.
#![allow(dead_code, reason = "each test uses its part")]

use std::collections::HashSet;
use std::time::Duration;

use settled_model::{Description, Fault, Limits, PropertyName, Report, Rules, System, Trace, Verdict, check, parse};

/// A description as TOML: `key = value` with dotted keys, one in a line or several between semicolons. Of two lines with the
/// same key the later one counts.
pub fn toml_of(lines: &str) -> String {
    let mut all = vec![("name", "\"test\""), ("about", "\"-\"")];
    for line in lines.split([';', '\n']).map(str::trim).filter(|line| !line.is_empty()) {
        let (key, value) = line.split_once('=').unwrap_or_else(|| panic!("no `key = value`: {line}"));
        all.retain(|(known, _)| *known != key.trim());
        all.push((key.trim(), value.trim()));
    }
    all.iter().map(|(key, value)| format!("{key} = {value}\n")).collect()
}

pub fn protocol(lines: &str) -> Description {
    parse("test.toml", &toml_of(lines)).unwrap_or_else(|error| panic!("{error}\n{}", toml_of(lines)))
}

pub fn limits() -> Limits {
    Limits { states: 2_000_000, time: Duration::from_secs(60), threads: 1, ..Limits::default() }
}

/// The report of a world that is explored to its end.
#[track_caller]
pub fn explored(description: &Description) -> Report {
    let report = check(description, limits(), |_| {}).unwrap();
    assert!(report.exhaustive, "too large: {}", toml::to_string(description).unwrap());
    report
}

#[track_caller]
pub fn found(lines: &str) -> Report {
    explored(&protocol(lines))
}

pub fn violated(report: &Report) -> Vec<PropertyName> {
    report.violations().map(|(property, _)| property).collect()
}

pub fn violates(report: &Report, property: PropertyName) -> bool {
    matches!(report.verdict(property), Verdict::Violated(_))
}

#[track_caller]
pub fn trace(report: &Report, property: PropertyName) -> &Trace {
    match report.verdict(property) {
        Verdict::Violated(trace) => trace,
        other => panic!("{} is not violated: {other:?}", property.name()),
    }
}

/// Exactly these are violated.
#[track_caller]
pub fn assert_violated(lines: &str, expected: &[PropertyName]) {
    let report = found(lines);
    let runs: Vec<_> = report.violations().map(|(_, trace)| trace.text()).collect();
    assert_eq!(violated(&report), expected, "{lines}\n{}", runs.join("\n"));
}

#[track_caller]
pub fn assert_holds(lines: &str) {
    assert_violated(lines, &[]);
}

/// Whether a fault happens in the run that a trace tells of.
pub fn contains(trace: &Trace, fault: Fault) -> bool {
    let mut faults = trace.faults;
    *faults.of(fault) > 0
}

/// Whether a fault is offered in any of the first worlds.
pub fn happens(rules: &Rules, fault: Fault) -> bool {
    let mut worlds = vec![(rules.initial(), rules.bounds())];
    let mut seen = HashSet::new();
    let mut at = 0;
    while at < worlds.len() && at < 20_000 {
        let (world, left) = worlds[at];
        let mut moves = Vec::new();
        System::moves(rules, &world, left, &mut moves);
        for (what, is) in moves {
            let next = System::apply(rules, &world, what);
            if is == Some(fault) && next.is_some() {
                return true;
            }
            let left = is.map_or(Some(left), |is| left.spend(is));
            if let (Some(next), Some(left)) = (next, left)
                && seen.insert((next, left))
            {
                worlds.push((next, left));
            }
        }
        at += 1;
    }
    false
}

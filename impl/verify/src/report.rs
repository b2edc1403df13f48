//! What was found.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, UNIX_EPOCH};

use serde::Serialize;
use settled_protocol::{Epoch, Key, Time, Version};

use crate::property::Property;

/// What can be said of a property.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum Verdict {
    /// It held in everything that it was asked of.
    Held {
        /// What the evidence can't show of it.
        #[serde(skip_serializing_if = "Option::is_none")]
        as_far_as: Option<String>,
    },
    /// It was broken.
    Broken,
    /// It could not be judged, or not all of it.
    NotJudged {
        /// Why.
        why: String,
    },
    /// It says nothing of such a run.
    NotApplicable {
        /// Why.
        why: String,
    },
}

/// A property, and what can be said of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Judged {
    /// The property.
    pub property: Property,
    /// How often it was asked.
    pub checks: u64,
    /// What can be said of it.
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// Where something was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Where {
    /// The operation's key.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "key_text")]
    pub key: Option<Key>,
    /// Which operation under the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<u32>,
    /// The record's version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    /// When, by the clock of the process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
    /// The process: its first ownership.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<Epoch>,
    /// The lines involved: `FILE:LINE`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<String>,
}

fn key_text<S: serde::Serializer>(key: &Option<Key>, serializer: S) -> Result<S::Ok, S::Error> {
    match key {
        Some(key) => serializer.collect_str(key),
        None => serializer.serialize_none(),
    }
}

/// A broken property.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// The property.
    pub property: Property,
    /// The rule of the design that was broken, by its number there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<u8>,
    /// What happened.
    pub text: String,
    /// Where.
    #[serde(flatten)]
    pub place: Where,
}

/// Evidence that is missing: nothing is concluded from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Gap {
    /// What is missing.
    pub text: String,
    /// Where.
    #[serde(flatten)]
    pub place: Where,
}

/// What was found in the evidence.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Lines of histories that were read.
    pub lines: u64,
    /// Processes that wrote them.
    pub processes: u64,
    /// Processes that ended without saying so: their last lines may be missing.
    pub unfinished: u64,
    /// Changes of records.
    pub records: u64,
    /// Steps of the core that were taken again.
    pub steps: u64,
    /// Changes of which only the ledger tells: for each, a step of the core was found that leads to it.
    pub inferred: u64,
    /// Operations.
    pub operations: u64,
    /// Effects that the tool noted.
    pub effects: u64,
    /// Each property.
    pub properties: Vec<Judged>,
    /// What is broken.
    pub violations: Vec<Violation>,
    /// What is missing.
    pub gaps: Vec<Gap>,
    /// Operations that are neither settled nor with a person.
    pub open: Vec<Where>,
    #[serde(skip)]
    pub(crate) checks: BTreeMap<Property, u64>,
}

impl Report {
    /// Whether anything is broken.
    pub fn is_violated(&self) -> bool {
        !self.violations.is_empty()
    }

    /// What is broken.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// What is missing.
    pub fn gaps(&self) -> &[Gap] {
        &self.gaps
    }

    /// What can be said of a property.
    pub fn verdict(&self, property: Property) -> Option<&Verdict> {
        self.properties.iter().find(|judged| judged.property == property).map(|judged| &judged.verdict)
    }

    /// For tests.
    ///
    /// # Panics
    /// With the whole report, if anything is broken.
    #[track_caller]
    pub fn assert_sound(&self) {
        assert!(!self.is_violated(), "{self}");
    }

    /// For tests of runs that leave no evidence out.
    ///
    /// # Panics
    /// With the whole report, if anything is broken or missing.
    #[track_caller]
    pub fn assert_whole(&self) {
        assert!(!self.is_violated() && self.gaps.is_empty(), "{self}");
    }

    /// The report without the table of properties, as text.
    pub fn findings(&self) -> impl fmt::Display {
        Findings(self)
    }

    pub(crate) fn check(&mut self, property: Property) {
        *self.checks.entry(property).or_default() += 1;
    }

    pub(crate) fn violate(&mut self, property: Property, rule: Option<u8>, place: Where, text: impl Into<String>) {
        self.violations.push(Violation { property, rule, text: text.into(), place });
    }

    pub(crate) fn gap(&mut self, place: Where, text: impl Into<String>) {
        self.gaps.push(Gap { text: text.into(), place });
    }
}

impl fmt::Display for Where {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if let Some(key) = &self.key {
            parts.push(key.to_string());
        }
        if let Some(generation) = self.generation {
            parts.push(format!("operation {generation}"));
        }
        if let Some(version) = self.version {
            parts.push(format!("version {version}"));
        }
        if let Some(at) = self.at {
            let at = UNIX_EPOCH.checked_add(Duration::from_millis(at.0)).unwrap_or(UNIX_EPOCH);
            parts.push(humantime::format_rfc3339_millis(at).to_string());
        }
        if let Some(process) = self.process {
            parts.push(format!("process {process}"));
        }
        if !self.lines.is_empty() {
            parts.push(self.lines.join(", "));
        }
        f.write_str(&parts.join(" · "))
    }
}

/// At most so many of a kind are shown; all of them are in the JSON form.
const SHOWN: usize = 20;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Judged { property, checks, verdict } in &self.properties {
            writeln!(f, "{property:<20} {checks:>8}  {verdict}")?;
        }
        write!(f, "{}", Findings(self))
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Held { as_far_as: None } => f.write_str("held"),
            Verdict::Held { as_far_as: Some(limit) } => write!(f, "held, as far as {limit}"),
            Verdict::Broken => f.write_str("BROKEN"),
            Verdict::NotJudged { why } => write!(f, "not judged: {why}"),
            Verdict::NotApplicable { why } => write!(f, "says nothing here: it is {why}"),
        }
    }
}

/// Everything but the table of properties.
struct Findings<'a>(&'a Report);

impl fmt::Display for Findings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = self.0;
        for violation in report.violations.iter().take(SHOWN) {
            let rule = violation.rule.map_or(String::new(), |rule| format!(", rule {rule}"));
            writeln!(f, "\n“{}” is broken{rule}: {}\n  {}", violation.property, violation.text, violation.place)?;
        }
        more(f, "violations", report.violations.len())?;
        for gap in report.gaps.iter().take(SHOWN) {
            writeln!(f, "\nmissing: {}\n  {}", gap.text, gap.place)?;
        }
        more(f, "gaps", report.gaps.len())?;
        for place in report.open.iter().take(SHOWN) {
            writeln!(f, "\nstill open: {place}")?;
        }
        more(f, "open operations", report.open.len())?;
        write!(
            f,
            "\n{}, {}, {}, {}, {} taken again, {} inferred: {}, {}.",
            count(report.lines, "line"),
            count(report.processes, "process"),
            count(report.operations, "operation"),
            count(report.records, "change"),
            count(report.steps, "step"),
            report.inferred,
            count(report.violations.len() as u64, "violation"),
            count(report.gaps.len() as u64, "gap"),
        )?;
        if report.unfinished > 0 {
            let of = count(report.unfinished, "process");
            write!(f, "\n{of} ended without saying so, or go on: the last lines may be missing.")?;
        }
        Ok(())
    }
}

/// So many of them.
fn count(number: u64, of: &str) -> String {
    let ending = match (number, of.ends_with('s')) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{number} {of}{ending}")
}

fn more(f: &mut fmt::Formatter<'_>, of: &str, count: usize) -> fmt::Result {
    match count.checked_sub(SHOWN) {
        Some(more @ 1..) => writeln!(f, "\n… and {more} more {of}"),
        _ => Ok(()),
    }
}

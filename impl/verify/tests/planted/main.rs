//! A planted violation of each property is found, as a violation of that property, where it was planted.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../common/mod.rs"]
mod common;
mod outcomes;
mod records;

use common::*;
use settled::protocol::{Ends, ToolKind};
use settled::{Happened, HistoryLine};
use settled_verify::{Effect, Options, Property, Report, Verdict, Verifier};

/// The report on these lines, with nothing else.
fn judged(lines: &[HistoryLine]) -> Report {
    with_effects(lines, &[], ENDED)
}

fn with_effects(lines: &[HistoryLine], effects: &[Effect], options: Options) -> Report {
    let mut verifier = Verifier::new(options);
    lines.iter().cloned().for_each(|line| verifier.line(line));
    effects.iter().cloned().for_each(|effect| verifier.effect(effect));
    verifier.finish()
}

/// Its violations are of this property, and there is at least one.
#[track_caller]
fn finds(report: &Report, property: Property) {
    assert!(report.violations().iter().any(|violation| violation.property == property), "{report}");
    assert_eq!(report.verdict(property), Some(&Verdict::Broken));
}

async fn quick(kind: ToolKind) -> Vec<HistoryLine> {
    let run = Run::of(async |world: &World| {
        call(&world.engine, ends(kind, Ends::OnFailure), &Script::new([])).await;
    })
    .await;
    finds_nothing(&judged(&run.lines));
    run.lines
}

#[track_caller]
fn finds_nothing(report: &Report) {
    report.assert_whole();
}

/// Where the first such line is.
#[track_caller]
fn place(lines: &[HistoryLine], wanted: impl Fn(&Happened) -> bool) -> usize {
    lines.iter().position(|line| wanted(&line.what)).expect("such a line")
}

fn is_sent(what: &Happened) -> bool {
    matches!(what, Happened::Sent { .. })
}

fn is_stored(state: &'static str) -> impl Fn(&Happened) -> bool {
    move |what| matches!(what, Happened::Stored { state: its, .. } if its == state)
}

/// The lines with one more after the one at `at`, numbered anew.
fn with_line_after(lines: &[HistoryLine], at: usize, what: Happened) -> Vec<HistoryLine> {
    let mut lines = lines.to_vec();
    let line = HistoryLine { what, ..lines[at].clone() };
    lines.insert(at + 1, line);
    numbered(lines)
}

fn without(lines: &[HistoryLine], at: usize) -> Vec<HistoryLine> {
    let mut lines = lines.to_vec();
    lines.remove(at);
    numbered(lines)
}

fn moved(lines: &[HistoryLine], from: usize, to: usize) -> Vec<HistoryLine> {
    let mut lines = lines.to_vec();
    let line = lines.remove(from);
    lines.insert(to, line);
    numbered(lines)
}

/// As if the process had written them so itself.
fn numbered(mut lines: Vec<HistoryLine>) -> Vec<HistoryLine> {
    (1..).zip(&mut lines).for_each(|(n, line)| line.n = n);
    lines
}

fn changed(lines: &[HistoryLine], at: usize, change: impl Fn(&mut Happened)) -> Vec<HistoryLine> {
    let mut lines = lines.to_vec();
    change(&mut lines[at].what);
    lines
}

fn effect() -> Effect {
    Effect { key: key(), generation: None, attempt: None, resource: None, begun: None, ended: None }
}

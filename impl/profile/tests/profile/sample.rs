//! Reports made by hand, small enough to be known by heart.

use std::collections::BTreeMap;

use settled_profile::{
    Adapter, Bite, Cell, CellResult, Counts, Event, FORMAT, Machine, Outcome, Prediction, Profile, Report, Run,
    Variant, Who,
};

/// A text that would do harm if it were taken for more than text.
pub const HOSTILE: &str = "</script><img src=x onerror=alert(1)>\u{1b}[31m\u{202e}&\"'`--><!--";

/// A run that was struck, with these effects of its steps.
pub fn run(outcome: Outcome, effects: &[u32]) -> Run {
    let steps = ["a", "b", "c"].into_iter().zip(effects);
    let effects: BTreeMap<String, u32> = steps.map(|(step, times)| (step.to_owned(), *times)).collect();
    let mut events = vec![event(0, Who::Harness, "started (steps)")];
    for (step, times) in &effects {
        for time in 0..*times {
            let at = events.len() as u64 * 20;
            events.push(event(at, Who::Framework, &format!("called {step}")));
            events.push(event(at + 3, Who::Tool, &format!("effect {step}")));
            if *times > 1 && time == 0 {
                events.push(event(at + 5, Who::Harness, "killed"));
                events.push(event(at + 6, Who::Framework, "ended by signal 9"));
                events.push(event(at + 9, Who::Harness, "resumed (continue)"));
            } else {
                events.push(event(at + 7, Who::Tool, &format!("answered {step}")));
            }
        }
    }
    if let Outcome::Error(words) = &outcome {
        events.push(event(900, Who::Framework, "exit 1"));
        events.push(event(901, Who::Framework, &format!("says: {words}")));
    } else {
        events.push(event(900, Who::Framework, "exit 0"));
    }
    Run { outcome, bite: Bite::Struck, effects, events, seconds: 0.912 }
}

/// A run whose fault did not strike.
pub fn missed(why: &str) -> Run {
    Run { bite: Bite::Missed(why.to_owned()), ..run(Outcome::Once, &[1, 1, 1]) }
}

fn event(at: u64, who: Who, what: &str) -> Event {
    Event { at, who, what: what.to_owned() }
}

/// What came of a cell in these runs.
pub fn result(cell: Cell, runs: Vec<Run>) -> CellResult {
    let mut counts = Counts::default();
    for run in &runs {
        match run.bite {
            Bite::Missed(_) => counts.missed += 1,
            Bite::Struck => {
                *counts.outcomes.entry(run.outcome.kind().to_owned()).or_default() += 1;
                counts.most = counts.most.max(run.effects.values().copied().max().unwrap_or(0));
            }
        }
    }
    CellResult { cell, property: None, fault: None, counts, predicted: None, runs }
}

/// The same, with a prediction.
pub fn predicted(result: CellResult, possible: &[&str], agrees: bool) -> CellResult {
    let possible = possible.iter().map(|kind| (*kind).to_owned()).collect();
    let prediction = Prediction { protocol: "workflow-journal".to_owned(), possible, agrees };
    CellResult {
        property: Some("at-most-once".to_owned()),
        fault: Some("client-crashes".to_owned()),
        predicted: Some(prediction),
        ..result
    }
}

/// A profile of these cells.
pub fn profile(adapter: &str, version: &str, variant: &str, behind: Option<&str>, cells: Vec<CellResult>) -> Profile {
    Profile {
        adapter: adapter.to_owned(),
        variant: variant.to_owned(),
        framework: format!("{adapter}-package"),
        version: version.to_owned(),
        runtime: "Python 3.11.2".to_owned(),
        transport: "http".to_owned(),
        behind: behind.map(str::to_owned),
        cells,
        left_out: BTreeMap::new(),
    }
}

/// A report of these profiles.
pub fn report(profiles: Vec<Profile>) -> Report {
    Report {
        format: FORMAT.to_owned(),
        made: "2026-11-30T17:00:00Z".to_owned(),
        command: "settled profile run --all --repeat 5".to_owned(),
        settled: "0.1.0".to_owned(),
        machine: Machine { system: "Linux 6.1".to_owned(), processor: "Example CPU".to_owned(), cores: 2 },
        seed: 7,
        profiles,
    }
}

fn times(number: usize, run: &Run) -> Vec<Run> {
    vec![run.clone(); number]
}

/// Every kind of outcome, a disagreement, a missed fault, a cell that is left out; alone, behind settled, in two versions.
pub fn full() -> Report {
    let once = run(Outcome::Once, &[1, 1, 1]);
    let twice = run(Outcome::Duplicate(2), &[1, 2, 1]);
    let lost = run(Outcome::Lost, &[1, 1, 0]);
    let stuck = run(Outcome::Stuck, &[1, 1, 0]);
    let error = run(Outcome::Error("EmptyInputError: nothing to resume".to_owned()), &[1, 1, 0]);
    let mixed = || [times(3, &twice), times(2, &once)].concat();
    let base = |killed: CellResult| {
        vec![
            predicted(result(Cell::NoFault, times(5, &once)), &["once"], true),
            predicted(result(Cell::KillBeforeEffect, times(5, &once)), &["once"], true),
            killed,
            result(Cell::KillAtRandom, mixed()),
            result(Cell::DiskFull, times(5, &error)),
            result(Cell::TornWrite, vec![missed("no write was cut"); 5]),
            result(Cell::ResumedTwice, times(5, &lost)),
            result(Cell::ResumedAtOnce, [times(4, &stuck), vec![missed("only two were running")]].concat()),
        ]
    };
    let duplicates = || predicted(result(Cell::KillAfterEffect, times(5, &twice)), &["duplicate"], true);
    let surprises = || predicted(result(Cell::KillAfterEffect, times(5, &once)), &["duplicate"], false);
    let mut alone = profile("toy", "1.2.3", "sync", None, base(duplicates()));
    alone.left_out.insert("approved-twice".to_owned(), "it knows no approval".to_owned());
    let behind = profile("toy", "1.2.3", "sync", Some("settled"), {
        let mut cells = base(result(Cell::KillAfterEffect, times(5, &once)));
        cells[3] = result(Cell::KillAtRandom, times(5, &once));
        cells
    });
    let newer = profile("toy", "1.3.0", "sync", None, base(surprises()));
    let other = profile(
        "other",
        "0.9.1",
        "default",
        None,
        vec![duplicates(), {
            let mut runs = times(4, &run(Outcome::Once, &[1, 1]));
            runs.push(run(Outcome::Duplicate(2), &[1, 2]));
            result(Cell::ApprovedTwice, runs)
        }],
    );
    report(vec![alone, behind, newer, other])
}

/// An adapter with one variant, `x`, whose files are in this directory.
pub fn adapter(protocol: &str, directory: &std::path::Path) -> (Adapter, Variant) {
    let text = "name = \"toy\"\nabout = \"y\"\nframework = \"toy\"\nversion = \"1\"\nruntime = [\"true\"]\nstart = [\"true\"]\n\
                resume = [\"true\"]\nworkloads = [\"steps\"]\nprotocol = \"other\"\n[[variant]]\nname = \"x\"\n";
    std::fs::write(directory.join("adapter.toml"), format!("{text}protocol = \"{protocol}\"\n")).unwrap();
    let adapter = Adapter::read(directory).unwrap();
    let variant = adapter.variants[0].clone();
    (adapter, variant)
}

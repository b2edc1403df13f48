//! What the page's script shows on demand, as JSON in the page.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use super::super::words::plain;
use super::Numbered;
use crate::outcome::Bite;
use crate::profile::{CellResult, Prediction, Run};

#[derive(Serialize)]
struct Data {
    /// Every text of an event once: most come in every run.
    words: Vec<String>,
    cells: BTreeMap<&'static str, &'static str>,
    profiles: Vec<ProfileData>,
}

#[derive(Serialize)]
struct ProfileData {
    name: String,
    cells: BTreeMap<&'static str, CellData>,
}

#[derive(Serialize)]
struct CellData {
    property: Option<String>,
    fault: Option<String>,
    predicted: Option<Prediction>,
    runs: Vec<RunData>,
}

#[derive(Serialize)]
struct RunData {
    kind: &'static str,
    outcome: String,
    missed: Option<String>,
    effects: BTreeMap<String, u32>,
    seconds: f64,
    /// When, who (the harness, the framework, the tool), and what: its number in `words`.
    events: Vec<(u64, u8, usize)>,
}

#[derive(Default)]
struct Words<'a> {
    numbers: HashMap<&'a str, usize>,
    all: Vec<String>,
}

impl<'a> Words<'a> {
    fn number(&mut self, text: &'a str) -> usize {
        *self.numbers.entry(text).or_insert_with(|| {
            self.all.push(plain(text));
            self.all.len() - 1
        })
    }

    fn run(&mut self, run: &'a Run) -> RunData {
        RunData {
            kind: run.outcome.kind(),
            outcome: plain(&run.outcome.to_string()),
            missed: match &run.bite {
                Bite::Struck => None,
                Bite::Missed(why) => Some(plain(why)),
            },
            effects: run.effects.iter().map(|(step, times)| (plain(step), *times)).collect(),
            seconds: run.seconds,
            events: run.events.iter().map(|event| (event.at, lane(event.who), self.number(&event.what))).collect(),
        }
    }

    fn cell(&mut self, result: &'a CellResult) -> CellData {
        CellData {
            property: result.property.as_deref().map(plain),
            fault: result.fault.as_deref().map(plain),
            predicted: result.predicted.as_ref().map(|predicted| Prediction {
                protocol: plain(&predicted.protocol),
                possible: predicted.possible.iter().map(|kind| plain(kind)).collect(),
                agrees: predicted.agrees,
            }),
            runs: result.runs.iter().map(|run| self.run(run)).collect(),
        }
    }
}

const fn lane(who: crate::Who) -> u8 {
    match who {
        crate::Who::Harness => 0,
        crate::Who::Framework => 1,
        crate::Who::Tool => 2,
    }
}

/// The data, so written that nothing in it can end the element that it is in.
pub(super) fn json(profiles: &[Numbered<'_>]) -> String {
    let mut words = Words::default();
    let profiles = profiles.iter().map(|(_, profile)| ProfileData {
        name: super::super::table::name(profile),
        cells: profile.cells.iter().map(|result| (result.cell.name(), words.cell(result))).collect(),
    });
    let profiles = profiles.collect();
    let cells = crate::Cell::ALL.iter().map(|cell| (cell.name(), cell.says())).collect();
    let data = Data { words: words.all, cells, profiles };
    serde_json::to_string(&data)
        .unwrap_or_default()
        .replace('&', "\\u0026")
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

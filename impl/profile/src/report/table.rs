//! A report in a terminal: what came of every cell of every profile.

use std::collections::BTreeMap;

use super::grid::{Field, Grid, Row, width};
use super::mark::{Kind, Mark, groups, result};
use super::words::{count, plain};
use crate::cell::Cell;
use crate::khan::{Finding, Property};
use crate::outcome::{Bite, Outcome};
use crate::profile::{Profile, Report};

/// So many notes of a kind are shown.
const NOTES: usize = 12;
/// Up to so many cells are columns; more of them are rows.
const FEW: usize = 6;

/// The report as a table as wide as the terminal, with a legend and what is to be known of single cells.
#[must_use]
pub fn table(report: &Report) -> String {
    table_in(report, width())
}

/// The same, at most this wide (names that are wider than that are not broken).
#[must_use]
pub fn table_in(report: &Report, width: usize) -> String {
    let profiles: Vec<_> = report.profiles.iter().collect();
    if profiles.is_empty() {
        return "No profile was measured.".to_owned();
    }
    let flat = cells_as_columns(&profiles);
    let few = flat.heads.len() <= FEW && flat.width() <= width;
    let text = if few { flat.text(width) } else { profiles_as_columns(&profiles).text(width) };
    [text, legend(&profiles, width), notes(&profiles, width), summary(&profiles)]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("\n\n")
}

/// What a profile is called in one line: `langgraph@1.2.24/sync, behind settled`.
pub(super) fn name(profile: &Profile) -> String {
    let behind = profile.behind.as_ref().map_or(String::new(), |behind| format!(", behind {behind}"));
    plain(&format!("{}@{}/{}{behind}", profile.adapter, profile.version, profile.variant))
}

fn head(profile: &Profile) -> String {
    let mut lines = vec![plain(&profile.adapter), plain(&profile.version), plain(&profile.variant)];
    if let Some(behind) = &profile.behind {
        lines.push(format!("+ {}", plain(behind)));
    }
    lines.join("\n")
}

/// What is shown of one cell.
pub(super) fn field(profile: &Profile, cell: Cell) -> Field {
    match result(profile, cell) {
        Some(result) => Field::Mark(Mark::of(result)),
        None if profile.left_out.contains_key(cell.name()) => Field::Word("·".to_owned(), None),
        None => Field::Word(String::new(), None),
    }
}

fn khan_field(profile: &Profile, property: Property) -> Field {
    match property.of(profile) {
        Finding::Holds { .. } => Field::Word("✓".to_owned(), Some(true)),
        Finding::Violated { by } => Field::Word(format!("✗ {}", by.len()), Some(false)),
        Finding::NotTried => Field::Word("–".to_owned(), None),
    }
}

fn cells_as_columns(profiles: &[&Profile]) -> Grid {
    let cells: Vec<_> = groups(profiles.iter().copied()).flat_map(|(_, cells)| cells).collect();
    let row = |profile: &&Profile| Row {
        name: name(profile),
        fields: cells.iter().map(|cell| field(profile, *cell)).collect(),
    };
    Grid {
        corner: "profile".to_owned(),
        heads: cells.iter().map(|cell| cell.name().replace('-', "-\n")).collect(),
        rows: profiles.iter().map(row).collect(),
    }
}

fn profiles_as_columns(profiles: &[&Profile]) -> Grid {
    let mut rows = Vec::new();
    for (group, cells) in groups(profiles.iter().copied()) {
        rows.push(Row { name: group.to_uppercase(), fields: Vec::new() });
        rows.extend(cells.into_iter().map(|cell| Row {
            name: format!("  {cell}"),
            fields: profiles.iter().map(|profile| field(profile, cell)).collect(),
        }));
    }
    rows.push(Row { name: "RESUME CONTRACT (KHAN)".to_owned(), fields: Vec::new() });
    rows.extend(Property::ALL.into_iter().map(|property| Row {
        name: format!("  {}", property.name()),
        fields: profiles.iter().map(|profile| khan_field(profile, property)).collect(),
    }));
    Grid { corner: "cell".to_owned(), heads: profiles.iter().map(|profile| head(profile)).collect(), rows }
}

/// Entries, as many on a line as it has room for.
fn flow(entries: impl Iterator<Item = String>, width: usize) -> String {
    let mut lines = vec![String::new()];
    for entry in entries {
        match lines.last_mut() {
            Some(line) if line.is_empty() => *line = entry,
            Some(line) if line.chars().count() + entry.chars().count() + 3 <= width => {
                line.push_str(" · ");
                line.push_str(&entry);
            }
            _ => lines.push(entry),
        }
    }
    lines.join("\n")
}

fn legend(profiles: &[&Profile], width: usize) -> String {
    let marks = || profiles.iter().flat_map(|profile| &profile.cells).map(Mark::of);
    let there = |kind: &Kind| marks().any(|mark| mark.counts.iter().any(|(its, _)| its == kind));
    let kinds = Kind::ALL.iter().rev().filter(|kind| there(kind)).map(|kind| match kind {
        Kind::Duplicate => format!("N×: {}", kind.says()),
        kind => format!("{} {}: {}", kind.sign(0), kind.name(), kind.says()),
    });
    let more = [
        (marks().any(|mark| mark.missed > 0), "missed N: the fault did not strike in N runs, which say nothing"),
        (marks().any(|mark| mark.disagrees), "≠ the model predicts otherwise"),
        (profiles.iter().any(|profile| !profile.left_out.is_empty()), "· can't be tried"),
    ];
    let more = more.into_iter().filter(|(there, _)| *there).map(|(_, says)| says.to_owned());
    flow(kinds.chain(std::iter::once("3/5: in 3 of 5 runs".to_owned())).chain(more), width)
}

/// What is to be known of single cells: disagreements, faults that did not strike, what frameworks said as they gave up, and
/// why a cell was not tried.
fn notes(profiles: &[&Profile], width: usize) -> String {
    let (mut disagree, mut missed, mut errors) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let mut left_out = BTreeMap::new();
    for profile in profiles {
        for (cell, why) in &profile.left_out {
            left_out.entry(plain(why)).or_insert_with(Vec::new).push(plain(&format!("{} {cell}", name(profile))));
        }
        for result in &profile.cells {
            let place = format!("{} {}", name(profile), result.cell);
            if let Some(predicted) = result.predicted.as_ref().filter(|predicted| !predicted.agrees) {
                let seen: Vec<_> = Mark::of(result).counts.iter().map(|(kind, _)| kind.name()).collect();
                let possible = predicted.possible.join(" or ");
                let says = format!("{}, and “{}” predicts {possible}", seen.join(" and "), plain(&predicted.protocol));
                disagree.entry(says).or_insert_with(Vec::new).push(place.clone());
            }
            let mut said = std::collections::BTreeSet::new();
            for run in &result.runs {
                match (&run.bite, &run.outcome) {
                    (Bite::Missed(why), _) if said.insert(why) => {
                        missed.entry(plain(why)).or_insert_with(Vec::new).push(place.clone());
                    }
                    (Bite::Struck, Outcome::Error(words)) if said.insert(words) => {
                        errors.entry(plain(words)).or_insert_with(Vec::new).push(place.clone());
                    }
                    _ => {}
                }
            }
        }
    }
    let parts = [
        ("The model predicts otherwise:", disagree),
        ("Faults that did not strike:", missed),
        ("What frameworks said as they gave up:", errors),
        ("What can't be tried:", left_out),
    ];
    let part = |(title, said): (&str, BTreeMap<String, Vec<String>>)| {
        let line = |(says, places): (&String, &Vec<String>)| {
            let more = if places.len() > 3 { format!(" and {} more", places.len() - 3) } else { String::new() };
            let first: Vec<_> = places.iter().take(3).map(String::as_str).collect();
            let says: String = says.chars().take(2 * width).collect();
            format!("  {says}\n    {}{more}", first.join(", "))
        };
        let more = said.len().saturating_sub(NOTES);
        let more = (more > 0).then(|| format!("  and {more} more: see the page that `--html FILE` writes"));
        let lines: Vec<_> = said.iter().take(NOTES).map(line).chain(more).collect();
        (!said.is_empty()).then(|| format!("{title}\n{}", lines.join("\n")))
    };
    parts.into_iter().filter_map(part).collect::<Vec<_>>().join("\n\n")
}

/// Cells by the worst that came of them: `12 cells: 8 once, 4 duplicate`.
fn summary(profiles: &[&Profile]) -> String {
    let marks: Vec<_> = profiles.iter().flat_map(|profile| &profile.cells).map(Mark::of).collect();
    let number = |kind: Option<Kind>| marks.iter().filter(|mark| mark.worst() == kind).count();
    let kinds =
        [Kind::Once, Kind::Duplicate, Kind::Lost, Kind::Stuck, Kind::Error].map(|kind| (Some(kind), kind.name()));
    let by_kind: Vec<_> = kinds
        .into_iter()
        .chain([(None, "never struck")])
        .map(|(kind, name)| (number(kind), name))
        .filter(|(number, _)| *number > 0)
        .map(|(number, name)| format!("{number} {name}"))
        .collect();
    let predicted =
        || profiles.iter().flat_map(|profile| &profile.cells).filter_map(|result| result.predicted.as_ref());
    let predictions = match predicted().count() {
        0 => String::new(),
        all => format!(" The model agrees in {} of {all}.", predicted().filter(|predicted| predicted.agrees).count()),
    };
    let (cells, number) = (count(marks.len(), "cell"), count(profiles.len(), "profile"));
    format!("{number}, {cells}, by the worst that came of them: {}.{predictions}", by_kind.join(", "))
}

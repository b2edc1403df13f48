//! What was seen, for people.

use std::collections::{BTreeMap, BTreeSet};

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell as Field, CellAlignment, ContentArrangement, Table};

use super::cell::{Cell, Way};
use super::play::Seen;

/// A line for each client and fault; what several operations came to, together.
pub fn table(cells: &[Cell], seen: &BTreeMap<(Cell, Way), Seen>) -> String {
    let mut rows: BTreeMap<_, Vec<Cell>> = BTreeMap::new();
    for cell in cells {
        rows.entry((cell.client, cell.fault)).or_default().push(*cell);
    }
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["client", "fault", "calls", "direct", "guarded", "told", "guarded, API with keys", "told"]);
    for ((client, fault), cells) in rows {
        let of = |way, what: fn(&Seen) -> String| {
            let all: BTreeSet<String> = cells.iter().filter_map(|cell| seen.get(&(*cell, way))).map(what).collect();
            all.into_iter().collect::<Vec<_>>().join("; ")
        };
        let charges = |way| Field::new(of(way, |its| its.charges.to_string())).set_alignment(CellAlignment::Right);
        let told = |way| Field::new(of(way, |its| its.told.to_string()));
        table.add_row([
            Field::new(client.name()),
            Field::new(fault),
            Field::new(cells.len()).set_alignment(CellAlignment::Right),
            charges(Way::Direct),
            charges(Way::Opaque),
            told(Way::Opaque),
            charges(Way::Keyed),
            told(Way::Keyed),
        ]);
    }
    let count = |way| seen.iter().filter(|((_, its), _)| *its == way).map(|(_, seen)| seen.charges).sum::<usize>();
    table.add_row([
        Field::new("all"),
        Field::new(""),
        Field::new(cells.len()).set_alignment(CellAlignment::Right),
        Field::new(count(Way::Direct)).set_alignment(CellAlignment::Right),
        Field::new(count(Way::Opaque)).set_alignment(CellAlignment::Right),
        Field::new(""),
        Field::new(count(Way::Keyed)).set_alignment(CellAlignment::Right),
        Field::new(""),
    ]);
    table.to_string()
}

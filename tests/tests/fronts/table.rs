//! The table.

use std::collections::BTreeMap;

use comfy_table::{Cell as Field, CellAlignment, ContentArrangement, Table, presets::UTF8_FULL_CONDENSED};

use crate::Came;
use crate::cell::{Cell, Direct, name};

/// One row for each client, fault and way; revisions that came to the same share one.
pub fn of(guarded: &[(Cell, Came)], direct: &BTreeMap<Direct, Came>) -> String {
    let mut rows: BTreeMap<_, Vec<&str>> = BTreeMap::new();
    for (cell, came) in guarded {
        let without = match cell.direct() {
            None => "–".to_owned(),
            Some(its) => direct.get(&its).map_or_else(|| "not counted".to_owned(), charges),
        };
        let told = match came {
            Came::Played(seen) => seen.told.clone(),
            Came::Broke(_) => String::new(),
        };
        let row = (cell.client, cell.fault, cell.way, without, charges(came), told);
        rows.entry(row).or_default().push(cell.revision);
    }
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["client", "fault", "transport", "direct", "guarded", "told", "revisions"]);
    for ((client, fault, way, without, with, told), mut revisions) in rows {
        revisions.sort_unstable();
        table.add_row([
            Field::new(name(client)),
            Field::new(fault),
            Field::new(way),
            Field::new(without).set_alignment(CellAlignment::Right),
            Field::new(with).set_alignment(CellAlignment::Right),
            Field::new(told),
            Field::new(revisions.join(" ")),
        ]);
    }
    table.to_string()
}

fn charges(came: &Came) -> String {
    match came {
        Came::Broke(_) => "BROKE".to_owned(),
        Came::Played(seen) if !seen.struck => format!("{} (fault did not strike)", seen.charges),
        Came::Played(seen) => seen.charges.to_string(),
    }
}

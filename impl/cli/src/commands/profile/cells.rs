//! `settled profile cells`: what is done in each.

use clap::Args;
use comfy_table::{ColumnConstraint, ContentArrangement, Table, Width, presets};
use settled_profile::Cell;

use crate::failure::{Exit, Failure};
use crate::output;

/// Lists the cells: what is done to a framework in each of them.
#[derive(Debug, Args)]
pub struct CellsArgs {}

/// Runs the command.
pub fn run(CellsArgs {}: CellsArgs) -> Result<Exit, Failure> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic).set_header([
        "cell",
        "workload",
        "what is done",
    ]);
    for cell in Cell::ALL {
        table.add_row([cell.name(), cell.workload().name(), cell.says()]);
    }
    if let Some(column) = table.column_mut(2) {
        column.set_constraint(ColumnConstraint::UpperBoundary(Width::Fixed(100)));
    }
    output::line(table.trim_fmt())?;
    Ok(Exit::Good)
}

//! What a sweep prints.

use comfy_table::{Cell, CellAlignment, Table, presets};
use settled_ledger_tests::stage::truth::Truth;

/// One sweep: one process of one scenario, for one kind of tool on one ledger.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// The ledger.
    pub ledger: &'static str,
    /// The tool's kind.
    pub kind: &'static str,
    /// Which process was killed, or what else befell it.
    pub process: String,
    /// How many places there are at which it could be.
    pub points: u64,
    /// How many runs there were.
    pub runs: usize,
    /// How many kills.
    pub kills: usize,
    /// What was acknowledged and is not there.
    pub losses: Vec<String>,
    /// What happened more than once.
    pub repeats: Vec<String>,
    /// What else must not be.
    pub lies: Vec<String>,
}

impl Row {
    /// Notes what was true of a run.
    pub fn take(&mut self, truth: Truth) {
        self.losses.extend(truth.losses);
        self.repeats.extend(truth.repeats);
        self.lies.extend(truth.lies);
    }
}

/// The table, with its sums. `heads` are over what befell the processes, and how often it did.
pub fn table(heads: [&str; 2], rows: &[Row]) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table.set_header(["ledger", "kind", heads[0], "points", "runs", heads[1], "losses", "repeats", "lies"]);
    let numbers =
        |row: &Row| [row.points as usize, row.runs, row.kills, row.losses.len(), row.repeats.len(), row.lies.len()];
    let mut sums = [0; 6];
    for row in rows {
        let mut cells: Vec<Cell> = [row.ledger, row.kind, &*row.process].map(Cell::new).into();
        for (number, sum) in numbers(row).into_iter().zip(&mut sums) {
            *sum += number;
            cells.push(Cell::new(number).set_alignment(CellAlignment::Right));
        }
        table.add_row(cells);
    }
    let mut cells: Vec<Cell> = ["all", "", ""].map(Cell::new).into();
    cells.extend(sums.map(|sum| Cell::new(sum).set_alignment(CellAlignment::Right)));
    table.add_row(cells);
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// Prints the table, and writes it to a file of this name beside the programs.
///
/// # Panics
/// If it can't be written, or anything was found.
pub fn show(name: &str, heads: [&str; 2], rows: &[Row]) {
    let table = table(heads, rows);
    println!("{table}");
    let directory = std::env::current_exe().unwrap();
    let directory = directory.ancestors().nth(3).unwrap().join("tests");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join(name), format!("{table}\n")).unwrap();
    for row in rows {
        let found: Vec<_> = row.losses.iter().chain(&row.repeats).chain(&row.lies).collect();
        assert!(found.is_empty(), "{} {} {}: {}", row.ledger, row.kind, row.process, found[0]);
        assert!(row.kills > 0, "{} {} {}: nothing befell it", row.ledger, row.kind, row.process);
    }
}

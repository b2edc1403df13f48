//! The table of protocol × property.

use comfy_table::{Cell, CellAlignment, Color, LineStyle, Table, TableStyle};
use settled_model::{PropertyName, Report, Verdict};

/// The widest line, so that nothing wraps on a wide terminal or a page.
const WIDTH: usize = 120;
const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

/// The head of a property's column: short, since there are many.
fn head(property: PropertyName) -> &'static str {
    match property {
        PropertyName::AtMostOnce => "once",
        PropertyName::NoPhantomSuccess => "phan",
        PropertyName::NoFalseFailure => "fail",
        PropertyName::FaithfulReplay => "same",
        PropertyName::NoSuppression => "supp",
        PropertyName::IntentFirst => "rec",
        PropertyName::UnknownBlocks => "unkn",
        PropertyName::NoOverlap => "over",
        PropertyName::Convergence => "conv",
        PropertyName::CausalRespect => "caus",
        PropertyName::Settles => "ends",
        PropertyName::CanSettle => "can",
        PropertyName::BoundedRetries => "retr",
        PropertyName::BoundedMemory => "mem",
    }
}

/// The properties that say anything about any of these protocols.
fn columns(reports: &[Report]) -> Vec<PropertyName> {
    let said = |property: &PropertyName| {
        reports.iter().any(|report| !matches!(report.verdict(*property), Verdict::NotApplicable))
    };
    PropertyName::ALL.iter().copied().filter(said).collect()
}

/// The table, and below it what the heads stand for.
pub fn matrix(reports: &[Report]) -> String {
    let columns = columns(reports);
    let mut table = Table::new();
    table.load_style(STYLE);
    let heads = columns.iter().map(|property| head(*property));
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    let numbers = ["states", "time"].map(|text| right(text.to_owned()));
    table.set_header(std::iter::once(Cell::new("protocol")).chain(heads.map(Cell::new)).chain(numbers));
    for report in reports {
        let mut row = vec![Cell::new(&report.description.name)];
        row.extend(columns.iter().map(|property| match report.verdict(*property) {
            Verdict::Holds => Cell::new("✓").fg(Color::Green),
            Verdict::Violated(trace) => Cell::new(format!("✗ {}", trace.steps.len())).fg(Color::Red),
            Verdict::NotFinished => Cell::new("?").fg(Color::Yellow),
            Verdict::NotApplicable => Cell::new("–"),
        }));
        row.push(right(report.unique_states.to_string()));
        row.push(right(format!("{:.1} s", report.elapsed.as_secs_f64())));
        table.add_row(row);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 0));
    }
    let lines: Vec<_> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    format!("{}\n\n{}", lines.join("\n"), legend(&columns))
}

fn legend(columns: &[PropertyName]) -> String {
    let mut lines = vec![String::new()];
    for property in columns {
        let entry = format!("{}: {}", head(*property), property.name());
        match lines.last_mut() {
            Some(line) if line.is_empty() => *line = entry,
            Some(line) if line.chars().count() + entry.chars().count() + 3 <= WIDTH => {
                line.push_str(" · ");
                line.push_str(&entry);
            }
            _ => lines.push(entry),
        }
    }
    lines.push("✓ holds in every reachable state within the bounds · ✗ N violated, shortest run N steps".to_owned());
    lines.push("? not finished · – not asked, or says nothing here".to_owned());
    lines.join("\n")
}

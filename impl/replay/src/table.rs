//! What came of replays, as text.

use comfy_table::{Cell, CellAlignment, LineStyle, Table, TableStyle};

use crate::outcome::{Outcome, Verdict};
use crate::safe::Survival;
use crate::shipped::{All, Row};

const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

fn numbers(effects: &[usize]) -> String {
    if effects.is_empty() {
        "–".to_owned()
    } else {
        effects.iter().map(usize::to_string).collect::<Vec<_>>().join(" + ")
    }
}

/// One replay, in a few lines.
pub fn outcome(outcome: &Outcome) -> String {
    let steps = outcome.steps;
    let mut lines = vec![format!("{}: “{}”, {steps} steps", outcome.protocol, outcome.property.name())];
    lines.push(format!("  effects   model {}, reality {}", numbers(&outcome.model), numbers(&outcome.reality)));
    if !outcome.told.is_empty() {
        lines.push(format!("  told      {}", outcome.told.join("; ")));
    }
    match &outcome.verified {
        Some(violated) if !violated.is_empty() => {
            lines.push(format!("  verify    the guards’ histories show violated: {}", violated.join(", ")))
        }
        Some(_) => lines.push("  verify    nothing is violated in the guards’ histories".to_owned()),
        None => {}
    }
    lines.push(match &outcome.verdict {
        Verdict::Agrees => format!("  agrees    “{}” was violated for real", outcome.property.name()),
        Verdict::Differs if outcome.violated => "  differs   the violation was seen, with other effects".to_owned(),
        Verdict::Differs => "  differs   every step was made, and the violation was not to be seen".to_owned(),
        Verdict::Parted { step, text, parted } => {
            format!(
                "  parted    at step {step} ({text})\n    expected {}\n    but      {}",
                parted.expected, parted.seen
            )
        }
        Verdict::NoImplementation { reason } => format!("  –         {reason}"),
    });
    if let Some(kept) = &outcome.kept {
        lines.push(format!("  files     {}", kept.display()));
    }
    lines.join("\n")
}

/// All shipped protocols as a table, with what went wrong below it.
pub fn all(all: &All) -> String {
    let mut table = Table::new();
    table.load_style(STYLE);
    table.set_header([
        "protocol",
        "property",
        "steps",
        "model",
        "reality",
        "",
        "verify",
        "same schedule, sound",
        "made",
        "effects",
        "",
    ]);
    for row in &all.rows {
        table.add_row(cells(row));
    }
    for column in [2, 3, 4] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut text = format!("{}\n{}", trimmed(&table.to_string()), summary(all));
    for wrong in wrong(all) {
        text += &format!("\n\n{wrong}");
    }
    text
}

/// What went wrong: each replay that reality does not agree with, and each schedule that a sound protocol did not survive.
pub fn wrong(all: &All) -> Vec<String> {
    let mut wrong = Vec::new();
    for row in &all.rows {
        if !row.replay.agrees() && !matches!(row.replay.verdict, Verdict::NoImplementation { .. }) {
            wrong.push(outcome(&row.replay));
        }
        if let Some(survival) = row.survival.as_ref().filter(|survival| !survival.survived()) {
            wrong.push(broken(survival));
        }
    }
    wrong
}

fn trimmed(text: &str) -> String {
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

fn cells(row: &Row) -> Vec<Cell> {
    let verdict = match &row.replay.verdict {
        Verdict::Agrees => "agrees".to_owned(),
        Verdict::Differs => "DIFFERS".to_owned(),
        Verdict::Parted { step, .. } => format!("PARTED at {step}"),
        Verdict::NoImplementation { .. } => "no implementation to replay on".to_owned(),
    };
    let verified = match &row.replay.verified {
        None => "–",
        Some(violated) if violated.iter().any(|name| name == row.property.name()) => "names it",
        Some(violated) if !violated.is_empty() => "names another",
        Some(_) => "names none",
    };
    let verified = verified.to_owned();
    let (protocol, made, effects, survived) = match &row.survival {
        None => (String::new(), String::new(), String::new(), String::new()),
        Some(its) => (
            its.protocol.clone(),
            format!("{}/{}", its.made, its.steps),
            numbers(&its.effects),
            if its.survived() { "survives".to_owned() } else { "VIOLATED".to_owned() },
        ),
    };
    [
        row.protocol.clone(),
        row.property.name().to_owned(),
        row.replay.steps.to_string(),
        numbers(&row.replay.model),
        numbers(&row.replay.reality),
        verdict,
        verified,
        protocol,
        made,
        effects,
        survived,
    ]
    .into_iter()
    .map(Cell::new)
    .collect()
}

fn broken(survival: &Survival) -> String {
    let violated: Vec<_> = survival.violated.iter().map(|property| property.name()).collect();
    let mut text = format!("{} under the schedule of {}: ", survival.protocol, survival.schedule);
    if !violated.is_empty() {
        text += &format!("violates {}", violated.join(", "));
    }
    if !survival.verified.is_empty() {
        text += &format!("; its histories show violated: {}", survival.verified.join(", "));
    }
    if let Some(parted) = &survival.broken {
        text += &format!("could not be ended: expected {}, but {}", parted.expected, parted.seen);
    }
    text
}

fn summary(all: &All) -> String {
    let agree = all.rows.iter().filter(|row| row.replay.agrees()).count();
    let none = |row: &&Row| matches!(row.replay.verdict, Verdict::NoImplementation { .. });
    let without = all.rows.iter().filter(none).count();
    let schedules = all.rows.iter().filter_map(|row| row.survival.as_ref());
    let survived = schedules.clone().filter(|survival| survival.survived()).count();
    let mut text = format!("\n{agree} of {} counterexamples happen for real as in the model", all.rows.len() - without);
    if without > 0 {
        text += &format!(" ({without} more have no implementation to replay them on)");
    }
    text + &format!("; sound protocols survive {survived} of {} schedules.", schedules.count())
}

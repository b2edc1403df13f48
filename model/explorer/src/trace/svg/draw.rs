//! The pieces of the picture, drawn.

use super::layout::{GUTTER, Kind, LINE, Layout, PADDING, Piece, Row};
use crate::trace::words::{escape, plain};

/// A line of text.
pub(super) fn text(x: i32, y: i32, class: &str, line: &str) -> String {
    format!("<text x=\"{x}\" y=\"{y}\" class=\"{class}\">{}</text>", escape(&plain(line)))
}

/// A cross: the mark of a fault, and of the violation. Drawn, since not every font has one.
pub(super) fn cross(x: i32, y: i32, size: i32, class: &str) -> String {
    let (left, top, side) = (x - size, y - size, 2 * size);
    format!("<path class=\"{class}\" d=\"M{left} {top}l{side} {side}m-{side} 0l{side} -{side}\"/>")
}

fn rect(class: &str, (x, y): (i32, i32), (width, height): (i32, i32), round: i32) -> String {
    format!("<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"{round}\"/>")
}

/// What is behind the steps. Step 0 is the beginning.
pub(super) fn backgrounds(layout: &Layout) -> String {
    let mut backgrounds = String::new();
    let mut background = |step: usize, y: i32, height: i32| {
        let shade = if step % 2 == 1 { "odd" } else { "even" };
        backgrounds.push_str(&format!(
            "<rect class=\"step-row {shade}\" data-step=\"{step}\" x=\"0\" y=\"{y}\" width=\"{}\" height=\"{height}\"/>\n",
            layout.width
        ));
    };
    background(0, layout.headers.first().map_or(0, |y| y - 4), layout.header + 8);
    for (number, row) in (1..).zip(&layout.rows) {
        background(number, row.y, row.height);
    }
    backgrounds
}

/// The lanes with their names.
pub(super) fn lanes(layout: &Layout) -> String {
    let mut drawn = Vec::new();
    let top = layout.headers.first().copied().unwrap_or(0);
    let last = layout.headers.last().copied().unwrap_or(0);
    for lane in &layout.lanes {
        drawn.push(format!("<path class=\"lifeline\" d=\"M{0} {top}V{last}\"/>", lane.x));
    }
    for y in &layout.headers {
        for lane in &layout.lanes {
            let size = (layout.pitch - 10, layout.header);
            drawn.push(rect("lane", (lane.x - size.0 / 2, *y), size, 4));
            let tall = i32::try_from(lane.name.len()).unwrap_or(1) * LINE;
            let mut baseline = y + (layout.header - tall) / 2 - 4;
            for line in &lane.name {
                baseline += LINE;
                drawn.push(text(lane.x, baseline, "lane-name middle", line));
            }
        }
    }
    drawn.join("\n")
}

/// A step.
pub(super) fn row(row: &Row, number: usize) -> String {
    let fault = row.pieces.iter().any(|piece| !piece.fault.is_empty());
    let class = if fault { "step fault" } else { "step" };
    let baseline = row.y + PADDING + LINE - 2;
    let mut drawn = vec![format!("<g class=\"{class}\" data-step=\"{number}\">")];
    drawn.push(text(32, baseline, "number", &number.to_string()));
    if fault {
        drawn.push(cross(45, baseline - 5, 5, "mark"));
    }
    drawn.extend(row.pieces.iter().map(piece));
    drawn.push("</g>".to_owned());
    drawn.join("\n")
}

fn piece(piece: &Piece) -> String {
    let mut drawn = Vec::new();
    let corner = (piece.x, piece.y);
    let size = (piece.width, piece.height);
    let middle = piece.x + piece.width / 2;
    let (frame, writing) = match piece.kind {
        Kind::Note => (Some(("note", 3)), "middle"),
        Kind::Arrow { .. } => (None, "label middle"),
        Kind::Ledger => (Some(("ledger", 0)), ""),
        Kind::Told => (Some(("told", 12)), "middle"),
        Kind::Flight => (Some(("flight", 3)), ""),
        Kind::Effect => (Some(("effect", 11)), "effect-number"),
    };
    if let Some((class, round)) = frame {
        drawn.push(rect(class, corner, size, round));
    }
    if let Kind::Arrow { from, to } = piece.kind {
        let y = piece.y + piece.height - 5;
        let back = if from < to { -9 } else { 9 };
        drawn.push(format!("<path class=\"arrow\" d=\"M{from} {y}H{}\"/>", to + back));
        drawn.push(format!("<path class=\"head\" d=\"M{to} {y}l{back} -5v10z\"/>"));
        if !piece.fault.is_empty() {
            drawn.push(cross((from + to) / 2, y, 5, "mark"));
        }
    }
    let mut baseline = match piece.kind {
        Kind::Effect => piece.y + (piece.height - LINE) / 2 - 4,
        Kind::Arrow { .. } => piece.y - 4,
        _ => piece.y + PADDING / 2 - 4,
    };
    let x = if writing.is_empty() { piece.x + PADDING } else { middle };
    for line in &piece.lines {
        baseline += LINE;
        drawn.push(text(x, baseline, writing, line));
    }
    for line in &piece.fault {
        baseline += LINE;
        drawn.push(text(x, baseline, &format!("{writing} fault-name"), line));
    }
    drawn.join("\n")
}

/// The frame around the steps that repeat for ever.
pub(super) fn round(layout: &Layout, top: i32, says: &str) -> String {
    let bottom = layout.rows.last().map_or(top, |row| row.y + row.height);
    let frame = rect("round", (4, top), (layout.width - 8, bottom + 2 - top), 6);
    format!("{frame}\n{}", text(GUTTER, top + LINE + 1, "round-name label", says))
}

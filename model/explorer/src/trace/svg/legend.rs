//! What the marks in the picture mean.

use super::draw::{cross, text};
use super::layout::{GUTTER, Kind, LINE, Layout, SIZE};
use super::width::width;

/// Draws a mark, 18 wide, at its left and its middle.
type Mark = fn(i32, i32) -> String;

fn frame(class: &str, round: i32, x: i32, y: i32) -> String {
    format!("<rect class=\"{class}\" x=\"{x}\" y=\"{}\" width=\"18\" height=\"12\" rx=\"{round}\"/>", y - 6)
}

/// The legend, of those marks only that are there. Returns where it ends.
pub(super) fn legend(layout: &Layout, y: i32, parts: &mut Vec<String>) -> i32 {
    let pieces = || layout.rows.iter().flat_map(|row| &row.pieces);
    let has = |what: fn(&Kind) -> bool| pieces().any(|piece| what(&piece.kind));
    let effect: Mark = |x, y| format!("<circle class=\"effect\" cx=\"{}\" cy=\"{y}\" r=\"7\"/>", x + 9);
    let marks: [(bool, Mark, &str); 5] = [
        (pieces().any(|piece| !piece.fault.is_empty()), |x, y| cross(x + 9, y, 5, "mark"), "a fault"),
        (has(|kind| matches!(kind, Kind::Effect)), effect, "an effect"),
        (has(|kind| matches!(kind, Kind::Ledger)), |x, y| frame("ledger", 0, x, y), "a record in the ledger"),
        (has(|kind| matches!(kind, Kind::Told)), |x, y| frame("told", 6, x, y), "what a caller is told"),
        (
            has(|kind| matches!(kind, Kind::Flight)),
            |x, y| frame("flight", 2, x, y),
            "on its way (+), and no longer (−)",
        ),
    ];
    let left = GUTTER - 24;
    let (mut x, mut middle, mut end) = (left, y + LINE / 2, y);
    for (_, mark, says) in marks.into_iter().filter(|(there, ..)| *there) {
        let wide = 26 + width(says, SIZE) + 16;
        if x > left && x + wide > layout.width {
            x = left;
            middle += LINE + 3;
        }
        parts.push(mark(x, middle));
        parts.push(text(x + 26, middle + 5, "legend", says));
        x += wide;
        end = middle + LINE / 2;
    }
    end
}

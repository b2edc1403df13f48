//! Where everything in the picture goes.

use super::width::{bold_width, width, wrap};
use crate::trace::changes::{Change, changes};
use crate::trace::words::plain;
use crate::trace::{Step, Trace, lanes};

/// The size of text.
pub(super) const SIZE: i32 = 13;
/// The height of a line of text.
pub(super) const LINE: i32 = 17;
/// The room for the steps' numbers.
pub(super) const GUTTER: i32 = 58;
/// Around text in a box, at each side.
pub(super) const PADDING: i32 = 8;
/// The room at the right.
const MARGIN: i32 = 10;
/// The width that is kept to unless there are too many lanes for it.
const WIDEST: i32 = 1080;
/// The lanes' names are repeated after this many steps.
const PAGE: usize = 20;

/// What a piece of the picture shows.
pub(super) enum Kind {
    /// What somebody does.
    Note,
    /// What somebody does to another; the arrow is at the bottom of the piece.
    Arrow { from: i32, to: i32 },
    /// Records in the ledger.
    Ledger,
    /// What a caller is told.
    Told,
    /// What is on its way now, and what is not any more.
    Flight,
    /// An effect.
    Effect,
}

/// A piece of a row.
pub(super) struct Piece {
    pub kind: Kind,
    pub x: i32,
    pub y: i32,
    pub width: i32,
    pub height: i32,
    pub lines: Vec<String>,
    /// What names the fault, if it is one.
    pub fault: Vec<String>,
}

/// A step.
pub(super) struct Row {
    pub y: i32,
    pub height: i32,
    pub pieces: Vec<Piece>,
}

/// A participant.
pub(super) struct Lane {
    pub x: i32,
    pub name: Vec<String>,
}

/// The whole picture, but for its title and what is below the lanes.
pub(super) struct Layout {
    pub width: i32,
    pub lanes: Vec<Lane>,
    pub pitch: i32,
    /// The height of the lanes' names.
    pub header: i32,
    /// Where the lanes' names are shown.
    pub headers: Vec<i32>,
    pub rows: Vec<Row>,
    /// Where the round's frame begins.
    pub round: Option<i32>,
}

impl Layout {
    /// Lays a trace out. `top` says where it begins, given how wide it is.
    pub fn of(trace: &Trace, top: impl FnOnce(i32) -> i32) -> Layout {
        let mut names = lanes::lanes(trace);
        let flights = trace.steps.iter().any(|step| !step.state.network.is_empty());
        if flights && !names.contains(&lanes::NETWORK) {
            names.push(lanes::NETWORK);
            lanes::sort(&mut names);
        }
        let count = i32::try_from(names.len()).unwrap_or(i32::MAX / WIDEST).max(1);
        let pitch = ((WIDEST - GUTTER - MARGIN) / count).clamp(84, if count < 3 { 260 } else { 190 });
        let lanes: Vec<Lane> = (0..)
            .zip(&names)
            .map(|(at, name)| Lane {
                x: GUTTER + pitch / 2 + at * pitch,
                name: wrap(&plain(name), SIZE + 2, pitch - 10 - 2 * PADDING),
            })
            .collect();
        let header = lanes.iter().map(|lane| height(&lane.name)).max().unwrap_or(LINE) + PADDING;
        let width = GUTTER + pitch * count.max(2) + MARGIN;
        let top = top(width);
        let mut layout = Layout { width, lanes, pitch, header, headers: vec![top], rows: Vec::new(), round: None };
        let mut y = top + header + 4;
        let mut before = &trace.beginning;
        let mut effects = 0;
        for (index, step) in trace.steps.iter().enumerate() {
            if index > 0 && index % PAGE == 0 {
                layout.headers.push(y + 4);
                y += header + 8;
            }
            if trace.round_begins() == Some(index) {
                layout.round = Some(y + 2);
                y += LINE + 10;
            }
            let mut row = Row { y, height: 0, pieces: Vec::new() };
            layout.fill(&mut row, &names, step);
            let flown = changes(&before.network, &step.state.network);
            layout.flights(&mut row, &names, &flown);
            layout.effects(&mut row, &names, step, effects);
            let bottom = row.pieces.iter().map(|piece| piece.y + piece.height).max().unwrap_or(y);
            row.height = (bottom - y + PADDING).max(30);
            y += row.height;
            layout.rows.push(row);
            before = &step.state;
            effects = step.effects;
        }
        layout.headers.push(y + 6);
        layout
    }

    /// Where the lanes end.
    pub fn bottom(&self) -> i32 {
        self.headers.last().map_or(0, |y| y + self.header)
    }

    fn x(&self, names: &[&str], name: &str) -> i32 {
        let at = names.iter().position(|lane| *lane == name).unwrap_or(0);
        self.lanes.get(at).map_or(GUTTER, |lane| lane.x)
    }

    /// The step itself, what it writes, and what it tells callers.
    fn fill(&self, row: &mut Row, names: &[&str], step: &Step) {
        let from = self.x(names, &step.from);
        let said = plain(&step.text);
        let fault = |most: i32| match &step.fault {
            // It is bold, and so wider.
            Some(fault) => wrap(&format!("fault: {}", plain(fault)), SIZE, most * 8 / 9),
            None => Vec::new(),
        };
        match step.to.as_ref().map(|to| self.x(names, to)).filter(|to| *to != from) {
            Some(to) => {
                let span = (to - from).abs();
                let most = (span - 24).clamp(150, 420).min(self.room());
                let lines = wrap(&said, SIZE, most);
                let fault = fault(most);
                let wide = widest(&lines, &fault).max(span + 2);
                let tall = height(&lines) + height(&fault) + 11;
                let piece =
                    Piece { kind: Kind::Arrow { from, to }, x: 0, y: 0, width: wide, height: tall, lines, fault };
                self.place(row, (from + to) / 2, piece);
            }
            None => self.boxed(row, Kind::Note, from, wrap(&said, SIZE, self.text_room()), fault(self.text_room())),
        }
        if !step.ledger.is_empty() {
            let short = |line: &String| plain(line.strip_prefix("ledger: ").unwrap_or(line));
            let lines = step.ledger.iter().flat_map(|line| wrap(&short(line), SIZE, self.text_room())).collect();
            self.boxed(row, Kind::Ledger, self.x(names, lanes::LEDGER), lines, Vec::new());
        }
        for line in &step.told {
            let whom = names.iter().filter(|name| line.starts_with(**name)).max_by_key(|name| name.len());
            let x = self.x(names, whom.copied().unwrap_or(&step.from));
            self.boxed(row, Kind::Told, x, wrap(&plain(line), SIZE, self.text_room()), Vec::new());
        }
    }

    fn flights(&self, row: &mut Row, names: &[&str], flown: &[(Change, &str)]) {
        let signed = flown.iter().filter_map(|(change, line)| match change {
            Change::Kept => None,
            Change::New => Some(format!("+ {}", plain(line))),
            Change::Gone => Some(format!("− {}", plain(line))),
        });
        let lines: Vec<_> = signed.flat_map(|line| wrap(&line, SIZE, self.text_room())).collect();
        if !lines.is_empty() {
            self.boxed(row, Kind::Flight, self.x(names, lanes::NETWORK), lines, Vec::new());
        }
    }

    fn effects(&self, row: &mut Row, names: &[&str], step: &Step, before: usize) {
        if step.effects <= before {
            return;
        }
        let number = match step.effects {
            one if one == before + 1 => one.to_string(),
            many => format!("{}–{many}", before + 1),
        };
        let tool = names.iter().find(|name| matches!(**name, "tool" | "server"));
        let x = self.x(names, tool.copied().unwrap_or(&step.from));
        let wide = (bold_width(&number, SIZE) + 14).max(22);
        let piece =
            Piece { kind: Kind::Effect, x: 0, y: 0, width: wide, height: 22, lines: vec![number], fault: Vec::new() };
        self.place(row, x, piece);
    }

    /// The widest a box may be.
    fn room(&self) -> i32 {
        self.width - GUTTER - MARGIN
    }

    /// The widest that text in a box may be.
    fn text_room(&self) -> i32 {
        // Boxes in neighbouring lanes fit side by side, unless there are many lanes.
        (self.pitch - 7).clamp(150, 250).min(self.room()) - 2 * PADDING
    }

    fn boxed(&self, row: &mut Row, kind: Kind, x: i32, lines: Vec<String>, fault: Vec<String>) {
        let wide = widest(&lines, &fault) + 2 * PADDING;
        let tall = height(&lines) + height(&fault) + PADDING;
        self.place(row, x, Piece { kind, x: 0, y: 0, width: wide, height: tall, lines, fault });
    }

    /// Puts a piece around `middle`, as high up in its row as nothing else is in the way.
    fn place(&self, row: &mut Row, middle: i32, piece: Piece) {
        let x = (middle - piece.width / 2).min(self.width - MARGIN - piece.width).max(GUTTER);
        let overlaps = |other: &&Piece| x < other.x + other.width + 6 && other.x < x + piece.width + 6;
        let in_the_way = row.pieces.iter().filter(overlaps);
        let y = in_the_way.map(|other| other.y + other.height + 5).max().unwrap_or(row.y + PADDING);
        row.pieces.push(Piece { x, y, ..piece });
    }
}

fn height(lines: &[String]) -> i32 {
    i32::try_from(lines.len()).unwrap_or(i32::MAX / LINE / 2) * LINE
}

fn widest(lines: &[String], bold: &[String]) -> i32 {
    let lines = lines.iter().map(|line| width(line, SIZE));
    lines.chain(bold.iter().map(|line| bold_width(line, SIZE))).max().unwrap_or(0)
}

//! A table of cells and profiles that fits the terminal.

use comfy_table::{Cell as TableCell, Color, LineStyle, Table, TableStyle};

use super::mark::{Kind, Mark};

/// The widest line where the terminal doesn't say how wide it is.
const WIDTH: usize = 120;
const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

/// How wide the terminal is.
pub(super) fn width() -> usize {
    let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    columns.or_else(|| Table::new().width().map(usize::from)).unwrap_or(WIDTH).max(40)
}

/// One field.
#[derive(Clone, Debug)]
pub(super) enum Field {
    /// What came of a cell.
    Mark(Mark),
    /// Something else, good or bad.
    Word(String, Option<bool>),
}

impl Field {
    /// The lines that it takes: a count each, except that few short ones share a line.
    fn text(&self) -> String {
        match self {
            Self::Word(text, _) => text.clone(),
            Self::Mark(mark) => {
                let mut parts = mark.parts();
                if mark.disagrees
                    && let Some(sign) = parts.pop()
                    && let Some(first) = parts.first_mut()
                {
                    first.push(' ');
                    first.push_str(&sign);
                }
                parts.join("\n")
            }
        }
    }

    fn color(&self) -> Option<Color> {
        match self {
            Self::Mark(mark) => Some(match mark.worst() {
                Some(Kind::Once) => Color::Green,
                Some(Kind::Duplicate) => Color::Red,
                Some(Kind::Lost | Kind::Stuck) => Color::Magenta,
                Some(Kind::Error) | None => Color::Yellow,
            }),
            Self::Word(_, Some(true)) => Some(Color::Green),
            Self::Word(_, Some(false)) => Some(Color::Red),
            Self::Word(_, None) => None,
        }
    }

    fn width(&self) -> usize {
        widest(&self.text())
    }
}

/// A row; without fields, the heading of a group.
pub(super) struct Row {
    pub(super) name: String,
    pub(super) fields: Vec<Field>,
}

/// Rows and the heads of their columns, of several lines each.
pub(super) struct Grid {
    pub(super) corner: String,
    pub(super) heads: Vec<String>,
    pub(super) rows: Vec<Row>,
}

fn widest(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

impl Grid {
    /// How wide it is, in one piece.
    pub(super) fn width(&self) -> usize {
        self.name_width() + (0..self.heads.len()).map(|column| self.column_width(column)).sum::<usize>()
    }

    fn name_width(&self) -> usize {
        self.rows.iter().map(|row| row.name.chars().count()).chain([widest(&self.corner)]).max().unwrap_or(0) + 2
    }

    fn column_width(&self, column: usize) -> usize {
        let fields = self.rows.iter().filter_map(|row| row.fields.get(column)).map(Field::width);
        let head = self.heads.get(column).map_or(0, |head| widest(head));
        // Two blanks, and the place between two columns.
        fields.chain([head]).max().unwrap_or(0) + 3
    }

    /// As text no wider than this: as many tables, one below the other, as it takes.
    pub(super) fn text(&self, width: usize) -> String {
        let mut tables = Vec::new();
        let mut from = 0;
        while from < self.heads.len() {
            let (mut to, mut used) = (from, self.name_width());
            while to < self.heads.len() && (to == from || used + self.column_width(to) <= width) {
                used += self.column_width(to);
                to += 1;
            }
            tables.push(self.part(from, to));
            from = to;
        }
        tables.join("\n\n")
    }

    fn part(&self, from: usize, to: usize) -> String {
        let mut table = Table::new();
        table.load_style(STYLE);
        let heads = self.heads.iter().take(to).skip(from).map(TableCell::new);
        table.set_header(std::iter::once(TableCell::new(&self.corner)).chain(heads));
        for row in &self.rows {
            let fields = row.fields.iter().take(to).skip(from).map(|field| {
                let shown = TableCell::new(field.text());
                match field.color() {
                    Some(color) => shown.fg(color),
                    None => shown,
                }
            });
            table.add_row(std::iter::once(TableCell::new(&row.name)).chain(fields));
        }
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        let lines: Vec<_> = table.lines().map(|line| line.trim_end().to_owned()).collect();
        lines.join("\n")
    }
}

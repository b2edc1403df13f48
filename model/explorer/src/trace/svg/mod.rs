//! A trace as a picture: a sequence diagram in SVG that needs nothing else.

mod draw;
mod layout;
mod legend;
mod width;

use super::Trace;
use super::words::{escape, plain};
use draw::text;
use layout::{GUTTER, LINE, Layout, PADDING, SIZE};
use width::{bold_width, wrap};

/// The size of the title.
const TITLE: i32 = 16;
const STYLE: &str = include_str!("style.css");

impl Trace {
    /// The trace as a sequence diagram in SVG: one file that needs no other, without scripts.
    pub fn svg(&self) -> String {
        self.diagram(true)
    }

    /// The diagram, with its title or, for a page that has one already, without.
    pub(super) fn diagram(&self, titled: bool) -> String {
        let title = format!("{} {}", plain(&self.protocol), self.violates());
        let mut parts = Vec::new();
        let layout = Layout::of(self, |width| {
            let mut y = 8;
            if titled {
                // Bold text is wider.
                for line in wrap(&title, TITLE, (width - 24) * 8 / 9) {
                    y += LINE + 3;
                    parts.push(text(12, y - 4, "title", &line));
                }
                y += 8;
            }
            y
        });
        parts.push(draw::lanes(&layout));
        parts.extend(layout.rows.iter().zip(1..).map(|(row, number)| draw::row(row, number)));
        let mut y = layout.bottom() + 10;
        if let (Some(top), Some(ending)) = (layout.round, self.ending()) {
            parts.push(draw::round(&layout, top, &ending));
        }
        y = self.verdict(&layout, y, &mut parts);
        y = legend::legend(&layout, y + 8, &mut parts);
        let (width, height) = (layout.width, y + 8);
        let label = escape(&format!("{title}: sequence diagram of {} steps", self.steps.len()));
        let name = if titled { format!("<title>{label}</title>\n") } else { String::new() };
        let rows = draw::backgrounds(&layout);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"settled-trace\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\" role=\"img\" aria-label=\"{label}\">\n{name}<style>{STYLE}</style>\n\
             <rect class=\"paper\" width=\"{width}\" height=\"{height}\"/>\n{rows}{}\n</svg>\n",
            parts.join("\n")
        )
    }

    /// The box at the end that says what is violated. Returns where it ends.
    fn verdict(&self, layout: &Layout, y: i32, parts: &mut Vec<String>) -> i32 {
        let room = layout.width - GUTTER - 24;
        let says = format!("{}: {}", self.violates(), self.property.says());
        // Bold text is wider.
        let mut lines: Vec<_> =
            wrap(&says, SIZE, room * 8 / 9).into_iter().map(|line| ("violated strong", line)).collect();
        debug_assert!(lines.iter().all(|(_, line)| bold_width(line, SIZE) <= room + 4));
        let effects = self.effects_in_words();
        let effects = (!effects.is_empty()).then_some(effects);
        for said in self.ending().into_iter().chain(effects).chain([self.needs()]) {
            lines.extend(wrap(&said, SIZE, room).into_iter().map(|line| ("violated", line)));
        }
        let height = i32::try_from(lines.len()).unwrap_or(0) * LINE + 2 * PADDING;
        let width = layout.width - 16;
        parts.push(format!(
            "<rect class=\"verdict\" x=\"8\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"4\"/>"
        ));
        parts.push(draw::cross(30, y + height / 2, 8, "verdict-mark"));
        let mut baseline = y + PADDING - 4;
        for (class, line) in &lines {
            baseline += LINE;
            parts.push(text(GUTTER, baseline, class, line));
        }
        y + height
    }
}

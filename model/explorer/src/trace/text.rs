//! A trace as numbered lines.

use super::Trace;
use super::words::plain;

impl Trace {
    /// The trace as numbered lines: what happens, what it changes, and what is violated in the end.
    pub fn text(&self) -> String {
        let mut lines = Vec::new();
        for (number, step) in (1..).zip(&self.steps) {
            let (mark, fault) = match &step.fault {
                Some(fault) => ("✗", format!(" (fault: {})", plain(fault))),
                None => (" ", String::new()),
            };
            lines.push(format!("{number:>4} {mark} {:<18} {}{fault}", plain(&step.way()), plain(&step.text)));
            for line in step.ledger.iter().chain(&step.told) {
                lines.push(format!("{:>4}   {:<18} └ {}", "", "", plain(line)));
            }
        }
        let effects = match self.effects_in_words() {
            none if none.is_empty() => none,
            some => format!("; {some}"),
        };
        lines.push(format!("       {} ({}){effects}", self.violates(), self.property.says()));
        lines.extend(self.ending().map(|ending| format!("       {ending}")));
        lines.push(format!("       {}", self.needs()));
        lines.join("\n")
    }
}

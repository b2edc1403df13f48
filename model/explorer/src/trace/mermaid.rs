//! A trace as a Mermaid sequence diagram.

use super::words::plain;
use super::{Trace, lanes};

impl Trace {
    /// The trace as a Mermaid sequence diagram.
    pub fn mermaid(&self) -> String {
        let mut lines = vec!["sequenceDiagram".to_owned()];
        let mut lanes = lanes::lanes(self);
        if lanes.is_empty() {
            // A diagram without participants can't show the note of the violation.
            lanes.push("run");
        }
        for lane in &lanes {
            lines.push(format!("    participant {} as {}", id(lane), text(lane)));
        }
        let round = self.round_begins();
        for (index, step) in self.steps.iter().enumerate() {
            if round == Some(index) {
                lines.push("    loop for ever".to_owned());
            }
            let indent = if round.is_some_and(|begins| begins <= index) { "        " } else { "    " };
            let mark = if step.fault.is_some() { "⚡ " } else { "" };
            let said = text(&step.text);
            match &step.to {
                Some(to) => lines.push(format!("{indent}{}->>{}: {mark}{said}", id(&step.from), id(to))),
                None => lines.push(format!("{indent}Note over {}: {mark}{said}", id(&step.from))),
            }
            for line in &step.ledger {
                lines.push(format!("{indent}Note over {}: {}", lanes::LEDGER, text(line)));
            }
        }
        if round.is_some() {
            lines.push("    end".to_owned());
        }
        if let (Some(first), Some(last)) = (lanes.first(), lanes.last()) {
            let over = if first == last { id(first) } else { format!("{},{}", id(first), id(last)) };
            lines.push(format!("    Note over {over}: {}", self.violates()));
        }
        lines.join("\n")
    }
}

/// Mermaid ends a statement at a semicolon and begins a comment or an entity at a number sign.
fn text(said: &str) -> String {
    plain(said).replace([';', '#'], ",")
}

fn id(lane: &str) -> String {
    lane.chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect()
}

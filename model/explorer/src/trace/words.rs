//! What every form of a trace says in the same words.

use super::{Step, Trace};
use crate::faults::Fault;

/// How a logical call is called in every output: A, B, C.
pub fn call_name(call: usize) -> String {
    match u8::try_from(call) {
        Ok(call @ 0..26) => char::from(b'A' + call).to_string(),
        _ => format!("call {}", call.saturating_add(1)),
    }
}

/// One line without anything that a terminal or a page could take for more than text: white space becomes a space; control
/// characters and those that change the direction of writing become U+FFFD.
pub fn plain(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            c if c.is_whitespace() => ' ',
            '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
            // XML has no way to write these two.
            '\u{fffe}' | '\u{ffff}' => '\u{fffd}',
            c if c.is_control() => '\u{fffd}',
            c => c,
        })
        .collect()
}

/// Text for XML and HTML, in elements and in quoted attributes. Characters that mark something up are written out; see [`plain`] for the others.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

impl Step {
    /// Who acts, and on whom.
    pub(super) fn way(&self) -> String {
        match &self.to {
            Some(to) => format!("{} → {to}", self.from),
            None => self.from.clone(),
        }
    }
}

impl Trace {
    /// `violates “…”`.
    pub(super) fn violates(&self) -> String {
        format!("violates “{}”", self.property.name())
    }

    /// The effects on each logical call's behalf; empty if there are no calls.
    pub(super) fn effects_in_words(&self) -> String {
        let one = |(call, count): (usize, &usize)| {
            format!("{}: {count} effect{}", call_name(call), if *count == 1 { "" } else { "s" })
        };
        self.effects.iter().enumerate().map(one).collect::<Vec<_>>().join(", ")
    }

    /// The faults that it needs, with how many of each.
    pub(super) fn needed(&self) -> Vec<(Fault, u8)> {
        self.faults.list().into_iter().filter(|(_, count)| *count > 0).collect()
    }

    /// `needs: timeouts 1, lost-replies 1`, or that it needs none.
    pub(super) fn needs(&self) -> String {
        let needed = self.needed();
        if needed.is_empty() {
            return "needs no fault".to_owned();
        }
        let needed: Vec<_> = needed.iter().map(|(fault, count)| format!("{} {count}", fault.name())).collect();
        format!("needs: {}", needed.join(", "))
    }

    /// The index of the first step of the round, if the run goes round for ever.
    pub(super) fn round_begins(&self) -> Option<usize> {
        self.round.filter(|before| *before < self.steps.len())
    }

    /// How it goes on after the last step, where that is part of the violation.
    pub(super) fn ending(&self) -> Option<String> {
        use crate::properties::PropertyName::{CanSettle, Settles};
        match (self.round_begins(), self.property) {
            (Some(before), _) if before + 1 == self.steps.len() => {
                Some(format!("step {} repeats for ever", before + 1))
            }
            (Some(before), _) => Some(format!("steps {} to {} repeat for ever", before + 1, self.steps.len())),
            (None, Settles) => Some("nothing more can happen".to_owned()),
            (None, CanSettle) => Some("from here, not every operation can end any more without a fault".to_owned()),
            (None, _) => None,
        }
    }
}

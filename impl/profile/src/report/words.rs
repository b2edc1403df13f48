//! What comes from frameworks, made harmless: it is text, whatever it says.

pub(super) use settled_explorer::trace::plain;

/// Text for HTML, in elements and in quoted attributes, in one line and [`plain`].
pub(super) fn escape(text: &str) -> String {
    settled_explorer::trace::escape(&plain(text))
}

/// `1 cell`, `2 cells`.
pub(super) fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

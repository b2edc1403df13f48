//! `mode`: whether calls are guarded, or only looked at.

use toml::Spanned;

use super::Wrong;

/// Whether calls are guarded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// `mode = "enforce"`: they are.
    #[default]
    Enforce,
    /// `mode = "observe"`: they pass unguarded, and what the guard would have done is counted. It protects nothing.
    Observe,
}

pub(super) fn check(field: &str, value: &Spanned<String>) -> Result<Mode, Wrong> {
    match value.get_ref().as_str() {
        "enforce" => Ok(Mode::Enforce),
        "observe" => Ok(Mode::Observe),
        other => Err(Wrong::new(
            value.span(),
            field,
            format!(
                "`{other}` is not known: write `enforce` (calls are guarded) or `observe` (calls pass unguarded, and what the \
                 guard would have done is counted)"
            ),
        )),
    }
}

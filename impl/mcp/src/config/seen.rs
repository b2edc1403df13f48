//! `seen` and `new_tools`: which tools somebody has looked at, and what becomes of the others.

use settled_protocol::Digest;
use toml::Spanned;

use super::Wrong;
use super::place::Table;

/// What becomes of tools that the configuration doesn't declare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NewTools {
    /// `new_tools = "annotations"`: what the server claims about them decides.
    #[default]
    Annotations,
    /// `new_tools = "guard"`: they are guarded, whatever is claimed.
    Guard,
}

pub(super) fn new_tools(field: &str, value: &Spanned<String>) -> Result<NewTools, Wrong> {
    match value.get_ref().as_str() {
        "annotations" => Ok(NewTools::Annotations),
        "guard" => Ok(NewTools::Guard),
        other => Err(Wrong::new(
            value.span(),
            field,
            format!(
                "`{other}` is not known: write `annotations` (what the server claims about a tool that is not declared decides) or \
                 `guard` (it is guarded)"
            ),
        )),
    }
}

/// A digest as `settled mcp --describe` prints it.
pub(super) fn check(table: &Table, seen: &Spanned<String>) -> Result<Digest, Wrong> {
    let text = seen.get_ref();
    let digits = text.strip_prefix("sha256:").and_then(|digits| digits.parse::<Digest>().ok());
    digits.ok_or_else(|| {
        let problem = format!(
            "`{text}` is not the digest of a definition: take it from what `settled mcp --describe` prints, or leave the line out"
        );
        table.wrong(seen.span(), "seen", problem)
    })
}

//! What a tool's own answers prove: `errors`, `final_errors`, `busy_errors`, `retry_after_at`.

use serde_json::Value;
use settled_observers::{Condition, Pointer, Source};
use toml::Spanned;

use super::Wrong;
use super::place::{Table, member};
use super::tool::ToolTable;

/// What a tool's answers prove, beyond what MCP says of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answers {
    /// `errors = "final"`: every error of the tool means that nothing happened.
    pub errors_final: bool,
    /// Answers that mean: nothing happened, and asking again is of no use.
    pub final_errors: Vec<Condition>,
    /// Answers that mean: nothing happened, but it may when it is asked again.
    pub busy_errors: Vec<Condition>,
    /// Where a busy tool says after how many seconds it may be asked again.
    pub retry_after_at: Option<Pointer>,
}

pub(super) fn check(table: &Table, tool: &mut ToolTable) -> Result<Answers, Wrong> {
    let errors_final = match &tool.errors {
        None => false,
        Some(value) if value.get_ref() == "final" => true,
        Some(value) => {
            let problem = format!(
                "`{}` is not known: write `final` if every error of the tool means that nothing happened, else leave the \
                 line out",
                value.get_ref()
            );
            return Err(table.wrong(value.span(), "errors", problem));
        }
    };
    if tool.busy_errors.is_none() {
        let problem = "belongs to `busy_errors`: add them, or leave this out";
        table.refuse([member("retry_after_at", &tool.retry_after_at)], problem)?;
    }
    let conditions = |name: &str, value: Option<Spanned<Value>>| match value {
        Some(value) => {
            let at = value.span();
            Condition::parse(value.into_inner(), Source::Answer)
                .map_err(|error| table.wrong(at, name, error.to_string()))
        }
        None => Ok(Vec::new()),
    };
    let final_errors = conditions("final_errors", tool.final_errors.take())?;
    let busy_errors = conditions("busy_errors", tool.busy_errors.take())?;
    let retry_after_at = tool.retry_after_at.as_ref().map(|value| {
        Pointer::parse(value.get_ref()).map_err(|problem| table.wrong(value.span(), "retry_after_at", problem))
    });
    Ok(Answers { errors_final, final_errors, busy_errors, retry_after_at: retry_after_at.transpose()? })
}

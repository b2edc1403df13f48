//! Tools whose effect is hard to live with twice: `outside`, `irrevocable`, `exclusive`, and what they need; `resource`.

use settled_observers::{Template, Where};
use toml::Spanned;

use super::Wrong;
use super::kind::Named;
use super::place::{Table, member};
use super::tool::ToolTable;

/// Checks that a blocking tool has what it needs, and returns what a call must have to itself.
pub(super) fn check(
    table: &Table,
    name: &str,
    tool: &ToolTable,
    kind: Option<Named>,
) -> Result<Option<Template>, Wrong> {
    let resource = match &tool.resource {
        None => None,
        Some(text) if text.get_ref().is_empty() => {
            return Err(table.wrong(text.span(), "resource", "is empty: name it, as in `account:{account_id}`"));
        }
        Some(text) => {
            let template = Template::parse(text.get_ref(), Where::Resource);
            Some(template.map_err(|error| table.wrong(text.span(), "resource", error.to_string()))?)
        }
    };
    let is = |flag: &Option<Spanned<bool>>| flag.as_ref().is_some_and(|flag| *flag.get_ref());
    let exclusive = is(&tool.exclusive);
    let traits = [("outside", is(&tool.outside)), ("irrevocable", is(&tool.irrevocable)), ("exclusive", exclusive)];
    let declared: Vec<&str> = traits.into_iter().filter_map(|(name, is)| is.then_some(name)).collect();
    let asks_a_person = match &tool.opaque {
        None => false,
        Some(value) if value.get_ref() != "ask" => {
            let problem = format!(
                "`{}` is not known: write `ask` if a person is to find out what became of an unknown call",
                value.get_ref()
            );
            return Err(table.wrong(value.span(), "opaque", problem));
        }
        Some(value) if !matches!(kind, None | Some(Named::Opaque)) => {
            let problem = "is for a tool that nothing can be found out about: leave it out, or leave out `kind`";
            return Err(table.wrong(value.span(), "opaque", problem));
        }
        Some(_) => true,
    };
    if declared.len() >= 2 && !asks_a_person {
        let can_tell = matches!(kind, Some(Named::Observable | Named::Sealable | Named::Deduplicates));
        let needs = match (resource.is_some(), can_tell) {
            (true, true) => None,
            (false, true) => Some("`resource`"),
            (true, false) => {
                Some("a way to find out what became of a call (`observe`, `seal` or `kind = \"deduplicates\"`)")
            }
            (false, false) => Some(
                "`resource` and a way to find out what became of a call (`observe`, `seal` or `kind = \"deduplicates\"`)",
            ),
        };
        if let Some(needs) = needs {
            let problem = format!(
                "is declared {}, so an unknown outcome must neither be left open nor overlap with the next call: add {needs}, or \
                 write `opaque = \"ask\"` if a person is to find out each time",
                declared.join(" and ")
            );
            let flags = [
                member("outside", &tool.outside),
                member("irrevocable", &tool.irrevocable),
                member("exclusive", &tool.exclusive),
            ];
            let at = flags.into_iter().find_map(|(flag, at)| at.filter(|_| declared.contains(&flag)));
            return Err(Wrong::new(at.unwrap_or_default(), table.name(), problem));
        }
    }
    if resource.is_none() && exclusive {
        // Without a finer name, the tool itself is what its calls must have to themselves.
        let escaped = name.replace('{', "{{").replace('}', "}}");
        let template = Template::parse(&escaped, Where::Resource);
        return template.map(Some).map_err(|error| table.lacks("resource", error.to_string()));
    }
    if resource.is_none() {
        let problem = "belongs to `resource`: add that, or leave this out";
        table.refuse([member("queue_timeout", &tool.queue_timeout)], problem)?;
    }
    Ok(resource)
}

//! What the proxy offers besides the server: added to the server's own answers, of which every other byte stays.

use crate::config::Config;
use crate::messages::splice;
use crate::told::status;
use crate::told::tasks;

/// An answer of the server that the proxy has something to add to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Adds {
    /// The answer to `initialize`: capabilities. Whether tasks may be asked for depends on the revision that it names.
    Initialize,
    /// The answer to `server/discover` (revision 2026-07-28): capabilities.
    Discover,
    /// The answer to `tools/list`: a tool.
    Tools,
}

impl Adds {
    /// What is added to the answer to a request of this method.
    pub(crate) fn to(method: &str) -> Option<Adds> {
        match method {
            "initialize" => Some(Adds::Initialize),
            "server/discover" => Some(Adds::Discover),
            "tools/list" => Some(Adds::Tools),
            _ => None,
        }
    }
}

/// What is offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offers {
    pub(crate) status_tool: bool,
    pub(crate) tasks: bool,
}

impl Offers {
    pub(crate) fn of(config: &Config) -> Offers {
        Offers { status_tool: config.status_tool, tasks: config.tasks }
    }

    /// The result with what is offered; `None`: unchanged.
    pub(crate) fn add(self, adds: Adds, result: &str) -> Option<String> {
        match adds {
            Adds::Initialize => self.capabilities(result, self.in_session(result).then_some(Tasks::Utility)),
            Adds::Discover => self.capabilities(result, self.tasks.then_some(Tasks::Extension)),
            Adds::Tools if self.status_tool => with_tool(result),
            Adds::Tools => None,
        }
    }

    /// Whether tasks are offered in the session that is opened with this result.
    pub(crate) fn in_session(self, result: &str) -> bool {
        self.tasks && tasks::are_offered(result)
    }

    fn capabilities(self, result: &str, tasks: Option<Tasks>) -> Option<String> {
        let before = splice::get(result, "capabilities")?;
        // A server without tools has nothing to be guarded.
        let tools = splice::get(before, "tools")?;
        let mut after = before.to_owned();
        if splice::get(tools, KEYS).is_none() {
            after = splice::set(&after, "tools", &splice::set(tools, KEYS, "true")?)?;
        }
        match tasks {
            Some(Tasks::Extension) => {
                let extensions = splice::get(before, "extensions").unwrap_or("{}");
                if splice::get(extensions, tasks::EXTENSION).is_none() {
                    after = splice::set(&after, "extensions", &splice::set(extensions, tasks::EXTENSION, "{}")?)?;
                }
            }
            Some(Tasks::Utility) => after = splice::set(&after, "tasks", tasks::CAPABILITY)?,
            None => {}
        }
        (after != before).then(|| splice::set(result, "capabilities", &after)).flatten()
    }
}

/// How tasks are announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tasks {
    /// As an extension (revision 2026-07-28).
    Extension,
    /// As a capability (revision 2025-11-25).
    Utility,
}

/// The capability of SEP-3182, a member of `tools` beside `listChanged`.
const KEYS: &str = "idempotency";

/// Whether a server announces in this result that it takes keys itself (SEP-3182).
pub(crate) fn takes_keys(result: &str) -> bool {
    let found = splice::get(result, "capabilities")
        .and_then(|capabilities| splice::get(capabilities, "tools"))
        .and_then(|tools| splice::get(tools, KEYS));
    found.is_some_and(|value| value != "false" && value != "null")
}

/// The last page of a list with the proxy's own tool.
fn with_tool(result: &str) -> Option<String> {
    if splice::get(result, "nextCursor").is_some_and(|cursor| cursor != "null") {
        return None;
    }
    let tools = splice::get(result, "tools")?;
    let listed = splice::elements(tools)?;
    if listed.iter().any(|tool| splice::get_string(tool, "name").as_deref() == Some(status::TOOL)) {
        return None;
    }
    let before = tools.get(..tools.rfind(']')?)?;
    let comma = if listed.is_empty() { "" } else { "," };
    splice::set(result, "tools", &format!("{before}{comma}{}]", status::declaration()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Offers = Offers { status_tool: true, tasks: true };

    #[test]
    fn capabilities_are_added_and_nothing_else_changes() {
        let result = r#"{ "protocolVersion":"2025-06-18", "capabilities" : {"tools": {"listChanged":true}, "x":1e400},"serverInfo":{} }"#;
        let added = r#"{ "protocolVersion":"2025-06-18", "capabilities" : {"tools": {"listChanged":true,"idempotency":true}, "x":1e400},"serverInfo":{} }"#;
        assert_eq!(Offers::default().add(Adds::Initialize, result).as_deref(), Some(added));
        assert!(!takes_keys(result) && takes_keys(added));
        // It is there already, or there are no tools.
        assert_eq!(ALL.add(Adds::Initialize, added), None);
        assert_eq!(ALL.add(Adds::Initialize, r#"{"capabilities":{"prompts":{}}}"#), None);
        assert!(!takes_keys(r#"{"capabilities":{"tools":{"idempotency":false}}}"#));
        let discovered = ALL.add(Adds::Discover, r#"{"capabilities":{"tools":{},"extensions":{"a":{}}}}"#).unwrap();
        let expected = r#"{"capabilities":{"tools":{"idempotency":true},"extensions":{"a":{},"io.modelcontextprotocol/tasks":{}}}}"#;
        assert_eq!(discovered, expected);
        let opened = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}}}"#;
        let with_tasks = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{"idempotency":true},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}}}"#;
        assert_eq!(ALL.add(Adds::Initialize, opened).as_deref(), Some(with_tasks));
        assert_eq!(ALL.add(Adds::Initialize, with_tasks), None, "those are the server's own");
        assert!(!Offers { tasks: false, ..ALL }.in_session(opened));
        let without = Offers { tasks: false, ..ALL }.add(Adds::Discover, r#"{"capabilities":{"tools":{}}}"#).unwrap();
        assert_eq!(without, r#"{"capabilities":{"tools":{"idempotency":true}}}"#);
    }

    #[test]
    fn the_tool_is_on_the_last_page_once() {
        let page = |tools: &str, rest: &str| format!(r#"{{"tools":{tools}{rest}}}"#);
        let added = |result: &str| ALL.add(Adds::Tools, result);
        let last = added(&page(r#"[ {"name":"a", "n":1.0} ]"#, r#","ttlMs":5"#)).unwrap();
        assert!(last.starts_with(r#"{"tools":[ {"name":"a", "n":1.0} ,{"name":"settled_status","#), "{last}");
        assert!(last.ends_with(r#"}],"ttlMs":5}"#), "{last}");
        assert!(splice::valid(&last).is_some() && splice::valid(&added(&page("[]", "")).unwrap()).is_some());
        assert!(added(&page("[]", r#","nextCursor":null"#)).is_some());
        assert_eq!(added(&page("[]", r#","nextCursor":"2""#)), None);
        assert_eq!(added(&page(r#"[{"name":"settled_status"}]"#, "")), None);
        assert_eq!(Offers::default().add(Adds::Tools, &page("[]", "")), None);
    }
}

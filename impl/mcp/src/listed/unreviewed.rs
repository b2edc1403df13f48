//! Tools that are not what somebody has looked at: new ones, and ones that have changed since.

use std::collections::HashMap;

use metrics::{describe_gauge, gauge};
use settled_protocol::Digest;

use crate::config::Config;
use crate::guarded::guard::{has_changed, is_new};
use crate::listed::tools::List;

/// Names them once for each definition, and counts them.
#[derive(Default)]
pub(crate) struct Unreviewed {
    named: HashMap<String, Option<Digest>>,
}

impl Unreviewed {
    /// The server has listed its tools.
    pub(crate) fn look(&mut self, config: &Config, list: &List) {
        let reviews = config.tools.values().any(|tool| tool.seen.is_some());
        let new: Vec<&str> = list.keys().filter(|name| is_new(config, name)).map(String::as_str).collect();
        let changed: Vec<&str> = config
            .tools
            .iter()
            .filter(|(name, declared)| list.get(*name).is_some_and(|listed| has_changed(declared, Some(listed))))
            .map(|(name, _)| name.as_str())
            .collect();
        if reviews || !new.is_empty() {
            describe_gauge!(
                "settled_mcp_tools_unreviewed",
                "tools of the server that are new, or have changed since they were declared"
            );
            for (change, tools) in [("new", &new), ("changed", &changed)] {
                gauge!("settled_mcp_tools_unreviewed", "change" => change).set(tools.len() as f64);
            }
        }
        let new = self.not_named_yet(new, list);
        if !new.is_empty() {
            tracing::warn!(
                tools = new.join(", "),
                "new tools, which settled.toml does not declare: they are guarded as opaque, whatever the server claims about them; \
                 look at what they do, and declare them"
            );
        }
        let changed = self.not_named_yet(changed, list);
        if !changed.is_empty() {
            tracing::warn!(
                tools = changed.join(", "),
                "tools that are not what they were when they were declared (`seen` in settled.toml): they are guarded as opaque, \
                 whatever is declared; look at what they do now, and take the new digest from `settled mcp --describe`"
            );
        }
    }

    fn not_named_yet<'a>(&mut self, mut tools: Vec<&'a str>, list: &List) -> Vec<&'a str> {
        tools.sort_unstable();
        tools.retain(|name| {
            let definition = list.get(*name).and_then(|listed| listed.definition);
            self.named.insert((*name).to_owned(), definition) != Some(definition)
        });
        tools
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guarded::guard::Annotations;
    use std::sync::Arc;

    #[test]
    fn each_is_named_once_for_each_definition() {
        let text = "new_tools = 'guard'\n[tools.t]";
        let config = Config::parse("settled.toml".as_ref(), text).unwrap();
        let list = |definition: &[u8]| -> List {
            let listed = Annotations { definition: Some(Digest::of(definition)), ..Annotations::default() };
            Arc::new([("t".to_owned(), listed), ("new".to_owned(), listed)].into())
        };
        let mut unreviewed = Unreviewed::default();
        unreviewed.look(&config, &list(b"a"));
        assert_eq!(unreviewed.named.keys().collect::<Vec<_>>(), ["new"]);
        assert!(unreviewed.not_named_yet(vec!["new"], &list(b"a")).is_empty());
        assert_eq!(unreviewed.not_named_yet(vec!["new"], &list(b"b")), ["new"]);
    }
}

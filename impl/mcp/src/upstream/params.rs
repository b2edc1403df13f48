//! Arguments that a server wants repeated in headers (revision 2026-07-28, "Custom Headers from Tool Parameters").

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use http::{HeaderMap, HeaderName};
use serde::Deserialize;
use serde_json::Value;

use crate::upstream::headers::encoded;

/// The largest integer that may be repeated, either way.
const SAFE: i64 = (1 << 53) - 1;

/// The deepest property that is looked at.
const DEEPEST: usize = 32;

/// One argument: where it is, and the header that repeats it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Repeated {
    path: Vec<String>,
    header: HeaderName,
}

/// What the server's tools want repeated, as far as they were listed.
#[derive(Debug, Default)]
pub(crate) struct Params {
    by_tool: Mutex<HashMap<String, Arc<Vec<Repeated>>>>,
}

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    tools: Vec<Tool>,
}

#[derive(Deserialize)]
struct Tool {
    name: String,
    #[serde(default, rename = "inputSchema")]
    schema: Value,
}

impl Params {
    /// The server has listed these tools.
    pub(crate) fn listed(&self, result: &str) {
        // Few servers want any of it, and a list may be long.
        let wants_any = result.contains("x-mcp-header");
        if !wants_any && self.lock().is_empty() {
            return;
        }
        let Ok(list) = serde_json::from_str::<List>(result) else { return };
        let mut by_tool = self.lock();
        for tool in list.tools {
            match wanted(&tool.schema) {
                Ok(wanted) if wanted.is_empty() => drop(by_tool.remove(&tool.name)),
                Ok(wanted) => drop(by_tool.insert(tool.name, Arc::new(wanted))),
                Err(why) => {
                    tracing::warn!(tool = tool.name, "its arguments can't be repeated in headers: {why}");
                    by_tool.remove(&tool.name);
                }
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<Vec<Repeated>>>> {
        self.by_tool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds what a call with these parameters has to repeat.
    pub(crate) fn add(&self, tool: &str, params: &str, headers: &mut HeaderMap) {
        let Some(wanted) = self.lock().get(tool).cloned() else { return };
        let Ok(params) = serde_json::from_str::<Value>(params) else { return };
        for Repeated { path, header } in wanted.iter() {
            let found = path.iter().try_fold(&params["arguments"], |value, member| value.get(member));
            let text = match found {
                Some(Value::String(text)) => text.clone(),
                Some(Value::Bool(value)) => value.to_string(),
                Some(Value::Number(number)) if number.as_i64().is_some_and(|n| (-SAFE..=SAFE).contains(&n)) => {
                    number.to_string()
                }
                // Nothing, null, or what can't be repeated: the server says so if it minds.
                _ => {
                    headers.remove(header);
                    continue;
                }
            };
            headers.insert(header.clone(), encoded(&text));
        }
    }
}

/// What a schema wants repeated.
///
/// # Errors
/// Why the whole tool can't be used in this way.
fn wanted(schema: &Value) -> Result<Vec<Repeated>, String> {
    let mut found = Vec::new();
    let mut names = HashSet::new();
    collect(schema, &mut Vec::new(), &mut |path, property, name| {
        let at = path.join(".");
        let name = name.as_str().ok_or_else(|| format!("`x-mcp-header` of `{at}` is not text"))?;
        let header = HeaderName::try_from(format!("mcp-param-{name}"));
        let header = header.ok().filter(|_| !name.is_empty()).ok_or_else(|| format!("`{name}` can't name a header"))?;
        if !matches!(property["type"].as_str(), Some("string" | "integer" | "boolean")) {
            return Err(format!("`{at}` is not a string, an integer or a boolean"));
        }
        if !names.insert(header.clone()) {
            return Err(format!("two arguments want the header {header}"));
        }
        found.push(Repeated { path: path.to_vec(), header });
        Ok(())
    })?;
    Ok(found)
}

type OnFound<'a> = dyn FnMut(&[String], &Value, &Value) -> Result<(), String> + 'a;

fn collect(schema: &Value, path: &mut Vec<String>, on_found: &mut OnFound<'_>) -> Result<(), String> {
    let properties = schema["properties"].as_object().filter(|_| path.len() < DEEPEST);
    for (name, property) in properties.into_iter().flatten() {
        path.push(name.clone());
        if let Some(header) = property.get("x-mcp-header") {
            on_found(path, property, header)?;
        }
        collect(property, path, on_found)?;
        path.pop();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn listed(properties: Value) -> Params {
        let params = Params::default();
        params
            .listed(&json!({ "tools": [{ "name": "sql", "inputSchema": { "properties": properties } }] }).to_string());
        params
    }

    fn added(params: &Params, arguments: Value) -> Vec<(String, String)> {
        let mut headers = HeaderMap::new();
        params.add("sql", &json!({ "name": "sql", "arguments": arguments }).to_string(), &mut headers);
        headers.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect()
    }

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn arguments_are_repeated_where_the_schema_says() {
        let params = listed(json!({
            "region": { "type": "string", "x-mcp-header": "Region" },
            "where": { "type": "object", "properties": { "n": { "type": "integer", "x-mcp-header": "N" } } },
            "query": { "type": "string" },
        }));
        let arguments = json!({ "region": "世", "where": { "n": -7 }, "query": "q" });
        assert_eq!(added(&params, arguments), [pair("mcp-param-region", "=?base64?5LiW?="), pair("mcp-param-n", "-7")]);
        assert_eq!(added(&params, json!({ "region": null, "where": { "n": 1_u64 << 60 } })), []);
        assert_eq!(added(&params, json!([])), []);
    }

    #[test]
    fn a_tool_that_wants_the_impossible_gets_nothing() {
        for bad in [
            json!({ "a": { "type": "number", "x-mcp-header": "A" } }),
            json!({ "a": { "type": "string", "x-mcp-header": "" } }),
            json!({ "a": { "type": "string", "x-mcp-header": "a b" } }),
            json!({ "a": { "type": "string", "x-mcp-header": 7 } }),
            json!({ "a": { "type": "string", "x-mcp-header": "X" }, "b": { "type": "string", "x-mcp-header": "x" } }),
        ] {
            assert_eq!(added(&listed(bad.clone()), json!({ "a": "1", "b": "2" })), [], "{bad}");
        }
    }

    #[test]
    fn a_later_list_counts() {
        let params = listed(json!({ "a": { "type": "string", "x-mcp-header": "A" } }));
        assert_eq!(added(&params, json!({ "a": "1" })).len(), 1);
        params.listed(r#"{"tools":[{"name":"sql","inputSchema":{}}]}"#);
        assert_eq!(added(&params, json!({ "a": "1" })), []);
    }
}

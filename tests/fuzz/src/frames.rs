//! Lines of MCP: what the proxy sees in them, and what it does to them.

use serde_json::Value;
use settled_mcp::fuzzing::{Line, get, line, relay, same_id, set, valid};

use crate::choices::Choices;
use crate::corpus;

/// Any line: what is seen in it is what a parser sees, and every text that is taken from it is a part of it.
pub fn any_line(bytes: &[u8]) {
    let seen = line(bytes);
    let text = str::from_utf8(bytes).ok().and_then(valid);
    let Some(text) = text else {
        assert!(matches!(seen, Line::Broken(_)), "{seen:?}");
        return;
    };
    assert!(!matches!(seen, Line::Broken(_)), "{text}");
    for part in parts(&seen) {
        assert!(valid(part) == Some(part), "{part:?} of {text}");
        assert!(is_within(part, text), "{part:?} is not a part of the line");
    }
    // What a usual parser can't hold (lone surrogates, great depth, huge numbers) has been looked at above.
    let Ok(parsed) = serde_json::from_str::<Value>(text) else { return };
    let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let same =
        |part: Option<&str>, name: &str| assert_eq!(part.map(value).as_ref(), parsed.get(name), "{name} of {text}");
    match &seen {
        Line::Request(id, method, params) => {
            same(Some(id), "id");
            same(*params, "params");
            assert_eq!(Some(method.as_str()), parsed["method"].as_str());
            assert!(same_id(id, id));
        }
        Line::Notification(method, params) => {
            same(*params, "params");
            assert_eq!(Some(method.as_str()), parsed["method"].as_str());
            assert_eq!(parsed.get("id"), None);
        }
        Line::Response(id, said) => {
            same(Some(id), "id");
            assert_eq!(parsed.get("method"), None);
            match said {
                Ok(result) => same(Some(result), "result"),
                Err(error) => same(Some(error), "error"),
            }
        }
        Line::Batch(members) => {
            let values: Vec<Value> = members.iter().map(|member| value(member)).collect();
            assert_eq!(Some(&values), parsed.as_array());
        }
        Line::Other => assert!(!parsed.is_array() && !is_message(&parsed), "{text}"),
        Line::Broken(_) => {}
    }
    setting(text, &parsed);
}

/// A member that is set is the only thing that changes.
fn setting(text: &str, parsed: &Value) {
    for (name, new) in [("_meta", "{\"a\" : 1e400}"), ("id", "7"), ("key\"\\\n", "[]")] {
        let after = set(text, name, new);
        let Value::Object(members) = parsed else {
            assert_eq!(after, None);
            continue;
        };
        let after = after.expect("an object");
        assert_eq!(get(&after, name), Some(new), "{after}");
        // All but the value that was replaced is there as it was.
        let unchanged = match get(text, name) {
            Some(old) => after.len() + old.len() == text.len() + new.len(),
            None => after.len() > text.len() && after.starts_with(&text[..text.rfind('}').unwrap()]),
        };
        assert!(unchanged, "{text} became {after}");
        for (other, value) in members.iter().filter(|(other, _)| *other != name) {
            let kept = get(&after, other).unwrap_or_else(|| panic!("{other} is lost from {after}"));
            assert_eq!(serde_json::from_str::<Value>(kept).unwrap(), *value);
        }
    }
}

fn is_message(value: &Value) -> bool {
    let has = |name| value.get(name).is_some();
    value["method"].is_string() || !has("method") && has("id") && (has("result") || has("error"))
}

fn parts<'a>(line: &Line<'a>) -> Vec<&'a str> {
    match line {
        Line::Request(id, _, params) => std::iter::once(*id).chain(*params).collect(),
        Line::Notification(_, params) => params.iter().copied().collect(),
        Line::Response(id, Ok(said) | Err(said)) => vec![id, said],
        Line::Batch(members) => members.clone(),
        Line::Other | Line::Broken(_) => Vec::new(),
    }
}

fn is_within(part: &str, whole: &str) -> bool {
    let (part, whole) = (part.as_bytes().as_ptr_range(), whole.as_bytes().as_ptr_range());
    whole.start <= part.start && part.end <= whole.end
}

/// A line of the corpus, changed.
pub fn changed_line(texts: &[Vec<u8>], bytes: &[u8]) {
    any_line(&corpus::changed(texts, &mut Choices::new(bytes)));
}

/// Any bytes go through the proxy's reader and writer as they are; a last line without its end gets one.
pub fn any_stream(bytes: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let relayed = runtime.block_on(relay(bytes));
    let ended = bytes.last().is_none_or(|last| *last == b'\n');
    assert_eq!(relayed, [bytes, if ended { &b""[..] } else { b"\n" }].concat());
}

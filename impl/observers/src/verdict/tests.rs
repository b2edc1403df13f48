use super::*;
use serde_json::json;

fn parse(value: Value, source: Source) -> Result<Vec<Condition>, String> {
    Condition::parse(value, source).map_err(|error| error.to_string())
}

fn holds(condition: Value, source: Source, evidence: &Evidence) -> bool {
    parse(condition, source).unwrap().iter().any(|condition| condition.holds(evidence))
}

fn http(status: u16, body: Value) -> Evidence {
    Evidence { status: Some(status), body: Some(body), ..Evidence::default() }
}

#[test]
fn all_members_must_hold_and_any_of_a_list() {
    let yes = json!({"status": [200, 201], "at": "/state", "is": ["charged", "settled"]});
    assert!(holds(yes.clone(), Source::Http, &http(201, json!({"state": "settled"}))));
    assert!(!holds(yes.clone(), Source::Http, &http(202, json!({"state": "settled"}))));
    assert!(!holds(yes, Source::Http, &http(200, json!({"state": "new"}))));
    let any = json!([{"status": 404}, {"at": "/state", "is": "absent"}]);
    assert!(holds(any.clone(), Source::Http, &http(404, Value::Null)));
    assert!(holds(any.clone(), Source::Http, &http(200, json!({"state": "absent"}))));
    assert!(!holds(any, Source::Http, &http(200, json!({}))));
}

#[test]
fn a_body_counts_only_with_a_status_that_lets_it() {
    let body = json!({"at": "/state", "is": "absent"});
    for status in [301, 400, 404, 500, 503] {
        assert!(!holds(body.clone(), Source::Http, &http(status, json!({"state": "absent"}))), "{status}");
    }
    let exit = |exit, body| Evidence { exit: Some(exit), body: Some(body), ..Evidence::default() };
    let said = json!({"contains": "charged"});
    assert!(holds(said.clone(), Source::Command, &exit(0, json!("charged twice"))));
    assert!(!holds(said, Source::Command, &exit(1, json!("charged twice"))));
}

#[test]
fn bodies() {
    let tool = |condition: Value, body: Value| {
        holds(condition, Source::McpTool, &Evidence { body: Some(body), ..Evidence::default() })
    };
    assert!(tool(json!({"at": "/n", "is": 1}), json!({"n": 1.0})));
    assert!(tool(json!({"at": "/n", "is": [[1]]}), json!({"n": [1]})));
    assert!(!tool(json!({"at": "/n", "is": "1"}), json!({"n": 1})));
    assert!(tool(json!({"at": "/n", "contains": "x"}), json!({"n": ["x"]})));
    assert!(!tool(json!({"at": "/n", "contains": "x"}), json!({"n": ["xx"]})));
    assert!(tool(json!({"at": "/n", "exists": true}), json!({"n": null})));
    assert!(tool(json!({"at": "/order", "exists": false}), json!({"n": null})));
    // A text that is no JSON shows no absence.
    let text = json!({"content": [{"text": "service unavailable"}]});
    assert!(!tool(json!({"at": "/content/0/text/order", "exists": false}), text));
}

#[test]
fn one_answer_and_one_only() {
    let reading = Reading {
        applied: parse(json!({"at": "/a", "exists": true}), Source::McpTool).unwrap(),
        not_applied: parse(json!({"at": "/b", "exists": true}), Source::McpTool).unwrap(),
        sealed: parse(json!({"at": "/s", "exists": true}), Source::McpTool).unwrap(),
        result: Some(Pointer::parse("/a").unwrap()),
    };
    let read = |body: Value| reading.read(&Evidence { body: Some(body), ..Evidence::default() });
    assert_eq!(read(json!({"a": 5})), Verdict::Applied(json!(5)));
    assert_eq!(read(json!({"b": 5})), Verdict::NotApplied);
    assert_eq!(read(json!({"s": 5})), Verdict::Sealed);
    for unclear in [json!({}), json!({"a": 1, "b": 1}), json!({"b": 1, "s": 1}), json!("text"), Value::Null] {
        assert!(matches!(read(unclear.clone()), Verdict::Unclear(_)), "{unclear}");
    }
    assert!(matches!(reading.read(&Evidence::default()), Verdict::Unclear(_)));
    let lagging = Evidence { body: Some(json!({"b": 1})), may_lag: Some("it is a copy"), ..Evidence::default() };
    assert_eq!(reading.read(&lagging), Verdict::Unclear("it shows no effect, but it is a copy".to_owned()));
    let lagging = Evidence { body: Some(json!({"a": 1})), ..lagging };
    assert_eq!(reading.read(&lagging), Verdict::Applied(json!(1)));
}

#[test]
fn what_can_not_be_meant_is_refused() {
    for (condition, source, part) in [
        (json!({"statuz": 200}), Source::Http, "statuz"),
        (json!({"status": 503}), Source::Http, "says nothing of the effect"),
        (json!({"status": [404, 401]}), Source::Http, "401"),
        (json!({"status": "ok"}), Source::Http, "a number"),
        (json!({"status": []}), Source::Http, "never holds"),
        (json!({"status": 200}), Source::Command, "`status`"),
        (json!({"exit": 127}), Source::Command, "0 to 125"),
        (json!({"rows": "few"}), Source::Sql, "`some`"),
        (json!({"rows": 1}), Source::McpTool, "`rows`"),
        (json!({"code": 1}), Source::McpTool, "`code`"),
        (json!({"at": "/a"}), Source::Sql, "`at` alone"),
        (json!({"at": "a", "is": 1}), Source::Sql, "`/a`"),
        (json!({"exists": false}), Source::Sql, "say where"),
        (json!({"at": "/a", "is": 1, "exists": true}), Source::Sql, "more than one"),
        (json!({"at": "/a", "is": []}), Source::Sql, "never holds"),
        (json!({"contains": ""}), Source::Command, "always holds"),
        (json!({}), Source::Http, "says nothing"),
        (json!([]), Source::Http, "at least one"),
        (json!("applied"), Source::Http, "a table"),
    ] {
        let error = parse(condition.clone(), source).unwrap_err();
        assert!(error.contains(part), "{condition}: {error}");
    }
}

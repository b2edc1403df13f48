use super::*;
use crate::Config;

fn asker() -> Asker {
    Asker {
        id: "\"a\"".to_owned(),
        by_parameter: false,
        by_name: false,
        typed_results: false,
        task: false,
        has_output_schema: false,
        may_ask_status: false,
        ledger: Some("/var/lib/it's here".into()),
        being_established: false,
        messages: Arc::default(),
    }
}

fn answered(answer: Answer) -> Answered {
    let key = Key::new("shop", "charge", "key:1").unwrap();
    Answered { key, generation: 1, created: 1_700_000_000_000, answer }
}

fn done(result: &str) -> Answer {
    Answer::Done { result: stored("result", result).into(), replayed: true }
}

const MARK: &str =
    r#"{"status":"done","key":"shop/charge/key:1","replayed":true,"createdAt":"2023-11-14T22:13:20.000Z"}"#;

#[test]
fn a_result_keeps_every_byte_but_the_mark() {
    let result = r#"{ "content":[], "big":12345678901234567890123, "s":"\ud800" }"#;
    let line = asker().line(&answered(done(result)));
    let marked = format!(
        r#"{{ "content":[], "big":12345678901234567890123, "s":"\ud800" ,"_meta":{{"io.settled/status":{MARK}}}}}"#
    );
    assert_eq!(line, format!(r#"{{"jsonrpc":"2.0","id":"a","result":{marked}}}"#));
    let line = asker().line(&answered(done(r#"{"_meta":{"x":1e400},"content":[]}"#)));
    assert!(line.contains(&format!(r#""_meta":{{"x":1e400,"io.settled/status":{MARK}}},"content":[]"#)), "{line}");
    let line = asker().line(&answered(done(r#"{"_meta":null,"content":[]}"#)));
    assert!(line.contains(&format!(r#""_meta":{{"io.settled/status":{MARK}}},"content":[]"#)), "{line}");
    let line = asker().line(&answered(done("[1]")));
    assert_eq!(line, r#"{"jsonrpc":"2.0","id":"a","result":[1]}"#);
}

#[test]
fn errors_are_marked_where_there_is_room() {
    let failed = |error: &str| Answer::Failed { error: Some(stored("error", error).into()), replayed: false };
    let line = asker().line(&answered(failed(r#"{"code":-32602,"message":"no"}"#)));
    assert!(
        line.contains(r#""error":{"code":-32602,"message":"no","data":{"io.settled/status":{"status":"failed""#),
        "{line}"
    );
    let line = asker().line(&answered(failed(r#"{"code":1,"message":"no","data":7}"#)));
    assert_eq!(line, r#"{"jsonrpc":"2.0","id":"a","error":{"code":1,"message":"no","data":7}}"#);
}

#[test]
fn input_required_passes_unchanged() {
    let result = r#"{"resultType":"input_required","requestState":"s"}"#;
    let answer = Answer::Failed { error: Some(stored("result", result).into()), replayed: false };
    let line = asker().line(&answered(answer));
    assert_eq!(line, format!(r#"{{"jsonrpc":"2.0","id":"a","result":{result}}}"#));
}

#[test]
fn unknown_in_words() {
    let mut asker = asker();
    asker.typed_results = true;
    let line = asker.line(&answered(Answer::Unknown { error: None, replayed: false }));
    let value: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(value["result"]["isError"], true);
    assert_eq!(value["result"]["resultType"], "complete");
    assert_eq!(value["result"]["_meta"][STATUS]["status"], "unknown");
    let text = value["result"]["content"][0]["text"].as_str().unwrap();
    for part in [
        "not known",
        "Do not repeat",
        "not be sent again",
        r"settled log show 'shop/charge/key:1' --ledger '/var/lib/it'\''s here'",
        "which says how to decide",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn an_unknown_that_is_being_established_may_be_asked_about() {
    let mut asker = asker();
    asker.being_established = true;
    asker.ledger = Some("postgres://me:secret@db/settled".to_owned());
    let line = asker.line(&answered(Answer::Unknown { error: None, replayed: false }));
    let value: Value = serde_json::from_str(&line).unwrap();
    let text = value["result"]["content"][0]["text"].as_str().unwrap();
    for part in ["not known", "being found out", "ask again later", "--ledger 'postgres://me@db/settled'"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!line.contains("secret"), "{line}");
}

#[test]
fn an_error_that_leaves_it_open_is_explained_to_the_retry_only() {
    let error = stored("result", r#"{"content":[{"type":"text","text":"boom"}],"isError":true}"#);
    let unknown = |replayed| Answer::Unknown { error: Some(error.clone().into()), replayed };
    let first: Value = serde_json::from_str(&asker().line(&answered(unknown(false)))).unwrap();
    assert_eq!(first["result"]["content"].as_array().unwrap().len(), 1);
    let retry: Value = serde_json::from_str(&asker().line(&answered(unknown(true)))).unwrap();
    assert_eq!(retry["result"]["content"][0]["text"], "boom");
    assert!(retry["result"]["content"][1]["text"].as_str().unwrap().contains("errors = \"final\""));
    let error = stored("error", r#"{"code":-32603,"message":"boom"}"#);
    let answer = Answer::Unknown { error: Some(error.into()), replayed: true };
    let retry: Value = serde_json::from_str(&asker().line(&answered(answer))).unwrap();
    let message = retry["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("boom [") && message.contains("[tools.charge]"), "{message}");
}

#[test]
fn conflicts_and_calls_under_way() {
    let line = asker().line(&answered(Answer::Conflict));
    let value: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(value["error"]["data"]["type"], "idempotency_key_conflict");
    assert_eq!(value["error"]["data"][STATUS].get("createdAt"), None);
    let value: Value = serde_json::from_str(&asker().line(&answered(Answer::InProgress))).unwrap();
    assert_eq!(value["result"]["_meta"][STATUS]["status"], "in_progress");
    let typed = Asker { by_parameter: true, ..asker() };
    let value: Value = serde_json::from_str(&typed.line(&answered(Answer::InProgress))).unwrap();
    assert_eq!(value["error"]["data"]["type"], "idempotency_key_in_progress");
}

#[test]
fn a_created_task_is_not_called_done() {
    let asker = Asker { task: true, ..asker() };
    let line = asker.line(&answered(done(r#"{"task":{"taskId":"t"}}"#)));
    assert!(line.contains(r#""status":"task_created""#), "{line}");
}

#[test]
fn what_a_person_recorded() {
    let by_hand = |result: &str| Answer::Done { result: result.to_owned().into(), replayed: true };
    let value: Value = serde_json::from_str(&asker().line(&answered(by_hand("receipt 17")))).unwrap();
    assert_eq!(value["result"]["content"][0]["text"], "receipt 17");
    assert_eq!(value["result"]["isError"], false);
    let value: Value = serde_json::from_str(&asker().line(&answered(by_hand("")))).unwrap();
    assert!(value["result"]["content"][0]["text"].as_str().unwrap().contains("It happened"));
}

fn value(asker: &Asker, answer: Answer) -> Value {
    serde_json::from_str(&asker.line(&answered(answer))).unwrap()
}

fn with_messages(lines: &str) -> Asker {
    let config = Config::parse("settled.toml".as_ref(), &format!("[messages]\n{lines}")).unwrap();
    Asker { messages: config.messages, ..asker() }
}

#[test]
fn words_are_also_there_for_programs() {
    let unknown = || Answer::Unknown { error: None, replayed: false };
    let told = value(&asker(), unknown());
    let structured = &told["result"]["structuredContent"];
    assert_eq!(structured["status"], "unknown");
    assert_eq!((&structured["operation"], &structured["retry"]), (&"shop/charge/key:1".into(), &"never".into()));
    assert_eq!(structured["message"], told["result"]["content"][0]["text"]);
    let later = Asker { being_established: true, ..asker() };
    assert_eq!(value(&later, unknown())["result"]["structuredContent"]["retry"], "later");
    assert_eq!(value(&asker(), Answer::InProgress)["result"]["structuredContent"]["retry"], "later");
    let failed = Answer::Failed { error: None, replayed: false };
    assert_eq!(value(&asker(), failed)["result"]["structuredContent"]["retry"], "allowed");
}

#[test]
fn a_tool_with_a_schema_gets_no_other_structure_and_no_success_without_one() {
    let asker = Asker { has_output_schema: true, ..asker() };
    let observed = r#"{"content":[],"isError":false,"_meta":{"io.settled/observed":true}}"#;
    let by_hand = Answer::Done { result: "receipt 17".into(), replayed: true };
    for answer in [Answer::Unknown { error: None, replayed: false }, Answer::InProgress, by_hand, done(observed)] {
        let told = value(&asker, answer);
        assert_eq!(
            (told["result"].get("structuredContent"), &told["result"]["isError"]),
            (None, &true.into()),
            "{told}"
        );
    }
    let fits = r#"{"content":[],"structuredContent":{"a":1},"_meta":{"io.settled/observed":true}}"#;
    let told = value(&asker, done(fits));
    assert_eq!((&told["result"]["structuredContent"]["a"], told["result"].get("isError")), (&1.into(), None));
    // The tool's own answers are left alone.
    let told = value(&asker, done(r#"{"content":[]}"#));
    assert_eq!((told["result"].get("isError"), told["result"].get("structuredContent")), (None, None));
}

#[test]
fn replays_are_marked_in_words_if_wanted() {
    let result = r#"{"content":[{"type":"text","text":"paid"}],"structuredContent":{"a":1}}"#;
    let blocks = |asker: &Asker, answer| value(asker, answer)["result"]["content"].as_array().unwrap().len();
    assert_eq!(blocks(&asker(), done(result)), 1);
    let marking = with_messages("mark_replays = true");
    assert_eq!(blocks(&marking, done(result)), 2);
    assert!(
        value(&marking, done(result))["result"]["content"][1]["text"].as_str().unwrap().contains("recorded answer")
    );
    let first = Answer::Done { result: stored("result", result).into(), replayed: false };
    assert_eq!(blocks(&marking, first), 1);
    let error =
        Answer::Failed { error: Some(stored("error", r#"{"code":-32602,"message":"no"}"#).into()), replayed: true };
    let message = value(&marking, error)["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("no [This is the recorded"), "{message}");
    let told = value(&marking, done(r#"{"resultType":"task","taskId":"t"}"#));
    assert_eq!(
        (told["result"].get("content"), &told["result"]["_meta"][STATUS]["status"]),
        (None, &"task_created".into())
    );
    let asks = r#"{"resultType":"input_required","requestState":"s"}"#;
    let answer = Answer::Failed { error: Some(stored("result", asks).into()), replayed: true };
    assert_eq!(marking.line(&answered(answer)), format!(r#"{{"jsonrpc":"2.0","id":"a","result":{asks}}}"#));
}

#[test]
fn in_japanese() {
    let mut asker = with_messages("language = 'ja'");
    asker.may_ask_status = true;
    let told = value(&asker, Answer::Unknown { error: None, replayed: false });
    let text = told["result"]["content"][0]["text"].as_str().unwrap();
    for part in
        ["再実行しないでください", "settled log show 'shop/charge/key:1'", "settled_status", "`shop/charge/key:1`"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(told["result"]["structuredContent"]["status"], "unknown", "programs read the same in any language");
    let conflict = value(&asker, Answer::Conflict);
    assert!(conflict["error"]["message"].as_str().unwrap().contains("冪等キー"));
}

#[test]
fn a_conflict_of_a_declared_key_does_not_speak_of_keys() {
    let asker = Asker { by_name: true, ..asker() };
    let told = value(&asker, Answer::Conflict);
    assert!(told["error"]["message"].as_str().unwrap().contains("the arguments that identify"), "{told}");
    assert_eq!(told["error"]["data"]["type"], "idempotency_key_conflict");
}

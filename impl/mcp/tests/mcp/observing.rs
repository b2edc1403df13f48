//! Unknown outcomes that are found out, through the proxy, with a real server process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::{INITIALIZE, INITIALIZED, World, mark};
use serde_json::Value;
use settled::protocol::{Key, Policy, ToolKind};

/// An observable `charge`, asked about by this.
fn observable(observe: &str, more: &str) -> String {
    format!(
        "[tools.charge]\nkind = 'observable'\nsettling = '100ms'\nrepeat = 'replay'\n{more}\n[tools.charge.observe]\n{observe}\n\
         applied = {{ at = '/structuredContent/status', is = 'charged' }}\n\
         not_applied = {{ at = '/structuredContent/status', is = 'absent' }}\nevery = '20ms'\n"
    )
}

const BY_TOOL: &str = "tool = 'get_charge'\narguments = { order = '{order}' }";

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn a_call_that_took_effect_is_settled_by_asking() {
    let world = World::new();
    let mut client = world.open(&observable(BY_TOOL, "")).await;
    let answer = client.ask("1", "charge", r#"{"order":1,"die":true}"#).await;
    assert_eq!((&mark(&answer)["status"], &mark(&answer)["replayed"]), (&"done".into(), &false.into()), "{answer}");
    assert_eq!(
        (&answer["result"]["isError"], &answer["result"]["_meta"]["io.settled/observed"]),
        (&false.into(), &true.into())
    );
    assert!(text(&answer).contains("took effect") && text(&answer).contains("charged"), "{answer}");
    let again = client.ask("2", "charge", r#"{"order":1,"die":true}"#).await;
    assert_eq!((&mark(&again)["replayed"], text(&again)), (&true.into(), text(&answer)));
    assert_eq!((world.effects().len(), world.calls("charge")), (1, 1));
    let question = world.log().into_iter().find(|line| line.contains(r#""name":"get_charge""#)).unwrap();
    assert!(question.contains(r#""arguments":{"order":1}"#), "the argument keeps its type: {question}");
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn a_call_that_did_not_is_sent_again_once() {
    let world = World::new();
    let mut client = world.open(&observable(BY_TOOL, "")).await;
    let answer = client.ask("1", "charge", r#"{"order":1,"die_first":true}"#).await;
    assert_eq!((&mark(&answer)["status"], text(&answer)), (&"done".into(), "charge"), "{answer}");
    assert_eq!((world.effects().len(), world.calls("charge")), (1, 2));
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn a_call_that_may_not_be_sent_again_has_failed() {
    let world = World::new();
    let mut client = world.open(&observable(BY_TOOL, "attempts = 1")).await;
    let answer = client.ask("1", "charge", r#"{"order":1,"die_first":true}"#).await;
    assert_eq!(mark(&answer)["status"], "failed", "{answer}");
    assert_eq!((world.effects().len(), world.calls("charge")), (0, 1));
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn an_observer_that_fails_proves_nothing() {
    for instead in ["fail", "error", "hang", "something else"] {
        let world = World::new();
        world.observers_say(instead);
        // However slow the machine is, only the one that hangs is not waited for.
        let timeout = if instead == "hang" { "1s" } else { "1m" };
        let observe = format!("{BY_TOOL}\ntimeout = '{timeout}'\nchecks = 3\nwithin = '1m'");
        let mut client = world.open(&observable(&observe, "")).await;
        // It never took effect, but nobody can tell.
        let answer = client.ask("1", "charge", r#"{"order":1,"die_first":true}"#).await;
        assert_eq!(mark(&answer)["status"], "unknown", "{instead}: {answer}");
        assert!(text(&answer).contains("settled log show") && text(&answer).contains("Do not repeat it:"), "{answer}");
        world.becomes("escalated").await;
        // As often as declared, and while the settling time runs, which doesn't count.
        assert_eq!(world.calls("charge"), 1, "{instead}");
        assert!(world.calls("get_charge") >= 3, "{instead}");
        client.end().await.1.unwrap();
    }
}

#[tokio::test]
async fn a_caller_does_not_wait_for_ever_and_asking_goes_on() {
    let world = World::new();
    world.observers_say("not yet");
    let observe = format!("{BY_TOOL}\nchecks = 1000\nat_most_every = '50ms'\nwithin = '300ms'");
    let mut client = world.open(&observable(&observe, "")).await;
    let answer = client.ask("1", "charge", r#"{"order":1,"die":true}"#).await;
    assert_eq!(mark(&answer)["status"], "unknown", "{answer}");
    assert!(text(&answer).contains("being found out") && text(&answer).contains("ask again later"), "{answer}");
    world.observers_say("");
    world.becomes("settled").await;
    let answer = client.ask("2", "charge", r#"{"order":1,"die":true}"#).await;
    assert_eq!((&mark(&answer)["status"], &mark(&answer)["replayed"]), (&"done".into(), &true.into()), "{answer}");
    assert_eq!((world.effects().len(), world.calls("charge")), (1, 1));
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn an_end_does_not_wait_for_what_is_being_found_out() {
    let world = World::new();
    world.observers_say("not yet");
    let observe = format!("{BY_TOOL}\nchecks = 1000\nat_most_every = '50ms'\nwithin = '300ms'");
    let mut client = world.open(&observable(&observe, "")).await;
    client.ask("1", "charge", r#"{"order":1,"die":true}"#).await;
    let begun = Instant::now();
    client.end().await.1.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    // Another process takes it further.
    world.observers_say("");
    let mut client = world.open(&observable(&observe, "")).await;
    world.becomes("settled").await;
    let answer = client.ask("2", "charge", r#"{"order":1,"die":true}"#).await;
    assert_eq!((&mark(&answer)["status"], &mark(&answer)["replayed"]), (&"done".into(), &true.into()), "{answer}");
    assert_eq!((world.effects().len(), world.calls("charge")), (1, 1));
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn only_what_reads_is_asked() {
    for (observer, allow, asked) in [
        ("look", "", false),
        ("look", "allow_unannotated = true", true),
        ("look_and_do", "allow_unannotated = true", false),
    ] {
        let world = World::new();
        let observe = format!("tool = '{observer}'\narguments = {{ order = '{{order}}' }}\n{allow}\nchecks = 2");
        let mut client = world.open(&observable(&observe, "")).await;
        let answer = client.ask("1", "charge", r#"{"order":1,"die":true}"#).await;
        let status = if asked { "done" } else { "unknown" };
        assert_eq!(mark(&answer)["status"], status, "{observer}: {answer}");
        assert_eq!(world.calls(observer), usize::from(asked), "{observer}");
        client.end().await.1.unwrap();
    }
}

#[tokio::test]
async fn a_command_is_asked_with_the_key_that_the_tool_got() {
    let world = World::new();
    let observe = format!(
        "[tools.charge]\nkind = 'observable'\nsettling = '100ms'\nrepeat = 'replay'\npass_key_as = 'key'\n[tools.charge.observe]\n\
         command = ['grep', '-q', '--', '{{$key}}', '{}']\nevery = '20ms'",
        world.effects_file()
    );
    let mut client = world.open(&observe).await;
    let answer = client.ask("1", "charge", r#"{"order":1,"die":true}"#).await;
    assert_eq!(mark(&answer)["status"], "done", "{answer}");
    let answer = client.ask("2", "charge", r#"{"order":2,"die_first":true}"#).await;
    assert_eq!(mark(&answer)["status"], "done", "{answer}");
    assert_eq!((world.effects().len(), world.calls("charge")), (2, 3));
    client.end().await.1.unwrap();
}

#[tokio::test]
async fn a_secret_that_is_not_there_is_named_at_the_start() {
    let world = World::new();
    let observe = "[tools.charge]\nkind = 'observable'\nsettling = '1s'\npass_key_as = 'key'\n[tools.charge.observe]\nhttp = 'https://bank/{$key}'\n\
                   headers = { Authorization = 'Bearer env:SETTLED_NOT_SET' }";
    let (_, ended) = world.connect(observe, "").await.end().await;
    let error = ended.unwrap_err().to_string();
    assert!(error.contains("`charge`") && error.contains("`SETTLED_NOT_SET`"), "{error}");
}

#[tokio::test]
async fn a_tool_that_can_be_told_never_to_apply_an_attempt() {
    let seal = "[tools.charge]\nkind = 'sealable'\npass_key_as = 'key'\npass_attempt_as = 'attempt'\nrepeat = 'replay'\n\
                [tools.charge.seal]\ntool = 'seal_charge'\n\
                arguments = { key = '{$key}', attempt = '{$attempt}', scope = '{$scope}' }\n\
                applied = { at = '/structuredContent/status', is = 'charged' }\n\
                sealed = { at = '/structuredContent/status', is = 'sealed' }\nevery = '20ms'";
    let world = World::new();
    let mut client = world.open(seal).await;
    let answer = client.ask("1", "charge", r#"{"order":1,"die_first":true}"#).await;
    assert_eq!((&mark(&answer)["status"], text(&answer)), (&"done".into(), "charge"), "{answer}");
    let effects: Vec<Value> = world.effects().iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((effects.len(), &effects[0]["attempt"]), (1, &2.into()), "the first was sealed");
    let answer = client.ask("2", "charge", r#"{"order":2,"die":true}"#).await;
    assert_eq!(mark(&answer)["status"], "done", "{answer}");
    assert!(text(&answer).contains("took effect"), "{answer}");
    assert_eq!((world.effects().len(), world.calls("seal_charge")), (2, 2));
    client.end().await.1.unwrap();
}

/// A tool that never answers.
pub struct Silent;

#[async_trait::async_trait]
impl settled::Tool for Silent {
    async fn dispatch(&self, outgoing: &settled::Outgoing) -> settled::ToolReply {
        outgoing.sent();
        std::future::pending().await
    }
}

#[tokio::test]
async fn what_a_dead_proxy_left_is_found_out() {
    let world = World::new();
    world.add_effect(r#"{"order":1}"#);
    let engine = settled::Engine::start(world.ledger.clone(), settled::EngineOptions::default()).await.unwrap();
    let params = r#"{"name":"charge","arguments":{"order":1},"idempotencyKey":"k"}"#;
    let key = Key::new("ours", "charge", "key:k").unwrap();
    let mut operation = settled::Operation::new(key, params, Policy::new(ToolKind::Observable { settling: 100 }));
    operation.fingerprint = settled::protocol::fingerprint(br#"{"order":1}"#).unwrap();
    let calling = engine.clone();
    tokio::spawn(async move { calling.call(operation, Arc::new(Silent)).await });
    world.becomes("dispatched").await;
    world.ledger.kill(engine.epoch());

    let mut client = world.connect(&format!("scope = 'ours'\n{}", observable(BY_TOOL, "")), "").await;
    client.say(INITIALIZE).await;
    client.answer().await;
    client.say(INITIALIZED).await;
    world.becomes("settled").await;
    client.call_with("1", params).await;
    let answer = client.answer().await;
    assert_eq!((&mark(&answer)["status"], &mark(&answer)["replayed"]), (&"done".into(), &true.into()), "{answer}");
    assert_eq!(world.calls("charge"), 0);
    client.end().await.1.unwrap();
}

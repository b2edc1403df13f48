//! Asking by a command, a real one.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use settled_observers::{Command, Observer, Source, Verdict, Way, Where};
use support::{conditions, given, reading, unclear};

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn observer(command: &[&str]) -> Observer {
    let way = Way::Command(Command::parse(&words(command), Where::Observation).unwrap());
    Observer::open(&way, reading(Command::applied(), Command::not_applied()), Duration::from_secs(3)).unwrap()
}

async fn sh(script: &str, arguments: &str) -> Verdict {
    observer(&["sh", "-c", script, "sh", "--", "{id}"]).ask(&given(arguments)).await
}

#[tokio::test]
async fn the_exit_status_decides() {
    let seen = sh(r#"printf '{{"id":"%s"}}' "$2""#, r#"{"id":"a b"}"#).await;
    assert_eq!(seen, Verdict::Applied(json!({"id": "a b"})));
    assert_eq!(sh("echo plain", r#"{"id":7}"#).await, Verdict::Applied(json!("plain")));
    assert_eq!(sh("exit 1", r#"{"id":7}"#).await, Verdict::NotApplied);
    for script in ["exit 2", "exit 127", "kill -9 $$", "echo no such file >&2; exit 1"] {
        unclear(&sh(script, r#"{"id":7}"#).await);
    }
    unclear(&observer(&["/nonexistent/ask", "{$key}"]).ask(&given("{}")).await);
    // As an interpreter ends on an error of its own.
    unclear(&observer(&["python3", "-c", "import nothing_of_that_name", "--", "{$key}"]).ask(&given("{}")).await);
}

#[tokio::test]
async fn output_can_decide_too() {
    let command = words(&["printf", "%s", "{{\"state\":\"{state}\"}}"]);
    let way = Way::Command(Command::parse(&command, Where::Observation).unwrap());
    let applied = conditions(json!({"at": "/state", "is": "charged"}), Source::Command);
    let not_applied = conditions(json!({"at": "/state", "is": "absent"}), Source::Command);
    let observer = Observer::open(&way, reading(applied, not_applied), Duration::from_secs(3)).unwrap();
    let state = |state: &str| json!({ "state": state }).to_string();
    assert_eq!(observer.ask(&given(&state("charged"))).await, Verdict::Applied(json!({"state": "charged"})));
    assert_eq!(observer.ask(&given(&state("absent"))).await, Verdict::NotApplied);
    unclear(&observer.ask(&given(&state("charging"))).await);
}

#[tokio::test]
async fn no_shell_and_no_option_is_made_of_a_value() {
    let echo = observer(&["printf", "%s", "--id={id}"]);
    let sly = "$(reboot); `reboot` | 'x' \"y\" * \n --help";
    let seen = echo.ask(&given(&json!({ "id": sly }).to_string())).await;
    assert_eq!(seen, Verdict::Applied(json!(format!("--id={sly}"))));
    // `ls --help` succeeds.
    let seen = observer(&["ls", "{id}"]).ask(&given(r#"{"id":"--help"}"#)).await;
    assert!(unclear(&seen).contains("option"), "{seen:?}");
    unclear(&observer(&["ls", "--", "{id}"]).ask(&given(r#"{"id":"--help"}"#)).await);
    unclear(&observer(&["printf", "%s", "x{id}"]).ask(&given(r#"{"id":"a\u0000b"}"#)).await);
    unclear(&observer(&["printf", "%s", "x{id}"]).ask(&given(r#"{"id":[1]}"#)).await);
}

#[tokio::test]
async fn a_command_that_does_not_end_is_killed_with_all_that_it_started() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("alive");
    let script = format!("(sleep 4; touch '{}') & sleep 60", file.display());
    let begun = Instant::now();
    let seen = sh(&script, r#"{"id":7}"#).await;
    assert!(unclear(&seen).contains("within 3 s"), "{seen:?}");
    assert!(begun.elapsed() < Duration::from_secs(10));
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert!(!file.exists());
    let seen = sh("head -c 2000000 /dev/zero", r#"{"id":7}"#).await;
    assert!(unclear(&seen).contains("longer"), "{seen:?}");
    // It has nothing to read, and does not wait for it.
    assert_eq!(sh("cat", r#"{"id":7}"#).await, Verdict::Applied(Value::from("")));
}

#[test]
fn what_can_not_be_used_is_refused() {
    let wrong = |command: &[&str]| Command::parse(&words(command), Where::Observation).unwrap_err().to_string();
    assert!(wrong(&[]).contains("empty"));
    assert!(wrong(&["{program}", "x"]).contains("name of a program"));
    assert!(wrong(&["ls", "{"]).contains("partner"));
    assert!(wrong(&["ls", "a\0b"]).contains("NUL"));
    assert!(wrong(&["ls", "{$scope}"]).contains("not known here"));
    assert!(Command::parse(&words(&["ls", "{$scope}"]), Where::Seal).is_ok());
}

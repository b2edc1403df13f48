//! The client and the server as real processes with nothing between them: what goes wrong without a guard.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{
    io::Write,
    path::PathBuf,
    process::{Command, Output, Stdio},
    time::Duration,
};

use settled_examples::{
    ExampleError, Outcome,
    retrying_client::{RetryingClientOptions, run_observed},
};
use tempfile::TempDir;

const SERVER: &str = env!("CARGO_BIN_EXE_charge_server");
const CLIENT: &str = env!("CARGO_BIN_EXE_retrying_client");

/// An effects file in a directory of its own.
struct Shop {
    _dir: TempDir,
    effects: PathBuf,
}

impl Shop {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { effects: dir.path().join("effects"), _dir: dir }
    }

    fn server(&self, options: &[&str]) -> Vec<String> {
        let mut command = vec![SERVER.to_owned(), "--effects".to_owned(), self.effects.to_str().unwrap().to_owned()];
        command.extend(options.iter().map(|option| (*option).to_owned()));
        command
    }

    fn call(&self, client: &[&str], server: &[&str]) -> Output {
        Command::new(CLIENT).args(client).arg("--").args(self.server(server)).output().unwrap()
    }

    fn charges(&self) -> Vec<String> {
        std::fs::read_to_string(&self.effects).unwrap().lines().map(str::to_owned).collect()
    }
}

fn lines(output: &Output) -> Vec<&str> {
    std::str::from_utf8(&output.stdout).unwrap().lines().collect()
}

fn options(command: Vec<String>) -> RetryingClientOptions {
    RetryingClientOptions {
        customer: "alice".into(),
        cents: 4200,
        timeout: Duration::from_secs(30),
        retries: 1,
        command,
    }
}

#[test]
fn a_quick_server_charges_once() {
    let shop = Shop::new();
    let output = shop.call(&["--customer", "alice", "--cents", "4200"], &[]);
    assert_eq!(lines(&output), ["attempt 1: charged alice 4200"]);
    assert!(output.status.success());
    assert_eq!(shop.charges(), ["charge alice 4200"]);
}

#[test]
fn a_retry_after_a_timeout_charges_twice() {
    let shop = Shop::new();
    // The second attempt is answered at once, so the long delay costs no time unless the client gives up too late.
    let output = shop.call(&["--timeout", "600ms"], &["--answer-delay", "2s", "--delay-first", "1"]);
    assert_eq!(lines(&output), ["attempt 1: timed out after 600 ms", "attempt 2: charged alice 4200"]);
    assert!(output.status.success());
    assert_eq!(shop.charges(), ["charge alice 4200", "charge alice 4200"]);
}

#[test]
fn a_retry_after_the_server_died_charges_twice() {
    let shop = Shop::new();
    let output = shop.call(&["--retries", "3"], &["--die-after-effect", "1"]);
    let lines = lines(&output);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].starts_with("attempt 1: connection lost: "), "{lines:?}");
    assert_eq!(lines[1], "attempt 2: charged alice 4200");
    assert_eq!(shop.charges(), ["charge alice 4200", "charge alice 4200"]);
}

#[test]
fn delays_count_the_lines_of_earlier_servers() {
    let shop = Shop::new();
    std::fs::write(&shop.effects, "charge bob 1\n").unwrap();
    let slow = ["--answer-delay", "2s", "--delay-first", "2"];
    let output = shop.call(&["--timeout", "600ms", "--retries", "0"], &slow);
    assert_eq!(lines(&output), ["attempt 1: timed out after 600 ms"]);
    assert_eq!(output.status.code(), Some(1));
    let output = shop.call(&["--timeout", "600ms", "--retries", "0"], &slow);
    assert_eq!(lines(&output), ["attempt 1: charged alice 4200"]);
    assert_eq!(shop.charges().len(), 3);
}

#[test]
fn a_refused_call_has_no_effect_and_no_retry() {
    let shop = Shop::new();
    let output = shop.call(&["--customer", "al ice", "--retries", "3"], &[]);
    assert_eq!(lines(&output), ["attempt 1: error -32602: customer must be one word without white space"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(shop.charges().is_empty());
}

#[cfg(target_os = "linux")] // for /dev/full
#[tokio::test]
async fn an_error_result_is_reported_as_one_and_not_retried() {
    let shop = Shop::new();
    let mut command = shop.server(&[]);
    // The device accepts the open and refuses every write.
    command[2] = "/dev/full".to_owned();
    let report = run_observed(options(command), |_| Ok(())).await.unwrap();
    assert_eq!(report.attempts.len(), 1);
    let Outcome::Result { is_error: true, text, .. } = &report.attempts[0].outcome else {
        panic!("{report:?}");
    };
    assert!(text.starts_with("the charge may not have been recorded: "), "{text}");
    assert!(!report.succeeded());
}

#[cfg(target_os = "linux")] // for /proc
#[tokio::test]
async fn the_server_process_is_gone_when_the_client_returns() {
    let shop = Shop::new();
    let pid = shop.effects.with_file_name("pid");
    let mut command: Vec<String> =
        ["sh", "-c", "echo $$ > \"$0\"; exec \"$@\"", pid.to_str().unwrap()].map(str::to_owned).into();
    command.extend(shop.server(&[]));
    let mut seen = Vec::new();
    let report = run_observed(options(command), |attempt| {
        let id = std::fs::read_to_string(&pid).unwrap();
        assert!(PathBuf::from("/proc").join(id.trim()).exists());
        seen.push(attempt.clone());
        Ok(())
    })
    .await
    .unwrap();
    assert_eq!(report.attempts, seen);
    assert!(report.succeeded());
    let id = std::fs::read_to_string(&pid).unwrap();
    assert!(!PathBuf::from("/proc").join(id.trim()).exists());
}

#[tokio::test]
async fn commands_that_are_no_server_are_told_apart() {
    let none = run_observed(options(vec![]), |_| Ok(())).await;
    assert!(matches!(none, Err(ExampleError::NoCommand)), "{none:?}");
    let missing = run_observed(options(vec!["/nonexistent/server".into()]), |_| Ok(())).await;
    assert!(matches!(missing, Err(ExampleError::Spawn { .. })), "{missing:?}");
    let silent = run_observed(options(vec!["true".into()]), |_| Ok(())).await.unwrap();
    assert_eq!(silent.attempts.len(), 2);
    assert!(silent.attempts.iter().all(|attempt| matches!(attempt.outcome, Outcome::ConnectionLost { .. })));
}

#[test]
fn bad_options_and_bad_input_are_refused_without_a_panic() {
    let shop = Shop::new();
    let effects = shop.effects.to_str().unwrap();
    let serve = |arguments: &[&str], input: &[u8]| {
        let mut server = Command::new(SERVER)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A server that refused its options may have left already.
        let _ = server.stdin.take().unwrap().write_all(input);
        let output = server.wait_with_output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(!stderr.contains("panicked"), "{stderr}");
        (output.status.code(), stderr)
    };
    assert_eq!(serve(&["--effects", effects], b""), (Some(0), String::new()));
    let (code, stderr) = serve(&["--effects", effects], b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n");
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("no MCP connection on standard input"), "{stderr}");
    serve(&["--effects", effects], b"not json\n\xff\xfe\n[]\n{}\n");
    let (code, stderr) = serve(&["--effects", "/nonexistent/effects"], b"");
    assert_eq!(code, Some(1));
    assert!(stderr.contains("cannot use the effects file /nonexistent/effects"), "{stderr}");
    assert_eq!(serve(&["--effects", effects, "--die-after-effect", "0"], b"").0, Some(2));
    assert_eq!(serve(&["--effects", effects, "--answer-delay", "soon"], b"").0, Some(2));
    assert!(shop.charges().is_empty());
}

#[test]
fn balance_counts_charges_and_bad_arguments_charge_nobody() {
    let shop = Shop::new();
    std::fs::write(&shop.effects, "charge alice 1\ncharge bob 2\ncharge alice 3\n").unwrap();
    let call = |id: u32, tool: &str, arguments: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}}}}}"#
        )
    };
    let input = [
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"0"}}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned(),
        call(1, "balance", r#"{"customer":"alice"}"#),
        call(2, "charge", r#"{"customer":"alice","cents":-1}"#),
        call(3, "charge", r#"{"customer":"alice","cents":1e400}"#),
        call(4, "charge", r#"{"customer":7,"cents":1}"#),
        call(5, "charge", "{}"),
        call(6, "refund", "{}"),
        String::new(),
    ]
    .join("\n");
    let mut server =
        Command::new(SERVER).args(&shop.server(&[])[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    server.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = server.wait_with_output().unwrap();
    let answers: Vec<serde_json::Value> =
        lines(&output).into_iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let answer = |id: u32| answers.iter().find(|answer| answer["id"] == id).unwrap_or(&serde_json::Value::Null);
    assert_eq!(answer(0)["result"]["serverInfo"]["name"], "shop");
    assert_eq!(answer(1)["result"]["content"][0]["text"], "2");
    // The library reports arguments of the wrong type as a tool that failed, an unknown tool as a JSON-RPC error.
    for id in [2, 4, 5] {
        assert_eq!(answer(id)["result"]["isError"], true, "{answers:?}");
    }
    assert_eq!(answer(6)["error"]["code"], -32602, "{answers:?}");
    assert_eq!(shop.charges().len(), 3);
}

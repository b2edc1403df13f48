//! The published duplicates: what public clients and servers do to one call without a guard, and what is left of it behind
//! `settled mcp`. Each is counted both ways, because one effect behind the proxy proves nothing unless there are more without it.

use std::ffi::OsString;

use settled_tests::{Attempt, Client, Server, Stage};

const CLOSED: Option<i64> = Some(-32000);

/// Longer than a client's short timeout, shorter than its long one.
fn slow(stage: &mut Stage) {
    stage.set("SERVER_DELAY_MS", 2000).set("SERVER_DELAY_FIRST", 1);
}

fn replayed(attempt: &Attempt) -> bool {
    attempt.mark()["replayed"] == true
}

/// The only effect, and that this attempt was told of it.
#[track_caller]
fn expect_receipt(stage: &Stage, attempt: &Attempt) {
    let effects = stage.expect_effects(1);
    assert!(attempt.is_success(), "{attempt:?}\n{}", stage.story());
    assert_eq!(attempt.text(), effects[0], "{}", stage.story());
}

/// The server killed itself once, and nobody else did.
#[track_caller]
fn expect_server_killed(stage: &Stage) {
    let (kills, servers) = (stage.kills(), stage.servers());
    assert_eq!(kills.len(), 1, "{}", stage.story());
    assert!(servers.contains(&kills[0]), "{}", stage.story());
    let of_effect = stage.effects()[0].split(' ').nth(3).map(str::to_owned);
    assert_eq!(of_effect, Some(kills[0].to_string()), "{}", stage.story());
}

fn direct(server: Server) -> (Stage, Vec<OsString>) {
    (Stage::new(), server.command())
}

fn guarded(server: Server) -> (Stage, Vec<OsString>) {
    let stage = Stage::new();
    let command = stage.proxy(&server.command());
    (stage, command)
}

fn timeout_then_retry(client: Client, server: Server) {
    let (mut stage, command) = direct(server);
    slow(&mut stage);
    let run = stage.client(client, "timeout-retry", &command);
    assert_eq!(run.codes(), [Some(client.timeout_code()), None], "{}", stage.story());
    stage.expect_effects(2);

    let (mut stage, command) = guarded(server);
    slow(&mut stage);
    let run = stage.client(client, "timeout-retry", &command);
    assert_eq!(run.codes(), [Some(client.timeout_code()), None], "{}", stage.story());
    expect_receipt(&stage, &run.attempts[1]);
    assert!(replayed(&run.attempts[1]), "{run:?}");
    assert!(stage.operation().has_succeeded(), "{}", stage.story());
}

fn server_killed_after_its_effect(client: Client, server: Server) {
    let (mut stage, command) = direct(server);
    stage.set("SERVER_DIE_AFTER_EFFECT", 1);
    let run = stage.client(client, "crash-retry", &command);
    stage.expect_effects(2);
    expect_server_killed(&stage);
    assert_eq!(run.codes(), [CLOSED, None], "{}", stage.story());
    assert_eq!(stage.servers().len(), 2, "the client started it again");

    let (mut stage, command) = guarded(server);
    stage.set("SERVER_DIE_AFTER_EFFECT", 1);
    let run = stage.client(client, "crash-retry", &command);
    stage.expect_effects(1);
    expect_server_killed(&stage);
    assert_eq!(run.attempts.len(), 2, "{run:?}");
    for attempt in &run.attempts {
        assert!(attempt.is_error(), "{attempt:?}\n{}", stage.story());
        assert_eq!(attempt.mark()["status"], "unknown", "{attempt:?}");
        assert!(attempt.text().contains("will not be sent again"), "{attempt:?}");
        assert!(attempt.text().contains("settled log show"), "{attempt:?}");
    }
    assert!(stage.operation().is_unknown(), "{}", stage.story());
}

fn two_different_orders(client: Client, server: Server) {
    let (stage, command) = guarded(server);
    let run = stage.client(client, "two-orders", &command);
    assert_eq!(run.texts(), stage.expect_effects(2), "{}", stage.story());
    assert!(!run.attempts.iter().any(replayed), "{run:?}");
    assert_eq!(stage.operations().len(), 2, "{}", stage.story());
}

fn twice_at_once(client: Client, server: Server) {
    let (stage, command) = direct(server);
    stage.client(client, "twice-at-once", &command);
    stage.expect_effects(2);

    let (stage, command) = guarded(server);
    let run = stage.client(client, "twice-at-once", &command);
    for attempt in &run.attempts {
        expect_receipt(&stage, attempt);
    }
    assert_eq!(run.attempts.iter().filter(|attempt| replayed(attempt)).count(), 1, "{run:?}");
}

/// Each client on each server.
macro_rules! on_all {
    ($($test:ident),* $(,)?) => {
        $(mod $test {
            use super::*;

            #[test]
            fn typescript_client_typescript_server() {
                super::$test(Client::Node, Server::Node);
            }

            #[test]
            fn typescript_client_python_server() {
                super::$test(Client::Node, Server::Python);
            }

            #[test]
            fn python_client_typescript_server() {
                super::$test(Client::Python, Server::Node);
            }

            #[test]
            fn python_client_python_server() {
                super::$test(Client::Python, Server::Python);
            }
        })*
    };
}

on_all!(timeout_then_retry, server_killed_after_its_effect, two_different_orders, twice_at_once);

fn langgraph(server: Server) {
    let (stage, command) = direct(server);
    let run = stage.client(Client::LangGraph, "", &command);
    assert_eq!(run.node_runs, 3, "{run:?}");
    stage.expect_effects(3);

    let (stage, command) = guarded(server);
    let run = stage.client(Client::LangGraph, "", &command);
    assert_eq!((run.node_runs, run.returned.len()), (3, 3), "{run:?}");
    let effects = stage.expect_effects(1);
    for returned in &run.returned {
        assert_eq!(returned["status"], "success", "{run:?}");
        assert!(returned["content"].to_string().contains(&effects[0]), "{run:?}");
    }
}

#[test]
fn langgraphs_default_retries_of_the_typescript_server() {
    langgraph(Server::Node);
}

#[test]
fn langgraphs_default_retries_of_the_python_server() {
    langgraph(Server::Python);
}

/// The remaining scenarios look at the proxy's rules rather than at a pair of SDKs: each client once, on the other's server.
macro_rules! on_both {
    ($($test:ident),* $(,)?) => {
        $(mod $test {
            use super::*;

            #[test]
            fn typescript_client() {
                super::$test(Client::Node, Server::Python);
            }

            #[test]
            fn python_client() {
                super::$test(Client::Python, Server::Node);
            }
        })*
    };
}

on_both!(
    retry_after_the_answer_came_too_late,
    a_new_connection_gets_the_recorded_answer,
    undeclared_tool_called_again_after_its_answer,
    undeclared_tool_retried_after_a_timeout,
    undeclared_tool_retried_after_a_late_answer,
    undeclared_reads_are_fresh,
    the_callers_own_key_decides,
    error_after_an_effect,
    reads_pass,
);

/// The first call timed out at the client, and has its answer when the second one comes.
fn retry_after_the_answer_came_too_late(client: Client, server: Server) {
    let (mut stage, command) = guarded(server);
    slow(&mut stage);
    let run = stage.client(client, "timeout-retry-later", &command);
    assert_eq!(run.codes(), [Some(client.timeout_code()), None], "{}", stage.story());
    expect_receipt(&stage, &run.attempts[1]);
    assert!(replayed(&run.attempts[1]), "{run:?}");
}

fn a_new_connection_gets_the_recorded_answer(client: Client, server: Server) {
    let (stage, command) = guarded(server);
    let run = stage.client(client, "crash-restart-retry", &command);
    assert_eq!((run.connections, run.attempts.len()), (2, 2), "{run:?}");
    for attempt in &run.attempts {
        expect_receipt(&stage, attempt);
    }
    assert_eq!([replayed(&run.attempts[0]), replayed(&run.attempts[1])], [false, true], "{run:?}");
}

/// Nobody says what `charge_plain` is: after an answer has arrived, the same call is a new wish.
fn undeclared_tool_called_again_after_its_answer(client: Client, server: Server) {
    let (mut stage, command) = guarded(server);
    stage.set("TOOL", "charge_plain");
    let run = stage.client(client, "twice-in-sequence", &command);
    assert_eq!(run.texts(), stage.expect_effects(2), "{}", stage.story());
    assert!(!run.attempts.iter().any(replayed), "{run:?}");
}

fn undeclared_retry(client: Client, server: Server, scenario: &str) {
    let (mut stage, command) = guarded(server);
    slow(&mut stage);
    stage.set("TOOL", "charge_plain");
    let run = stage.client(client, scenario, &command);
    assert_eq!(run.codes(), [Some(client.timeout_code()), None], "{}", stage.story());
    expect_receipt(&stage, &run.attempts[1]);
    assert!(replayed(&run.attempts[1]), "{run:?}");
}

fn undeclared_tool_retried_after_a_timeout(client: Client, server: Server) {
    undeclared_retry(client, server, "timeout-retry");
}

fn undeclared_tool_retried_after_a_late_answer(client: Client, server: Server) {
    undeclared_retry(client, server, "timeout-retry-later");
}

fn undeclared_reads_are_fresh(client: Client, server: Server) {
    let (mut stage, command) = guarded(server);
    let read = |stage: &mut Stage, expected: &str| {
        stage.set("TOOL", "balance_plain");
        let run = stage.client(client, "twice-in-sequence", &command);
        assert_eq!(run.texts(), [expected, expected], "{}", stage.story());
        assert!(!run.attempts.iter().any(replayed), "{run:?}");
    };
    read(&mut stage, "0");
    stage.unset("TOOL");
    stage.client(client, "once", &command);
    stage.expect_effects(1);
    read(&mut stage, "1");
}

/// With a key of its own the caller says which calls are one, whatever the tool is and whatever the arguments are.
fn the_callers_own_key_decides(client: Client, server: Server) {
    let (mut stage, command) = guarded(server);
    stage.set("TOOL", "charge_plain").set("CALL_META", r#"{"io.settled/idempotency-key":"order-1"}"#);
    let run = stage.client(client, "twice-in-sequence", &command);
    for attempt in &run.attempts {
        expect_receipt(&stage, attempt);
    }
    let run = stage.client(client, "two-orders", &command);
    expect_receipt(&stage, &run.attempts[0]);
    assert_eq!(run.attempts[1].code(), Some(-32602), "the same key with other arguments: {run:?}");
    let told = run.attempts[1].error.as_ref().unwrap().to_string();
    assert!(told.contains("idempotency_key_conflict") && !told.contains("500"), "{told}");
    stage.expect_effects(1);
}

fn error_after_an_effect(client: Client, server: Server) {
    let (mut stage, command) = direct(server);
    stage.set("TOOL", "fail_after");
    stage.client(client, "twice-in-sequence", &command);
    stage.expect_effects(2);

    let (mut stage, command) = guarded(server);
    stage.set("TOOL", "fail_after");
    let run = stage.client(client, "twice-in-sequence", &command);
    let effects = stage.expect_effects(1);
    let [first, second] = &run.attempts[..] else { panic!("two attempts: {run:?}") };
    for attempt in [first, second] {
        assert!(attempt.is_error(), "{attempt:?}");
        assert!(attempt.text().contains(&effects[0]), "the tool's own error: {attempt:?}");
        assert_eq!(attempt.mark()["status"], "unknown", "{attempt:?}");
    }
    assert!(!first.texts().contains("will not be sent again"), "the first answer is the tool's: {first:?}");
    assert!(second.texts().contains("will not be sent again"), "{second:?}");
    assert!(second.texts().contains("errors = \"final\""), "{second:?}");
    assert_eq!([replayed(first), replayed(second)], [false, true], "{run:?}");
}

fn reads_pass(client: Client, server: Server) {
    let (mut stage, command) = guarded(server);
    stage.set("TOOL", "balance");
    let run = stage.client(client, "twice-in-sequence", &command);
    assert_eq!(run.texts(), ["0", "0"], "{}", stage.story());
    assert!(run.attempts.iter().all(|attempt| attempt.mark().is_null()), "{run:?}");
    assert_eq!(stage.operations().len(), 0, "nothing was recorded: {}", stage.story());
    // Declared idempotent: both reach the server, and set the same limit.
    stage.set("TOOL", "set_limit");
    stage.client(client, "twice-in-sequence", &command);
    stage.expect_effects(2);
    assert_eq!(stage.operations().len(), 0, "nothing was recorded: {}", stage.story());
}

//! Everything that can be started again: clients, proxies, servers; and the people and files that a proxy depends on.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::ffi::OsString;

use serde_json::json;
use settled_tests::{Client, Reply, Run, Server, Session, Stage, until};

/// A server that takes its time for the first effect.
fn slow() -> (Stage, Vec<OsString>) {
    let mut stage = Stage::new();
    stage.set("SERVER_DELAY_MS", 2000).set("SERVER_DELAY_FIRST", 1);
    let command = stage.proxy(&Server::Quick.command());
    (stage, command)
}

#[track_caller]
fn expect_receipt(stage: &Stage, reply: &Reply) {
    let effects = stage.expect_effects(1);
    assert_eq!(reply.receipt().as_ref(), Some(&effects[0]), "{reply:?}\n{}", stage.story());
}

/// An operation whose server died after its effect, and whose proxy has ended.
fn left_unknown() -> (Stage, Vec<OsString>) {
    let mut stage = Stage::new();
    stage.set("SERVER_DIE_AT", "after-effect");
    let command = stage.proxy(&Server::Quick.command());
    let mut session = Session::open(&stage, &command);
    let reply = session.charge();
    assert_eq!(reply.status(), "unknown", "{reply:?}\n{}", stage.story());
    session.end();
    stage.expect_effects(1);
    assert!(stage.servers().contains(&stage.kills()[0]));
    assert!(stage.operation().is_unknown(), "{}", stage.story());
    (stage, command)
}

/// The client dies while the tool is at work. Its successor's proxy comes while the old one still waits for the tool.
fn client_killed_and_restarted(client: Client) {
    let (stage, command) = slow();
    let first = stage.start_client(client, "once", &command);
    stage.wait_for_effects(1);
    assert!(first.kill().is_some(), "the client was killed while it waited");
    let run = stage.client(client, "once", &command);
    let effects = stage.expect_effects(1);
    assert_eq!(run.texts(), effects, "{}", stage.story());
    assert_eq!(run.attempts[0].mark()["replayed"], true, "{run:?}");
    assert_eq!(stage.servers().len(), 2, "a new proxy has started a server of its own");
    assert!(stage.operation().has_succeeded(), "{}", stage.story());
    stage.wait_until_empty();
}

#[test]
fn typescript_client_killed_and_restarted() {
    client_killed_and_restarted(Client::Node);
}

#[test]
fn python_client_killed_and_restarted() {
    client_killed_and_restarted(Client::Python);
}

#[test]
fn a_new_proxy_joins_the_call_of_one_whose_client_has_left() {
    let (stage, command) = slow();
    let mut first = Session::open(&stage, &command);
    first.ask_tool("charge", &json!({ "customer": "alice", "cents": 500 }));
    stage.wait_for_effects(1);
    let leaving = std::thread::spawn(move || first.end());
    // Other spelling, same call.
    let mut second = Session::open(&stage, &command);
    let reply = second.call("charge", &json!({ "cents": 500.0, "customer": "alice" }));
    expect_receipt(&stage, &reply);
    assert!(reply.is_replayed(), "{reply:?}");
    assert!(leaving.join().unwrap().status.success());
    assert!(second.end().status.success());
}

#[test]
fn two_proxies_at_once_have_one_effect_and_one_answer() {
    let (stage, command) = slow();
    let mut sessions = [Session::open(&stage, &command), Session::open(&stage, &command)];
    let ids =
        sessions.each_mut().map(|session| session.ask_tool("charge", &json!({ "customer": "alice", "cents": 500 })));
    let replies: Vec<Reply> = sessions.iter_mut().zip(ids).map(|(session, id)| session.reply(id)).collect();
    for reply in &replies {
        expect_receipt(&stage, reply);
    }
    assert_eq!(replies.iter().filter(|reply| reply.is_replayed()).count(), 1, "{replies:?}");
    let same = sessions.each_mut().map(Session::charge);
    for reply in &same {
        expect_receipt(&stage, reply);
    }
}

#[test]
fn proxy_killed_while_the_tool_is_at_work() {
    let (stage, command) = slow();
    let mut session = Session::open(&stage, &command);
    let id = session.ask_tool("charge", &json!({ "customer": "alice", "cents": 500 }));
    stage.wait_for_effects(1);
    let proxy = session.process();
    assert!(stage.kill(&proxy, "settled"), "the proxy was killed while it waited");
    assert_eq!(session.reply(id), Reply::Gone);
    let mut next = Session::open(&stage, &command);
    let reply = next.charge();
    assert_eq!((reply.status(), matches!(reply, Reply::Failure(_))), ("unknown", true), "{reply:?}\n{}", stage.story());
    stage.expect_effects(1);
    assert!(next.end().status.success());
}

/// The client sees its proxy die, starts another, and must not be able to charge twice.
fn proxy_killed_under_a_client(client: Client) {
    let (stage, command) = slow();
    let running = stage.start_client(client, "crash-retry", &command);
    stage.wait_for_effects(1);
    let proxies = stage.proxies();
    assert_eq!(proxies.len(), 1, "{proxies:?}");
    assert_eq!(proxies[0].parent, running.pid(), "the client's proxy");
    assert!(stage.kill(&proxies[0], "settled"));
    let run = Run::read(&running.wait());
    assert_eq!(run.connections, 2, "{run:?}");
    assert_eq!(run.attempts[0].code(), Some(-32000), "{run:?}");
    assert_eq!(run.attempts[1].mark()["status"], "unknown", "{run:?}\n{}", stage.story());
    stage.expect_effects(1);
}

#[test]
fn proxy_killed_under_a_typescript_client() {
    proxy_killed_under_a_client(Client::Node);
}

#[test]
fn proxy_killed_under_a_python_client() {
    proxy_killed_under_a_client(Client::Python);
}

#[test]
fn a_person_finds_that_it_happened() {
    let (stage, command) = left_unknown();
    let key = stage.operation().key;
    let decided = stage.resolve(&key, &["--as", "succeeded"]);
    assert!(decided.status.success(), "{decided:?}");
    let mut session = Session::open(&stage, &command);
    let reply = session.charge();
    assert!(matches!(reply, Reply::Success(_)), "{reply:?}\n{}", stage.story());
    assert!(reply.is_replayed() && reply.status() == "done", "{reply:?}");
    assert!(reply.text().contains("looked at the books"), "what the person wrote: {reply:?}");
    stage.expect_effects(1);
}

#[test]
fn a_person_records_the_tools_own_result() {
    let (stage, command) = left_unknown();
    let key = stage.operation().key;
    let result = json!({ "content": [{ "type": "text", "text": stage.effects()[0] }], "rate": 1.5 }).to_string();
    let decided = stage.resolve(&key, &["--as", "succeeded", "--result", &result]);
    assert!(decided.status.success(), "{decided:?}");
    let reply = Session::open(&stage, &command).charge();
    expect_receipt(&stage, &reply);
}

#[test]
fn a_person_finds_that_it_did_not_happen() {
    let (stage, command) = left_unknown();
    let key = stage.operation().key;
    // Not that it would be true: what is looked at is that exactly one more call is sent.
    let decided = stage.resolve(&key, &["--as", "failed", "--nothing-pending"]);
    assert!(decided.status.success(), "{decided:?}");
    assert!(stage.operation().has_failed(), "{}", stage.story());
    let mut session = Session::open(&stage, &command);
    let reply = session.charge();
    let effects = stage.expect_effects(2);
    assert_eq!(reply.receipt().as_ref(), Some(&effects[1]), "{reply:?}");
    assert!(!reply.is_replayed(), "{reply:?}");
    let again = session.charge();
    assert_eq!(again.receipt().as_ref(), Some(&effects[1]), "{again:?}");
    stage.expect_effects(2);
}

#[test]
fn it_did_not_happen_is_refused_while_the_owner_lives() {
    let mut stage = Stage::new();
    stage.set("SERVER_DIE_AT", "after-effect");
    let command = stage.proxy(&Server::Quick.command());
    let mut session = Session::open(&stage, &command);
    assert_eq!(session.charge().status(), "unknown", "{}", stage.story());
    let key = stage.operation().key;
    assert!(session.process().is_alive());
    let decided = stage.resolve(&key, &["--as", "failed"]);
    assert_eq!(decided.status.code(), Some(1), "{decided:?}");
    assert!(decided.stderr.contains(&key), "{decided:?}");
    assert!(decided.stderr.contains("--nothing-pending"), "says what would be accepted: {decided:?}");
    assert!(stage.operation().is_unknown(), "{}", stage.story());
    assert_eq!(session.charge().status(), "unknown");
    stage.expect_effects(1);
    // The same decision is accepted from somebody who has looked, and the proxy that runs hears of it.
    assert!(stage.resolve(&key, &["--as", "succeeded"]).status.success());
    let reply = session.charge();
    assert!(matches!(reply, Reply::Success(_)) && reply.is_replayed(), "{reply:?}");
    stage.expect_effects(1);
}

#[test]
fn it_did_not_happen_is_refused_while_the_call_is_under_way() {
    let (stage, command) = slow();
    let mut session = Session::open(&stage, &command);
    let id = session.ask_tool("charge", &json!({ "customer": "alice", "cents": 500 }));
    stage.wait_for_effects(1);
    let key = stage.operation().key;
    let decided = stage.resolve(&key, &["--as", "failed", "--nothing-pending"]);
    let reply = session.reply(id);
    assert_eq!(decided.status.code(), Some(1), "{decided:?}\n{}", stage.story());
    assert!(decided.stderr.contains(&key), "{decided:?}");
    expect_receipt(&stage, &reply);
    assert!(stage.operation().has_succeeded(), "{}", stage.story());
}

/// The proxy starts the server again and opens the session the way the client did.
fn server_restarted(server: Server) {
    let mut stage = Stage::new();
    stage.set("SERVER_DIE_AFTER_EFFECT", 1);
    let mut session = Session::open(&stage, &stage.proxy(&server.command()));
    let balance = |session: &mut Session| session.call("balance", &json!({ "customer": "alice" }));
    assert_eq!(balance(&mut session).text(), "0", "{}", stage.story());
    let reply = session.charge();
    assert_eq!(reply.status(), "unknown", "{reply:?}");
    assert_eq!(balance(&mut session).text(), "1", "{}", stage.story());
    // Another order is another operation, and the new server carries it out.
    let other = session.call("charge", &json!({ "customer": "alice", "cents": 700 }));
    let effects = stage.expect_effects(2);
    assert_eq!(other.receipt().as_ref(), Some(&effects[1]), "{other:?}");
    let servers = stage.servers();
    assert_eq!((servers.len(), servers[0]), (2, stage.kills()[0]), "{}", stage.story());
    assert!(session.end().status.success());
}

#[test]
fn typescript_server_restarted() {
    server_restarted(Server::Node);
}

#[test]
fn python_server_restarted() {
    server_restarted(Server::Python);
}

#[test]
fn an_idle_server_that_is_killed_is_started_again() {
    let stage = Stage::new();
    let mut session = Session::open(&stage, &stage.proxy(&Server::Node.command()));
    assert_eq!(session.call("balance", &json!({ "customer": "alice" })).text(), "0");
    let pid = stage.servers()[0];
    let server = settled_tests::Process::find(pid).expect("the server runs");
    assert!(stage.kill(&server, Server::Node.word()));
    assert_eq!(stage.wait_for_servers(2).len(), 2);
    let reply = session.charge();
    expect_receipt(&stage, &reply);
    assert!(session.end().status.success());
    stage.wait_until_empty();
}

#[test]
fn bad_configurations_name_the_place() {
    let cases = [
        ("scope = \"shop\"\n\n[tools.charge]\nkind = \"opaqe\"\n", 4, "tools.charge.kind", "opaque"),
        ("[tools.charge]\nkind = \"opaque\"\nwindow = \"0s\"\n", 3, "tools.charge.window", "1ms"),
        ("[defaults]\nwindow = \"1h\"\nretries = 3\n", 3, "retries", "retry_doubt"),
        ("[tools.charge]\nguard = false\nkey = [\"order\"]\n", 3, "tools.charge.key", "guard"),
        ("[tools.charge]\nkind = \"deduplicates\"\nlimit = \"24h\"\n", 1, "pass_key_as", "the tool expects the key"),
    ];
    for (text, line, field, hint) in cases {
        let mut stage = Stage::new();
        stage.configure(text);
        let ended = stage.run(&stage.proxy(&Server::Quick.command()));
        let place = format!("{}:{line}", stage.path("settled.toml").display());
        assert_eq!(ended.status.code(), Some(2), "{text}\n{ended:?}");
        for part in [&*place, field, hint] {
            assert!(ended.stderr.contains(part), "{part} is missing for\n{text}\n{ended:?}");
        }
        assert_eq!(ended.stderr.trim().lines().count(), 1, "{ended:?}");
        assert!(stage.servers().is_empty(), "nothing was started");
        assert!(!stage.path("ledger").exists(), "nothing was created");
    }
}

#[test]
fn a_configuration_that_is_not_there() {
    let mut stage = Stage::new();
    stage.configure("");
    std::fs::remove_file(stage.path("settled.toml")).unwrap();
    let ended = stage.run(&stage.proxy(&Server::Quick.command()));
    assert_eq!(ended.status.code(), Some(2), "{ended:?}");
    assert!(ended.stderr.contains("settled.toml"), "{ended:?}");
}

#[test]
fn a_server_command_that_does_not_exist() {
    let stage = Stage::new();
    let command = stage.proxy(&["/nowhere/some-server".into(), "--stdio".into()]);
    let ended = stage.run(&command);
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert!(ended.stderr.contains("/nowhere/some-server"), "{ended:?}");
    assert!(ended.stderr.contains("can't be started"), "{ended:?}");
    // With a client that keeps its side open and waits for an answer.
    let mut session = Session::start(&stage, &command);
    assert_eq!(session.initialize(), Reply::Gone);
    for client in [Client::Node, Client::Python] {
        let run = stage.client(client, "once", &command);
        assert!(run.attempts[0].error.is_some(), "{run:?}");
    }
}

#[test]
fn a_server_command_that_ends_at_once() {
    let stage = Stage::new();
    let mut session = Session::start(&stage, &stage.proxy(&["sh".into(), "-c".into(), "exit 3".into()]));
    // Either answer is an answer: an error, or the end.
    assert!(matches!(session.initialize(), Reply::Gone | Reply::Error(_)));
    let ended = session.end();
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert!(ended.stderr.contains("ended before it sent any message"), "{ended:?}");
    assert!(ended.stderr.contains('3'), "its status: {ended:?}");
}

/// A client that closes its side gets its proxy's end, and its server's, after the call is recorded.
#[test]
fn end_of_input_waits_for_the_call() {
    let (stage, command) = slow();
    let mut session = Session::open(&stage, &command);
    session.ask_tool("charge", &json!({ "customer": "alice", "cents": 500 }));
    stage.wait_for_effects(1);
    assert!(stage.operations().iter().all(|operation| !operation.has_succeeded()), "{}", stage.story());
    let ended = session.end();
    assert!(ended.status.success(), "{ended:?}");
    assert!(stage.operation().has_succeeded(), "{}", stage.story());
    until("nothing is left running", || stage.processes().is_empty().then_some(()));
}

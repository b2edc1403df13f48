//! Everything that can be started again: clients, proxies, servers.

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
    assert!(stage.kill(&proxy, "mcp"), "the proxy was killed while it waited");
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
    assert!(stage.kill(&proxies[0], "mcp"));
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

/// The proxy that started first serves the ledger to the others; its death must not cost them a call.
#[test]
fn the_proxy_that_serves_the_ledger_is_killed() {
    let (stage, command) = slow();
    let first = Session::open(&stage, &command);
    let mut second = Session::open(&stage, &command);
    let id = second.ask_tool("charge", &json!({ "customer": "alice", "cents": 500 }));
    stage.wait_for_effects(1);
    assert!(stage.kill(&first.process(), "mcp"), "the first proxy was killed");
    let reply = second.reply(id);
    expect_receipt(&stage, &reply);
    let again = second.charge();
    expect_receipt(&stage, &again);
    let other = second.call("charge", &json!({ "customer": "alice", "cents": 700 }));
    assert_eq!(other.receipt().as_ref(), Some(&stage.expect_effects(2)[1]), "{other:?}");
    assert!(second.end().status.success());
    assert!(stage.operations().iter().all(|operation| operation.has_succeeded()), "{}", stage.story());
}

/// The same while a third one waits for the answer that the killed one owes.
#[test]
fn the_owner_of_a_joined_call_is_killed() {
    let (stage, command) = slow();
    let mut first = Session::open(&stage, &command);
    first.ask_tool("charge", &json!({ "customer": "alice", "cents": 500 }));
    stage.wait_for_effects(1);
    let mut second = Session::open(&stage, &command);
    let id = second.ask_tool("charge", &json!({ "customer": "alice", "cents": 500 }));
    assert!(stage.kill(&first.process(), "mcp"), "the owner was killed");
    let reply = second.reply(id);
    assert_eq!(reply.status(), "unknown", "{reply:?}\n{}", stage.story());
    // The killed one's server is over before the effects are counted.
    second.end();
    stage.wait_until_empty();
    stage.expect_effects(1);
}

/// A tool that deduplicates is asked again by the next proxy, before any client comes back to the call.
#[test]
fn a_deduplicating_call_is_finished_by_the_next_proxy() {
    let (mut stage, _) = slow();
    stage.configure("[tools.charge]\nkind = \"deduplicates\"\npass_key_as = \"idempotency_key\"\nlimit = \"24h\"\n");
    let command = stage.proxy(&Server::Quick.command());
    let mut first = Session::open(&stage, &command);
    first.ask_tool("charge", &json!({ "customer": "alice", "cents": 500 }));
    stage.wait_for_effects(1);
    assert!(stage.kill(&first.process(), "mcp"), "the proxy was killed while it waited");
    let mut next = Session::open(&stage, &command);
    until("the call is settled", || stage.operation().has_succeeded().then_some(()));
    stage.expect_effects(1);
    let reply = next.charge();
    expect_receipt(&stage, &reply);
    assert!(reply.is_replayed(), "{reply:?}");
}

/// The proxy stops waiting; the tool's answer comes all the same, and is what callers get from then on.
#[test]
fn an_answer_after_the_proxys_own_timeout() {
    let (mut stage, _) = slow();
    stage.configure("[tools.charge]\ntimeout = \"300ms\"\n");
    let command = stage.proxy(&Server::Quick.command());
    let mut session = Session::open(&stage, &command);
    let reply = session.charge();
    assert_eq!((reply.status(), reply.is_replayed()), ("unknown", false), "{reply:?}");
    until("the late answer is recorded", || stage.operation().has_succeeded().then_some(()));
    let again = session.charge();
    expect_receipt(&stage, &again);
    assert!(again.is_replayed(), "{again:?}");
}

/// Told to end, the proxy finishes the call first.
#[test]
fn a_proxy_that_is_told_to_end() {
    let (stage, command) = slow();
    let mut session = Session::open(&stage, &command);
    let id = session.ask_tool("charge", &json!({ "customer": "alice", "cents": 500 }));
    stage.wait_for_effects(1);
    session.process().terminate();
    let reply = session.reply(id);
    expect_receipt(&stage, &reply);
    assert!(session.end().status.success());
    assert!(stage.operation().has_succeeded(), "{}", stage.story());
    stage.wait_until_empty();
}

/// Requests that were passed on get an answer too when the server dies, and its successor is told what it was told.
#[test]
fn a_passed_call_whose_server_is_killed() {
    let mut stage = Stage::new();
    stage.set("HEARD", stage.path("heard").display());
    let mut session = Session::start(&stage, &stage.proxy(&Server::Echo.command()));
    let opening = [
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"n":1.10}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/initialized","x":1e400}"#,
    ];
    let call =
        |tool: &str| format!(r#"{{"jsonrpc":"2.0","id":"c","method":"tools/call","params":{{"name":"{tool}"}}}}"#);
    let mut say = |line: &str| session.write(format!("{line}\n").as_bytes());
    opening.iter().for_each(|line| say(line));
    say(&call("wait"));
    let text = |line: Option<Vec<u8>>| String::from_utf8(line.expect("a line")).expect("UTF-8");
    assert!(text(session.next_bytes()).contains("\"echo\""));
    let heard = || std::fs::read_to_string(stage.path("heard")).unwrap_or_default();
    until("the call has arrived", || heard().contains(&call("wait")).then_some(()));
    let proxy = session.process().pid;
    let mut servers = stage.processes();
    servers.retain(|process| process.has_word(Server::Echo.word()) && process.parent == proxy);
    assert_eq!(servers.len(), 1, "{servers:?}");
    assert!(stage.kill(&servers[0], Server::Echo.word()));
    let answer = text(session.next_bytes());
    assert!(answer.starts_with(r#"{"jsonrpc":"2.0","id":"c","error":{"code":-32000,"#), "{answer}");
    assert!(answer.contains("the server process ended"), "{answer}");
    session.write(format!("{}\n", call("read")).as_bytes());
    let answer = text(session.next_bytes());
    assert!(answer.contains(r#""called":{"name":"read"}"#), "{answer}");
    let heard = heard();
    let params = r#""params":{"protocolVersion":"2025-06-18","capabilities":{},"n":1.10}"#;
    assert_eq!(heard.lines().filter(|line| line.contains(params)).count(), 2, "{heard}");
    assert_eq!(heard.lines().filter(|line| *line == opening[1]).count(), 2, "{heard}");
}

/// A server that dies again and again is not started for ever, and nobody waits in vain.
#[test]
fn a_server_that_always_dies() {
    let mut stage = Stage::new();
    stage.set("SERVER_DIE_AT", "before-effect").set("SERVER_DIE_AGAIN", 1);
    let mut session = Session::open(&stage, &stage.proxy(&Server::Quick.command()));
    let replies: Vec<Reply> =
        (1..=8).map(|cents| session.call("charge", &json!({ "customer": "alice", "cents": cents }))).collect();
    let words: Vec<&str> = replies.iter().map(Reply::word).collect();
    assert_eq!(words[..6], ["unknown"; 6], "the first process and five more: {replies:#?}");
    assert_eq!(words[6..], ["failed"; 2], "{replies:#?}");
    assert!(replies[7].text().contains("nothing was sent"), "{replies:#?}");
    assert_eq!(stage.kills().len(), 6, "{}", stage.story());
    assert_eq!(stage.servers(), stage.kills(), "{}", stage.story());
    stage.expect_effects(0);
    assert!(session.end().status.success());
}

//! What is not a guarded call passes byte for byte: one transcript, spoken to a server directly and through the proxy, with
//! every line compared on both sides.

use serde_json::json;
use settled_tests::{Server, Session, Stage};

/// Lines to write, and how many lines are to come back before the next ones.
struct Turn {
    lines: Vec<Vec<u8>>,
    answers: usize,
}

fn turn(lines: &[&str], answers: usize) -> Turn {
    Turn { lines: lines.iter().map(|line| line.as_bytes().to_vec()).collect(), answers }
}

/// Has the server say these lines.
fn say(lines: &[&str]) -> Turn {
    let order = json!({ "jsonrpc": "2.0", "method": "say", "params": lines }).to_string();
    Turn { lines: vec![order.into_bytes()], answers: lines.len() }
}

/// Everything that was written has been read when this is answered.
fn barrier() -> Turn {
    turn(&[r#"{"jsonrpc":"2.0","id":"barrier","method":"ping"}"#], 1)
}

/// Everything that one side got, line by line.
#[derive(Debug, PartialEq, Eq)]
struct Transcript {
    client: Vec<Vec<u8>>,
    server: Vec<Vec<u8>>,
}

/// The proxy's own question for the tools.
fn is_proxys_own(line: &[u8]) -> bool {
    let line = String::from_utf8_lossy(line);
    line.starts_with(r#"{"jsonrpc":"2.0","id":"settled-"#) && line.contains(r#""method":"tools/list""#)
}

fn speak(through_proxy: bool, turns: &[Turn], last: &[u8]) -> Transcript {
    let mut stage = Stage::new();
    let heard = stage.path("heard");
    stage.set("HEARD", heard.display());
    let server = Server::Echo.command();
    let command = if through_proxy { stage.proxy(&server) } else { server };
    let mut session = Session::start(&stage, &command);
    let mut client = Vec::new();
    for turn in turns {
        for line in &turn.lines {
            session.write(line);
            session.write(b"\n");
        }
        for _ in 0..turn.answers {
            client.push(session.next_bytes().unwrap_or_else(|| panic!("{}", stage.story())));
        }
    }
    session.write(last);
    let ended = session.end();
    assert!(ended.status.success(), "{ended:?}");
    client.extend(ended.lines.into_iter().map(String::into_bytes));
    let heard = std::fs::read(heard).expect("the server wrote down what it heard");
    let mut server: Vec<Vec<u8>> = heard.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    assert_eq!(server.pop(), Some(Vec::new()), "the last line is whole");
    let all = server.len();
    server.retain(|line| !is_proxys_own(line));
    assert_eq!(all != server.len(), through_proxy, "only a proxy asks by itself");
    if through_proxy {
        assert!(stage.operations().is_empty(), "nothing of this was guarded: {}", stage.story());
    }
    Transcript { client, server }
}

fn shown(line: Option<&Vec<u8>>) -> String {
    line.map_or_else(|| "nothing".to_owned(), |line| line.escape_ascii().to_string().chars().take(300).collect())
}

#[track_caller]
fn expect_same(to: &str, direct: &[Vec<u8>], proxied: &[Vec<u8>]) {
    let longer = direct.len().max(proxied.len());
    if let Some(place) = (0..longer).find(|place| direct.get(*place) != proxied.get(*place)) {
        panic!(
            "line {place} to the {to} differs\ndirectly:   {}\nby a proxy: {}",
            shown(direct.get(place)),
            shown(proxied.get(place))
        );
    }
}

/// With the one thing that the proxy adds to what passes: that it takes the caller's keys.
fn announced(client: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut client = client.to_vec();
    let answer = String::from_utf8(client[0].clone()).unwrap();
    let with = answer.replacen(r#"{"listChanged":true}"#, r#"{"listChanged":true,"idempotency":true}"#, 1);
    assert_ne!(answer, with, "the answer to `initialize`");
    client[0] = with.into_bytes();
    client
}

/// Speaks it both ways and compares; returns what was heard.
#[track_caller]
fn expect_identical(turns: Vec<Turn>, last: &str) -> Transcript {
    let mut all = vec![
        turn(
            &[
                r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18", "capabilities":{"x":1e400},"clientInfo":{"name":"raw","version":"1.10"},"n":9007199254740993}}"#,
            ],
            1,
        ),
        turn(&[r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#], 0),
        // The first call waits for the list of tools; the lines after it would overtake it.
        turn(&[r#"{"jsonrpc":"2.0","id":"first","method":"tools/call","params":{"name":"read"}}"#], 1),
    ];
    all.extend(turns);
    all.push(barrier());
    let direct = speak(false, &all, last.as_bytes());
    let proxied = speak(true, &all, last.as_bytes());
    expect_same("client", &announced(&direct.client), &proxied.client);
    expect_same("server", &direct.server, &proxied.server);
    // As many as were asked for: the transcript itself is not empty.
    assert_eq!(direct.client.len(), all.iter().map(|turn| turn.answers).sum::<usize>());
    direct
}

#[test]
fn odd_ids() {
    let ids = [
        "0",
        "-0",
        "1",
        "1.0",
        "1.50",
        "1e2",
        "-7",
        "\"\"",
        "\"0\"",
        "\"a\\u0062\"",
        "\"\\ud800\"",
        "\"é\"",
        "null",
        "9007199254740993",
        "123456789012345678901234567890",
        "0.10000000000000000000001",
        "1e400",
        "\"settled-1-1x\"",
    ];
    let mut turns = Vec::new();
    for id in ids {
        for method in ["no/such/method", "tools/call", "ping"] {
            let params = r#"{"name":"read","arguments":{"a":1.0}}"#;
            let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
            turns.push(turn(&[&line], 1));
        }
    }
    expect_identical(turns, "");
}

#[test]
fn odd_numbers_and_texts() {
    let values = [
        "null",
        "{}",
        "[]",
        "9007199254740993",
        "-0.0",
        "1E+2",
        "1e400",
        "123456789012345678901234567890.1234567890123456789",
        r#""\ud800""#,
        r#""\udc00\ud800""#,
        r#""\u0000\u001f\/""#,
        r#""é😀\u00e9""#,
        r#"{"a":1,"a":2, "b" : [ 1 , 2 ]}"#,
    ];
    let mut turns = Vec::new();
    for value in values {
        let call = format!(
            r#"{{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{{"name":"read","arguments":{{"v":{value}}}, "_meta":{{"progressToken":{value}}}}}}}"#
        );
        let unknown = format!(r#"{{"jsonrpc":"2.0","id":6,"method":"x","params":{value}, "extra":{value}}}"#);
        let notification = format!(r#" {{ "params" : {value} , "method" : "notifications/x" }} "#);
        let said = format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{value}}}"#);
        turns.extend([turn(&[&call], 1), turn(&[&unknown, &notification], 1), say(&[&said])]);
    }
    expect_identical(turns, "");
}

#[test]
fn requests_of_the_server() {
    let mut turns = Vec::new();
    for id in ["0", "\"\"", "1.0", "9007199254740993", "\"\\ud800\"", "null", "\"settled-0\""] {
        let asked =
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"sampling/createMessage", "params":{{"t":0.70}}}}"#);
        let result = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"n":9007199254740993, "s":"\ud800"}}}}"#);
        let error = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-1,"message":"no","data":null}}}}"#);
        turns.extend([say(&[&asked]), turn(&[&result], 0), say(&[&asked]), turn(&[&error], 0), barrier()]);
    }
    // Answers that nobody asked for.
    turns.push(turn(&[r#"{"jsonrpc":"2.0","id":77,"result":null}"#, r#"{"jsonrpc":"2.0","id":78,"error":null}"#], 0));
    turns.push(say(&[r#"{"jsonrpc":"2.0","id":79,"result":null}"#, r#"{"id":"settled-x","error":{}}"#]));
    let heard = expect_identical(turns, "");
    assert!(heard.server.iter().any(|line| line.starts_with(br#"{"jsonrpc":"2.0","id":"settled-0","result":"#)));
}

#[test]
fn notifications_progress_and_cancellation() {
    let wait =
        r#"{"jsonrpc":"2.0","id":"w","method":"tools/call","params":{"name":"wait","_meta":{"progressToken":1.0}}}"#;
    let progress =
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1.0,"progress":0.10}}"#;
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"w","reason":"\ud800"}}"#;
    let turns = vec![
        turn(&[wait], 0),
        say(&[progress, progress]),
        // The server says that it was told, and answers all the same.
        turn(&[cancel], 2),
        turn(&[r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":12345}}"#], 0),
        turn(&[r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":null}"#], 0),
        turn(&[r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#, progress], 0),
        turn(&[r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed","params":{}}"#], 0),
        say(&[r#"{"jsonrpc":"2.0", "method":"notifications/tools/list_changed"}"#]),
        turn(&[r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read"}}"#], 1),
    ];
    let heard = expect_identical(turns, "");
    assert!(heard.server.contains(&cancel.as_bytes().to_vec()), "the cancel arrived");
}

#[test]
fn pages_and_calls_that_name_no_tool() {
    let turns = vec![
        turn(&[r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#], 1),
        turn(&[r#"{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"cursor":"2"}}"#], 1),
        turn(&[r#"{"jsonrpc":"2.0","id":3,"method":"tools/call"}"#], 1),
        turn(&[r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":null}"#], 1),
        turn(&[r#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":7}}"#], 1),
        turn(&[r#"{"jsonrpc":"2.0","id":6,"method":"tools\/call","params":{"n\u0061me":"read"}}"#], 1),
        turn(&[r#"[{"jsonrpc":"2.0","id":7,"method":"x"}, {"jsonrpc":"2.0","method":"y"} ]"#], 0),
        say(&[r#"[{"jsonrpc":"2.0","id":7,"result":{}} , {"jsonrpc":"2.0","method":"notifications/x"}]"#, "[ ]", "[]"]),
    ];
    expect_identical(turns, "");
}

#[test]
fn lines_that_are_no_messages() {
    let mut turns = vec![
        turn(
            &[
                "not JSON",
                "{\"jsonrpc\":",
                "",
                " ",
                "17",
                "\"text\"",
                "{}",
                "[]",
                "null",
                "{\"method\":5}",
                "\u{feff}{}",
            ],
            0,
        ),
        turn(&["{\"jsonrpc\":\"2.0\",\"method\":\"x\"\u{0}}", "\t", &"[".repeat(100_000)], 0),
        say(&["not JSON", "", " ", "17", "null", "{}", "{\"id\":}", "{\"method\":7,\"id\":1}", "\u{feff}{}", "\u{0}"]),
        // Bytes that are not UTF-8, in both directions.
        turn(&[r#"{"jsonrpc":"2.0","method":"hex","params":["ff00fe","7b226964223a22c328227d"]}"#], 2),
    ];
    turns.push(Turn { lines: vec![b"\xff\xfe".to_vec(), b"{\"method\":\"\xc3\x28\"}".to_vec()], answers: 0 });
    expect_identical(turns, "");
}

#[test]
fn carriage_returns_and_a_last_line_without_end() {
    let turns = vec![
        turn(&["{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\"}\r", "\r"], 1),
        turn(&["{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":\"read\"}}\r"], 1),
        say(&["{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\r", "\r"]),
    ];
    let last = r#"{"jsonrpc":"2.0","method":"notifications/last"}"#;
    let heard = expect_identical(turns, last);
    assert_eq!(heard.server.last().map(Vec::as_slice), Some(last.as_bytes()));
}

#[test]
fn long_lines() {
    let filler = "é\\ud800x".repeat(600_000);
    let sent = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"read","arguments":{{"t":"{filler}"}}}}}}"#
    );
    let turns = vec![
        turn(&[r#"{"jsonrpc":"2.0","id":5,"method":"fill","params":5000000}"#], 1),
        turn(&[&sent], 1),
        turn(&[r#"{"jsonrpc":"2.0","id":6,"method":"fill","params":12000000}"#], 1),
    ];
    let heard = expect_identical(turns, "");
    assert!(heard.client.iter().filter(|line| line.len() > 5_000_000).count() == 3, "they were long");
}

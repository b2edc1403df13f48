//! One charge where HTTP is on either side, and a kill at the fault points of the proxy, one after the other. After each, the same
//! call is asked again. `SETTLED_SWEEP=full` takes all points, else a sample.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use settled_tests::{HttpReply, PATIENCE, Process, Reply, Running, Server, Session, Stage, address_of};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    Stdio,
    Http,
}

use Link::{Http, Stdio};

/// From the client to the proxy, and from it to the server.
const WAYS: [(Link, Link); 3] = [(Http, Stdio), (Http, Http), (Stdio, Http)];

/// There are fewer fault points on the way of one call.
const POINTS: u64 = 200;

/// Every point is met by a kill in one of so many runs of a sample.
const STRIDE: u64 = 6;

/// Where all of them have fault points.
const NAMES: [&str; 6] = [
    "before-store",
    "after-store",
    "before-dispatch",
    "after-reply",
    "before-write-to-server",
    "before-write-to-client",
];

struct World {
    stage: Stage,
    way: (Link, Link),
    /// The server's URL, if it is over HTTP; it outlives the proxies.
    server: Option<(Running, String)>,
}

impl World {
    fn new(way: (Link, Link)) -> World {
        let stage = Stage::new();
        let server = (way.1 == Http).then(|| {
            let mut server = stage.start(&[Server::Quick.command(), vec!["--http".into()]].concat());
            let url = server.next_line().expect("the server says its URL");
            (server, url)
        });
        World { stage, way, server }
    }

    fn proxy(&self) -> Vec<OsString> {
        let mut argv = self.stage.settled(&["mcp", "--scope", "shop", "--ledger"]);
        argv.push(self.stage.path("ledger").into());
        if self.way.0 == Http {
            argv.extend(["--listen".into(), "127.0.0.1:0".into()]);
        }
        match &self.server {
            Some((_, url)) => argv.extend(["--upstream".into(), url.into()]),
            None => {
                argv.push("--".into());
                argv.extend(Server::Quick.command());
            }
        }
        argv
    }

    /// Charges once through a fresh proxy, which may be killed meanwhile.
    fn attempt(&self, kill_at: Option<u64>) -> Reply {
        let log = self.stage.path("kills");
        let at = kill_at.unwrap_or_default().to_string();
        let more = [("SETTLED_KILL_AT", at.as_str()), ("SETTLED_KILL_LOG", log.to_str().unwrap())];
        let more = if kill_at.is_some() { &more[..] } else { &[] };
        if self.way.0 == Stdio {
            let mut session = Session::start_with(&self.stage, &self.proxy(), more);
            let reply = match session.initialize() {
                Reply::Success(_) => session.charge(),
                other => other,
            };
            session.end();
            return reply;
        }
        let mut proxy = self.stage.start_with(&self.proxy(), more);
        let reply = url_of(&mut proxy).map_or(Reply::Gone, |url| charge(&url));
        if let Some(process) = Process::find(proxy.pid()).filter(|_| !proxy.has_ended()) {
            process.terminate();
        }
        proxy.wait();
        reply
    }

    fn kills(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.stage.path("kills")).unwrap_or_default();
        log.lines().map(|line| line.split(' ').nth(1).unwrap().to_owned()).collect()
    }
}

/// Where a proxy listens; `None`: it ended before it said so.
fn url_of(proxy: &mut Running) -> Option<String> {
    let until = Instant::now() + PATIENCE;
    loop {
        let said = proxy.stderr();
        if let Some((_, rest)) = said.split_once("http://")
            && let Some((address, _)) = rest.split_once('\n')
        {
            return Some(format!("http://{address}"));
        }
        if proxy.has_ended() {
            return None;
        }
        assert!(Instant::now() < until, "the proxy neither listens nor ends: {said}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A POST of its own connection; `None`: nothing whole came back.
fn post(url: &str, session: Option<&str>, message: &Value) -> Option<HttpReply> {
    let (address, path) = address_of(url);
    let body = message.to_string();
    let session = session.map(|id| format!("mcp-session-id: {id}\r\n")).unwrap_or_default();
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\nmcp-protocol-version: 2025-06-18\r\n{session}content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = Vec::new();
    // What was read before a reset may be a whole answer.
    let _ = stream.read_to_end(&mut answer);
    Some(HttpReply::read(&answer)).filter(|reply| reply.whole && reply.status != 0)
}

/// The message of an answer, whether it came as such or as an event.
fn message(reply: &HttpReply) -> Option<Value> {
    if reply.header("content-type") == Some("application/json") {
        return Some(reply.json());
    }
    let text = reply.text();
    let data = text.lines().filter_map(|line| line.strip_prefix("data:")).find(|data| data.contains("\"jsonrpc\""))?;
    serde_json::from_str(data).ok()
}

/// A session with one charge.
fn charge(url: &str) -> Reply {
    let all = || {
        let params = json!({
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "raw", "version": "1" },
        });
        let opened = post(url, None, &json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }))?;
        message(&opened)?.get("result")?;
        let session = opened.header("mcp-session-id");
        post(url, session, &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))?;
        let params = json!({ "name": "charge", "arguments": { "customer": "alice", "cents": 500 } });
        message(&post(url, session, &json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }))?)
    };
    all().map_or(Reply::Gone, |answer| Reply::of(&answer))
}

/// What came of one run: the point, if there was a kill, and a line of the table.
fn run(way: (Link, Link), at: u64) -> (Option<String>, String) {
    let world = World::new(way);
    let first = world.attempt(Some(at));
    let killed = world.kills();
    assert!(killed.len() <= 1, "one kill: {killed:?}");
    let replies = [first.clone(), world.attempt(None), world.attempt(None)];
    let story = || format!("{way:?} {at} {killed:?} {replies:#?}\n{}", world.stage.story());
    let effects = world.stage.effects();
    assert!(effects.len() <= 1, "{}", story());
    let mut told = false;
    for reply in &replies {
        match reply.receipt() {
            Some(receipt) => {
                assert_eq!(Some(&receipt), effects.first(), "a success that did not happen: {}", story());
                told = true;
            }
            None => assert!(!told || *reply == Reply::Gone, "another answer after a success: {}", story()),
        }
    }
    let last = &replies[2];
    let operation = world.stage.operation();
    if operation.has_succeeded() {
        assert!(effects.len() == 1 && last.receipt().is_some(), "{}", story());
    } else if operation.has_failed() {
        assert!(effects.is_empty(), "{}", story());
    } else {
        assert!(operation.is_unknown() && last.status() == "unknown", "{}", story());
    }
    if killed.is_empty() {
        assert_eq!(first.word(), "done", "a call that nobody disturbed: {}", story());
    }
    let name = killed.first().cloned();
    let shown = name.as_deref().unwrap_or("(none)");
    let row = format!("{at:>3}  {shown:<24} {:>7}  {:<8} {}", effects.len(), first.word(), last.word());
    (name, row)
}

#[test]
fn a_kill_at_every_point_where_http_is_on_either_side() {
    let is_full = std::env::var("SETTLED_SWEEP").is_ok_and(|how| how == "full");
    let met = Mutex::new(BTreeSet::new());
    thread::scope(|scope| {
        for (number, way) in WAYS.into_iter().enumerate() {
            let met = &met;
            scope.spawn(move || {
                let (stride, from) = if is_full { (1, 1) } else { (STRIDE, 1 + 2 * number as u64) };
                let mut table = Vec::new();
                for at in (from..POINTS).step_by(usize::try_from(stride).unwrap()) {
                    let (point, row) = run(way, at);
                    table.push(row);
                    let Some(point) = point else { break };
                    met.lock().unwrap().insert(point);
                }
                println!("{way:?}\n  #  point                    effects  first    last\n{}", table.join("\n"));
                assert!(table.last().unwrap().contains("(none)"), "the sweep came to its end");
            });
        }
    });
    let met = met.into_inner().unwrap();
    println!("points that were met: {met:?}");
    assert!(!is_full || NAMES.iter().all(|name| met.contains(*name)), "of {NAMES:?} only {met:?}");
    assert!(met.len() >= 3, "{met:?}");
}

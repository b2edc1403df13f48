//! Servers behind HTTP.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use settled_audit::{Experiment, Remote, Target, Verdict};
use settled_test_services::ports;
use tempfile::TempDir;

use super::{Server, audit, expect, of, report, script};
use Verdict::{Duplicate, Safe, WrongRecord};

/// A server that listens, until the test ends.
struct Listening {
    server: Server,
    child: Child,
    port: u16,
    /// A directory that isn't watched.
    aside: TempDir,
}

impl Listening {
    fn start(traits: &'static str) -> Listening {
        let server = Server::new(traits);
        let port = ports::free().unwrap();
        let aside = tempfile::tempdir().unwrap();
        let child = Command::new("python3")
            .arg(script())
            .args([&server.directory(), "http", &port.to_string()])
            .env("SERVER", traits)
            .env("API_TOKEN", "open-sesame")
            .env("PIDFILE", aside.path().join("pid"))
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let start = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(start.elapsed() < Duration::from_secs(30), "the server does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        Listening { server, child, port, aside }
    }

    fn target(&self) -> Remote {
        Remote {
            url: format!("http://127.0.0.1:{}/mcp", self.port).parse().unwrap(),
            headers: vec![("authorization".parse().unwrap(), "Bearer open-sesame".parse().unwrap())],
            ca: None,
            restart: None,
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn over_http_a_connection_is_cut_and_the_server_stays() {
    for traits in ["", "stream"] {
        let listening = Listening::start(traits);
        let mut options = listening.server.options(&["append", "memo"]);
        options.target = Target::Url(Box::new(listening.target()));
        let report = report(&options);
        let [append, memo] = ["append", "memo"].map(|name| report.tools.iter().find(|tool| tool.name == name).unwrap());
        expect(append, [Duplicate, Duplicate, Verdict::NotTried, Duplicate, Safe]);
        // What knows its keys until it ends is safe as long as it doesn't end.
        expect(memo, [Safe, Safe, Verdict::NotTried, Safe, Safe]);
    }
}

#[test]
fn over_http_a_restart_is_a_command() {
    let listening = Listening::start("");
    let pid = listening.aside.path().join("pid");
    let again = format!(
        "kill -9 $(cat {pid}); API_TOKEN=open-sesame PIDFILE={pid} python3 {script} {home} http {port} >/dev/null 2>&1 </dev/null &",
        pid = pid.display(),
        port = listening.port,
        script = script().display(),
        home = listening.server.directory(),
    );
    let mut options = listening.server.options(&["memo"]);
    options.target = Target::Url(Box::new(Remote { restart: Some(again), ..listening.target() }));
    let tool = report(&options).tools.remove(0);
    let ended = Command::new("kill").args(["-9", &std::fs::read_to_string(pid).unwrap()]).status();
    assert!(ended.unwrap().success());
    expect(&tool, [Safe, Safe, Duplicate, Safe, Safe]);
}

#[test]
fn over_http_a_failed_rename_is_a_wrong_record() {
    let listening = Listening::start("");
    let mut options = listening.server.options(&["rename"]);
    options.target = Target::Url(Box::new(listening.target()));
    options.arguments = super::arguments::file(
        r#"[tools.rename]
           arguments = { id = "{unique}" }
           before = [{ tool = "put", arguments = { id = "{unique}" } }]"#,
    );
    let tool = report(&options).tools.remove(0);
    assert_eq!(of(&tool, Experiment::LostAnswer).verdict, WrongRecord, "{tool:?}");
}

#[test]
fn over_http_what_is_refused_is_told() {
    let listening = Listening::start("");
    let mut options = listening.server.options(&[]);
    options.target = Target::Url(Box::new(Remote { headers: Vec::new(), ..listening.target() }));
    let error = audit(&options).unwrap_err().to_string();
    assert!(error.contains("401 Unauthorized") && error.contains("who are you?"), "{error}");
}

//! `settled explore`: the page answers over HTTP, in words, until it is ended.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

/// Ends the process whatever becomes of the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(arguments: &[&str]) -> (Running, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_settled"))
        .arg("explore")
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let running = Running(child);
    let address = line.split("http://").nth(1).unwrap_or_else(|| panic!("no address: {line}"));
    (running, address.split('/').next().unwrap().to_owned())
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

#[test]
fn states_and_moves_can_be_read() {
    let (_running, address) = start(&["mcp-2025-11-25"]);
    assert!(address.starts_with("127.0.0.1:"), "{address}");
    assert!(get(&address, "/").contains("<html"));
    let first: Value = serde_json::from_str(&get(&address, "/.states/")).unwrap();
    let state = first[0]["state"].as_str().unwrap();
    assert!(state.contains("caller A has not called yet") && state.contains("left: 1 timeouts"), "{state}");
    let next: Value = serde_json::from_str(&get(&address, "/.states/0")).unwrap();
    let moves: Vec<_> = next.as_array().unwrap().iter().map(|step| step["action"].as_str().unwrap()).collect();
    assert!(moves.contains(&"caller A → tool: calls"), "{moves:?}");
    let after = next[0]["state"].as_str().unwrap();
    assert!(after.contains("caller A waits"), "{after}");
    let properties = first[0]["properties"].to_string();
    assert!(properties.contains("at-most-once") && !properties.contains("convergence"), "{properties}");
}

#[test]
fn bounds_and_devices_are_explored_too() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("mine.toml");
    std::fs::write(&file, "name = \"x\"\nabout = \"y\"\n[devices]\noperations = 1\n").unwrap();
    let (_running, address) = start(&[file.to_str().unwrap(), "--fault", "duplicates=2"]);
    let first: Value = serde_json::from_str(&get(&address, "/.states/")).unwrap();
    let state = first[0]["state"].as_str().unwrap();
    assert!(state.contains("device 1") && state.contains("2 duplicates"), "{state}");
}

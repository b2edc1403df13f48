//! Devices and their server as real processes, killed at any moment: in the end all show the same, and each operation was applied once.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fastrand::Rng;
use serde_json::Value;

use settled_tests::{get, settled};

const SCHEMA: &str = "
version = 1
[kinds]
votes = \"counter\"
[kinds.task]
title = \"latest\"
finished = \"earliest\"
tags = \"add-wins\"
";

struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(place: &Path) -> Server {
        let mut child = Command::new(settled())
            .args(["sync", "serve", "--listen", "127.0.0.1:0", "--store"])
            .arg(format!("sqlite:{}", place.join("server.db").display()))
            .arg("--schema")
            .arg(place.join("schema.toml"))
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let url = loop {
            let line = lines.next().expect("the server says where it listens").unwrap();
            if let Some(url) = line.strip_prefix("settled: ") {
                break url.to_owned();
            }
        };
        // So that it never waits for somebody to read.
        std::thread::spawn(move || lines.for_each(drop));
        Server { child, url }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Devices {
    place: PathBuf,
    random: Rng,
}

impl Devices {
    fn command(&self, device: usize, words: &[&str]) -> Command {
        let mut command = Command::new(settled());
        command.args(["sync", words[0]]).arg(self.place.join(format!("device-{device}")));
        command.args(&words[1..]).arg("--schema").arg(self.place.join("schema.toml"));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Starts an action of a device: several changes of a target.
    fn act(&mut self, device: usize) -> Child {
        let number = self.random.u8(..5);
        let many = self.random.usize(1..6);
        let (target, change) = match self.random.u8(..5) {
            0 => ("votes", format!("+={number}")),
            1 => ("task/1", format!("title={number}")),
            2 => ("task/2", format!("finished={number}")),
            3 => ("task/1", format!("tags-={number}")),
            _ => ("task/1", format!("tags+={number}")),
        };
        let words: Vec<&str> = ["act", target].into_iter().chain((0..many).map(|_| change.as_str())).collect();
        self.command(device, &words).spawn().unwrap()
    }

    fn run(&self, device: usize, url: &str) -> Child {
        self.command(device, &["run", "--url", url, "--batch", "3", "--patience", "1s"]).spawn().unwrap()
    }

    fn show(&self, device: usize) -> Value {
        let output = self.command(device, &["show", "--json"]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

/// Reads what a process that has ended said.
fn said(child: &mut Child) -> String {
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    child.wait().unwrap();
    text
}

#[test]
fn each_operation_is_applied_once_whoever_is_killed() {
    const DEVICES: usize = 3;
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("schema.toml"), SCHEMA).unwrap();
    let mut devices = Devices { place: place.path().to_owned(), random: Rng::with_seed(11) };
    let mut server = Server::start(place.path());
    let mut acknowledged = HashSet::new();
    let (mut killed, mut server_kills) = (0, 0);
    for round in 0..40 {
        // A device acts, others keep together with the server, and one of them all is killed.
        let acting = round % DEVICES;
        let mut act = devices.act(acting);
        let mut runs: Vec<Child> = (1..DEVICES).map(|by| devices.run((acting + by) % DEVICES, &server.url)).collect();
        std::thread::sleep(Duration::from_millis(devices.random.u64(..80)));
        match devices.random.u8(..4) {
            0 => {
                server.kill();
                server = Server::start(place.path());
                server_kills += 1;
            }
            1 => {
                act.kill().unwrap();
                killed += 1;
            }
            _ => {
                let one = devices.random.usize(..runs.len());
                runs[one].kill().unwrap();
                killed += 1;
            }
        }
        for mut run in runs {
            said(&mut run);
        }
        let done = said(&mut act);
        // What was acknowledged is a whole line.
        acknowledged.extend(done.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')).map(str::to_owned));
    }
    for _ in 0..2 {
        for device in 0..DEVICES {
            let output = devices.command(device, &["run", "--url", &server.url]).output().unwrap();
            assert!(output.status.success(), "device {device}: {output:?}");
        }
    }
    let all = get(&server.url, "/v1/operations?after=0&limit=1000", &[]).json();
    let applied: Vec<&str> =
        all["operations"].as_array().unwrap().iter().map(|its| its["op_id"].as_str().unwrap()).collect();
    let distinct: HashSet<&str> = applied.iter().copied().collect();
    println!(
        "{} operations acknowledged, {} applied; {killed} devices and {server_kills} servers killed",
        acknowledged.len(),
        applied.len()
    );
    assert_eq!(all["head"].as_u64(), Some(applied.len() as u64), "not all of them are listed");
    assert_eq!(distinct.len(), applied.len(), "an operation was applied twice");
    let lost: Vec<_> = acknowledged.iter().filter(|id| !distinct.contains(id.as_str())).collect();
    assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
    assert!(acknowledged.len() > 20 && killed > 10 && server_kills > 3);
    let shown = devices.show(0);
    for device in 0..DEVICES {
        let its = devices.show(device);
        assert_eq!(its["targets"], shown["targets"], "device {device} differs");
        assert_eq!(
            (&its["pending"], &its["refused"]),
            (&Value::from(0), &Value::from(Vec::<Value>::new())),
            "device {device}"
        );
    }
    // The server's own states, which it keeps beside the operations.
    let targets = get(&server.url, "/v1/targets", &[]).json();
    let targets: serde_json::Map<_, _> = targets["targets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|its| (its["target"].as_str().unwrap().to_owned(), its["view"].clone()))
        .collect();
    assert_eq!(Value::Object(targets), shown["targets"]);
}

#[test]
fn what_was_refused_is_shown_until_it_is_dismissed() {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("schema.toml"), SCHEMA).unwrap();
    let server = Server::start(place.path());
    // The device has a kind that the server lacks, and does not say that its schema is a later one.
    std::fs::write(place.path().join("schema.toml"), format!("{SCHEMA}[kinds.note]\ntext = \"latest\"\n")).unwrap();
    let devices = Devices { place: place.path().to_owned(), random: Rng::with_seed(1) };
    let run = |words: &[&str]| String::from_utf8(devices.command(0, words).output().unwrap().stdout).unwrap();
    run(&["act", "note/1", "text=hello"]);
    run(&["act", "votes", "+=2"]);
    let synced = run(&["run", "--url", &server.url]);
    assert!(synced.starts_with("1 applied, 1 pulled, 1 refused"), "{synced}");
    let dismissed = run(&["dismiss"]);
    assert!(dismissed.contains(" on note/1: there are no targets of the kind `note`"), "{dismissed}");
    assert!(dismissed.ends_with("\n1 dismissed\n"), "{dismissed}");
    assert_eq!(run(&["dismiss"]), "0 dismissed\n");
    let shown = devices.show(0);
    assert_eq!((&shown["pending"], &shown["refused"]), (&0.into(), &Value::Array(vec![])));
    assert_eq!(shown["targets"], serde_json::json!({ "votes": 2 }));
}

#[test]
fn the_demonstration_ends_well() {
    let output = Command::new(settled()).args(["sync", "demo"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(
        text.contains("All states are equal: yes.\n10 operations were made; the servers applied 10 and 10."),
        "{text}"
    );
}

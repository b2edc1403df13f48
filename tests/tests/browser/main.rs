//! The sync client for browsers: against the protocol core's cases, on a server that fails at will, and on the real one in Chromium.
//!
//! The tests themselves are in `impl/sync/client/test` and `tests/browser`; `tests/clients/install` installs what they need.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

fn folder(path: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let modules = path.join("node_modules");
    assert!(modules.exists(), "{} is missing: run tests/clients/install", modules.display());
    path
}

#[track_caller]
fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().expect("node is installed");
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(output.status.success(), "{command:?}: {}\n{text}", output.status);
    println!("{text}");
}

/// The client, compiled.
fn client() -> &'static Path {
    static CLIENT: OnceLock<PathBuf> = OnceLock::new();
    CLIENT.get_or_init(|| {
        let client = folder("../impl/sync/client");
        run(Command::new(client.join("node_modules/.bin/tsc")).current_dir(&client));
        client
    })
}

fn browser(file: &str) -> Command {
    client();
    let mut node = Command::new("node");
    node.args(["--test", "--test-reporter=spec", file]).current_dir(folder("browser"));
    node
}

#[test]
fn it_merges_as_the_core_does() {
    run(Command::new("node").args(["--test", "--test-reporter=spec", "test/merge.test.mjs"]).current_dir(client()));
}

#[test]
fn it_copes_with_a_server_that_fails() {
    run(&mut browser("client.test.mjs"));
}

#[test]
fn devices_agree_whatever_is_killed() {
    run(browser("devices.test.mjs").env("SETTLED_BIN", settled_tests::settled()));
}

//! `settled mcp --describe` on real servers, files with several servers, and which of them is meant.

use std::ffi::OsString;

use serde_json::json;
use settled_tests::{Server, Session, Stage, settled};

fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(Into::into).collect()
}

/// `settled mcp` with these words, and a server's command after `--` if there is one.
fn mcp(own: &[&str], server: &[OsString]) -> Vec<OsString> {
    let mut argv = vec![settled().into(), "mcp".into()];
    argv.extend(words(own));
    if !server.is_empty() {
        argv.push("--".into());
        argv.extend_from_slice(server);
    }
    argv
}

fn filesystem(stage: &Stage) -> Vec<OsString> {
    let directory = stage.path("files");
    std::fs::create_dir_all(&directory).unwrap();
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/clients/node/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js"
    );
    vec!["node".into(), script.into(), directory.into()]
}

#[test]
fn the_filesystem_server() {
    let mut stage = Stage::new();
    let server = filesystem(&stage);
    let ended = stage.run(&mcp(&["--describe"], &server));
    assert!(ended.status.success(), "{ended:?}");
    assert_eq!(ended.text(), stage.run(&mcp(&["--describe"], &server)).text(), "the same each time");
    for part in ["[tools.write_file]", "[tools.read_text_file]", "new_tools = \"guard\"", "claimed, not checked"] {
        assert!(ended.text().contains(part), "{part}\n{}", ended.text());
    }
    // Accepted as it is: each tool that writes is guarded, and so, for now, is each that reads.
    stage.configure(&ended.text());
    let mut session = Session::open(&stage, &stage.proxy(&server));
    let path = stage.path("files/a.txt").display().to_string();
    let written = session.call("write_file", &json!({ "path": path, "content": "one" }));
    assert_eq!(written.status(), "done", "{written:?}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "one");
    let read = session.call("read_text_file", &json!({ "path": path }));
    assert_eq!(read.status(), "done", "{read:?}");
    let ended = session.end();
    assert!(!ended.stderr.contains("not what they were"), "{ended:?}");
}

#[test]
fn other_servers() {
    for server in [Server::Quick, Server::Echo, Server::Node, Server::Python, Server::Python2] {
        let mut stage = Stage::new();
        let heard = stage.path("heard").display().to_string();
        stage.set("HEARD", heard);
        let ended = stage.run(&mcp(&["--describe"], &server.command()));
        assert!(ended.status.success(), "{server:?}: {ended:?}");
        if server == Server::Echo {
            // Its answers hold numbers that are none to the test's own JSON.
            continue;
        }
        stage.configure(&ended.text());
        let mut session = Session::open(&stage, &stage.proxy(&server.command()));
        assert_eq!(session.charge().status(), "done", "{server:?}");
        drop(session.end());
    }
}

#[test]
fn one_of_several() {
    let mut stage = Stage::new();
    let command = Server::Quick.command();
    let list = serde_json::to_string(&command.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>()).unwrap();
    let file = format!(
        "ledger = '{}'\n[servers.shop]\ncommand = {list}\nenv = {{ EFFECTS = '{}' }}\n[servers.bank]\nurl = 'http://127.0.0.1:9/mcp'\n",
        stage.path("ledger").display(),
        stage.path("elsewhere").display()
    );
    stage.configure(&file);
    let config = stage.path("settled.toml").display().to_string();
    let with = |own: &[&str]| mcp(&[&["--config", &config], own].concat(), &[]);

    let described = stage.run(&with(&["--server", "shop", "--describe"]));
    assert!(described.text().contains("[servers.shop.tools.charge]"), "{described:?}");
    std::fs::write(stage.path("described.toml"), described.text()).unwrap();
    let described = stage.path("described.toml").display().to_string();
    let again = stage.run(&mcp(&["--config", &described, "--server", "shop", "--describe"], &[]));
    assert_eq!(again.status.code(), Some(0), "{again:?}");

    let mut session = Session::open(&stage, &with(&["--server", "shop"]));
    assert_eq!(session.charge().status(), "done");
    drop(session.end());
    let effects = std::fs::read_to_string(stage.path("elsewhere")).unwrap();
    assert_eq!((effects.lines().count(), stage.effects().len()), (1, 0), "where its `env` says");
    let operation = stage.operation();
    assert!(operation.key.starts_with("shop-"), "{operation:?}");

    for (own, parts) in [
        (&["--server", "shoq"][..], &["`shoq`", "`bank`, `shop`"][..]),
        (&[][..], &["--server NAME", "`bank`, `shop`", "--listen"]),
        (&["--upstream", "http://127.0.0.1:9/"], &["--server bank"]),
        (&["--listen", "127.0.0.1:0", "--scope", "x"], &["--scope", "one server"]),
        (&["--listen", "127.0.0.1:0", "--describe"], &["cannot be used with"]),
    ] {
        let ended = stage.run(&with(own));
        assert_eq!(ended.status.code(), Some(2), "{own:?}: {ended:?}");
        for part in parts {
            assert!(ended.stderr.contains(part), "{part}\n{ended:?}");
        }
    }
    let ended = stage.run(&mcp(&[], &[]));
    assert_eq!(ended.status.code(), Some(2), "{ended:?}");
    assert!(ended.stderr.contains("`--upstream URL`") && ended.stderr.contains("`--`"), "{ended:?}");
    let ended = stage.run(&mcp(&["--upstream", "shop"], &[]));
    assert!(ended.stderr.contains("--upstream: `shop` is not a URL"), "{ended:?}");
}

/// What is confidential is nowhere in the ledger's files, its history, or what the process says.
#[test]
fn nothing_confidential_on_disk() {
    let mut stage = Stage::new();
    let key = stage.path("key");
    std::fs::write(&key, [7; 32]).unwrap();
    stage.set("SETTLED_LOG", "trace");
    stage.configure(&format!(
        "[encryption]\nkey_file = '{}'\n[tools.charge]\nencrypt = ['card.number']\nredact = ['pin']\n",
        key.display()
    ));
    let mut session = Session::open(&stage, &stage.proxy(&Server::Quick.command()));
    let arguments =
        json!({ "customer": "ada", "cents": 500, "card": { "number": "4111-1111-1111" }, "pin": "1234-5678" });
    assert_eq!(session.call("charge", &arguments).status(), "done");
    let ended = session.end();
    let mut texts = vec![ended.stderr.into_bytes()];
    let mut folders = vec![stage.path("ledger")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            match entry.file_type().unwrap() {
                kind if kind.is_dir() => folders.push(entry.path()),
                kind if kind.is_file() => texts.push(std::fs::read(entry.path()).unwrap()),
                _ => {}
            }
        }
    }
    let all = texts.concat();
    let has = |text: &str| all.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(has("ada") && has("(encrypted)"), "it looks in the right places");
    assert!(!has("4111-1111-1111") && !has("1234-5678"));

    // Whoever has the key can look; what is not kept is nowhere.
    let operation = stage.operation().key;
    let (ledger, key, config) = (stage.path("ledger"), key.display().to_string(), stage.path("settled.toml"));
    let show = |more: &[&str]| {
        let mut argv = stage.settled(&["log", "show", &operation, "--ledger"]);
        argv.push(ledger.clone().into());
        argv.extend(words(more));
        stage.run(&argv).text()
    };
    for more in [&["--key-file", &key][..], &["--config", config.to_str().unwrap()]] {
        let shown = show(more);
        assert!(shown.contains("4111-1111-1111") && !shown.contains("1234-5678"), "{shown}");
        // The answer, too.
        assert!(shown.contains("charge ada 500"), "{shown}");
    }
    let shown = show(&[]);
    assert!(shown.contains("(encrypted)") && !shown.contains("4111-1111-1111"), "{shown}");
}

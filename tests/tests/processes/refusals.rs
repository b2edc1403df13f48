//! What can't work is said at once: files that can't be used, and commands that don't run.

use settled_tests::{Client, Reply, Server, Session, Stage};

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

//! What can't be used is refused before anything is explored: with file, line, field, and what is allowed.

use crate::{settled, stderr, stdout};

#[test]
fn options_that_cannot_be_used_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    for (arguments, expected) in [
        (vec!["check", "no-such-protocol"], "`settled protocols` lists them"),
        (vec!["check", "missing.toml"], "missing.toml"),
        (vec!["check", "settled-opaque", "--all"], "--all"),
        (vec!["check", "settled-opaque", "--operations", "7"], "caller.operations: 7 is out of range: 1 to 3"),
        (vec!["check", "settled-opaque", "--fault", "meteor=1"], "the faults are: timeouts"),
        (vec!["check", "settled-opaque", "--fault", "timeouts"], "FAULT=N is expected"),
        (vec!["check", "settled-opaque", "--fault", "timeouts=5"], "faults.timeouts: 5 is out of range: 0 to 4"),
        (vec!["check", "settled-opaque", "--faults", "9"], "is out of range: 0 to 4"),
        (vec!["check", "mcp-2025-11-25", "--fault", "guard-crashes=1"], "there is no guard"),
        (vec!["check", "volatile-intent", "--fault", "takeovers=1"], "a takeover needs a second guard"),
        (vec!["check", "volatile-intent", "--fault", "ledger-failovers=1"], "ledger.acknowledged = \"unreplicated\""),
        (
            vec!["check", "settled-opaque", "--property", "beauty"],
            "the properties are: at-most-once, no-phantom-success",
        ),
        (vec!["check", "settled-opaque", "--max-time", "500000000000y"], "--max-time"),
        (vec!["check", "settled-opaque", "--max-states", "0"], "--max-states"),
        (vec!["check", "settled-opaque", "--threads", "0"], "--threads"),
        (vec!["check", "settled-opaque", "--suggest-time", "1s"], "--suggest"),
        (vec!["check", "mcp-2025-11-25", "--html", "no/such/directory.html"], "no/such/directory.html"),
        (vec!["diff", "settled-opaque", "no-such-protocol"], "`settled protocols` lists them"),
        (vec!["diff", "settled-opaque"], "<AFTER>"),
        (vec!["explore", "no-such-protocol"], "`settled protocols` lists them"),
        (vec!["explore", "settled-opaque", "--listen", "0.0.0.0:0"], "only a loopback address is served"),
        (vec!["explore", "settled-opaque", "--listen", "here"], "--listen"),
        (vec!["mcp", "--scope", "", "--", "true"], "--scope"),
        (vec!["protocols", "show", "no-such-protocol"], "`settled protocols` lists them"),
    ] {
        let unusable = settled(directory.path(), &arguments);
        assert_eq!(unusable.status.code(), Some(2), "{arguments:?}: {}", stderr(&unusable));
        assert!(stderr(&unusable).contains(expected), "{arguments:?}: {}", stderr(&unusable));
        assert!(stdout(&unusable).is_empty(), "{arguments:?}: nothing is explored on bad input");
    }
}

const HEAD: &str = "name = \"x\"\nabout = \"y\"\n";

/// Each mistake, the line that it stands on (the first after the two of [`HEAD`] is 3), and what is said of it.
const MISTAKES: &[(&str, &str, &str, &[&str])] = &[
    ("not TOML", "[tool\n", "line 3", &["[tool"]),
    ("unknown table", "[tools]\n", "line 3", &["`tools`", "`caller`", "`faults`"]),
    ("unknown field", "[tool]\nkinds = \"opaque\"\n", "line 4", &["`kinds`", "`kind`"]),
    ("unknown fault", "[faults]\nmeteors = 1\n", "line 4", &["`meteors`", "`guard-crashes`"]),
    ("unknown rule", "[guard]\nrules = { be-nice = true }\n", "line 4", &["`be-nice`", "`hold-unknown`"]),
    ("unknown word", "[tool]\nkind = \"lucky\"\n", "line 4", &["kind = \"lucky\"", "`opaque`", "`sealable`"]),
    ("wrong type", "[caller]\ncalls = \"two\"\n", "line 4", &["calls = \"two\"", "expected u8"]),
    ("wrong type of flag", "[guard]\ngives-up = 1\n", "line 4", &["gives-up = 1", "expected a boolean"]),
    ("negative", "[caller]\ncalls = -1\n", "line 4", &["calls = -1"]),
    ("out of range", "[caller]\ncalls = 9\n", "line 4", &["caller.calls: 9 is out of range: 1 to 4 are allowed"]),
    ("fault out of range", "[faults]\ntimeouts = 5\n", "line 4", &["faults.timeouts: 5 is out of range: 0 to 4"]),
    (
        "guards that record late",
        "[guard]\nprocesses = 2\nintent = \"after-effect\"\n",
        "line 4",
        &["guard.processes: ", "modelled as one process"],
    ),
    (
        "no guard to commit with",
        "[guard]\nprocesses = 0\n[tool]\nkind = \"transactional\"\n",
        "line 6",
        &["tool.kind: ", "needs `guard.processes` of 1 or more"],
    ),
    ("no guard to crash", "[guard]\nprocesses = 0\n[faults]\nguard-crashes = 1\n", "line 6", &["there is no guard"]),
    ("no second guard", "[faults]\ntakeovers = 1\n", "line 4", &["faults.takeovers: ", "a second guard"]),
    ("no time", "[faults]\npauses = 1\n", "line 4", &["faults.pauses: ", "depends on time"]),
    ("nothing forgets", "[faults]\nkey-expiries = 1\n", "line 4", &["faults.key-expiries: ", "neither store forgets"]),
    ("nothing fails over", "[faults]\nledger-failovers = 1\n", "line 4", &["faults.ledger-failovers: "]),
    ("no other call", "[faults]\nkey-reuses = 1\n", "line 4", &["faults.key-reuses: ", "another logical call"]),
    ("two names", "name = \"z\"\n", "line 3", &["duplicate key"]),
];

#[test]
fn a_file_that_cannot_be_used_is_refused_with_file_line_field_and_what_is_allowed() {
    let directory = tempfile::tempdir().unwrap();
    for (what, text, line, parts) in MISTAKES {
        std::fs::write(directory.path().join("mine.toml"), format!("{HEAD}{text}")).unwrap();
        let refused = settled(directory.path(), &["check", "mine.toml"]);
        let error = stderr(&refused);
        assert_eq!(refused.status.code(), Some(2), "{what}: {error}");
        assert!(stdout(&refused).is_empty(), "{what}");
        for part in ["mine.toml", line].iter().chain(*parts) {
            assert!(error.contains(part), "{what}: “{part}” is missing: {error}");
        }
    }
}

#[test]
fn a_file_without_a_name_or_that_is_no_text_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    for (bytes, part) in [
        (b"about = \"y\"\n".as_slice(), "missing field `name`"),
        (b"name = \"x\"\n", "missing field `about`"),
        (b"name = \"\"\nabout = \"y\"\n", "a name in one line is needed"),
        (b"", "missing field `name`"),
        (b"\xff\xfe\x00", "mine.toml"),
    ] {
        std::fs::write(directory.path().join("mine.toml"), bytes).unwrap();
        let refused = settled(directory.path(), &["check", "mine.toml"]);
        assert_eq!(refused.status.code(), Some(2), "{part}");
        assert!(stderr(&refused).contains(part), "{part}: {}", stderr(&refused));
        assert!(stderr(&refused).contains("mine.toml"), "{}", stderr(&refused));
    }
}

#[test]
fn bounds_of_callers_and_guards_are_none_of_devices() {
    let directory = tempfile::tempdir().unwrap();
    let devices = format!("{HEAD}[devices]\ndevices = 2\noperations = 1\n");
    std::fs::write(directory.path().join("mine.toml"), devices).unwrap();
    let refused = settled(directory.path(), &["check", "mine.toml", "--calls", "3"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("--calls says nothing of a protocol of devices"), "{}", stderr(&refused));
    let refused = settled(directory.path(), &["check", "mine.toml", "--fault", "takeovers=1"]);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    let checked = settled(directory.path(), &["check", "mine.toml"]);
    assert_eq!(checked.status.code(), Some(0), "{}{}", stdout(&checked), stderr(&checked));
}

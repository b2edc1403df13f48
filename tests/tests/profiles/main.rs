//! Real frameworks, killed for real: what is known of three of them is what `settled profile` measures.
//!
//! Their packages are installed into `target/profiles`, from PyPI and npm, once. `tests/run --profiles` measures all adapters.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use settled_tests::settled;

/// What one cell came to.
struct Came<'a> {
    cell: &'a str,
    /// The kind of its outcome.
    to: &'a str,
    /// How often `a`, `b` and `c` took effect.
    effects: [u64; 3],
}

const fn came<'a>(cell: &'a str, to: &'a str, effects: [u64; 3]) -> Came<'a> {
    Came { cell, to, effects }
}

fn cache() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("target/profiles")
}

fn profile(arguments: &[&str]) {
    let output =
        Command::new(settled()).arg("profile").args(arguments).env("SETTLED_PROFILE_CACHE", cache()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "settled profile {}: {said}", arguments.join(" "));
}

/// Runs cells of a variant once, and holds them against what is known.
fn measured(adapter: &str, variant: &str, more: &[&str], known: &[Came<'_>]) {
    let directory = tempfile::TempDir::new().unwrap();
    let json = directory.path().join("profile.json");
    let mut arguments = vec!["run", adapter, "--variant", variant, "--repeat", "1", "--jobs", "2"];
    arguments.extend(["--json", json.to_str().unwrap()]);
    arguments.extend(known.iter().flat_map(|came| ["--cell", came.cell]));
    arguments.extend(more);
    profile(&arguments);

    let report: Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    let [measured] = report["profiles"].as_array().unwrap().as_slice() else { panic!("{report}") };
    assert_eq!(measured["variant"], variant);
    for came in known {
        let cell = measured["cells"].as_array().unwrap().iter().find(|cell| cell["cell"] == came.cell);
        let run = &cell.unwrap_or_else(|| panic!("{adapter}/{variant} has no {}: {measured}", came.cell))["runs"][0];
        let said = || format!("{adapter}/{variant} {}: {run:#}", came.cell);
        assert_eq!(run["bite"], "struck", "{}", said());
        let outcome = &run["outcome"];
        // `{"duplicate": 2}`, `"once"`.
        let kind = outcome.as_str().or_else(|| outcome.as_object()?.keys().next().map(String::as_str));
        assert_eq!(kind, Some(came.to), "{}", said());
        let effects = ["a", "b", "c"].map(|step| run["effects"][step].as_u64().unwrap_or_default());
        assert_eq!(effects, came.effects, "{}", said());
    }
}

#[test]
fn a_journal_in_plain_python() {
    profile(&["install", "template"]);
    measured(
        "template",
        "synced",
        &[],
        &[
            came("no-fault", "once", [1, 1, 1]),
            came("kill-before-effect", "once", [1, 1, 1]),
            came("kill-after-effect", "duplicate", [1, 2, 1]),
            came("kill-after-answer", "duplicate", [1, 2, 1]),
            came("kill-after-record", "once", [1, 1, 1]),
            came("disk-full", "duplicate", [1, 2, 1]),
            came("clock-jumped", "duplicate", [1, 2, 1]),
            came("approved-twice", "once", [1, 1, 0]),
            came("denied-then-approved", "once", [1, 0, 0]),
        ],
    );
    // What it writes only as it ends is gone when it is killed.
    measured("template", "at-end", &[], &[came("kill-after-record", "duplicate", [2, 2, 1])]);
    measured(
        "template",
        "synced",
        &["--behind", "settled"],
        &[came("kill-before-effect", "once", [1, 1, 1]), came("kill-after-effect", "once", [1, 1, 1])],
    );
}

#[test]
fn what_was_measured_before_the_harness_ended_is_not_measured_again() {
    profile(&["install", "template"]);
    let directory = tempfile::TempDir::new().unwrap();
    let json = directory.path().join("profile.json");
    let run = |more: &[&str]| {
        let basic = ["run", "template", "--cell", "no-fault", "--cell", "kill-after-effect", "--continue", "--json"];
        let path = [json.to_str().unwrap()];
        profile(&[&basic[..], &path, more].concat());
        serde_json::from_str::<Value>(&std::fs::read_to_string(&json).unwrap()).unwrap()
    };
    let names = |report: &Value| {
        let variants = report["profiles"].as_array().unwrap().iter();
        variants.map(|profile| profile["variant"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let first = run(&["--repeat", "2", "--variant", "at-end"]);
    assert_eq!(names(&first), ["at-end"]);
    let both = run(&["--repeat", "2"]);
    assert_eq!(names(&both), ["synced", "at-end"], "in the adapter's order");
    assert_eq!(both["profiles"][1], first["profiles"][0], "to the millisecond");
    assert_eq!(run(&["--repeat", "1"]), both);
    let more = run(&["--repeat", "3"]);
    let runs = |report: &Value, profile: usize, cell: usize| {
        report["profiles"][profile]["cells"][cell]["runs"].as_array().unwrap().clone()
    };
    for (profile, cell) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let (before, now) = (runs(&both, profile, cell), runs(&more, profile, cell));
        assert_eq!((now.len(), &now[..2]), (3, &before[..]), "one is added to them");
    }

    let show =
        |more: &[&str]| Command::new(settled()).args(["profile", "show"]).arg(&json).args(more).output().unwrap();
    let shown = String::from_utf8(show(&[]).stdout).unwrap();
    assert!(shown.contains("template@1.0.0/synced") && shown.contains("2× 3/3"), "{shown}");
    let unknown = show(&["--adapter", "temptale"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("there is no temptale; there are template"));

    // A harness that is told to end keeps what is over: here the one variant that it has only to wait for.
    let mut long = Command::new(settled());
    long.args(["profile", "run", "template", "--repeat", "300", "--continue", "--json"]).arg(&json);
    let mut long = long.env("SETTLED_PROFILE_CACHE", cache()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_secs(2));
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(long.id().cast_signed()), nix::sys::signal::Signal::SIGINT)
        .unwrap();
    assert_eq!(long.wait().unwrap().code(), Some(1));
    let mut said = String::new();
    std::io::Read::read_to_string(&mut long.stderr.take().unwrap(), &mut said).unwrap();
    assert!(said.contains("`--continue` measures the others"), "{said}");
    let kept: Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!(names(&kept).len(), 2);
    for profile in more["profiles"].as_array().unwrap() {
        let cells = profile["cells"].as_array().unwrap();
        let same =
            kept["profiles"].as_array().unwrap().iter().find(|kept| kept["variant"] == profile["variant"]).unwrap();
        let kept = same["cells"].as_array().unwrap();
        for cell in cells {
            let kept = kept.iter().find(|kept| kept["cell"] == cell["cell"]).unwrap();
            // Measured more often by now, or as it was.
            assert!(kept == cell || kept["runs"].as_array().unwrap().len() == 300, "{kept}");
        }
    }
}

#[test]
fn pydantic_graph_does_not_resume_a_node_that_was_running() {
    profile(&["install", "pydantic-graph"]);
    measured(
        "pydantic-graph",
        "default",
        &[],
        &[
            came("no-fault", "once", [1, 1, 1]),
            came("kill-before-effect", "error", [1, 0, 0]),
            came("kill-after-effect", "error", [1, 1, 0]),
            came("approved-twice", "once", [1, 1, 0]),
        ],
    );
}

#[test]
fn a_script_on_the_typescript_sdk_of_mcp_calls_again() {
    profile(&["install", "mcp-typescript"]);
    for variant in ["stdio", "http"] {
        measured(
            "mcp-typescript",
            variant,
            &[],
            &[
                came("no-fault", "once", [1, 1, 1]),
                came("kill-before-effect", "once", [1, 1, 1]),
                came("kill-after-effect", "duplicate", [1, 2, 1]),
                came("answer-lost", "duplicate", [1, 2, 1]),
            ],
        );
    }
}

//! `settled audit` on the public servers: what it finds there, and how it ends.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use settled_tests::{Ended, Stage, settled};

const MODULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/clients/node/node_modules");

/// An audit of one of the public servers, and its report.
fn audit(stage: &Stage, own: &[&str], server: &str, more: &[&str]) -> (Ended, Value) {
    let report = stage.path("report.json");
    let mut argv: Vec<OsString> = vec![settled().into(), "audit".into(), "--json".into(), report.clone().into()];
    argv.extend(["--settle", "50ms"].map(OsString::from));
    argv.extend(own.iter().map(OsString::from));
    argv.extend(["--", "node"].map(OsString::from));
    argv.push(format!("{MODULES}/@modelcontextprotocol/{server}/dist/index.js").into());
    argv.extend(more.iter().map(OsString::from));
    let ended = stage.run(&argv);
    let report = std::fs::read_to_string(&report).unwrap_or_else(|error| panic!("{error}: {ended:?}"));
    (ended, serde_json::from_str(&report).unwrap())
}

/// A report's verdict.
fn verdict<'a>(report: &'a Value, tool: &str, experiment: &str) -> &'a str {
    let named = |list: &'a Value, member: &str, name: &str| {
        let found = list.as_array().unwrap().iter().find(|one| one[member] == name);
        found.unwrap_or_else(|| panic!("no {name} in {list:#}"))
    };
    let tool = named(&report["tools"], "name", tool);
    named(&tool["experiments"], "experiment", experiment)["verdict"].as_str().unwrap()
}

/// A report is as its published schema says.
fn check_schema(stage: &Stage, report: &Path) {
    let ended = stage.run(&[settled().into(), "audit".into(), "--schema".into()]);
    let schema = stage.path("schema.json");
    std::fs::write(&schema, ended.text()).unwrap();
    let script = r#"
        const [modules, schema, report] = process.argv.slice(1);
        const Ajv = require(modules + "/ajv/dist/2020").default;
        const read = (path) => JSON.parse(require("fs").readFileSync(path));
        const ajv = new Ajv({ strict: false, formats: { uint32: true } });
        const validate = ajv.compile(read(schema));
        if (!validate(read(report))) throw new Error(ajv.errorsText(validate.errors));
        const wrong = read(report);
        wrong.tools[0].experiments[0].verdict = "fine";
        if (validate(wrong)) throw new Error("the schema accepts anything");
    "#;
    let checked = Command::new("node").args(["-e", script, MODULES]).args([&schema, report]).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

#[test]
fn the_filesystem_server_tells_who_moves_a_file_again_that_it_failed() {
    let stage = Stage::new();
    let files = stage.path("files").display().to_string();
    std::fs::create_dir(&files).unwrap();
    let arguments = stage.path("arguments.toml");
    let text = r#"
        [tools.move_file]
        arguments = { source = "{directory}/{unique}.txt", destination = "{directory}/{unique}.moved" }
        before = [{ tool = "write_file", arguments = { path = "{directory}/{unique}.txt", content = "{unique}" } }]
    "#;
    std::fs::write(&arguments, text).unwrap();
    let tools = ["--tool", "write_file", "--tool", "move_file", "--experiment", "twice,lost-answer", "--repeat", "1"];
    let own = [&tools[..], &["--watch", &files, "--arguments", arguments.to_str().unwrap()]].concat();
    let (ended, report) = audit(&stage, &own, "server-filesystem", &[&files]);
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert!(ended.stderr.contains("real calls are made"), "{ended:?}");
    for (tool, experiment, wanted) in [
        ("write_file", "twice", "safe"),
        ("write_file", "lost-answer", "safe"),
        ("move_file", "twice", "safe"),
        ("move_file", "lost-answer", "wrong-record"),
    ] {
        assert_eq!(verdict(&report, tool, experiment), wanted, "{tool} {experiment}: {report:#}");
    }
    assert!(
        ended.text().contains("Found: 1 experiments with duplicates or wrong records, 0 untrue claims."),
        "{ended:?}"
    );
    check_schema(&stage, &stage.path("report.json"));
}

#[test]
fn the_memory_server_loses_updates_that_are_made_at_once() {
    let mut stage = Stage::new();
    let home = stage.path("memory").display().to_string();
    std::fs::create_dir(&home).unwrap();
    stage.set("MEMORY_FILE_PATH", format!("{home}/memory.jsonl"));
    // A race: in one of three runs, eight calls at once are sure to meet.
    let own = ["--tool", "create_entities", "--experiment", "twice,different-at-once", "--watch", &home];
    let (ended, report) = audit(&stage, &own, "server-memory", &[]);
    assert_eq!(verdict(&report, "create_entities", "twice"), "safe", "{report:#}");
    assert_eq!(verdict(&report, "create_entities", "different-at-once"), "wrong-record", "{report:#}");
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
}

#[test]
fn the_everything_server_only_reads_where_it_says_so() {
    let stage = Stage::new();
    let watched = stage.path("watched").display().to_string();
    std::fs::create_dir(&watched).unwrap();
    let own = ["--tool", "echo,get-sum", "--experiment", "twice,concurrent", "--repeat", "1", "--watch", &watched];
    let (ended, report) = audit(&stage, &own, "server-everything", &[]);
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    assert_eq!(report["tools"][0]["claims"][0]["found"], "held", "{report:#}");
    // Nothing to tell it by; and a tool that isn't there.
    let (ended, _) = audit(&stage, &["--tool", "echo"], "server-everything", &[]);
    assert_eq!(ended.status.code(), Some(3), "{ended:?}");
    std::fs::remove_file(stage.path("report.json")).unwrap();
    let mut argv: Vec<OsString> = ["audit", "--tool", "nothing", "--", "node"].map(OsString::from).to_vec();
    argv.insert(0, settled().into());
    argv.push(format!("{MODULES}/@modelcontextprotocol/server-everything/dist/index.js").into());
    let ended = stage.run(&argv);
    assert_eq!(ended.status.code(), Some(2), "{ended:?}");
    assert!(ended.stderr.contains("the server has no tool `nothing`; it has: echo"), "{ended:?}");
}

//! What tools are called with.

use std::io::Write;

use settled_audit::{ArgumentsFile, Experiment, Verdict};

use super::{Server, audit, of, report};

/// A file with this in it.
pub(super) fn file(text: &str) -> ArgumentsFile {
    load(text, ".toml").unwrap()
}

fn load(text: &str, suffix: &str) -> Result<ArgumentsFile, String> {
    let mut file = tempfile::Builder::new().suffix(suffix).tempfile().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    ArgumentsFile::load(file.path()).map_err(|error| error.to_string())
}

#[test]
fn toml_and_json_say_the_same() {
    let toml = file("[tools.put]\narguments = { id = \"{unique}\" }\n[observer]\nall = true");
    let json = load(r#"{"tools": {"put": {"arguments": {"id": "{unique}"}}}, "observer": {"all": true}}"#, ".json");
    assert_eq!(Ok(toml), json);
}

#[test]
fn mistakes_are_named() {
    let unknown = load("[tools.put]\narguments = { id = \"{uniqe}\" }", ".toml").unwrap_err();
    assert!(unknown.contains("tools.put: {uniqe} is none of {unique}, {number}, {uuid}, {directory}"), "{unknown}");
    let field = load("[tools.put]\nargument = {}", ".toml").unwrap_err();
    assert!(field.contains("unknown field `argument`"), "{field}");
    assert!(load("{", ".json").is_err());
    // A brace is just a brace.
    assert!(load("[tools.put]\narguments = { id = \"{\\\"a\\\": {}}\" }", ".toml").is_ok());
}

#[test]
fn a_file_that_names_what_the_server_does_not_have() {
    let server = Server::new("");
    let mut options = server.options(&["put"]);
    options.arguments = file("[tools.putt]\narguments = {}");
    let error = audit(&options).unwrap_err();
    assert!(error.is_input() && error.to_string().contains("no tool `putt`"), "{error}");
}

#[test]
fn a_directory_that_is_not_watched() {
    let server = Server::new("");
    let mut options = server.options(&["put"]);
    options.watch.clear();
    options.arguments = file("[tools.put]\narguments = { id = \"{directory}\" }");
    let error = audit(&options).unwrap_err();
    assert!(error.is_input() && error.to_string().contains("--watch DIR"), "{error}");
}

#[test]
fn arguments_that_are_the_same_each_time() {
    let server = Server::new("");
    let mut options = server.options(&["put", "append"]);
    options.arguments = file("[tools.put]\narguments = { id = \"a\" }\n[tools.append]\narguments = { id = \"a\" }");
    let report = report(&options);
    let [put, append] = ["put", "append"].map(|name| report.tools.iter().find(|tool| tool.name == name).unwrap());
    for experiment in [Experiment::Twice, Experiment::LostAnswer, Experiment::Restart, Experiment::Concurrent] {
        assert_eq!(of(put, experiment).verdict, Verdict::Safe, "{put:?}");
        assert_eq!(of(append, experiment).verdict, Verdict::Duplicate, "{append:?}");
    }
    assert_eq!(of(put, Experiment::DifferentAtOnce).verdict, Verdict::NotTried);
}

#[test]
fn a_schema_that_no_arguments_can_be_made_for() {
    let tool = Server::new("").audit("odd");
    assert!(of(&tool, Experiment::Once).because.contains("give them in a file"), "{tool:?}");
}

//! No crate of the workspace has `unsafe` code, and each forbids it: so neither Miri nor a sanitizer has anything to look for
//! here. (Dependencies have some.)
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_path_buf()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The directories that the workspace names as its members.
fn members() -> Vec<String> {
    let text = read(&root().join("Cargo.toml"));
    let (_, list) = text.split_once("members = [").unwrap();
    let (list, _) = list.split_once(']').unwrap();
    let named = |line: &str| Some(line.trim().trim_end_matches(',').strip_prefix('"')?.strip_suffix('"')?.to_owned());
    list.lines().filter_map(named).collect()
}

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && !name.starts_with('.') && name != "target" && name != "node_modules" {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The code of a line, without its comment. (That a string holds two slashes can only make this stricter.)
fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or_default()
}

/// The words of a line that are not in strings.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let unquoted = line.split('"').step_by(2);
    unquoted.flat_map(|piece| piece.split(|char: char| !char.is_alphanumeric() && char != '_'))
}

#[test]
fn the_workspace_forbids_unsafe_code_and_every_member_inherits_that() {
    let workspace = read(&root().join("Cargo.toml"));
    assert!(workspace.contains("[workspace.lints.rust]\nunsafe_code = \"forbid\""));
    let members = members();
    assert!(members.len() > 20, "{members:?}");
    for member in members {
        let manifest = read(&root().join(&member).join("Cargo.toml"));
        assert!(manifest.contains("[lints]\nworkspace = true\n"), "{member}: its lints are not the workspace's");
    }
}

#[test]
fn no_source_has_unsafe_code_or_allows_it() {
    let mut files = Vec::new();
    ["model", "impl", "tests"].iter().for_each(|part| sources(&root().join(part), &mut files));
    assert!(files.len() > 300, "only {} files", files.len());
    for file in files {
        for (number, line) in (1..).zip(read(&file).lines()) {
            let found = words(code(line)).any(|word| word == "unsafe" || word == "unsafe_code");
            assert!(!found, "{}:{number}: {line}", file.display());
        }
    }
}

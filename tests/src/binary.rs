//! The program under test.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The `settled` program: the one that `SETTLED_BIN` names (it needs the feature `fault-points`), else built here, once,
/// into the target directory and with the profile of the running test.
///
/// # Panics
/// If it can't be built.
pub fn settled() -> &'static Path {
    static BINARY: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let binary = BINARY.get_or_init(|| match std::env::var_os("SETTLED_BIN").map(PathBuf::from) {
        Some(given) if given.is_file() => Ok(given),
        Some(given) => Err(format!("SETTLED_BIN: there is no file {}", given.display())),
        None => build("settled-cli", "settled"),
    });
    match binary {
        Ok(binary) => binary,
        Err(problem) => panic!("{problem}"),
    }
}

/// Builds a program of a package of this workspace, with the feature `fault-points`, into the target directory and with the
/// profile of the running test.
///
/// # Errors
/// With what cargo says, if it can't be built.
///
/// # Panics
/// If this is not a test that cargo runs.
pub fn build(package: &str, program: &str) -> Result<PathBuf, String> {
    // …/TARGET/PROFILE/deps/TEST
    let test = std::env::current_exe().expect("the running test");
    let directory = test.ancestors().nth(2).expect("the test lies in a profile's directory");
    let target = directory.parent().expect("the target directory");
    let profile = match directory.file_name().and_then(|name| name.to_str()).expect("a profile") {
        "debug" => "dev",
        other => other,
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args(["build", "--quiet", "--package", package, "--features", "fault-points", "--profile", profile])
        .env("CARGO_TARGET_DIR", target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    if !built.status.success() {
        return Err(format!("{program} can't be built:\n{}", String::from_utf8_lossy(&built.stderr)));
    }
    Ok(directory.join(program))
}

//! The program `settled`, whose parts the harness starts.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// The one that `SETTLED_BIN` names, else built here, once, as the other tests have it.
pub fn settled() -> PathBuf {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| std::env::var_os("SETTLED_BIN").map_or_else(build, PathBuf::from)).clone()
}

fn build() -> PathBuf {
    // …/TARGET/PROFILE/deps/TEST
    let test = std::env::current_exe().unwrap();
    let directory = test.ancestors().nth(2).unwrap();
    let profile = match directory.file_name().and_then(|name| name.to_str()).unwrap() {
        "debug" => "dev",
        other => other,
    };
    let built = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--quiet", "--package", "settled-cli", "--features", "fault-points", "--profile", profile])
        .env("CARGO_TARGET_DIR", directory.parent().unwrap())
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(built.status.success(), "settled can't be built:\n{}", String::from_utf8_lossy(&built.stderr));
    directory.join("settled")
}

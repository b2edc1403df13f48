//! Installed copies: what counts as one.

use std::fs;
use std::path::Path;

use settled_profile::install::{Cache, InstallError, Wanted};
use settled_profile::{Cell, files};
use tempfile::TempDir;

fn adapter(directory: &Path, install: &str) -> Wanted {
    fs::create_dir_all(directory).unwrap();
    let text = format!(
        "name = \"own\"\nabout = \"own\"\nframework = \"own\"\nversion = \"1.0.0\"\nruntime = [\"true\"]\nstart = [\"true\"]\nresume = [\"true\"]\nworkloads = [\"steps\"]\ninstall = {install}\n"
    );
    fs::write(directory.join("adapter.toml"), text).unwrap();
    Wanted::named(&directory.display().to_string()).unwrap()
}

#[test]
fn a_copy_counts_once_its_commands_are_done_and_as_long_as_its_files_stay() {
    let (own, cached) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let cache = Cache::at(cached.path().to_owned());
    let failing =
        adapter(&own.path().join("own"), r#"[["touch", "first"], ["sh", "-c", "echo no such package >&2; exit 7"]]"#);
    let error = cache.install(&failing, |_| {}).unwrap_err();
    assert!(matches!(&error, InstallError::Command { says, .. } if says.contains("no such package")), "{error}");
    assert!(cached.path().join("own@1.0.0/first").exists());
    assert!(!cache.has(&failing).unwrap(), "half of an installation is none");
    let missing = cache.installed(&failing).unwrap_err();
    assert!(missing.to_string().contains("settled profile install"), "{missing}");

    let good = adapter(&own.path().join("own"), r#"[["sh", "-c", "echo $PROFILE_VERSION {version} >> versions"]]"#);
    let installed = cache.install(&good, |_| {}).unwrap();
    let versions = || fs::read_to_string(installed.directory.join("versions")).unwrap();
    assert_eq!(versions(), "1.0.0 1.0.0\n");
    assert!(!installed.directory.join("first").exists(), "what the first try left is gone");
    cache.install(&good, |_| {}).unwrap();
    assert_eq!(versions(), "1.0.0 1.0.0\n", "it is not installed twice");

    fs::write(own.path().join("own").join("more.py"), "").unwrap();
    let changed = Wanted::named(&own.path().join("own").display().to_string()).unwrap();
    let error = cache.installed(&changed).unwrap_err();
    assert!(error.to_string().contains("other files than these"), "{error}");
    cache.install(&changed, |_| {}).unwrap();
    assert!(cache.has(&changed).unwrap());
}

#[test]
fn another_version_is_a_copy_of_its_own() {
    let (own, cached) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let cache = Cache::at(cached.path().to_owned());
    adapter(&own.path().join("own"), r#"[["sh", "-c", "echo {version} > version"]]"#);
    let other = Wanted::named(&format!("{}@2.0.0", own.path().join("own").display())).unwrap();
    let installed = cache.install(&other, |_| {}).unwrap();
    assert_eq!(installed.version, "2.0.0");
    assert_eq!(fs::read_to_string(cached.path().join("own@2.0.0/version")).unwrap(), "2.0.0\n");
    assert!(!cached.path().join("own@1.0.0").exists());
}

#[test]
fn an_unknown_adapter_is_told_with_those_that_there_are() {
    let error = Wanted::named("langraph").unwrap_err().to_string();
    assert!(error.contains("langgraph") && error.contains("template"), "{error}");
}

#[test]
fn every_shipped_adapter_can_be_read_and_says_what_it_leaves_out() {
    for name in files::shipped() {
        let adapter = Wanted::named(&name).unwrap().adapter().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(adapter.name, name);
        for variant in adapter.ways() {
            let tried = Cell::ALL.iter().filter(|cell| adapter.left_out(&variant, **cell).is_none()).count();
            assert!(tried > 5, "{name}/{} is tried in {tried} cells only", variant.name);
            assert!(variant.without.values().all(|reason| reason.len() > 10), "{name}: a reason is missing");
        }
    }
}

#[test]
fn the_directory_has_the_adapter_s_name() {
    let (own, cached) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let other = adapter(&own.path().join("other"), "[]");
    let error = Cache::at(cached.path().to_owned()).installed(&other).unwrap_err().to_string();
    assert!(error.contains("`name` is `own`, but the directory is called `other`"), "{error}");
}

#[test]
fn files_of_the_kit_are_put_beside_an_adapter_that_names_them() {
    let (own, cached) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let directory = own.path().join("own");
    let made = adapter(&directory, "[]\nkit = [\"settled_kit.py\"]");
    let installed = Cache::at(cached.path().to_owned()).installed(&made).unwrap();
    assert!(fs::read_to_string(installed.directory.join("settled_kit.py")).unwrap().contains("PROFILE_TOOL_URL"));
    let named = || Wanted::named(&directory.display().to_string()).unwrap_err().to_string();
    fs::write(directory.join("settled_kit.py"), "").unwrap();
    assert!(named().contains("has a file of that name itself; the kit has client.mjs"), "{}", named());
    let text = fs::read_to_string(directory.join("adapter.toml")).unwrap();
    fs::write(directory.join("adapter.toml"), text.replace("settled_kit.py", "kit.rb")).unwrap();
    assert!(named().contains("`kit` names `kit.rb`: there is no such file"), "{}", named());
}

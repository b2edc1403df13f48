//! The results in `tests/profiles` are what the tools of this version read, and leave out nobody.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use settled_profile::install::Wanted;
use settled_profile::report::{compare, html, read};
use settled_profile::{Cell, Report, files};

fn committed(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/profiles").join(name)
}

fn both() -> [Report; 2] {
    ["profiles.json", "profiles-behind-settled.json"].map(|name| read(&committed(name)).unwrap())
}

#[test]
fn they_are_as_the_published_schema_says() {
    let schema = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("schema/profile.schema.json"));
    let schema = jsonschema::validator_for(&serde_json::from_str(&schema.unwrap()).unwrap()).unwrap();
    for name in ["profiles.json", "profiles-behind-settled.json", "langgraph-1.2.9.json"] {
        let text = std::fs::read_to_string(committed(name)).unwrap();
        let report = serde_json::from_str(&text).unwrap();
        let wrong: Vec<_> = schema.iter_errors(&report).map(|error| error.to_string()).collect();
        assert_eq!(wrong, [] as [&str; 0], "{name}");
        // Nobody is told how its maker's machine is called inside.
        for private in ["/root/", "/home/", "/tmp/"] {
            assert!(!text.contains(private), "{name} has {private}");
        }
    }
}

/// Every variant that is shipped was measured in every cell that it can run, before and behind `settled`.
#[test]
fn nobody_is_left_out() {
    let mut shipped = BTreeSet::new();
    for name in files::shipped() {
        let adapter = Wanted::named(&name).unwrap().adapter().unwrap();
        for variant in adapter.ways() {
            let tried = Cell::ALL.iter().filter(|cell| adapter.left_out(&variant, **cell).is_none());
            shipped.extend(tried.map(|cell| (name.clone(), variant.name.clone(), cell.name())));
        }
    }
    for (report, behind) in both().iter().zip([None, Some("settled")]) {
        let mut measured = BTreeSet::new();
        for profile in &report.profiles {
            assert_eq!(profile.behind.as_deref(), behind, "{}", profile.adapter);
            let cells = profile.cells.iter().filter(|cell| !cell.runs.is_empty());
            measured.extend(cells.map(|cell| (profile.adapter.clone(), profile.variant.clone(), cell.cell.name())));
        }
        let lacking: Vec<_> = shipped.difference(&measured).collect();
        assert!(lacking.is_empty(), "behind {behind:?}: measure them with `tests/run --profiles`: {lacking:?}");
    }
}

#[test]
fn they_can_be_compared() {
    let both = both();
    let text = compare(&both);
    assert!(text.contains(" cells tried before and behind settled: "), "{text}");
    assert!(html(&both).contains("langgraph"));
}

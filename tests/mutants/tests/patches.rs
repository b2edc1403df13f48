//! The patches fit the code, and say what they must.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeSet;
use std::fs;

use settled_explorer::PropertyName;
use settled_mutants::{Area, Layer, Mutant, MutantError, all, checks, mutated, patches, root};

fn mutants() -> Vec<Mutant> {
    all(&patches()).expect("every patch says what it must")
}

#[test]
fn every_patch_applies_and_changes_little() {
    for mutant in mutants() {
        let (before, after) = mutated(&root(), &mutant).unwrap_or_else(|error| panic!("{error}"));
        assert_ne!(before, after);
        let changed = |sign: &str, head: &str| {
            mutant.patch.lines().filter(|line| line.starts_with(sign) && !line.starts_with(head)).count()
        };
        let (removed, added) = (changed("-", "---"), changed("+", "+++"));
        assert!(removed.max(added) <= 11, "{} changes {removed} lines into {added}", mutant.id());
    }
}

#[test]
fn every_area_has_its_mutants() {
    let mutants = mutants();
    assert!(mutants.len() >= 40, "{}", mutants.len());
    for (area, at_least) in [(Area::Core, 16), (Area::Engine, 12), (Area::Ledger, 10), (Area::Proxy, 8)] {
        let count = mutants.iter().filter(|mutant| mutant.area == area).count();
        assert!(count >= at_least, "{}: {count}", area.name());
        let sampled = mutants.iter().filter(|mutant| mutant.area == area && mutant.sample).count();
        assert!(sampled <= 1, "{}: one for the sample is enough", area.name());
    }
    let titles: BTreeSet<&str> = mutants.iter().map(|mutant| &*mutant.title).collect();
    assert_eq!(titles.len(), mutants.len(), "two mutants have one title");
    let changes: BTreeSet<&str> = mutants.iter().map(|mutant| &*mutant.patch).collect();
    assert_eq!(changes.len(), mutants.len(), "two mutants are the same");
}

/// All but those of devices, which merge on their own, and the one that says no more than another.
#[test]
fn every_property_of_calls_is_broken_by_one() {
    let broken: BTreeSet<PropertyName> = mutants().into_iter().flat_map(|mutant| mutant.breaks).collect();
    let others = [PropertyName::Convergence, PropertyName::CausalRespect, PropertyName::CanSettle];
    for property in PropertyName::ALL {
        assert!(broken.contains(property) != others.contains(property), "{}", property.name());
    }
}

#[test]
fn the_layer_that_finds_a_mutant_is_among_those_that_can_see_it() {
    for mutant in mutants() {
        let layers: BTreeSet<Layer> = checks(&mutant.file).iter().map(|check| check.layer).collect();
        assert!(mutant.layer == Layer::Types || layers.contains(&mutant.layer), "{}: {layers:?}", mutant.id());
    }
}

/// The table is of these mutants, and says that each was found.
#[test]
fn the_table_is_complete() {
    let table = fs::read_to_string(patches().join("TABLE.md")).expect("made by `--write-table`");
    for mutant in mutants() {
        let start = format!("| {}: {} |", mutant.id(), mutant.title);
        let row = table.lines().find(|line| line.starts_with(&start));
        let row = row.unwrap_or_else(|| panic!("not in TABLE.md: {}; make it anew with `--write-table`", mutant.id()));
        let cells: Vec<&str> = row.split(" | ").collect();
        assert_eq!(cells.get(2).copied(), Some(mutant.layer.name()), "{row}");
    }
}

#[test]
fn a_patch_that_does_not_fit_says_so() {
    let mut mutant = mutants().swap_remove(0);
    let tree = tempfile::tempdir().unwrap();
    let file = tree.path().join(&mutant.file);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "fn other() {}\n").unwrap();
    let error = mutated(tree.path(), &mutant).unwrap_err();
    assert!(matches!(&error, MutantError::Stale { .. }), "{error}");
    assert!(error.to_string().contains("the code has changed: renew the patch"), "{error}");
    mutant.file = "no/such/file.rs".to_owned();
    assert!(matches!(mutated(tree.path(), &mutant), Err(MutantError::Stale { .. })));
}

#[test]
fn a_patch_must_say_what_it_breaks_and_what_finds_it() {
    let diff = "--- a/x.rs\n+++ b/x.rs\n@@ -1 +1 @@\n-a\n+b\n";
    let parse = |head: &str| Mutant::parse(Area::Core, "x", &format!("{head}\n{diff}"));
    let good = "Title: T\nBreaks: at-most-once, no overlap\nLayer: process test\nSample: yes";
    let mutant = parse(good).unwrap();
    assert_eq!((mutant.file.as_str(), mutant.layer, mutant.breaks.len()), ("x.rs", Layer::Process, 2));
    assert_eq!(mutant.broken(), "at-most-once, no overlap");
    for (from, to, says) in [
        ("Title: T\n", "", "no line `Title"),
        ("at-most-once", "at-most-twice", "no property"),
        ("process test", "hope", "no layer"),
        ("process test", "types", "Error"),
        ("Sample: yes", "Error: E0451", "Error"),
        ("Sample: yes", "Colour: red", "not known"),
    ] {
        let error = parse(&good.replace(from, to)).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    assert!(Mutant::parse(Area::Core, "x", good).unwrap_err().to_string().contains("--- a/FILE"));
}

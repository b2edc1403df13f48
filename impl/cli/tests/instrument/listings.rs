//! `settled protocols`, `settled properties`, `settled faults`.

use serde_json::Value;
use settled_model::{Fault, Limits, PropertyName, check, library};

use crate::{settled, stdout};

#[test]
fn every_shipped_protocol_is_listed_once_and_can_be_shown() {
    let directory = tempfile::tempdir().unwrap();
    let listed = stdout(&settled(directory.path(), &["protocols"]));
    assert_eq!(listed, stdout(&settled(directory.path(), &["protocols", "list"])));
    for (name, text) in library::SHIPPED {
        let rows = listed.lines().filter(|line| line.trim_start().split("  ").next() == Some(name));
        assert_eq!(rows.count(), 1, "{name}: {listed}");
        let shown = stdout(&settled(directory.path(), &["protocols", "show", name]));
        assert_eq!(shown.trim_end(), text.trim_end());
    }
    let groups: Vec<_> = listed.lines().filter(|line| line.ends_with(':') && !line.starts_with(' ')).collect();
    assert_eq!(groups.len(), 4, "{groups:?}");
    let ours = listed.split("This project’s policies:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    assert!(ours.contains("  settled-sealable ") && !ours.contains("mcp-"), "{ours}");
}

#[test]
fn every_property_and_fault_is_explained() {
    let directory = tempfile::tempdir().unwrap();
    let properties = stdout(&settled(directory.path(), &["properties"]));
    for property in PropertyName::ALL {
        assert!(properties.contains(&format!("{}: {}\n", property.name(), property.says())), "{properties}");
        assert!(properties.contains(property.means()), "{properties}");
    }
    let faults = stdout(&settled(directory.path(), &["faults"]));
    for fault in Fault::ALL {
        let row = faults.lines().find(|line| line.split("  ").next() == Some(fault.name()));
        assert!(row.is_some_and(|row| row.ends_with(fault.says())), "{}: {faults}", fault.name());
    }
    let listed: Value = serde_json::from_slice(&settled(directory.path(), &["faults", "--json"]).stdout).unwrap();
    assert_eq!(listed.as_array().unwrap().len(), Fault::ALL.len());
}

/// The protocols that are said to violate a property alone do. (What can't settle doesn't settle.)
#[test]
fn the_examples_of_properties_violate_them_alone() {
    let directory = tempfile::tempdir().unwrap();
    let listed: Value = serde_json::from_slice(&settled(directory.path(), &["properties", "--json"]).stdout).unwrap();
    for (property, entry) in PropertyName::ALL.iter().zip(listed.as_array().unwrap()) {
        let name = entry["violated_by"].as_str().expect("each has one");
        let report = check(&library::load(name).unwrap(), Limits::default(), |_| {}).unwrap();
        let violated: Vec<_> = report.violations().map(|(property, _)| property).collect();
        let alone = match property {
            PropertyName::CanSettle => vec![PropertyName::Settles, PropertyName::CanSettle],
            alone => vec![*alone],
        };
        assert_eq!(violated, alone, "{name}");
    }
}

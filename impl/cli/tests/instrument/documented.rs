//! What is documented is what is so.

use std::collections::BTreeMap;

use serde_json::Value;
use settled_model::{Description, Fault, PropertyName, library, parse};

use crate::settled;

const README: &str = include_str!("../../../../README.md");
const REFERENCE: &str = include_str!("../../../../model/README.md");

/// The first and the last cell of each row of a table that begins with a name in backticks.
fn rows(text: &str) -> BTreeMap<String, String> {
    let cells = text.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    let last = |rest: &str| rest.trim_end_matches('|').rsplit(" | ").next().unwrap_or("").trim().to_owned();
    cells.map(|(name, rest)| (name.to_owned(), last(rest))).collect()
}

#[test]
fn the_readme_has_the_verdict_of_every_shipped_protocol() {
    let directory = tempfile::tempdir().unwrap();
    let reports: Value =
        serde_json::from_slice(&settled(directory.path(), &["check", "--all", "--json"]).stdout).unwrap();
    let table = README.split("| protocol | what it is | verdict |").nth(1).unwrap().split("</details>").next().unwrap();
    let documented = rows(table);
    for report in reports.as_array().unwrap() {
        let name = report["protocol"]["name"].as_str().unwrap();
        let properties = report["properties"].as_array().unwrap().iter();
        let violated: Vec<_> = properties
            .filter(|property| property["verdict"] == "violated")
            .map(|property| {
                let steps = property["counterexample"]["steps"].as_array().unwrap().len();
                format!("{} {steps}", property["property"].as_str().unwrap())
            })
            .collect();
        let verdict = if violated.is_empty() { "all hold".to_owned() } else { format!("✗ {}", violated.join(", ")) };
        assert_eq!(documented.get(name), Some(&verdict), "{name}");
    }
    assert_eq!(documented.len(), library::SHIPPED.len());
}

#[test]
fn the_reference_has_every_field_fault_and_property() {
    let described = parse("all", "name = \"all\"\nabout = \"all\"").unwrap();
    let Value::Object(tables) =
        serde_json::to_value(Description { devices: Some(Default::default()), ..described }).unwrap()
    else {
        panic!("a table")
    };
    for (table, fields) in &tables {
        assert!(REFERENCE.contains(&format!("`{table}`")) || REFERENCE.contains(&format!("`[{table}]`")), "{table}");
        for field in fields.as_object().into_iter().flatten().map(|(field, _)| field) {
            assert!(REFERENCE.contains(&format!("`{field}`")), "{table}.{field}");
        }
    }
    for rule in ["hold-unknown", "doubt-errors", "wait-for-quiet", "check-arguments", "keep-cancelled", "declared"] {
        assert!(REFERENCE.contains(rule), "{rule}");
    }
    for fault in Fault::ALL {
        assert!(REFERENCE.contains(&format!("| `{}` | {} |", fault.name(), fault.says())), "{fault:?}");
    }
    for property in PropertyName::ALL {
        let row = format!("| {} | {} | {} |", property.name(), property.says(), property.means());
        assert!(REFERENCE.contains(&row), "{property:?}");
    }
}

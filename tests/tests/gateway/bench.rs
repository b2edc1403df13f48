//! `settled bench gateway`, as its users meet it.

use serde_json::Value;
use settled_tests::Stage;

#[test]
fn everything_is_measured_and_nothing_is_left() {
    let stage = Stage::new();
    let directory = stage.path("bench");
    std::fs::create_dir(&directory).unwrap();
    let directory_name = directory.to_str().unwrap();
    let words = ["bench", "gateway", "--quick", "--span", "200ms", "--json", "--dir", directory_name];
    let ended = stage.run(&stage.settled(&words));
    assert!(ended.status.success(), "{ended:#?}");
    let report: Value = serde_json::from_str(&ended.lines.join("\n")).unwrap();
    let rows = report["rows"].as_array().unwrap();
    for (name, call) in [
        ("no proxy", "passed"),
        ("settled", "passed"),
        ("settled, file", "first"),
        ("settled, file", "replay"),
        ("nginx", "passed"),
        ("nginx + Redis", "first"),
        ("nginx + Redis", "replay"),
    ] {
        // One that is not installed is named, and what is missing.
        let skipped = report["skipped"].as_array().unwrap().iter().any(|one| {
            name.starts_with(one[0].as_str().unwrap()) && one[1].as_str().unwrap().contains("apt-get install")
        });
        let Some(row) = rows.iter().find(|row| row["name"] == name && row["call"] == call) else {
            assert!(skipped && name.starts_with("nginx"), "{name} is missing: {report:#}");
            continue;
        };
        let runs = row["runs"].as_array().unwrap();
        assert_eq!(runs.len(), 3, "1, 16 and 128 in flight");
        // On a busy machine, a call through a proxy may take longer than it is measured here.
        let calls: u64 = runs.iter().map(|run| run["calls"].as_u64().unwrap()).sum();
        assert!(calls > 0 || name != "no proxy", "{row:#}");
    }
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0, "something was left");
}

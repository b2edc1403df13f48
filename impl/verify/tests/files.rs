//! Evidence as it lies on disk: histories of several processes, parts that were put aside, lines that were cut.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use common::*;
use settled::protocol::{Key, ToolKind};
use settled::{Engine, EngineOptions, History, JsonLines, MemoryLedger, Operation};
use settled_verify::{Evidence, Property, Report, Verdict, VerifyError, read_effects, verify};

async fn judged(path: &Path) -> Result<Report, VerifyError> {
    verify(&Evidence { histories: vec![path.to_owned()], ended: true, ..Evidence::default() }).await
}

fn write(path: &Path, run: &Run) -> Vec<String> {
    let lines: Vec<String> = run.lines.iter().map(|line| serde_json::to_string(line).unwrap()).collect();
    fs::write(path, lines.join("\n") + "\n").unwrap();
    lines
}

#[tokio::test(start_paused = true)]
async fn a_file_is_read_and_findings_name_its_lines() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.jsonl");
    let run = run_of(ToolKind::Opaque).await;
    let lines = write(&path, &run);
    let report = judged(&path).await.unwrap();
    report.assert_whole();
    assert_eq!(report.lines, lines.len() as u64);
    // In another order it is the same history.
    let mut turned = lines.clone();
    turned.reverse();
    fs::write(&path, turned.join("\n") + "\n").unwrap();
    judged(&path).await.unwrap().assert_whole();
    let sent = lines.iter().position(|line| line.contains("\"sent\"")).unwrap();
    let mut twice = lines.clone();
    twice.insert(sent, lines[sent].clone());
    fs::write(&path, twice.join("\n") + "\n").unwrap();
    let report = judged(&path).await.unwrap();
    assert_eq!(report.verdict(Property::WholeHistory), Some(&Verdict::Broken));
    let place = &report.violations()[0].place;
    assert_eq!(place.lines, [format!("{}:{}", path.display(), sent + 2)]);
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["violations"][0]["property"], "whole history");
}

#[tokio::test(start_paused = true)]
async fn what_is_no_line_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.jsonl");
    let run = run_of(ToolKind::Opaque).await;
    let lines = write(&path, &run);
    // The last line was begun, and its process was killed; here another one has ended it.
    for torn in [lines.join("\n") + "\n{\"v\":2,\"at\":1", lines.join("\n") + "\n{\"v\":2,\"at\":1\n"] {
        fs::write(&path, torn).unwrap();
        let report = judged(&path).await.unwrap();
        report.assert_sound();
        assert_eq!(report.gaps().len(), 1, "{report}");
        assert!(matches!(report.verdict(Property::CoreSteps), Some(Verdict::NotJudged { .. })));
    }
    for odd in [lines[3].replace("\"v\":2", "\"v\":2,\"event\":\"odd\""), "[]".to_owned(), "\u{1}".to_owned()] {
        fs::write(&path, lines.join("\n") + "\n" + &odd + "\n").unwrap();
        let report = judged(&path).await.unwrap();
        assert_eq!(report.verdict(Property::WholeHistory), Some(&Verdict::Broken), "{odd}");
    }
    // Power failed, and the file is longer than what was written of it; another process has gone on after that.
    let zeros = "\0".repeat(5000);
    for after in [zeros.clone(), zeros.clone() + "\n"] {
        fs::write(&path, lines.join("\n") + "\n" + &after).unwrap();
        let report = judged(&path).await.unwrap();
        report.assert_sound();
        assert_eq!(report.gaps().len(), 1, "{report}");
    }
    let (first, rest) = lines.split_at(lines.len() / 2);
    fs::write(&path, first.join("\n") + "\n" + &zeros + &rest.join("\n") + "\n").unwrap();
    let report = judged(&path).await.unwrap();
    report.assert_sound();
    assert_eq!((report.lines, report.gaps().len()), (lines.len() as u64 + 1, 1), "{report}");
    // What has no line of a history in it is none.
    for other in ["{\"key\":\"a/b/c\"}\n", "rubbish\nand more\n", "\u{1}"] {
        fs::write(&path, other).unwrap();
        let error = judged(&path).await.unwrap_err();
        assert!(matches!(error, VerifyError::NoHistory { .. }), "{other}: {error}");
    }
    // Nothing at all is no run in which nothing was broken.
    fs::write(&path, "").unwrap();
    let report = judged(&path).await.unwrap();
    assert_eq!(report.gaps().len(), 1, "{report}");
    // What an older or newer version wrote is not judged by this one's rules.
    for (v, line) in [
        (1, "{\"v\":1,\"at\":5,\"by\":2,\"event\":\"started\"}".to_owned()),
        (3, lines[0].replace("\"v\":2", "\"v\":3")),
    ] {
        fs::write(&path, line + "\n").unwrap();
        let error = judged(&path).await.unwrap_err();
        assert!(matches!(error, VerifyError::Version { found, line: 1, .. } if found == v), "{error}");
    }
    let empty = tempfile::tempdir().unwrap();
    assert!(matches!(judged(empty.path()).await, Err(VerifyError::Nothing(_))));
    assert!(matches!(judged(&path.join("missing")).await, Err(VerifyError::File { .. })));
}

#[tokio::test(start_paused = true)]
async fn two_processes_and_parts_put_aside_are_one_run() {
    let directory = tempfile::tempdir().unwrap();
    let ledger = Arc::new(MemoryLedger::new());
    let mut engines = Vec::new();
    let mut histories = Vec::new();
    for name in ["one.jsonl", "two.jsonl"] {
        let path = directory.path().join(name);
        let history = Arc::new(JsonLines::append_in_parts(path, 4_096, 1_000).unwrap());
        let (options, _) = options();
        let options = EngineOptions { history: history.clone(), ..options };
        engines.push(Engine::start(ledger.clone(), options).await.unwrap());
        histories.push(history);
    }
    let policy = opaque();
    let tool = Script::new([]);
    let mut calls = Vec::new();
    for number in 0..20 {
        for engine in &engines {
            let key = Key::new("test", "charge", format!("order {number}")).unwrap();
            let operation = Operation { key, ..operation(policy) };
            calls.push(spawn_call(engine, operation, &tool));
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!(tool.effects(), 20);
    for (engine, history) in engines.iter().zip(&histories) {
        engine.retire().await.unwrap();
        history.flush();
    }
    assert!(directory.path().join("one.jsonl.1").exists());
    let report = judged(directory.path()).await.unwrap();
    report.assert_whole();
    assert_eq!((report.processes, report.operations), (2, 20), "{report}");
    assert!(report.lines > 160, "{report}");
    // One process alone tells of answers that rest on what the other one stored.
    let alone = Evidence { histories: vec![directory.path().join("two.jsonl")], ..Evidence::default() };
    let report = verify(&alone).await.unwrap();
    report.assert_sound();
    // The ledger has what its history would have told.
    let evidence = Evidence {
        histories: vec![directory.path().join("two.jsonl")],
        ledger: Some(ledger.clone()),
        ended: true,
        ..Evidence::default()
    };
    let with_ledger = verify(&evidence).await.unwrap();
    with_ledger.assert_whole();
    assert!(with_ledger.records > report.records || report.gaps().is_empty());
    // The oldest part is gone, as it will be one day.
    let oldest = (1..).map(|part| directory.path().join(format!("one.jsonl.{part}"))).take_while(|part| part.exists());
    fs::remove_file(oldest.last().unwrap()).unwrap();
    let report = judged(directory.path()).await.unwrap();
    report.assert_sound();
    assert!(!report.gaps().is_empty(), "{report}");
}

#[tokio::test]
async fn a_journal_of_effects_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("effects");
    fs::write(&path, "{\"key\":\"shop/charge/order%207\"}\n\n{\"key\":\"a/b/c\",\"generation\":3,\"attempt\":1}\n")
        .unwrap();
    let effects = read_effects(&path).unwrap();
    assert_eq!(effects[0].key, Key::new("shop", "charge", "order 7").unwrap());
    assert_eq!((effects.len(), effects[1].attempt), (2, Some(1)));
    fs::write(&path, "{\"id\":\"order 7\"}\n").unwrap();
    assert!(matches!(read_effects(&path), Err(VerifyError::Effect { line: 1, .. })));
}

/// A history that nothing stops from growing.
#[tokio::test(start_paused = true)]
async fn nothing_is_recorded_where_nothing_is_wanted() {
    assert!(!settled::NoHistory.wanted());
    let lines = settled_verify::Lines::default();
    assert!(lines.wanted() && lines.lines().is_empty());
}

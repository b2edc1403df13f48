//! What the history tells of a call.

use std::sync::Arc;
use std::time::Duration;

use crate::support::*;
use settled::protocol::{Ends, ToolKind};
use settled::{EngineOptions, Happened, HistoryLine, JsonLines, Ledger};

fn read(path: &std::path::Path) -> Vec<HistoryLine> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The lines in short: the name, and what tells them apart.
fn story(lines: &[HistoryLine]) -> Vec<String> {
    let story = lines.iter().map(|line| match &line.what {
        Happened::Started => "started".to_owned(),
        Happened::Asked { .. } => "asked".to_owned(),
        Happened::Joined { .. } => "joined".to_owned(),
        Happened::Stored { state, because, .. } => format!("stored {state}: {because}"),
        Happened::Sent { attempt, .. } => format!("sent {attempt}"),
        Happened::Replied { reply, .. } => format!("replied {reply}"),
        Happened::Lost { how, .. } => format!("lost: {how}"),
        Happened::Answered { answer, replayed, .. } => format!("answered {answer} {replayed}"),
        Happened::Escalated { .. } => "escalated".to_owned(),
        Happened::Delivered { .. } => "delivered".to_owned(),
        other => format!("{other:?}"),
    });
    story.collect()
}

#[tokio::test(start_paused = true)]
async fn a_call_is_told_from_its_question_to_its_delivery() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.jsonl");
    let history = Arc::new(JsonLines::append_to(&path).unwrap());
    let (options, alerts) = options();
    let world = World::with(EngineOptions { history: history.clone(), ..options }, alerts).await;
    let policy = ends(ToolKind::Opaque, Ends::OnDelivery);
    let tool = Script::new([Play::Effect(TIMEOUT + Duration::from_secs(1), result("late"))]);
    let first = spawn_call(&world.engine, operation(policy), &tool);
    world.until("dispatched").await;
    let second = spawn_call(&world.engine, operation(policy), &tool);
    first.await.unwrap().unwrap();
    second.await.unwrap().unwrap();
    world.engine.idle().await;
    let third = world.engine.call(operation(policy), tool.clone()).await.unwrap();
    world.engine.delivering(&third, policy).await.confirm(std::time::Duration::ZERO).await.unwrap();

    history.flush();
    let lines = read(&path);
    assert_eq!(
        story(&lines),
        [
            "started",
            "asked",
            "stored dispatched: call",
            "sent 1",
            "asked",
            "joined",
            "lost: timed out",
            "stored unknown: timed out",
            "escalated",
            "stored escalated: escalated",
            "answered unknown false",
            "answered unknown true",
            "replied result",
            "stored settled: result",
            "asked",
            "answered done true",
            "stored settled: delivered",
            "delivered",
        ]
    );
    assert!(lines[1..].iter().all(|line| line.key == Some(key()) && line.by == world.engine.epoch()));

    // Versions in the history are those of the ledger's own record of changes.
    let versions: Vec<_> = lines
        .iter()
        .filter_map(|line| match &line.what {
            Happened::Stored { record, .. } => Some(record.version()),
            _ => None,
        })
        .collect();
    let kept = world.ledger.history(&key()).await.unwrap();
    assert_eq!(versions, kept.iter().map(|change| change.record.version()).collect::<Vec<_>>());
}

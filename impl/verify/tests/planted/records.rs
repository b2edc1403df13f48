//! What was recorded, and when it was sent.

use std::time::Duration;

use settled::protocol::{Ends, Epoch, Key, Policy, Time, ToolKind};
use settled::{Happened, HistoryLine, Ledger, Operation, Resource};
use settled_verify::{Effect, Options, Property, Verdict, Verifier};

use crate::common::*;
use crate::*;

#[tokio::test(start_paused = true)]
async fn intent_first() {
    let lines = quick(ToolKind::Opaque).await;
    let (stored, sent) = (place(&lines, is_stored("dispatched")), place(&lines, is_sent));
    let before = judged(&moved(&lines, sent, stored));
    finds(&before, Property::IntentFirst);
    // Under another ownership than the one that was recorded.
    let by_another = changed(&lines, sent, |what| {
        if let Happened::Sent { epoch, .. } = what {
            *epoch = Epoch(9);
        }
    });
    finds(&judged(&by_another), Property::IntentFirst);
    // By the tool's own journal.
    let attempt = Effect { generation: Some(1_001), attempt: Some(2), ..effect() };
    let generation = match &lines[stored].what {
        Happened::Stored { record, .. } => record.generation(),
        _ => unreachable!(),
    };
    let attempt = Effect { generation: Some(generation), ..attempt };
    finds(&with_effects(&lines, &[attempt], ENDED), Property::IntentFirst);
    let unheard_of = Effect { key: Key::new("test", "charge", "another").unwrap(), ..effect() };
    finds(&with_effects(&lines, &[unheard_of], ENDED), Property::IntentFirst);
}

/// What an engine would write with such a policy: it breaks the rule, and its core says so.
#[tokio::test(start_paused = true)]
async fn unknown_blocks() {
    let mut policy = ends(ToolKind::Opaque, Ends::OnFailure);
    policy.rules.hold_unknown = false;
    let second = Duration::from_secs(1);
    let run = Run::of(async |world: &World| {
        call(&world.engine, policy, &Script::new([Play::Effect(second, lost())])).await;
    })
    .await;
    let report = judged(&run.lines);
    finds(&report, Property::UnknownBlocks);
    // The core agrees: only the table that is written down here once more does not.
    assert!(report.violations().iter().all(|violation| violation.property == Property::UnknownBlocks), "{report}");
    // Rule 6: the settling time was not over.
    let run = Run::of(async |world: &World| {
        let tool = Script::seeing([Play::NoEffect(second, lost())], std::iter::repeat_n(settled::Seen::NotApplied, 40));
        call(&world.engine, Policy::new(ToolKind::Observable { settling: 100 }), &tool).await;
    })
    .await;
    finds_nothing(&judged(&run.lines));
    let again = run.lines.iter().rposition(|line| is_stored("dispatched")(&line.what)).unwrap();
    let too_early = changed(&run.lines, again, |what| {
        if let Happened::Stored { step, .. } = what {
            step.policy.tool = ToolKind::Observable { settling: 100_000 };
        }
    });
    let report = judged(&too_early);
    finds(&report, Property::UnknownBlocks);
    assert_eq!(report.violations()[0].rule, Some(6));
}

#[tokio::test(start_paused = true)]
async fn no_overlap() {
    let on = |id: &str| {
        let key = Key::new("test", "charge", id).unwrap();
        let resource = Some(Resource { scope: "test".into(), name: "account".into() });
        Operation { key, resource, ..operation(opaque()) }
    };
    let run = Run::of(async |world: &World| {
        for id in ["one", "two"] {
            let second = Duration::from_secs(1);
            world.engine.call(on(id), Script::new([Play::Effect(second, result("ok"))])).await.unwrap();
        }
    })
    .await;
    finds_nothing(&judged(&run.lines));
    let settled = place(&run.lines, is_stored("settled"));
    let later = changed(&run.lines, settled, |what| {
        if let Happened::Stored { step, .. } = what {
            step.now = step.now.after(500);
        }
    });
    finds(&judged(&later), Property::NoOverlap);
    // By the tool's own clock.
    let on_account = |id: &str, begun| Effect {
        key: Key::new("test", "charge", id).unwrap(),
        resource: Some("account".into()),
        begun: Some(begun),
        ended: Some(begun + 10),
        ..effect()
    };
    finds_nothing(&with_effects(&run.lines, &[on_account("one", 5), on_account("two", 15)], ENDED));
    let both = [on_account("one", 5), on_account("two", 14)];
    finds(&with_effects(&run.lines, &both, ENDED), Property::NoOverlap);
}

#[tokio::test(start_paused = true)]
async fn settles() {
    let lines = quick(ToolKind::Opaque).await;
    let lines = without(&lines, place(&lines, is_stored("settled")));
    let lines = without(&lines, place(&lines, |what| matches!(what, Happened::Answered { .. })));
    finds(&judged(&lines), Property::Settles);
    // It may go on.
    let going_on = with_effects(&lines, &[], Options::default());
    finds_nothing(&going_on);
    assert_eq!(going_on.open.len(), 1);
    assert!(matches!(going_on.verdict(Property::Settles), Some(Verdict::NotJudged { .. })));
    // Nobody was told of what counts as handed to a person.
    let run = Run::of(async |world: &World| {
        let tool = Script::new([Play::Effect(Duration::from_secs(1), lost())]);
        call(&world.engine, opaque(), &tool).await;
    })
    .await;
    finds_nothing(&judged(&run.lines));
    let told = place(&run.lines, |what| matches!(what, Happened::Escalated { .. }));
    finds(&judged(&without(&run.lines, told)), Property::Settles);
}

#[tokio::test(start_paused = true)]
async fn bounded_retries() {
    let run = Run::of(async |world: &World| {
        let second = Duration::from_secs(1);
        let lost = std::iter::repeat_n(Play::NoEffect(second, lost()), 2);
        call(&world.engine, ends(ToolKind::ReadOnly, Ends::OnFailure), &Script::new(lost)).await;
    })
    .await;
    finds_nothing(&judged(&run.lines));
    let mut lines = run.lines.clone();
    for line in &mut lines {
        if let Happened::Stored { step, .. } = &mut line.what {
            step.policy.retry.attempts = 2;
        }
    }
    finds(&judged(&lines), Property::BoundedRetries);
}

#[tokio::test(start_paused = true)]
async fn bounded_memory() {
    let policy = ends(ToolKind::Opaque, Ends::OnFailure);
    let tool = Script::new([]);
    let resolve = recoverable(policy, &tool);
    let run = Run::of(async |world: &World| {
        call(&world.engine, policy, &tool).await;
        tokio::time::sleep(Duration::from_secs(61)).await;
        assert_eq!(world.engine.expire(&resolve).await.unwrap(), 1);
    })
    .await;
    finds_nothing(&judged(&run.lines));
    finds_nothing(&run.judged_with_ledger(ENDED).await);
    // A late duplicate is sent.
    let (sent, expired) =
        (place(&run.lines, is_sent), place(&run.lines, |what| matches!(what, Happened::Expired { .. })));
    finds(&judged(&moved(&run.lines, sent, expired)), Property::BoundedMemory);
    // Forgotten before its time.
    let too_early = changed(&run.lines, expired, |what| {
        if let Happened::Expired { step, .. } = what {
            step.now = Time(1_000_001);
        }
    });
    finds(&judged(&too_early), Property::BoundedMemory);
    // Kept for ever.
    let run = Run::of(async |world: &World| {
        call(&world.engine, policy, &tool).await;
        tokio::time::sleep(Duration::from_secs(7_200)).await;
        call(&world.engine, ends(ToolKind::Opaque, Ends::WithWindow), &tool).await;
    })
    .await;
    let mut verifier = Verifier::new(ENDED);
    run.lines.iter().cloned().for_each(|line| verifier.line(line));
    let changes = run.world.ledger.history(&key()).await.unwrap();
    let mut entry = run.world.ledger.get(&key()).await.unwrap().unwrap();
    entry.keep_until = Some(Time(1_060_000));
    verifier.kept(&key(), Some(entry), changes);
    finds(&verifier.finish(), Property::BoundedMemory);
}

#[tokio::test(start_paused = true)]
async fn fenced_silence() {
    let lines = quick(ToolKind::Opaque).await;
    let sent = place(&lines, is_sent);
    let epoch = lines[sent].by;
    let fenced = HistoryLine { key: None, what: Happened::Fenced { epoch }, ..lines[sent].clone() };
    let mut after = lines.clone();
    after.insert(sent, fenced.clone());
    finds(&judged(&numbered(after)), Property::FencedSilence);
    let mut before = lines.clone();
    before.insert(sent + 1, fenced);
    finds_nothing(&judged(&numbered(before)));
}

#[tokio::test(start_paused = true)]
async fn core_steps() {
    let lines = quick(ToolKind::Opaque).await;
    let settled = place(&lines, is_stored("settled"));
    let other_actions = changed(&lines, settled, |what| {
        if let Happened::Stored { step, .. } = what {
            step.actions.pop();
        }
    });
    finds(&judged(&other_actions), Property::CoreSteps);
    let other_time = changed(&lines, settled, |what| {
        if let Happened::Stored { step, .. } = what {
            step.now = Time(999_999);
        }
    });
    finds(&judged(&other_time), Property::CoreSteps);
    // Nobody asked for it.
    let asked = place(&lines, |what| matches!(what, Happened::Asked { .. }));
    finds(&judged(&without(&lines, asked)), Property::CoreSteps);
    // A ledger whose records no step leads to.
    let run = run_of(ToolKind::Opaque).await;
    let key = Key::new("test", "charge", "quick").unwrap();
    let mut changes = run.world.ledger.history(&key).await.unwrap();
    let settled = changes.last_mut().unwrap();
    settled.event = "timed out".to_owned();
    let mut verifier = Verifier::new(ENDED);
    let entry = run.world.ledger.get(&key).await.unwrap();
    verifier.kept(&key, entry, changes);
    finds(&verifier.finish(), Property::CoreSteps);
}

#[tokio::test(start_paused = true)]
async fn kept() {
    let run = run_of(ToolKind::Opaque).await;
    let key = Key::new("test", "charge", "quick").unwrap();
    let changes = run.world.ledger.history(&key).await.unwrap();
    let entry = run.world.ledger.get(&key).await.unwrap();
    let judged = |entry, changes| {
        let mut verifier = Verifier::new(ENDED);
        run.lines.iter().cloned().for_each(|line| verifier.line(line));
        verifier.kept(&key, entry, changes);
        verifier.finish()
    };
    judged(entry.clone(), changes.clone()).assert_sound();
    // An acknowledged write is lost.
    let mut older = entry.clone().unwrap();
    older.record = changes[0].record;
    finds(&judged(Some(older), changes[..1].to_vec()), Property::Kept);
    // All of it is, although it is not over.
    let lines = without(&run.lines, place(&run.lines, is_stored("settled")));
    let mut verifier = Verifier::new(Options::default());
    lines.into_iter().for_each(|line| verifier.line(line));
    verifier.kept(&key, None, Vec::new());
    finds(&verifier.finish(), Property::Kept);
    // Two records under one version.
    let stored = place(&run.lines, is_stored("settled"));
    let mut two = run.lines.clone();
    let mut other = two[stored].clone();
    if let Happened::Stored { record, .. } = &mut other.what {
        **record = record.with_owner(|_| Epoch(7));
    }
    two.insert(stored + 1, other);
    finds(&crate::judged(&numbered(two)), Property::Kept);
}

#[tokio::test(start_paused = true)]
async fn whole_history() {
    let lines = quick(ToolKind::Opaque).await;
    let mut twice = lines.clone();
    twice.push(lines[2].clone());
    finds(&judged(&twice), Property::WholeHistory);
    let replied = place(&lines, |what| matches!(what, Happened::Replied { .. }));
    let sent = place(&lines, is_sent);
    finds(&judged(&moved(&lines, replied, sent)), Property::WholeHistory);
    let mut lost = lines.clone();
    lost.remove(sent);
    let report = judged(&lost);
    assert!(!report.gaps().is_empty() && !report.is_violated(), "{report}");
    assert!(matches!(report.verdict(Property::IntentFirst), Some(Verdict::NotJudged { .. })), "{report}");
}

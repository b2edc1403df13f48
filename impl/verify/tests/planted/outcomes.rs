//! What happened, and what callers were told of it.

use std::time::Duration;

use settled::protocol::{Digest, Ends, ToolKind};
use settled::{Happened, HistoryLine};
use settled_verify::{Options, Property};

use crate::common::*;
use crate::*;

#[tokio::test(start_paused = true)]
async fn at_most_once() {
    let lines = quick(ToolKind::Opaque).await;
    let sent = place(&lines, is_sent);
    let twice = judged(&with_line_after(&lines, sent, lines[sent].what.clone()));
    finds(&twice, Property::AtMostOnce);
    assert_eq!(twice.violations()[0].rule, Some(1));
    assert_eq!(twice.violations()[0].place.key, Some(key()));
    // Another attempt's effect, although the first one had its own.
    let replied = place(&lines, |what| matches!(what, Happened::Replied { .. }));
    let mut second = lines[replied].what.clone();
    if let Happened::Replied { attempt, .. } = &mut second {
        *attempt = 2;
    }
    finds(&judged(&with_line_after(&lines, replied, second)), Property::AtMostOnce);
    // By the tool's own journal.
    let known = Options { effects_known: true, ..ENDED };
    finds_nothing(&with_effects(&lines, &[effect()], known));
    finds(&with_effects(&lines, &[effect(), effect()], known), Property::AtMostOnce);
}

#[tokio::test(start_paused = true)]
async fn no_phantom_success() {
    let lines = quick(ToolKind::Opaque).await;
    // Answered before it was durable.
    let answered = place(&lines, |what| matches!(what, Happened::Answered { .. }));
    let settled = place(&lines, is_stored("settled"));
    finds(&judged(&moved(&lines, answered, settled)), Property::NoPhantomSuccess);
    // Nobody has given the result that was recorded.
    let replied = place(&lines, |what| matches!(what, Happened::Replied { .. }));
    finds(&judged(&without(&lines, replied)), Property::NoPhantomSuccess);
    // Told "done" of what was never settled.
    finds(&judged(&without(&lines, settled)), Property::NoPhantomSuccess);
    // The tool knows nothing of it.
    let known = Options { effects_known: true, ..ENDED };
    finds(&with_effects(&lines, &[], known), Property::NoPhantomSuccess);
}

#[tokio::test(start_paused = true)]
async fn the_ledger_does_not_excuse_who_tells_too_early() {
    let is_answer = |what: &Happened| matches!(what, Happened::Answered { .. });
    for (reply, property) in [(result("done"), Property::NoPhantomSuccess), (not_run("no"), Property::NoFalseFailure)] {
        let run = Run::of(async |world: &World| {
            for _ in 0..2 {
                let tool = Script::new([Play::Effect(Duration::ZERO, reply.clone())]);
                call(&world.engine, opaque(), &tool).await;
            }
        })
        .await;
        finds_nothing(&run.judged_with_ledger(ENDED).await);
        let with_ledger = async |lines: Vec<HistoryLine>| {
            settled_verify::verify_lines(lines, Some(&*run.world.ledger), ENDED).await.unwrap()
        };
        let lines = &run.lines;
        let [dispatched, settled] = ["dispatched", "settled"].map(|state| place(lines, is_stored(state)));
        let answered = place(lines, is_answer);
        // By the one who stores it.
        for at in [settled, dispatched] {
            finds(&with_ledger(moved(lines, answered, at)).await, property);
        }
        // By another call, which may have read it in the ledger; but not before anything was sent.
        let again = lines.iter().rposition(|line| is_answer(&line.what)).unwrap();
        let asked = lines.iter().rposition(|line| matches!(line.what, Happened::Asked { .. })).unwrap();
        let earlier = |at| moved(&moved(lines, asked, at), again, at + 1);
        finds_nothing(&with_ledger(earlier(settled)).await);
        finds(&with_ledger(earlier(dispatched)).await, property);
    }
}

#[tokio::test(start_paused = true)]
async fn no_false_failure() {
    let run = Run::of(async |world: &World| {
        let tool = Script::new([Play::NoEffect(Duration::ZERO, not_run("no"))]);
        call(&world.engine, opaque(), &tool).await;
    })
    .await;
    finds_nothing(&judged(&run.lines));
    let replied = place(&run.lines, |what| matches!(what, Happened::Replied { .. }));
    // The tool's answer says something else.
    let unproven = changed(&run.lines, replied, |what| {
        if let Happened::Replied { reply, .. } = what {
            *reply = "error".to_owned();
        }
    });
    finds(&judged(&unproven), Property::NoFalseFailure);
    let known = Options { effects_known: true, ..ENDED };
    finds_nothing(&with_effects(&run.lines, &[], known));
    finds(&with_effects(&run.lines, &[effect()], known), Property::NoFalseFailure);
    // Told "failed" of what succeeded.
    let lines = quick(ToolKind::Opaque).await;
    let answered = place(&lines, |what| matches!(what, Happened::Answered { .. }));
    let failed = changed(&lines, answered, |what| {
        if let Happened::Answered { answer, .. } = what {
            *answer = "failed".to_owned();
        }
    });
    finds(&judged(&failed), Property::NoFalseFailure);
    let not_sent = changed(&lines, answered, |what| {
        if let Happened::Answered { answer, .. } = what {
            *answer = "not sent".to_owned();
        }
    });
    finds(&judged(&not_sent), Property::NoFalseFailure);
}

#[tokio::test(start_paused = true)]
async fn faithful_replay() {
    let run = Run::of(async |world: &World| {
        call(&world.engine, opaque(), &Script::new([])).await;
        call(&world.engine, opaque(), &Script::new([])).await;
        let other = with_arguments(opaque(), "{\"cents\":1}");
        world.engine.call(other, Script::new([])).await.unwrap();
    })
    .await;
    finds_nothing(&judged(&run.lines));
    let again =
        run.lines.iter().rposition(|line| matches!(&line.what, Happened::Answered { answer, .. } if answer == "done"));
    let again = again.unwrap();
    let other_result = changed(&run.lines, again, |what| {
        if let Happened::Answered { digest, .. } = what {
            *digest = Some(Digest::of(b"another"));
        }
    });
    finds(&judged(&other_result), Property::FaithfulReplay);
    let two_firsts = changed(&run.lines, again, |what| {
        if let Happened::Answered { replayed, .. } = what {
            *replayed = false;
        }
    });
    finds(&judged(&two_firsts), Property::FaithfulReplay);
    // The old answer instead of a conflict.
    let told = run.lines[again].what.clone();
    let conflict = place(&run.lines, |what| matches!(what, Happened::Answered { answer, .. } if answer == "conflict"));
    let old_answer = changed(&run.lines, conflict, |what| {
        let Happened::Answered { call: its, .. } = *what else { return };
        *what = told.clone();
        if let Happened::Answered { call, .. } = what {
            *call = its;
        }
    });
    finds(&judged(&old_answer), Property::FaithfulReplay);
    // A conflict instead of the answer.
    let told = run.lines[conflict].what.clone();
    let without_others = changed(&run.lines[..conflict], again, |what| {
        let Happened::Answered { call: its, .. } = *what else { return };
        *what = told.clone();
        if let Happened::Answered { call, .. } = what {
            *call = its;
        }
    });
    let mut whole = without_others;
    whole.pop();
    whole.push(run.lines.last().unwrap().clone());
    let report = settled_verify::verify_lines(numbered(whole), Some(&*run.world.ledger), ENDED).await.unwrap();
    finds(&report, Property::FaithfulReplay);
}

#[tokio::test(start_paused = true)]
async fn no_suppression() {
    let policy = ends(ToolKind::Opaque, Ends::OnDelivery);
    let run = Run::of(async |world: &World| {
        let first = world.engine.call(operation(policy), Script::new([])).await.unwrap();
        world.engine.delivering(&first, policy).await.confirm(Duration::ZERO).await.unwrap();
        call(&world.engine, policy, &Script::new([])).await;
    })
    .await;
    finds_nothing(&judged(&run.lines));
    // The second wish gets the first one's outcome.
    let first = place(&run.lines, |what| matches!(what, Happened::Answered { .. }));
    let Happened::Answered { generation, .. } = run.lines[first].what else { unreachable!() };
    let second_asked = run.lines.iter().rposition(|line| matches!(line.what, Happened::Asked { .. })).unwrap();
    let mut lines = run.lines[..=second_asked].to_vec();
    let Happened::Asked { call, .. } = lines[second_asked].what else { unreachable!() };
    let digest = Some(Digest::of(b"ok"));
    let what = Happened::Answered { call, generation, answer: "done".to_owned(), digest, replayed: true };
    lines.push(HistoryLine { what, ..lines[second_asked].clone() });
    lines.push(run.lines.last().unwrap().clone());
    finds(&judged(&numbered(lines)), Property::NoSuppression);
}

//! Devices' clocks: days ahead, days behind, jumping.

use settled_protocol::merge::{Change, HybridClock, HybridTime, OpId};
use settled_sync::wire::{Became, Sent};

use crate::common::{BOUND, NOW, Place, at, check, field, name, operation, upload};

const DAY: u64 = 86_400_000;

fn time(is: &Became) -> (HybridTime, bool) {
    match is {
        Became::Applied { time, redated, .. } => (*time, *redated),
        other => panic!("{other:?}"),
    }
}

/// A device with a clock that is days off is flagged, its operations keep their age, and everybody gets the corrected time.
pub async fn days_off(place: &Place) {
    let store = place.open().await;
    for (device, theirs, ahead) in [("ahead", NOW + 3 * DAY, 3), ("behind", NOW - 3 * DAY, -3_i64)] {
        let made = [
            operation(device, 0, theirs - 5_000, "task/1", field("title", Change::Set(device.into()))),
            operation(device, 1, theirs - 4_000, "task/1", field("title", Change::Set("later".into()))),
        ];
        let uploaded = store.apply(upload(device, theirs, &made), NOW).await.unwrap();
        assert_eq!((uploaded.clock.ahead, uploaded.clock.believed), (ahead * DAY as i64, false));
        assert_eq!(u128::from(uploaded.clock.bound), BOUND.as_millis());
        let given: Vec<_> = uploaded.answers.iter().map(|answer| time(&answer.is)).collect();
        assert_eq!(
            given.iter().map(|(time, redated)| (time.millis, *redated)).collect::<Vec<_>>(),
            [(NOW - 5_000, true), (NOW - 4_000, true)]
        );
        // A repeat is told the time that it has got, whatever the clocks say by then.
        let again = store.apply(upload(device, NOW, &made), NOW + 9).await.unwrap();
        assert_eq!(again.answers.iter().map(|answer| time(&answer.is)).collect::<Vec<_>>(), given);
    }
    // Neither counts as made in the future, or in the past.
    let now = operation("right", 0, NOW, "task/1", field("title", Change::Set("now".into())));
    store.apply(upload("right", NOW, &[now]), NOW).await.unwrap();
    let view = store.target(&name("task/1")).await.unwrap().unwrap().view;
    assert!(serde_json::to_string(&view).unwrap().contains("\"now\""), "{view:?}");
    let devices = store.devices("", 10).await.unwrap();
    let seen: Vec<_> = devices.iter().map(|d| (d.device.as_str(), d.believed, d.applied, d.redated)).collect();
    assert_eq!(seen, [("ahead", true, 2, 2), ("behind", true, 2, 2), ("right", true, 1, 0)]);
    check(&*store).await;
}

/// A device whose clock jumps by days between its operations, and is sometimes set right, makes operations that each follow the one
/// before and something that another device has made. However they are dated: causes come first, and nothing is ahead.
pub async fn jumping(place: &Place, seed: u64) {
    let store = place.open().await;
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut server, mut offset) = (NOW, 0_i64);
    // A device takes over the times of its operations that it hears of; what is too far ahead for it, it knows of but does not follow.
    let mut clock = HybridClock::new(at(0), BOUND.as_millis() as u64);
    let (mut queue, mut sent) = (Vec::<Sent>::new(), Vec::<OpId>::new());
    let mut heard = HybridTime::default();
    let mut causes: Vec<(OpId, HybridTime)> = Vec::new();
    for number in 0..40 {
        server += random.u64(0..DAY / 24);
        if random.u8(0..4) == 0 {
            offset = random.i64(-3..4) * DAY as i64;
        }
        let wall = server.saturating_add_signed(offset);
        if random.bool() {
            let other = operation("other", number, server, "votes", Change::Count(1));
            let uploaded = store.apply(upload("other", server, &[other]), server).await.unwrap();
            heard = heard.max(time(&uploaded.answers[0].is).0);
            let _ = clock.hear(heard, wall);
        }
        let mut made = operation("a", number, 0, "votes", Change::Count(1));
        (made.operation.time, made.after) = (clock.tick(wall), heard);
        causes.push((made.operation.op_id, heard));
        sent.push(made.operation.op_id);
        queue.push(made);
        if random.u8(0..3) == 0 {
            store.apply(upload("a", wall, &queue), server).await.unwrap();
            queue.clear();
        }
    }
    store.apply(upload("a", server, &queue), server).await.unwrap();
    let applied = check(&*store).await;
    let time = |id: &OpId| applied.iter().find(|applied| applied.operation.op_id == *id).unwrap().operation.time;
    for pair in sent.windows(2) {
        assert!(time(&pair[0]) < time(&pair[1]), "seed {seed}: {} is not before {}", time(&pair[0]), time(&pair[1]));
    }
    for (id, cause) in &causes {
        assert!(time(id) > *cause, "seed {seed}: {} is not after {cause}", time(id));
    }
    let horizon = server + BOUND.as_millis() as u64;
    assert!(applied.iter().all(|applied| applied.operation.time.millis <= horizon), "seed {seed}");
}

#[tokio::test]
async fn sqlite() {
    days_off(&Place::sqlite()).await;
    for seed in 0..8 {
        jumping(&Place::sqlite(), seed).await;
    }
}

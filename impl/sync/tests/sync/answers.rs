//! What becomes of each operation, and of its repeats.

use settled_protocol::merge::{Change, View};
use settled_sync::store::LARGEST_OPERATION;
use settled_sync::wire::{Became, Refusal, Upload};

use crate::common::{NOW, Place, check, field, name, operation, repeated, settled, upload};

/// Every kind of answer, once and again, also after a restart.
pub async fn every_kind(place: &Place) {
    let store = place.open().await;
    let good = operation("a", 0, NOW, "votes", Change::Count(2));
    let unfit = operation("a", 1, NOW, "votes", Change::Set(1.into()));
    let nowhere = operation("a", 2, NOW, "note/1", Change::Set(1.into()));
    let no_field = operation("a", 3, NOW, "task/1", field("due", Change::Set(1.into())));
    let number = operation("a", 4, NOW, "votes", Change::Count(1 << 53));
    let others = operation("b", 5, NOW, "votes", Change::Count(1));
    let text = "x".repeat(LARGEST_OPERATION);
    let large = operation("a", 6, NOW, "task/1", field("title", Change::Set(text.as_str().into())));
    let mut conflict = good.clone();
    conflict.operation.change = Change::Count(3);
    let sent = upload("a", NOW, &[good.clone(), unfit, nowhere, no_field, number, others.clone(), large, conflict]);
    let uploaded = store.apply(sent.clone(), NOW).await.unwrap();
    let is = uploaded.answers.iter().map(|answer| match &answer.is {
        Became::Applied { cursor: 1, redated: false, repeated: false, .. } => "applied",
        Became::Refused { reason: Refusal::Unfit, .. } => "unfit",
        Became::Refused { reason: Refusal::NotYours, .. } => "not yours",
        Became::Refused { reason: Refusal::TooLarge, .. } => "too large",
        Became::Refused { reason: Refusal::Conflict, .. } => "conflict",
        other => panic!("{other:?}"),
    });
    let is: Vec<_> = is.collect();
    assert_eq!(is, ["applied", "unfit", "unfit", "unfit", "unfit", "not yours", "too large", "conflict"]);
    assert_eq!((uploaded.head, uploaded.clock.ahead, uploaded.clock.believed), (1, 0, true));

    // A repeat is told the same, also by a store that was opened again.
    drop(store);
    let store = place.open().await;
    let again = store.apply(sent.clone(), NOW + 5_000).await.unwrap();
    assert_eq!(settled(&again.answers), settled(&uploaded.answers));
    assert_eq!(repeated(&again), [true, false, false, false, false, false, false, false]);

    // A name that was used for something refused is used up: also for what would fit.
    let fits = operation("a", 1, NOW, "votes", Change::Count(1));
    let refused = store.apply(upload("a", NOW, &[fits]), NOW).await.unwrap();
    assert!(matches!(refused.answers[0].is, Became::Refused { reason: Refusal::Conflict, .. }), "{refused:?}");
    // That somebody else has sent it takes nothing from its device.
    let own = store.apply(upload("b", NOW, &[others]), NOW).await.unwrap();
    assert!(matches!(own.answers[0].is, Became::Applied { cursor: 2, repeated: false, .. }), "{own:?}");
    // Now that it is applied, the other one is told the same as before.
    let again = store.apply(sent, NOW).await.unwrap();
    assert_eq!(settled(&again.answers), settled(&uploaded.answers));

    assert_eq!(check(&*store).await.len(), 2);
    assert_eq!(store.target(&name("votes")).await.unwrap().unwrap().view, View::Count(3));
    assert_eq!(store.target(&name("task/1")).await.unwrap(), None);
}

/// What the server may understand later is not stored, and applied when it does.
pub async fn held(place: &Place) {
    let store = place.open().await;
    let early = [
        operation("a", 0, NOW, "note/1", Change::Set(1.into())),
        operation("a", 1, NOW, "task/1", field("due", Change::Set(1.into()))),
        operation("a", 2, NOW, "votes", Change::Set(1.into())),
    ];
    let sent = Upload { schema: 4, ..upload("a", NOW, &early) };
    for _ in 0..2 {
        let uploaded = store.apply(sent.clone(), NOW).await.unwrap();
        assert!(matches!(uploaded.answers[0].is, Became::Held { .. }), "{uploaded:?}");
        assert!(matches!(uploaded.answers[1].is, Became::Held { .. }), "{uploaded:?}");
        assert!(matches!(uploaded.answers[2].is, Became::Refused { reason: Refusal::Unfit, .. }), "{uploaded:?}");
    }
    drop(store);
    let mut options = crate::common::options();
    let later = crate::common::SCHEMA.replace("version = 3\n[kinds]", "version = 4\n[kinds]\nnote = \"latest\"");
    options.schema = settled_sync::Schema::parse(&later.replace("title =", "due = \"latest\"\ntitle =")).unwrap();
    let store = place.open_with(options).await.unwrap();
    let uploaded = store.apply(sent, NOW).await.unwrap();
    assert!(matches!(uploaded.answers[0].is, Became::Applied { cursor: 1, .. }), "{uploaded:?}");
    assert!(matches!(uploaded.answers[1].is, Became::Applied { cursor: 2, .. }), "{uploaded:?}");
    assert!(matches!(uploaded.answers[2].is, Became::Refused { .. }), "{uploaded:?}");
}

/// Repeats in every place of a batch: each part of a history is sent again with what follows it.
pub async fn repeats(place: &Place) {
    let store = place.open().await;
    let made: Vec<_> = (0..6).map(|n| operation("a", n, NOW, "votes", Change::Count(1))).collect();
    let mut first: Vec<Option<Became>> = vec![None; made.len()];
    for (from, to) in (0..6).flat_map(|to| (0..=to).map(move |from| (from, to))) {
        // Once more within the batch.
        let mut sent = made[from..=to].to_vec();
        sent.push(made[from].clone());
        let uploaded = store.apply(upload("a", NOW, &sent), NOW).await.unwrap();
        let places = (from..=to).chain([from]);
        for (place, answer) in places.zip(settled(&uploaded.answers)) {
            assert_eq!(*first[place].get_or_insert(answer.is.clone()), answer.is);
        }
        assert_eq!(repeated(&uploaded).last(), Some(&true));
    }
    assert_eq!(check(&*store).await.len(), 6);
    assert_eq!(store.target(&name("votes")).await.unwrap().unwrap().view, View::Count(6));
}

#[tokio::test]
async fn sqlite() {
    every_kind(&Place::sqlite()).await;
    held(&Place::sqlite()).await;
    repeats(&Place::sqlite()).await;
}

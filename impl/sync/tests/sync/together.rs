//! Many at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use settled_protocol::merge::OpId;
use settled_sync::store::Store;
use settled_sync::wire::{Became, Cursor};
use tokio::task::JoinSet;

use crate::common::{NOW, check, history, upload};

/// The same operations are uploaded by many at once, through each of these, in different parts: each is applied once, and all are told
/// the same of it. Meanwhile others pull, and miss nothing.
pub async fn the_same_at_once(stores: &[Arc<dyn Store>]) {
    let made = Arc::new(history(&mut fastrand::Rng::with_seed(7), "a", NOW, 60));
    let mut pulls = JoinSet::new();
    for store in stores {
        let (store, all) = (Arc::clone(store), made.len() as Cursor);
        pulls.spawn(async move {
            let (mut after, mut seen) = (0, Vec::new());
            while after < all {
                let mut heard = store.heard();
                let pulled = store.operations(after, 5).await.unwrap();
                for applied in &pulled.operations {
                    assert_eq!(applied.cursor, seen.len() as Cursor + 1, "an operation was missed");
                    seen.push(applied.operation.op_id);
                }
                after = pulled.cursor;
                if pulled.operations.is_empty() {
                    // What other servers do is not heard of by itself.
                    let _ = tokio::time::timeout(std::time::Duration::from_millis(20), heard.changed()).await;
                }
            }
        });
    }
    let mut uploads = JoinSet::new();
    for uploader in 0..8_u64 {
        let (store, made) = (Arc::clone(&stores[uploader as usize % stores.len()]), Arc::clone(&made));
        uploads.spawn(async move {
            let mut random = fastrand::Rng::with_seed(uploader);
            let (mut from, mut told) = (0, Vec::new());
            while from < made.len() {
                let to = (from + random.usize(1..20)).min(made.len());
                // Some of what was sent before comes again.
                let start = from.saturating_sub(random.usize(0..5));
                let uploaded = store.apply(upload("a", NOW, &made[start..to]), NOW).await.unwrap();
                told.extend(uploaded.answers);
                from = to;
            }
            told
        });
    }
    let (mut places, mut firsts) = (BTreeMap::<OpId, Cursor>::new(), 0);
    while let Some(told) = uploads.join_next().await {
        for answer in told.unwrap() {
            let Became::Applied { cursor, repeated, redated: false, .. } = answer.is else { panic!("{answer:?}") };
            assert_eq!(*places.entry(answer.op_id).or_insert(cursor), cursor);
            firsts += usize::from(!repeated);
        }
    }
    assert_eq!((firsts, places.len()), (made.len(), made.len()));
    while let Some(pulled) = pulls.join_next().await {
        pulled.unwrap();
    }
    for store in stores {
        assert_eq!(check(&**store).await.len(), made.len());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite() {
    let place = crate::common::Place::sqlite();
    the_same_at_once(&[place.open().await]).await;
    // Two servers on one file are no use, but no harm either.
    let place = crate::common::Place::sqlite();
    the_same_at_once(&[place.open().await, place.open().await]).await;
}

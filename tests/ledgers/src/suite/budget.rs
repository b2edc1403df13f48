//! The retry budget that all processes on a ledger share.

use std::sync::Arc;

use settled::Draw;
use tokio::task::JoinSet;

use super::View;
use crate::Views;

/// A token for each ten requests, five at most.
async fn draw(ledger: &View, requests: u64, take: bool) -> bool {
    ledger.draw(Draw { requests, take, per_mille: 100, burst: 5 }).await.unwrap()
}

pub(super) async fn both_views_draw_from_one_bucket(views: &Views) {
    let (a, b) = (&views.a, &views.b);
    for ledger in [a, b, a, a, b] {
        assert!(draw(ledger, 0, true).await, "it begins full");
    }
    for ledger in [a, b] {
        assert!(!draw(ledger, 0, true).await, "it is empty");
    }
    assert!(!draw(a, 9, true).await);
    assert!(draw(b, 1, true).await, "what one was told of, the other has");
    assert!(!draw(a, 0, true).await);
    assert!(!draw(a, 10, false).await, "none was wanted");
    assert!(draw(b, 0, true).await && !draw(b, 0, true).await);
    // Request by request: nothing is lost to rounding.
    for i in 0..10 {
        draw(if i % 2 == 0 { a } else { b }, 1, false).await;
    }
    assert!(draw(a, 0, true).await && !draw(b, 0, true).await);
}

pub(super) async fn requests_fill_it_up_to_its_size(views: &Views) {
    for requests in [0, 1_000_000, u64::MAX] {
        draw(&views.a, requests, false).await;
        let mut taken = 0;
        while draw(&views.b, 0, true).await {
            taken += 1;
            assert!(taken <= 5, "more than it holds");
        }
        assert_eq!(taken, 5);
    }
    // Without a size there is nothing to take.
    let none = Draw { requests: 100, take: true, per_mille: 100, burst: 0 };
    assert!(!views.a.draw(none).await.unwrap());
}

pub(super) async fn many_draws_at_once_take_no_more_than_there_is(views: &Views) {
    let mut draws = JoinSet::new();
    for i in 0..60 {
        let ledger = Arc::clone(if i % 2 == 0 { &views.a } else { &views.b });
        draws.spawn(async move { draw(&ledger, u64::from(i < 20), true).await });
    }
    let taken = draws.join_all().await.into_iter().filter(|taken| *taken).count();
    // What comes while it is full brings nothing, so it may be fewer.
    assert!((5..=7).contains(&taken), "{taken} of 5 + 20 / 10");
}

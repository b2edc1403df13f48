//! Leases: how an owner shows that it is there.

use std::time::Duration;

use settled::{Liveness, Renewal};
use settled_protocol::Epoch;
use tokio::time::sleep;

use super::{View, held, store};
use crate::Views;
use crate::make::{change, claim, key, settled};

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(400);

/// Both views must agree.
async fn liveness(views: &Views, epoch: Epoch) -> Liveness {
    let liveness = views.a.liveness(epoch).await.unwrap();
    assert_eq!(views.b.liveness(epoch).await.unwrap(), liveness);
    liveness
}

async fn lapsed(views: &Views, ledger: &View) -> Epoch {
    let epoch = ledger.register(SHORT).await.unwrap();
    sleep(SHORT + Duration::from_millis(100)).await;
    assert_eq!(liveness(views, epoch).await, Liveness::Lapsed);
    epoch
}

pub(super) async fn a_new_owner_is_alive_to_all(views: &Views) {
    for ledger in [&views.a, &views.b] {
        let epoch = ledger.register(LONG).await.unwrap();
        assert_eq!(liveness(views, epoch).await, Liveness::Alive);
    }
}

/// Its process is there all the time, so it is never [`Liveness::Gone`].
pub(super) async fn a_lease_that_is_not_renewed_runs_out(views: &Views) {
    let mine = views.a.register(SHORT).await.unwrap();
    let other = views.b.register(SHORT).await.unwrap();
    assert_eq!(liveness(views, mine).await, Liveness::Alive);
    sleep(SHORT + Duration::from_millis(100)).await;
    for _ in 0..2 {
        assert_eq!(liveness(views, mine).await, Liveness::Lapsed);
        assert_eq!(liveness(views, other).await, Liveness::Lapsed);
        sleep(Duration::from_millis(300)).await;
    }
}

pub(super) async fn a_renewed_lease_runs_on(views: &Views) {
    let lease = Duration::from_millis(1_200);
    let mine = views.a.register(lease).await.unwrap();
    let other = views.b.register(lease).await.unwrap();
    for _ in 0..6 {
        sleep(Duration::from_millis(400)).await;
        assert_eq!(views.a.renew(mine, lease).await.unwrap(), Renewal::Held);
        assert_eq!(views.b.renew(other, lease).await.unwrap(), Renewal::Held);
        assert_eq!(liveness(views, mine).await, Liveness::Alive);
        assert_eq!(liveness(views, other).await, Liveness::Alive);
    }
}

pub(super) async fn a_renewal_counts_from_when_it_is_made(views: &Views) {
    for ledger in [&views.a, &views.b] {
        let epoch = ledger.register(LONG).await.unwrap();
        assert_eq!(ledger.renew(epoch, SHORT).await.unwrap(), Renewal::Held);
        sleep(SHORT + Duration::from_millis(100)).await;
        assert_eq!(liveness(views, epoch).await, Liveness::Lapsed, "a lease is not added to what was left");
    }
}

pub(super) async fn a_lapsed_owner_is_fenced_for_good(views: &Views) {
    for ledger in [&views.a, &views.b] {
        let epoch = lapsed(views, ledger).await;
        for _ in 0..3 {
            assert_eq!(ledger.renew(epoch, LONG).await.unwrap(), Renewal::Fenced);
            assert_eq!(liveness(views, epoch).await, Liveness::Lapsed);
        }
        // What it can do is to become another owner.
        let anew = ledger.register(LONG).await.unwrap();
        assert_ne!(anew, epoch);
        assert_eq!(ledger.renew(anew, LONG).await.unwrap(), Renewal::Held);
        assert_eq!(ledger.renew(epoch, LONG).await.unwrap(), Renewal::Fenced);
    }
}

pub(super) async fn one_owner_s_end_is_not_another_s(views: &Views) {
    let steady = [views.a.register(LONG).await.unwrap(), views.b.register(LONG).await.unwrap()];
    let epoch = lapsed(views, &views.a).await;
    views.a.retire(epoch).await.unwrap();
    let retired = views.b.register(LONG).await.unwrap();
    views.b.retire(retired).await.unwrap();
    for epoch in steady {
        assert_eq!(liveness(views, epoch).await, Liveness::Alive);
    }
    assert_eq!(views.a.renew(steady[0], LONG).await.unwrap(), Renewal::Held);
    assert_eq!(views.b.renew(steady[1], LONG).await.unwrap(), Renewal::Held);
}

pub(super) async fn a_retired_owner_is_gone(views: &Views) {
    for ledger in [&views.a, &views.b] {
        let epoch = ledger.register(LONG).await.unwrap();
        for _ in 0..2 {
            ledger.retire(epoch).await.unwrap();
            assert_eq!(liveness(views, epoch).await, Liveness::Gone);
            assert_eq!(ledger.renew(epoch, LONG).await.unwrap(), Renewal::Fenced);
        }
    }
}

pub(super) async fn a_lapsed_owner_may_retire(views: &Views) {
    for ledger in [&views.a, &views.b] {
        let epoch = lapsed(views, ledger).await;
        ledger.retire(epoch).await.unwrap();
        assert_eq!(liveness(views, epoch).await, Liveness::Gone);
        assert_eq!(ledger.renew(epoch, LONG).await.unwrap(), Renewal::Fenced);
    }
}

pub(super) async fn odd_lengths_are_leases_too(views: &Views) {
    for ledger in [&views.a, &views.b] {
        let over = ledger.register(Duration::ZERO).await.unwrap();
        sleep(Duration::from_millis(20)).await;
        assert_eq!(liveness(views, over).await, Liveness::Lapsed);
        for endless in [Duration::MAX, Duration::from_secs(u64::MAX / 1_000_000)] {
            let endless_owner = ledger.register(endless).await.unwrap();
            assert_eq!(liveness(views, endless_owner).await, Liveness::Alive);
            assert_eq!(ledger.renew(endless_owner, endless).await.unwrap(), Renewal::Held);
            assert_eq!(liveness(views, endless_owner).await, Liveness::Alive);
        }
    }
}

/// Safety comes from the version, not from the owner: a late reply counts, whoever brings it (rules 4 and 5).
pub(super) async fn a_lapsed_owner_can_still_store(views: &Views) {
    for (i, ledger) in [&views.a, &views.b].into_iter().enumerate() {
        let key = key("lapsed", i);
        let epoch = lapsed(views, ledger).await;
        let mut first = claim(&key);
        first.by = epoch;
        store(ledger, first).await;
        ledger.retire(epoch).await.unwrap();
        let mut second = change(&key, 2, settled());
        second.by = epoch;
        store(ledger, second).await;
        assert_eq!(held(views, &key).await.unwrap().by, epoch);
    }
}

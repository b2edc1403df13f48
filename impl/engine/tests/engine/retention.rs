//! Retention: settled records are forgotten when their time is over, unknown ones never.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{Play, Script, World, done, ends, error, limits, opaque, unknown};
use settled::protocol::{Ends, Key, Policy, ToolKind};
use settled::{Answer, Filter, Ledger, Limits, Operation, Recoverable};

const SECOND: Duration = Duration::from_secs(1);
/// The window of `crate::support::ends` and a bit.
const WINDOW: Duration = Duration::from_secs(61);

fn policy() -> Policy {
    ends(ToolKind::Opaque, Ends::WithWindow)
}

fn with(tombstone: Option<Duration>) -> Operation {
    Operation { limits: Limits { tombstone, ..limits() }, ..crate::support::operation(policy()) }
}

fn known(tombstone: Option<Duration>) -> impl Fn(&settled::Entry) -> Option<Recoverable> + Send + Sync {
    move |_| Some(Recoverable { policy: policy(), tool: None, limits: with(tombstone).limits })
}

#[tokio::test(start_paused = true)]
async fn an_expired_key_is_refused_for_as_long_as_its_tombstone_is_kept() {
    let world = World::new().await;
    let tool = Script::new([]);
    let tombstone = Some(600 * SECOND);
    let ask = async || world.engine.call(with(tombstone), tool.clone()).await.unwrap().answer;
    assert_eq!(ask().await, done("ok", false));
    tokio::time::sleep(WINDOW).await;
    assert_eq!(ask().await, Answer::Expired, "also before it is buried");
    assert_eq!(world.engine.expire(&known(tombstone)).await.unwrap(), 1);
    let entry = world.ledger.get(&crate::support::key()).await.unwrap().unwrap();
    assert!(entry.tombstone && entry.asked.is_empty() && entry.outcome.is_none());
    assert_eq!(world.ledger.history(&crate::support::key()).await.unwrap(), []);
    assert_eq!(ask().await, Answer::Expired);
    assert_eq!(world.engine.expire(&known(tombstone)).await.unwrap(), 0);
    tokio::time::sleep(600 * SECOND).await;
    assert_eq!(world.engine.expire(&known(tombstone)).await.unwrap(), 1);
    assert_eq!(world.ledger.get(&crate::support::key()).await.unwrap(), None);
    assert_eq!(ask().await, done("ok", false));
    assert_eq!(tool.sends(), 2);
}

#[tokio::test(start_paused = true)]
async fn without_a_tombstone_a_later_call_is_a_new_one() {
    let world = World::new().await;
    let tool = Script::new([]);
    for sends in 1..4 {
        assert_eq!(world.engine.call(with(None), tool.clone()).await.unwrap().answer, done("ok", false));
        assert_eq!(tool.sends(), sends);
        tokio::time::sleep(WINDOW).await;
        if sends == 2 {
            assert_eq!(world.engine.expire(&known(None)).await.unwrap(), 1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn unknown_operations_never_expire() {
    let world = World::new().await;
    let tool = Script::new([Play::Effect(SECOND, error("500"))]);
    assert!(matches!(world.engine.call(with(None), tool).await.unwrap().answer, Answer::Unknown { .. }));
    tokio::time::sleep(10 * 365 * 86_400 * SECOND).await;
    assert_eq!(world.engine.expire(&known(None)).await.unwrap(), 0);
    let told = world.engine.call(with(None), Script::new([])).await.unwrap().answer;
    assert_eq!(told, Answer::Unknown { error: Some("500".into()), replayed: true });
    let _ = unknown(true);
}

#[tokio::test(start_paused = true)]
async fn the_ledger_stays_small_under_a_steady_load() {
    let world = World::new().await;
    let tool = Script::new([]);
    let resolve: Arc<settled::Resolve> = Arc::new(known(None));
    let engine = world.engine.clone();
    let keeper = tokio::spawn(async move { engine.maintain(resolve, SECOND).await });
    let mut most = 0;
    for n in 0..2_000 {
        let key = Key::new("test", "charge", n.to_string()).unwrap();
        world.engine.call(Operation { key, ..with(None) }, tool.clone()).await.unwrap();
        tokio::time::sleep(SECOND).await;
        if n % 100 == 0 {
            most = most.max(world.ledger.scan(Filter::All).await.unwrap().len());
        }
    }
    assert!((50..80).contains(&most), "{most}");
    keeper.abort();
    let _ = opaque();
}

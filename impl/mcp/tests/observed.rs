//! `mode = "observe"`: everything passes as it is, and what the guard would have done is counted.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "mcp/support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use settled::{Filter, Ledger};
use support::World;

/// Keeps what is counted as observed, by tool and what would have been done.
#[derive(Clone, Default)]
struct Counted(Arc<Mutex<Counts>>);

type Counts = BTreeMap<(String, String), Arc<AtomicU64>>;

impl Counted {
    fn all(&self) -> Vec<(String, String, u64)> {
        let counted = self.0.lock().unwrap();
        let each = |((tool, would), count): (&(String, String), &Arc<AtomicU64>)| {
            (tool.clone(), would.clone(), count.load(Ordering::SeqCst))
        };
        counted.iter().map(each).collect()
    }
}

impl Recorder for Counted {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        if key.name() != "settled_observed_total" {
            return Counter::noop();
        }
        let label = |name: &str| {
            let label = key.labels().find(|label| label.key() == name);
            label.map(|label| label.value().to_owned()).unwrap_or_default()
        };
        let mut counted = self.0.lock().unwrap();
        Counter::from_arc(counted.entry((label("tool"), label("would"))).or_default().clone())
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[tokio::test]
async fn nothing_is_withheld_and_everything_is_counted() {
    let counted = Counted::default();
    metrics::set_global_recorder(counted.clone()).unwrap();

    let world = World::new();
    let config = "mode = 'observe'\n[tools.charge]\nkey = ['n']\n[tools.pay]\nmode = 'enforce'\nrepeat = 'replay'";
    // Not even the list of tools is waited for.
    let mut client = world.connect(config, "batches").await;
    client.say(support::INITIALIZE).await;
    client.hear().await;
    client.say(support::INITIALIZED).await;
    for (id, arguments) in [("1", r#"{"n":1}"#), ("2", r#"{"n":1}"#), ("3", r#"{"n":1,"more":2}"#), ("4", "{}")] {
        let answer = client.ask(id, "charge", arguments).await;
        assert!(answer["result"].get("_meta").is_none(), "{answer}");
        assert_eq!(answer["result"]["content"][0]["text"], "charge", "{answer}");
    }
    assert!(client.ask("5", "charge", r#"{"n":2,"fail":true}"#).await["result"]["isError"] == true);
    client.ask("6", "charge", r#"{"n":2,"fail":true}"#).await;
    client.ask("7", "read", "{}").await;
    // In a batch, too, which goes on as it is.
    let batch = r#"[ {"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"charge","arguments":{"n":1}}} ]"#;
    client.say(batch).await;
    assert_eq!(client.answer().await["id"], 8);
    assert!(world.log().iter().any(|line| line == batch));
    // Cancels are passed on, since nothing is kept.
    client.call("9", "charge", r#"{"n":4,"hang":1}"#).await;
    client.say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}"#).await;
    for id in ["10", "11"] {
        client.call(id, "charge", r#"{"n":3,"sleep":1}"#).await;
    }
    client.answer().await;
    client.answer().await;
    // Others are guarded as ever.
    for id in ["12", "13"] {
        client.ask(id, "pay", "{}").await;
    }
    assert_eq!((world.calls("charge"), world.calls("pay")), (10, 1));
    assert!(world.log().iter().any(|line| line.contains("notifications/cancelled")));
    let entries = world.ledger.scan(Filter::All).await.unwrap();
    assert_eq!(entries.len(), 1, "nothing is recorded of what is observed");

    let expected = [
        ("charge", "conflicted", 1),
        ("charge", "held", 1),
        ("charge", "joined", 1),
        ("charge", "refused", 1),
        ("charge", "replayed", 2),
        ("charge", "sent", 4),
        ("read", "passed", 1),
    ]
    .map(|(tool, would, count)| (tool.to_owned(), would.to_owned(), count));
    // It is judged beside the calls, not before them.
    for _ in 0..200 {
        if counted.all().iter().map(|(.., count)| count).sum::<u64>() >= 11 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(counted.all(), expected);
    client.end().await.1.unwrap();
}

//! What calls cost is counted once, however often their answers are told.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use metrics::{Counter, CounterFn, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};

use crate::llm::{EOF, HEAD, Llm, chunk};
use crate::support::*;

/// The counters of this test.
#[derive(Default)]
struct Counters(Mutex<HashMap<String, Arc<Count>>>);

#[derive(Default)]
struct Count(AtomicU64);

impl CounterFn for Count {
    fn increment(&self, value: u64) {
        self.0.fetch_add(value, Ordering::SeqCst);
    }

    fn absolute(&self, value: u64) {
        self.0.store(value, Ordering::SeqCst);
    }
}

impl Recorder for Counters {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let labels: Vec<_> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        let name = format!("{} {}", key.name(), labels.join(" "));
        Counter::from_arc(self.0.lock().unwrap().entry(name).or_default().clone())
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

impl Counters {
    fn tokens(&self, path: &str, kind: &str) -> u64 {
        let counters = self.0.lock().unwrap();
        let of = |name: &str| {
            name.starts_with("settled_gateway_tokens_total ")
                && name.contains(path)
                && name.ends_with(&format!("kind={kind}"))
        };
        counters.iter().filter(|(name, _)| of(name)).map(|(_, count)| count.0.load(Ordering::SeqCst)).sum()
    }
}

const START: &str =
    "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":7}}}\n\n";
const DELTA: &str = "event: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":11}}\n\n";
const STOP: &str = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";

#[test]
fn tokens_are_counted_once_for_each_operation() {
    let counters = Counters::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    metrics::with_local_recorder(&counters, || runtime.block_on(calls(&counters)));
}

async fn calls(counters: &Counters) {
    let routes = "[[routes]]\npath = \"/v1/messages\"\nkind = \"keyed\"\nremembers = \"1h\"\n[[routes]]\npath = \"/v1/responses\"";
    let mut server = Llm::start().await;
    let gateway = gateway(config(server.address, routes), &ledger()).await;
    for n in 1..=3 {
        let key = format!("\"k{n}\"");
        let calling = tokio::spawn(raw_all(gateway.address, request("/v1/messages", &key, "", "{}")));
        // What broke off is sent again, and told what it cost again.
        server.next().await.reset_after(&[HEAD, &chunk(START), &chunk(DELTA)].concat()).await;
        calling.await.unwrap();
        let mut again = server.next().await;
        again.write(&[HEAD, &chunk(START), &chunk(DELTA), &chunk(STOP), EOF].concat()).await;
        for _ in 0..3 {
            let reply = raw(gateway.address, request("/v1/messages", &key, "", "{}")).await;
            assert_eq!(reply.body, [START, DELTA, STOP].concat().as_bytes());
        }
        assert_eq!((counters.tokens("messages", "input"), counters.tokens("messages", "output")), (7 * n, 11 * n));
    }

    let answer = r#"{"usage":{"input_tokens":7,"output_tokens":11}}"#;
    let calling = tokio::spawn(raw_all(gateway.address, request("/v1/responses", "\"k\"", "", "{}")));
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", answer.len());
    server.next().await.write(&[&head, answer].concat()).await;
    calling.await.unwrap();
    assert!(raw(gateway.address, request("/v1/responses", "\"k\"", "", "{}")).await.is_replayed());
    assert_eq!((counters.tokens("responses", "input"), counters.tokens("responses", "output")), (7, 11));
}

//! Many orders at once, each asked more than once, through two proxies on one ledger.

use std::collections::BTreeMap;

use serde_json::json;
use settled_tests::{Server, Session, Stage};

const ORDERS: u64 = 100;

#[test]
fn each_order_is_charged_once() {
    let mut stage = Stage::new();
    stage.set("SERVER_DELAY_MS", 5);
    let command = stage.proxy(&Server::Quick.command());
    let mut sessions = [Session::open(&stage, &command), Session::open(&stage, &command)];
    let mut asked = Vec::new();
    for order in 1..=ORDERS {
        for (which, session) in sessions.iter_mut().enumerate() {
            for _ in 0..2 {
                asked.push((which, order, session.ask_tool("charge", &json!({ "customer": "alice", "cents": order }))));
            }
        }
    }
    let mut receipts = BTreeMap::<u64, Vec<String>>::new();
    let mut first = 0;
    for (which, order, id) in asked {
        let reply = sessions[which].reply(id);
        first += usize::from(!reply.is_replayed());
        receipts.entry(order).or_default().push(reply.receipt().unwrap_or_else(|| panic!("{reply:?}")));
    }
    let effects = stage.effects();
    assert_eq!(
        (effects.len() as u64, first as u64),
        (ORDERS, ORDERS),
        "one effect and one first answer for each order"
    );
    for (order, receipts) in receipts {
        assert_eq!(receipts, vec![receipts[0].clone(); 4], "order {order}");
        assert!(effects.contains(&receipts[0]), "order {order}: {}", receipts[0]);
        assert_eq!(receipts[0].split(' ').nth(2), Some(order.to_string().as_str()));
    }
    for session in sessions {
        assert!(session.end().status.success());
    }
    let operations = stage.operations();
    assert_eq!(operations.len() as u64, ORDERS);
    assert!(operations.iter().all(|operation| operation.has_succeeded()), "{operations:#?}");
}

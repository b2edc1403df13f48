//! The ledger is gone.

use settled_test_services::redis::Redis;
use settled_tests::{Stage, Upstream, WISH_HEADER, get, post, until};

use crate::routes::{OPAQUE, routes, says};

/// Without a ledger nothing that is guarded is sent; what is not guarded passes. When it is back, all goes on.
#[test]
fn without_its_ledger_nothing_is_sent() {
    let mut redis = Redis::start().expect("redis-server is installed");
    let mut stage = Stage::new();
    stage.configure(&routes("", OPAQUE));
    let history = stage.path("history.jsonl");
    let api = stage.start_api(Upstream::Opaque, 0);
    let url = redis.url();
    let words = ["--ledger", &url, "--history", history.to_str().unwrap()];
    let gateway = stage.start_gateway(&api.url, 0, &words);
    let charge = |wish: &str| {
        let key = format!("\"{wish}\"");
        post(&gateway.url, "/v1/charges", &[("idempotency-key", &key), (WISH_HEADER, wish)], r#"{"amount":500}"#)
    };
    assert_eq!(charge("before").status, 200);
    redis.kill();
    let refused = charge("without");
    assert_eq!((refused.status, refused.problem().as_str()), (503, "urn:settled:unavailable"), "{refused:#?}");
    assert!(refused.header("retry-after").is_some(), "{refused:#?}");
    assert_eq!((stage.charges("without"), stage.requests("without").len()), (0, 0));
    assert_eq!(get(&gateway.url, "/v1/models", &[]).status, 200);
    redis.start_again().unwrap();
    let done = until("the ledger is used again", || {
        let again = charge("without");
        assert!([200, 409, 503].contains(&again.status), "{again:#?}");
        (again.status == 200).then_some(again)
    });
    assert_eq!(done.json()["description"], says(2).as_str());
    assert_eq!(stage.charges("without"), 1);
    let replay = charge("before");
    assert!(replay.is_replayed() && replay.json()["description"] == says(1).as_str(), "{replay:#?}");
    assert!(gateway.stop().status.success());
    let ended = stage.run(&stage.settled(&["verify", history.to_str().unwrap()]));
    assert!(ended.status.success(), "{ended:#?}");
}

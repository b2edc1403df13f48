//! Many callers with one key.

use std::collections::BTreeMap;
use std::sync::Arc;

use settled_tests::{Stage, Upstream, WISH_HEADER, post};

use crate::routes::{OPAQUE, STREAM, WAIT, routes, said, says};

const CALLERS: usize = 1_000;

#[test]
fn a_double_click_is_one_charge() {
    let mut stage = Stage::new();
    stage.set("SERVER_DELAY_MS", 3_000).configure(&routes("", OPAQUE));
    let api = stage.start_api(Upstream::Opaque, 0);
    let gateway = stage.start_gateway(&api.url, 0, &[]);
    let click = || {
        post(
            &gateway.url,
            "/v1/charges",
            &[("idempotency-key", "\"click\""), (WISH_HEADER, "click")],
            r#"{"amount":500}"#,
        )
    };
    let replies = std::thread::scope(|scope| {
        let clicks = [scope.spawn(click), scope.spawn(click)];
        clicks.map(|click| click.join().unwrap())
    });
    let mut statuses = replies.each_ref().map(|reply| reply.status);
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409], "{replies:#?}");
    for reply in &replies {
        match reply.status {
            200 => assert_eq!(reply.json()["description"], says(1).as_str()),
            _ => assert!(reply.header("retry-after").is_some(), "{reply:#?}"),
        }
    }
    assert_eq!(stage.charges("click"), 1);
    let later = click();
    assert!(
        later.status == 200 && later.is_replayed() && later.json()["description"] == says(1).as_str(),
        "{later:#?}"
    );
    assert_eq!((stage.charges("click"), stage.requests("click").len()), (1, 1));
}

/// All at once with one key: one is carried out, all get its answer.
fn crowd(path: &'static str, body: &'static str, text: fn(&str) -> String) {
    let mut stage = Stage::new();
    let limits = format!("{WAIT}\n[limits]\nin_flight_per_principal = {}", 2 * CALLERS);
    stage.set("SERVER_DELAY_MS", 1_000).configure(&routes(&limits, OPAQUE));
    let api = stage.start_api(Upstream::Opaque, 0);
    let gateway = stage.start_gateway(&api.url, 0, &[]);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let answers: BTreeMap<(u16, bool, String), usize> = runtime.block_on(async {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Arc::new(reqwest::Client::builder().no_proxy().build().unwrap());
        let mut calls = tokio::task::JoinSet::new();
        for _ in 0..CALLERS {
            let request = client
                .post(format!("{}{path}", gateway.url))
                .header("idempotency-key", "\"crowd\"")
                .header("content-type", "application/json")
                .header(WISH_HEADER, "crowd")
                .body(body);
            calls.spawn(async move {
                let answer = request.send().await.unwrap();
                let replayed = answer.headers().contains_key("idempotency-replayed");
                (answer.status().as_u16(), replayed, answer.text().await.unwrap())
            });
        }
        let mut answers = BTreeMap::new();
        for (status, replayed, answer) in calls.join_all().await {
            *answers.entry((status, replayed, text(&answer))).or_default() += 1;
        }
        answers
    });
    assert_eq!((stage.charges("crowd"), stage.requests("crowd").len()), (1, 1), "{answers:#?}");
    let of = |replayed| answers.get(&(200, replayed, says(1))).copied().unwrap_or_default();
    assert_eq!(of(true) + of(false), CALLERS, "{answers:#?}");
    println!("{CALLERS} callers of {path}: 1 charge, {} answers, {} of them replays", of(true) + of(false), of(true));
}

#[test]
fn a_thousand_duplicates_are_one_charge() {
    crowd("/v1/charges", r#"{"amount":500}"#, |body| {
        let body: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
        body["description"].as_str().unwrap_or_default().to_owned()
    });
}

#[test]
fn a_thousand_listen_to_one_stream() {
    crowd("/v1/chat/completions", STREAM, said);
}

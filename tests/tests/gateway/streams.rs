//! Streams that break, and callers that come and go.

use std::thread;

use settled_tests::{Exchange, FAULT_HEADER, Fault, Stage, Upstream, WISH_HEADER, post, until};

use crate::routes::{KEYED, OPAQUE, STREAM, routes, said, says};

const PATH: &str = "/v1/chat/completions";
const HEADERS: [(&str, &str); 3] =
    [("content-type", "application/json"), ("idempotency-key", "\"stream\""), (WISH_HEADER, "stream")];

/// The API knows keys: the gateway asks it again, and the caller gets the whole.
#[test]
fn a_stream_cut_at_the_middle_and_retried_is_whole_and_charged_once() {
    let mut stage = Stage::new();
    stage.configure(&routes("", KEYED));
    let api = stage.start_api(Upstream::Keyed, 0);
    let gateway = stage.start_gateway(&api.url, 0, &[]);
    let fault = (FAULT_HEADER, Fault::Between.name());
    let first = post(&gateway.url, PATH, &[HEADERS.as_slice(), &[fault]].concat(), STREAM);
    // What has been passed on can't be taken back: this one is cut, and nobody can take it for the whole.
    assert!(!first.whole && first.text().contains("data: ") && !first.text().contains("[DONE]"), "{first:#?}");
    let whole = until("the whole answer", || {
        let again = post(&gateway.url, PATH, &HEADERS, STREAM);
        // Until the gateway has asked again, it is not known what happened.
        assert!([200, 409, 502].contains(&again.status), "{again:#?}");
        (again.status == 200 && again.whole).then_some(again)
    });
    assert_eq!(said(&whole.text()), says(1));
    assert!(whole.text().ends_with("data: [DONE]\n\n"), "{}", whole.text());
    let third = post(&gateway.url, PATH, &HEADERS, STREAM);
    assert!(third.is_replayed() && third.body == whole.body, "{third:#?}");
    assert_eq!((stage.charges("stream"), stage.requests("stream").len()), (1, 2));
    println!("cut at the middle, API with keys: retried by the gateway, the caller got the whole; charges 1");
}

/// The API knows no keys: nothing is sent again, and the caller is told that the outcome is not known.
#[test]
fn a_stream_cut_at_the_middle_of_an_opaque_api_is_unknown() {
    let mut stage = Stage::new();
    stage.configure(&routes("", OPAQUE));
    let api = stage.start_api(Upstream::Opaque, 0);
    let gateway = stage.start_gateway(&api.url, 0, &[]);
    let fault = (FAULT_HEADER, Fault::Between.name());
    let first = post(&gateway.url, PATH, &[HEADERS.as_slice(), &[fault]].concat(), STREAM);
    assert!(!first.whole, "{first:#?}");
    until("the loss is recorded", || stage.operation().is_unknown().then_some(()));
    for _ in 0..3 {
        let again = post(&gateway.url, PATH, &HEADERS, STREAM);
        assert_eq!((again.status, again.problem().as_str()), (502, "urn:settled:unknown"), "{again:#?}");
    }
    assert_eq!((stage.charges("stream"), stage.requests("stream").len()), (1, 1));
    assert!(stage.operation().is_unknown());
    println!("cut at the middle, API without keys: not sent again, the caller was told that it is unknown; charges 1");
}

/// What has come is passed on at once, also to who joins; all get the same bytes.
#[test]
fn who_repeats_meanwhile_hears_it_from_the_start() {
    let mut stage = Stage::new();
    stage.set("SERVER_PACE_MS", 400).configure(&routes("", OPAQUE));
    let api = stage.start_api(Upstream::Opaque, 0);
    let gateway = stage.start_gateway(&api.url, 0, &[]);
    let mut first = Exchange::send(&gateway.url, "POST", PATH, &HEADERS, STREAM.as_bytes());
    first.wait_for("charge ");
    let mut second = Exchange::send(&gateway.url, "POST", PATH, &HEADERS, STREAM.as_bytes());
    second.wait_for("charge ");
    // The end is seconds away: neither has waited for it, and nothing is recorded yet.
    assert!(!stage.operation().has_succeeded());
    let replies = [first, second].map(|exchange| thread::spawn(|| exchange.reply())).map(|reply| reply.join().unwrap());
    assert!(replies.iter().all(|reply| reply.whole && said(&reply.text()) == says(1)), "{replies:#?}");
    assert_eq!(replies[0].body, replies[1].body);
    let third = post(&gateway.url, PATH, &HEADERS, STREAM);
    assert!(third.is_replayed() && third.body == replies[0].body, "{third:#?}");
    assert_eq!((stage.charges("stream"), stage.requests("stream").len()), (1, 1));
}

/// A caller that goes away takes nothing with it.
#[test]
fn the_answer_to_a_caller_that_has_gone_is_kept() {
    let mut stage = Stage::new();
    stage.set("SERVER_PACE_MS", 50).configure(&routes("", OPAQUE));
    let api = stage.start_api(Upstream::Opaque, 0);
    let gateway = stage.start_gateway(&api.url, 0, &[]);
    let mut first = Exchange::send(&gateway.url, "POST", PATH, &HEADERS, STREAM.as_bytes());
    first.wait_for("charge ");
    drop(first);
    until("the answer is kept", || stage.operation().has_succeeded().then_some(()));
    let again = post(&gateway.url, PATH, &HEADERS, STREAM);
    assert!(again.whole && again.is_replayed() && said(&again.text()) == says(1), "{again:#?}");
    assert_eq!((stage.charges("stream"), stage.requests("stream").len()), (1, 1));
}

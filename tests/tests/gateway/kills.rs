//! The gateway is killed, and comes again.

use settled_tests::{Exchange, HttpReply, Stage, Upstream, WISH_HEADER, post, until};

use crate::routes::{KEYED, OPAQUE, STREAM, routes, said, says};

const HEADERS: [(&str, &str); 3] =
    [("content-type", "application/json"), ("idempotency-key", "\"kill\""), (WISH_HEADER, "kill")];

/// Where the gateway is when it is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// The request is being carried out; there is no answer yet.
    Waiting,
    /// The half of a stream has been passed on.
    Midway,
}

/// Kills the gateway, starts another one, repeats; what the caller of the repeat is told.
fn killed(moment: Moment, upstream: Upstream) -> (HttpReply, usize) {
    let mut stage = Stage::new();
    let kind = if upstream == Upstream::Keyed { KEYED } else { OPAQUE };
    stage.configure(&routes("", kind));
    let (path, body) = match moment {
        Moment::Waiting => ("/v1/charges", r#"{"amount":500}"#),
        Moment::Midway => ("/v1/chat/completions", STREAM),
    };
    match moment {
        Moment::Waiting => stage.set("SERVER_DELAY_MS", 4_000),
        Moment::Midway => stage.set("SERVER_PACE_MS", 300),
    };
    let api = stage.start_api(upstream, 0);
    let gateway = stage.start_gateway(&api.url, 0, &[]);
    let port = gateway.port();
    let mut first = Exchange::send(&gateway.url, "POST", path, &HEADERS, body.as_bytes());
    stage.wait_for_effects(1);
    if moment == Moment::Midway {
        first.wait_for("charge ");
    }
    gateway.kill();
    assert!(!first.reply().whole, "nobody can take this for the whole");
    let gateway = stage.start_gateway(&api.url, port, &[]);
    let last = until("an answer", || {
        let again = post(&gateway.url, path, &HEADERS, body);
        // The API with keys is asked again before long.
        let is_open = again.status == 409 || (upstream == Upstream::Keyed && again.status == 502);
        (!is_open).then_some(again)
    });
    let charges = stage.charges("kill");
    assert!(gateway.stop().status.success());
    (last, charges)
}

#[test]
fn a_gateway_killed_before_the_answer() {
    let (last, charges) = killed(Moment::Waiting, Upstream::Opaque);
    assert_eq!((last.status, last.problem().as_str(), charges), (502, "urn:settled:unknown", 1), "{last:#?}");
    let (last, charges) = killed(Moment::Waiting, Upstream::Keyed);
    assert_eq!((last.status, charges), (200, 1), "{last:#?}");
    assert_eq!(last.json()["description"], says(1).as_str());
}

#[test]
fn a_gateway_killed_in_the_middle_of_a_stream() {
    let (last, charges) = killed(Moment::Midway, Upstream::Opaque);
    assert_eq!((last.status, last.problem().as_str(), charges), (502, "urn:settled:unknown", 1), "{last:#?}");
    let (last, charges) = killed(Moment::Midway, Upstream::Keyed);
    assert_eq!((last.status, charges), (200, 1), "{last:#?}");
    assert!(last.whole && said(&last.text()) == says(1), "{last:#?}");
}

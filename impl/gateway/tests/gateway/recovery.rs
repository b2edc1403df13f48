//! A gateway that is killed, and the one that comes after it.

use crate::support::*;

const KEYED: &str =
    "[[routes]]\npath = \"/gated\"\nkind = \"keyed\"\nremembers = \"1h\"\nretry = { attempts = 3, first = \"1ms\" }";

/// Sends a request to a gateway that is killed once it has reached the server.
async fn killed(text: &str, headers: &str) -> (std::sync::Arc<Server>, Running) {
    let (server, upstream) = server().await;
    let ledger = ledger();
    let (runtime, address) = doomed(config(upstream, text), &ledger).await;
    let asked = tokio::spawn(raw_all(address, request("/gated", "\"k\"", headers, r#"{"amount":5}"#)));
    until(|| server.effects("/gated") == 1).await;
    runtime.shutdown_background();
    assert!(parse(&asked.await.unwrap()).is_none(), "nothing was told");
    server.gate.0.add_permits(9);
    let next = gateway(config(upstream, text), &ledger).await;
    (server, next)
}

/// Asks again until it is no longer being carried out.
async fn again(gateway: &Running, headers: &str) -> Reply {
    for _ in 0..3000 {
        let reply = raw(gateway.address, request("/gated", "\"k\"", headers, r#"{"amount":5}"#)).await;
        if reply.status != 409 {
            return reply;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("it is carried out for ever");
}

#[tokio::test]
async fn an_opaque_upstream_is_not_asked_again() {
    let (server, gateway) = killed("", "").await;
    assert_eq!(again(&gateway, "").await.problem(), "unknown");
    assert_eq!(server.effects("/gated"), 1);
}

#[tokio::test]
async fn an_upstream_that_goes_by_keys_is_asked_again_by_whoever_comes_first() {
    let (server, gateway) = killed(KEYED, "").await;
    until(|| server.effects("/gated") == 2).await;
    let reply = again(&gateway, "").await;
    assert_eq!((reply.status, reply.is_replayed(), server.effects("/gated")), (200, true, 2));
}

#[tokio::test]
async fn what_needs_its_callers_credentials_waits_for_its_caller() {
    let token = "Authorization: Bearer t\r\n";
    let (server, gateway) = killed(KEYED, token).await;
    // The next gateway has looked through the ledger by then, more than once.
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    assert_eq!(server.effects("/gated"), 1);
    let reply = again(&gateway, token).await;
    assert_eq!((reply.status, server.effects("/gated")), (200, 2));
    assert_eq!(server.last().headers["authorization"], "Bearer t");
    // One that the gateway itself brings is not waited for.
    let text = format!("upstream_headers = {{ Authorization = \"Bearer own\" }}\n{KEYED}");
    let (server, _gateway) = killed(&text, token).await;
    until(|| server.effects("/gated") == 2).await;
    assert_eq!(server.last().headers["authorization"], "Bearer own");
}

//! The header, and whose key it is.

use crate::support::*;

#[tokio::test]
async fn how_a_key_may_be_written() {
    let (server, gateway) = both("").await;
    for good in ["\"8e03978e-40d5-43dd-bc93-6894a57f9324\"", "8e03978e", "\"with \\\"quotes\\\"\"", "\"p\";a=1"] {
        let reply = post(&gateway, "/charges", good).await;
        assert_eq!(reply.status, 201, "{good}");
        assert!(post(&gateway, "/charges", good).await.is_replayed(), "{good}");
    }
    let before = server.effects("/charges");
    let long = format!("\"{}\"", "k".repeat(256));
    for bad in ["\"\"", "\"open", "two words", "\"a\", \"b\"", "?1", ":aGk=:", long.as_str()] {
        let reply = post(&gateway, "/charges", bad).await;
        assert_eq!((reply.status, reply.problem().as_str()), (400, "key-invalid"), "{bad}");
    }
    let twice = request("/charges", "\"a\"", "Idempotency-Key: \"a\"\r\n", "{}");
    assert_eq!(raw(gateway.address, twice).await.problem(), "key-invalid");
    assert_eq!(server.effects("/charges"), before);
    // With and without quotation marks it is one key.
    assert!(post(&gateway, "/charges", "\"8e03978e\"").await.is_replayed());
}

#[tokio::test]
async fn a_key_can_be_required_or_left_alone() {
    let text = "[[routes]]\npath = \"/charges\"\nkey = \"required\"\n[[routes]]\npath = \"/free\"\nkey = \"ignore\"";
    let (server, gateway) = both(text).await;
    let reply = post(&gateway, "/charges", "").await;
    assert_eq!((reply.status, reply.problem().as_str()), (400, "key-missing"));
    // Not by another spelling of the path either.
    for path in ["/charges/", "//charges", "/%63harges"] {
        assert_eq!(post(&gateway, path, "").await.problem(), "key-missing", "{path}");
    }
    for path in ["/./charges", "/x/../charges", "/%2e/charges", "/x/..%2Fcharges"] {
        assert_eq!(post(&gateway, path, "").await.problem(), "ambiguous-path", "{path}");
    }
    assert_eq!(server.heads.lock().unwrap().len(), 0);
    assert_eq!(post(&gateway, "/free", "\"k\"").await.status, 201);
    assert!(!post(&gateway, "/free", "\"k\"").await.is_replayed());
    // Connection can't take the key out of the request.
    let hidden = raw(gateway.address, request("/other", "\"k\"", "Connection: idempotency-key\r\n", "{}")).await;
    assert_eq!(hidden.status, 201);
    assert!(server.last().headers.contains_key("idempotency-key"));
}

#[tokio::test]
async fn nobody_reads_or_probes_the_keys_of_another() {
    let (server, gateway) = both("").await;
    let (one, other) = ("Authorization: Bearer one\r\n", "Authorization: Bearer other\r\n");
    let body = r#"{"amount":5}"#;
    let first = raw(gateway.address, request("/charges", "\"k\"", one, body)).await;
    let second = raw(gateway.address, request("/charges", "\"k\"", other, r#"{"amount":9}"#)).await;
    assert_eq!((first.status, second.status, second.is_replayed()), (201, 201, false));
    assert_eq!(server.effects("/charges"), 2);
    assert!(raw(gateway.address, request("/charges", "\"k\"", one, body)).await.is_replayed());

    let page = |key: &str, who: &str| {
        let (path, who) = (format!("/.settled/operations/{key}"), who.to_owned());
        let gateway = &gateway;
        async move { get(gateway, &path, &who).await }
    };
    raw(gateway.address, request("/charges", "\"mine\"", one, body)).await;
    let found = page("mine", one).await;
    assert_eq!(
        (found.status, &found.json()["state"], &found.json()["upstreamStatus"]),
        (200, &"done".into(), &201.into())
    );
    let (hidden, absent) = (page("mine", other).await, page("nobodys", other).await);
    assert_eq!(hidden.status, 404);
    let without_date = |mut reply: Reply| {
        reply.headers.retain(|(name, _)| name != "date");
        reply
    };
    assert_eq!(without_date(hidden), without_date(absent), "nothing tells them apart");
}

#[tokio::test]
async fn whose_request_it_is_can_be_declared() {
    let (server, gateway) = both("[gateway]\nprincipal_headers = [\"X-User\"]").await;
    let as_user = |user: &str, token: &str| {
        request("/charges", "\"k\"", &format!("X-User: {user}\r\nAuthorization: Bearer {token}\r\n"), "{}")
    };
    raw(gateway.address, as_user("a", "1")).await;
    assert!(raw(gateway.address, as_user("a", "2")).await.is_replayed(), "a new token of the same user");
    assert!(!raw(gateway.address, as_user("b", "1")).await.is_replayed());
    assert_eq!(server.effects("/charges"), 2);
}

#[tokio::test]
async fn what_is_recorded_carries_no_credentials() {
    let (_, upstream) = server().await;
    let ledger = ledger();
    let gateway = gateway(config(upstream, "[gateway]\nsecret_headers = [\"X-Signature\"]"), &ledger).await;
    let headers = "Authorization: Bearer hidden1\r\nX-Api-Key: hidden2\r\nCookie: a=hidden3\r\nX-Signature: hidden4\r\nX-Plain: seen\r\n";
    raw(gateway.address, request("/charges", "\"k\"", headers, "{}")).await;
    let entries = ledger.scan(settled::Filter::All).await.unwrap();
    let all = format!("{entries:?}");
    assert_eq!(entries.len(), 1);
    assert!(!all.contains("hidden") && !all.contains("session=secret"), "{all}");
    assert!(all.contains("x-plain: seen") && all.contains("settled-left-out: "), "{all}");
}

#[tokio::test]
async fn an_account_that_many_share_gets_keys_of_its_own() {
    let text = "upstream_headers = { Authorization = \"Bearer gateway\" }\n[gateway]\nprincipal_headers = [\"X-User\"]";
    let (server, gateway) = both(text).await;
    for user in ["a", "b"] {
        raw(gateway.address, request("/charges", "\"k\"", &format!("X-User: {user}\r\nAuthorization: mine\r\n"), "{}"))
            .await;
    }
    let heads = server.heads.lock().unwrap();
    let keys: Vec<_> = heads.iter().map(|head| head.headers["idempotency-key"].clone()).collect();
    assert_eq!(keys.len(), 2);
    assert_ne!(keys[0], keys[1], "the upstream can't tell the users apart");
    assert!(heads.iter().all(|head| head.headers["authorization"] == "Bearer gateway"));
}

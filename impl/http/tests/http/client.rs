//! Guarded requests to servers that answer, refuse, break off and say nothing.

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::AUTHORIZATION;
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use settled::protocol::{Ends, Key, Policy, Repeat, Retry, ToolKind};
use settled::{Filter, Ledger, Limits, MemoryLedger};
use settled_http::classify::{Declared, Means};
use settled_http::{ClientError, GuardMiddleware, GuardedRequest, Replayed};
use tokio::net::TcpSocket;

use crate::server::{Play, Server};
use crate::{DEDUPLICATES, engine, policy, until};

fn key(id: &str) -> Key {
    Key::new("shop", "charge", id).unwrap()
}

fn opaque(id: &str) -> GuardedRequest {
    GuardedRequest::new(key(id), policy(ToolKind::Opaque))
}

async fn middleware(ledger: &Arc<MemoryLedger>) -> GuardMiddleware {
    GuardMiddleware::new(engine(ledger).await, reqwest::Client::builder().no_proxy()).unwrap()
}

fn with(middleware: GuardMiddleware) -> ClientWithMiddleware {
    ClientBuilder::new(reqwest::Client::builder().no_proxy().build().unwrap()).with(middleware).build()
}

async fn client(ledger: &Arc<MemoryLedger>) -> ClientWithMiddleware {
    with(middleware(ledger).await)
}

fn ledger() -> Arc<MemoryLedger> {
    Arc::new(MemoryLedger::new())
}

/// Posts, and returns status and body, or the guard's error.
async fn post(
    client: &ClientWithMiddleware,
    url: String,
    terms: GuardedRequest,
) -> Result<(u16, String, bool), ClientError> {
    let sent = client.post(url).body("{\"cents\":4200}").with_extension(terms).send().await;
    match sent {
        Ok(response) => {
            let status = response.status().as_u16();
            let Replayed(replayed) = *response.extensions().get::<Replayed>().unwrap();
            Ok((status, response.text().await.unwrap(), replayed))
        }
        Err(reqwest_middleware::Error::Middleware(error)) => Err(error.downcast().unwrap()),
        Err(other) => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_request_is_sent_once_and_a_later_process_gets_the_recorded_response() {
    let (ledger, server) = (ledger(), Server::start([Play::Answer("201 Created\r\nlocation: /c/1", "charged")]).await);
    for replayed in [false, true] {
        let client = client(&ledger).await;
        let told = post(&client, server.url("/charges"), opaque("order 7")).await.unwrap();
        assert_eq!(told, (201, "charged".to_owned(), replayed));
    }
    let again =
        client(&ledger).await.post(server.url("/charges")).body("{\"cents\":4200}").with_extension(opaque("order 7"));
    let response = again.send().await.unwrap();
    assert_eq!(response.headers()["location"], "/c/1");
    assert_eq!(response.url().as_str(), server.url("/charges"));
    assert_eq!(server.requests().len(), 1);
    assert!(server.requests()[0].ends_with("{\"cents\":4200}"));
}

#[tokio::test]
async fn a_connection_that_ends_after_the_request_is_one_delivery_whatever_the_client_is_told_to_retry() {
    let server = Server::start([Play::Answer("200 OK", "warm"), Play::Close]).await;
    let ledger = ledger();
    let eager = reqwest::retry::for_host("127.0.0.1")
        .no_budget()
        .max_retries_per_request(3)
        .classify_fn(|request| request.retryable());
    let builder = reqwest::Client::builder().no_proxy().retry(eager);
    let client = with(GuardMiddleware::new(engine(&ledger).await, builder).unwrap());
    post(&client, server.url("/charges"), opaque("warm")).await.unwrap();
    for _ in 0..2 {
        let told = post(&client, server.url("/charges"), opaque("order 7")).await;
        assert!(matches!(told, Err(ClientError::Unknown { status: None, .. })), "{told:?}");
    }
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn an_idle_connection_that_is_closed_as_the_next_request_comes_makes_no_second_delivery() {
    for n in 0..20 {
        let server = Server::start([Play::AnswerAndClose("200 OK", "first")]).await;
        let client = client(&ledger()).await;
        post(&client, server.url("/charges"), opaque("first")).await.unwrap();
        tokio::time::sleep(Duration::from_micros(50 * n)).await;
        let told = post(&client, server.url("/charges"), opaque("second")).await;
        let deliveries = server.requests().len() - 1;
        match told {
            Ok((200, ..)) => assert_eq!(deliveries, 1),
            Err(ClientError::Unknown { .. }) => assert!(deliveries <= 1),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn half_an_answer_is_no_answer() {
    let server = Server::start([Play::Half]).await;
    let told = post(&client(&ledger()).await, server.url("/charges"), opaque("order 7")).await;
    assert!(matches!(told, Err(ClientError::Unknown { .. })), "{told:?}");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn no_answer_in_time_is_unknown() {
    let server = Server::start([Play::Hang]).await;
    let limits = Limits { attempt: Duration::from_millis(100), ..Limits::default() };
    let told =
        post(&client(&ledger()).await, server.url("/charges"), GuardedRequest { limits, ..opaque("order 7") }).await;
    assert!(matches!(told, Err(ClientError::Unknown { .. })), "{told:?}");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let server = Server::start([Play::Answer("307 Temporary Redirect\r\nlocation: /elsewhere", "")]).await;
    let told = post(&client(&ledger()).await, server.url("/charges"), opaque("order 7")).await;
    assert!(matches!(told, Err(ClientError::Unknown { status: Some(status), .. }) if status == 307), "{told:?}");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_refused_connection_is_tried_again_and_then_a_failure() {
    // Bound, so that the port is taken, and not listening yet.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    let url = format!("http://{address}/charges?token=s3cret");
    let told = post(&client(&ledger()).await, url.clone(), opaque("order 7")).await;
    let Err(ClientError::Failed { error: Some(error), .. }) = told else { panic!("{told:?}") };
    assert!(error.contains("not sent") && !error.contains("s3cret"), "{error}");

    let patient =
        Retry { attempts: 100, backoff: settled::protocol::Backoff { base: 20, cap: 20 }, ..Retry::default() };
    let terms = GuardedRequest::new(key("order 8"), Policy { retry: patient, ..policy(ToolKind::Opaque) });
    let client = client(&ledger()).await;
    let waiting = tokio::spawn(async move { post(&client, url, terms).await });
    tokio::time::sleep(Duration::from_millis(60)).await;
    let server = Server::on(socket.listen(16).unwrap(), []);
    assert_eq!(waiting.await.unwrap().unwrap(), (200, "ok".to_owned(), false));
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_busy_server_is_asked_again() {
    let server =
        Server::start([Play::Answer("429 Too Many Requests\r\nretry-after: 0", ""), Play::Answer("201 Created", "ok")])
            .await;
    let told = post(&client(&ledger()).await, server.url("/charges"), opaque("order 7")).await.unwrap();
    assert_eq!(told, (201, "ok".to_owned(), false));
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn rejections_are_final_only_if_declared_and_errors_of_the_server_never() {
    for (head, status) in
        [("402 Payment Required", 402), ("500 Internal Server Error", 500), ("503 Busy\r\nretry-after: 0", 503)]
    {
        for errors_final in [false, true] {
            let server = Server::start([Play::Answer(head, "no")]).await;
            let terms = GuardedRequest::new(key("order 7"), Policy { errors_final, ..policy(ToolKind::Opaque) });
            let client = client(&ledger()).await;
            for replayed in [false, true] {
                let told = post(&client, server.url("/charges"), terms.clone()).await;
                if errors_final && status == 402 {
                    assert_eq!(told.unwrap(), (402, "no".to_owned(), replayed));
                } else {
                    assert!(matches!(told, Err(ClientError::Unknown { .. })), "{head} {told:?}");
                }
            }
            assert_eq!(server.requests().len(), 1, "{head}");
        }
    }
}

#[tokio::test]
async fn a_status_means_what_is_declared() {
    let server = Server::start([Play::Answer("503 Busy\r\nretry-after: 0", "")]).await;
    let declared = Declared::new().status(http::StatusCode::SERVICE_UNAVAILABLE, Means::Busy);
    let told =
        post(&client(&ledger()).await, server.url("/charges"), GuardedRequest { declared, ..opaque("order 7") }).await;
    assert_eq!(told.unwrap(), (200, "ok".to_owned(), false));
    assert_eq!(server.requests().len(), 2);
}

fn keys_sent(server: &Server) -> Vec<String> {
    let line = |request: &String| {
        let found = request.lines().find_map(|line| line.strip_prefix("idempotency-key: "));
        found.expect("it has a key").to_owned()
    };
    server.requests().iter().map(line).collect()
}

#[tokio::test]
async fn a_server_that_deduplicates_is_sent_the_same_key_again() {
    let server = Server::start([Play::Close, Play::Answer("201 Created", "ok")]).await;
    let terms = GuardedRequest::new(key("order 7"), policy(DEDUPLICATES));
    let told = post(&client(&ledger()).await, server.url("/charges"), terms).await.unwrap();
    assert_eq!(told, (201, "ok".to_owned(), false));
    let keys = keys_sent(&server);
    assert_eq!(keys, [format!("\"{}\"", key("order 7").digest()), keys[0].clone()]);

    // A key of the request's own goes along as it is; one that can be free again names each operation anew.
    let server = Server::start([]).await;
    let client = client(&ledger()).await;
    let own = client.post(server.url("/charges")).header("idempotency-key", "mine");
    own.with_extension(GuardedRequest::new(key("order 8"), policy(DEDUPLICATES))).send().await.unwrap();
    let freed = Policy { repeat: Repeat { ends: Ends::OnFailure, window: None }, ..policy(DEDUPLICATES) };
    post(&client, server.url("/charges"), GuardedRequest::new(key("order 9"), freed)).await.unwrap();
    let keys = keys_sent(&server);
    assert_eq!(keys[0], "mine");
    assert!(keys[1].starts_with(&format!("\"{}-", key("order 9").digest())), "{keys:?}");
}

#[tokio::test]
async fn another_request_under_the_key_is_a_conflict() {
    let server = Server::start([]).await;
    let client = client(&ledger()).await;
    post(&client, server.url("/charges"), opaque("order 7")).await.unwrap();
    let told = post(&client, server.url("/refunds"), opaque("order 7")).await;
    assert!(matches!(told, Err(ClientError::Conflict(_))), "{told:?}");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn requests_without_terms_are_passed_on() {
    let server = Server::start([]).await;
    let ledger = ledger();
    let client = client(&ledger).await;
    for _ in 0..2 {
        client.get(server.url("/balance")).send().await.unwrap();
    }
    assert_eq!(server.requests().len(), 2);
    assert!(ledger.scan(Filter::All).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_response_that_is_too_large_is_not_sent_for_again() {
    let server = Server::start([Play::Answer("200 OK", "0123456789")]).await;
    let client = client(&ledger()).await;
    for replayed in [false, true] {
        let terms = GuardedRequest { max_response: 9, ..opaque("order 7") };
        let (status, body, told_again) = post(&client, server.url("/charges"), terms).await.unwrap();
        assert_eq!((status, told_again), (500, replayed));
        assert!(body.contains("urn:settled:answer-not-kept"), "{body}");
    }
    assert_eq!(server.requests().len(), 1);
}

/// One process sends a request with credentials and dies before the answer; then a second one looks after the ledger.
async fn left_behind(credentials: bool) -> (Server, Arc<MemoryLedger>, ClientWithMiddleware, GuardedRequest) {
    let server = Server::start([Play::Hang]).await;
    let ledger = ledger();
    let terms = GuardedRequest::new(key("order 7"), policy(DEDUPLICATES));
    let first = engine(&ledger).await;
    let epoch = first.epoch();
    let dying = with(GuardMiddleware::new(first, reqwest::Client::builder().no_proxy()).unwrap());
    let request = dying.post(server.url("/charges")).header(AUTHORIZATION, "Bearer s3cret").body("{\"cents\":4200}");
    tokio::spawn(request.with_extension(terms.clone()).send());
    until(async || server.requests().len() == 1).await;
    assert!(server.requests()[0].contains("Bearer s3cret"));
    ledger.retire(epoch).await.unwrap();

    let engine = engine(&ledger).await;
    let mut middleware = GuardMiddleware::new(engine.clone(), reqwest::Client::builder().no_proxy()).unwrap();
    if credentials {
        middleware = middleware.credentials(|request| {
            request.headers_mut().insert(AUTHORIZATION, http::HeaderValue::from_static("Bearer n3w"));
        });
    }
    let recoverable = middleware.recoverable(&terms);
    tokio::spawn(async move {
        engine.maintain(Arc::new(move |_| Some(recoverable.clone())), Duration::from_millis(10)).await
    });
    (server, ledger, with(middleware), terms)
}

#[tokio::test]
async fn what_a_dead_process_left_is_sent_again_with_new_credentials() {
    let (server, ledger, client, terms) = left_behind(true).await;
    until(async || ledger.scan(Filter::Unsettled).await.unwrap().is_empty()).await;
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    assert!(requests[1].contains("Bearer n3w") && !requests[1].contains("left-out"), "{requests:?}");
    assert!(requests[1].starts_with("POST /charges HTTP/1.1") && requests[1].ends_with("{\"cents\":4200}"));
    assert_eq!(keys_sent(&server)[0], keys_sent(&server)[1]);
    for entry in ledger.scan(Filter::All).await.unwrap() {
        let stored = String::from_utf8_lossy(&entry.asked).into_owned();
        assert!(!stored.contains("s3cret") && !stored.contains("n3w") && stored.contains("authorization"), "{stored}");
    }
    let told = post(&client, server.url("/charges"), terms).await.unwrap();
    assert_eq!(told, (200, "ok".to_owned(), true));
}

#[tokio::test]
async fn without_credentials_it_is_not_sent_again() {
    let (server, ledger, _client, _) = left_behind(false).await;
    let escalated = async || {
        let entries = ledger.scan(Filter::Unsettled).await.unwrap();
        entries.iter().any(|entry| entry.record.state().name() == "escalated")
    };
    until(escalated).await;
    assert_eq!(server.requests().len(), 1);
}

//! The tower layer in front of a real server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::request::Parts;
use reqwest::RequestBuilder;
use settled::protocol::{Ends, Repeat, Retry};
use settled::{Engine, EngineOptions, Filter, Ledger, Limits, MemoryLedger, Recoverable};
use settled_http::idempotency_key::Syntax;
use settled_http::{Described, GuardLayer, KeyRule, Route};
use tokio::net::TcpListener;

use crate::until;

/// A service that counts what it does.
#[derive(Clone, Default)]
struct Shop {
    charges: Arc<AtomicUsize>,
    /// How it answers from now on: 0 for a charge.
    status: Arc<AtomicUsize>,
    delay: Arc<AtomicUsize>,
}

impl Shop {
    fn charges(&self) -> usize {
        self.charges.load(Ordering::SeqCst)
    }

    fn answers(&self, status: usize) {
        self.status.store(status, Ordering::SeqCst);
    }
}

async fn charge(State(shop): State<Shop>, headers: HeaderMap, body: String) -> Response {
    let number = shop.charges.fetch_add(1, Ordering::SeqCst) + 1;
    tokio::time::sleep(Duration::from_millis(shop.delay.load(Ordering::SeqCst) as u64)).await;
    assert!(headers.contains_key("authorization"));
    let status = match shop.status.load(Ordering::SeqCst) {
        0 => StatusCode::CREATED,
        other => StatusCode::from_u16(other as u16).unwrap(),
    };
    let headers = [("location", format!("/charges/{number}")), ("set-cookie", "session=s3cret".to_owned())];
    (status, headers, format!("charge {number}: {body}")).into_response()
}

/// Guards all but GET; each caller has a scope of its own.
fn describe(change: impl Fn(&mut Route) + Send + Sync + 'static) -> impl Fn(&Parts) -> Described + Send + Sync {
    move |request| {
        if request.method == http::Method::GET {
            return Described::PassOn;
        }
        let caller = request.headers.get("authorization").map_or("nobody", |value| value.to_str().unwrap());
        let mut route =
            Route::new(caller.rsplit(' ').next().unwrap(), format!("{} {}", request.method, request.uri.path()));
        change(&mut route);
        route.into()
    }
}

struct World {
    shop: Shop,
    ledger: Arc<MemoryLedger>,
    engine: Engine,
    address: SocketAddr,
}

impl World {
    async fn new() -> World {
        World::with(EngineOptions::default(), |_| {}).await
    }

    async fn with(options: EngineOptions, change: impl Fn(&mut Route) + Send + Sync + 'static) -> World {
        World::on(Arc::new(MemoryLedger::new()), Shop::default(), options, change).await
    }

    /// A process in front of a service.
    async fn on(
        ledger: Arc<MemoryLedger>,
        shop: Shop,
        options: EngineOptions,
        change: impl Fn(&mut Route) + Send + Sync + 'static,
    ) -> World {
        let engine = Engine::start(ledger.clone(), options).await.unwrap();
        let app = Router::new()
            .route("/charges", post(charge))
            .route("/refunds", post(charge))
            .route("/balance", get(charge))
            .with_state(shop.clone())
            .layer(GuardLayer::new(engine.clone(), describe(change)));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, app).await });
        World { shop, ledger, engine, address }
    }

    /// A request of Alice's, without a key.
    fn request(&self, path: &str) -> RequestBuilder {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        client.post(format!("http://{}{path}", self.address)).header("authorization", "Bearer alice")
    }

    async fn charge(&self, key: &str) -> Told {
        told(self.request("/charges").header("idempotency-key", format!("\"{key}\"")).body("4200")).await
    }
}

/// What a client sees.
#[derive(Debug, PartialEq)]
struct Told {
    status: u16,
    body: String,
    replayed: bool,
    retry_after: Option<String>,
    location: Option<String>,
    content_type: String,
}

async fn told(request: RequestBuilder) -> Told {
    let response = request.send().await.unwrap();
    let header = |name| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    assert_eq!(header("set-cookie"), None);
    Told {
        status: response.status().as_u16(),
        replayed: header("idempotency-replayed").as_deref() == Some("true"),
        retry_after: header("retry-after"),
        location: header("location"),
        content_type: header("content-type").unwrap_or_default(),
        body: response.text().await.unwrap(),
    }
}

fn is_problem(told: &Told, status: u16, name: &str) {
    let body: serde_json::Value = serde_json::from_str(&told.body).unwrap();
    assert_eq!(told.content_type, "application/problem+json", "{told:?}");
    assert_eq!((told.status, body["status"].as_u64().unwrap()), (status, u64::from(status)), "{told:?}");
    assert_eq!(body["type"], format!("urn:settled:{name}"), "{told:?}");
}

#[tokio::test]
async fn a_request_is_carried_out_once_and_replayed_also_by_a_later_process() {
    let world = World::new().await;
    let first = world.charge("k1").await;
    assert_eq!((first.status, &*first.body, first.replayed), (201, "charge 1: 4200", false));
    assert_eq!(first.location.as_deref(), Some("/charges/1"));
    let second = World::on(world.ledger.clone(), world.shop.clone(), EngineOptions::default(), |_| {}).await;
    for again in [world.charge("k1").await, second.charge("k1").await] {
        assert_eq!(again, Told { replayed: true, ..told_of(&first) });
    }
    assert_eq!(world.shop.charges(), 1);
    assert_eq!(world.charge("k2").await.body, "charge 2: 4200");
    for entry in world.ledger.scan(Filter::All).await.unwrap() {
        let stored = [entry.asked, entry.outcome.unwrap()].concat();
        let stored = String::from_utf8_lossy(&stored);
        assert!(!stored.contains("Bearer") && !stored.contains("s3cret"), "{stored}");
    }
}

fn told_of(told: &Told) -> Told {
    Told {
        body: told.body.clone(),
        retry_after: told.retry_after.clone(),
        location: told.location.clone(),
        content_type: told.content_type.clone(),
        ..*told
    }
}

#[tokio::test]
async fn a_key_is_one_callers_and_one_routes() {
    let world = World::new().await;
    world.charge("k1").await;
    let keyed = |path| world.request(path).header("idempotency-key", "\"k1\"").body("4200");
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let bobs = client.post(format!("http://{}/charges", world.address)).header("authorization", "Bearer bob");
    let told_bob = told(bobs.header("idempotency-key", "\"k1\"").body("4200")).await;
    assert_eq!((told_bob.replayed, &*told_bob.body), (false, "charge 2: 4200"));
    let other_route = told(keyed("/refunds")).await;
    assert_eq!((other_route.replayed, &*other_route.body), (false, "charge 3: 4200"));
}

#[tokio::test]
async fn a_key_that_is_missing_or_none_is_refused_where_it_is_required() {
    let world = World::new().await;
    is_problem(&told(world.request("/charges")).await, 400, "key-missing");
    is_problem(&told(world.request("/charges").header("idempotency-key", "k1")).await, 400, "key-invalid");
    assert_eq!(world.shop.charges(), 0);
    let balance =
        reqwest::Client::new().get(format!("http://{}/balance", world.address)).header("authorization", "Bearer alice");
    assert_eq!(balance.send().await.unwrap().status(), 201);

    let lenient = World::with(EngineOptions::default(), |route| {
        route.key = KeyRule::Optional;
        route.syntax = Syntax::Lenient;
    })
    .await;
    assert!(lenient.request("/charges").send().await.unwrap().status().is_success());
    let bare = || lenient.request("/charges").header("idempotency-key", "k1");
    assert_eq!((told(bare()).await.replayed, told(bare()).await.replayed), (false, true));
    assert_eq!(lenient.shop.charges(), 2);
}

#[tokio::test]
async fn another_request_with_the_key_is_a_conflict() {
    let world = World::new().await;
    let send = |body: &'static str| {
        let json = world.request("/charges").header("content-type", "application/json");
        told(json.header("idempotency-key", "\"k1\"").body(body))
    };
    assert_eq!(send("{\"cents\":1,\"to\":\"bob\"}").await.status, 201);
    assert!(send("{ \"to\": \"bob\", \"cents\": 1 }").await.replayed);
    is_problem(&send("{\"cents\":2,\"to\":\"bob\"}").await, 422, "conflict");
    assert_eq!(world.shop.charges(), 1);
}

#[tokio::test]
async fn one_that_is_being_carried_out_is_waited_for_or_told_so() {
    for (patience, expected) in [(None, 201), (Some(Duration::from_millis(30)), 409)] {
        let world = World::with(EngineOptions { patience, ..EngineOptions::default() }, |_| {}).await;
        world.shop.delay.store(1_000, Ordering::SeqCst);
        let second = async {
            until(async || world.shop.charges() == 1).await;
            world.charge("k1").await
        };
        let (first, second) = tokio::join!(world.charge("k1"), second);
        assert_eq!((first.status, second.status, world.shop.charges()), (201, expected, 1));
        if expected == 409 {
            is_problem(&second, 409, "in-progress");
            assert_eq!(second.retry_after.as_deref(), Some("1"));
        }
    }
}

#[tokio::test]
async fn an_error_of_the_service_leaves_it_unknown_unless_errors_are_declared_final() {
    for status in [500, 503, 408] {
        let world = World::new().await;
        world.shop.answers(status);
        for _ in 0..2 {
            is_problem(&world.charge("k1").await, 502, "unknown");
        }
        assert_eq!(world.shop.charges(), 1);
    }
    let world = World::with(EngineOptions::default(), |route| {
        route.policy.errors_final = true;
        route.policy.repeat = Repeat::ALWAYS_REPLAY;
    })
    .await;
    world.shop.answers(500);
    for replayed in [false, true] {
        let told = world.charge("k1").await;
        assert_eq!((told.status, &*told.body, told.replayed), (500, "charge 1: 4200", replayed));
    }
    world.shop.answers(408);
    is_problem(&world.charge("k2").await, 502, "unknown");
}

#[tokio::test]
async fn a_refusal_is_an_answer_and_a_busy_service_has_done_nothing() {
    let world = World::new().await;
    world.shop.answers(422);
    for replayed in [false, true] {
        let told = world.charge("k1").await;
        assert_eq!((told.status, told.replayed, &*told.body), (422, replayed, "charge 1: 4200"));
    }
    world.shop.answers(429);
    assert_eq!(world.charge("k2").await.status, 429);
    world.shop.answers(0);
    let told = world.charge("k2").await;
    assert_eq!((told.status, told.replayed), (201, false));
    assert_eq!(world.shop.charges(), 3);
}

#[tokio::test]
async fn large_bodies_are_refused_and_large_answers_are_not_kept() {
    let world = World::with(EngineOptions::default(), |route| route.max_request = 3).await;
    is_problem(&world.charge("k1").await, 413, "too-large");
    assert_eq!(world.shop.charges(), 0);
    let world = World::with(EngineOptions::default(), |route| route.max_response = 3).await;
    for replayed in [false, true] {
        let told = world.charge("k1").await;
        is_problem(&told, 500, "answer-not-kept");
        assert_eq!(told.replayed, replayed);
    }
    assert_eq!(world.shop.charges(), 1);
}

#[tokio::test]
async fn a_client_that_goes_away_finds_the_answer_when_it_comes_back() {
    let world = World::new().await;
    world.shop.delay.store(500, Ordering::SeqCst);
    tokio::select! {
        told = world.charge("k1") => panic!("it was answered before it was given up: {told:?}"),
        () = until(async || world.shop.charges() == 1) => {}
    }
    let told = world.charge("k1").await;
    assert_eq!((told.status, &*told.body, told.replayed), (201, "charge 1: 4200", true));
    assert_eq!(world.shop.charges(), 1);
}

#[tokio::test]
async fn a_result_that_is_no_longer_kept_is_expired() {
    let limits = Limits { tombstone: Some(Duration::from_secs(3_600)), ..Limits::default() };
    let terms = move |route: &mut Route| {
        route.policy.repeat = Repeat { ends: Ends::WithWindow, window: Some(20) };
        route.policy.retry = Retry { attempts: 1, ..Retry::default() };
        route.limits = limits;
    };
    let world = World::with(EngineOptions::default(), terms).await;
    assert_eq!(world.charge("k1").await.status, 201);
    tokio::time::sleep(Duration::from_millis(60)).await;
    let mut route = Route::new("alice", "charges");
    terms(&mut route);
    let known = Recoverable { policy: route.policy, tool: None, limits };
    world.engine.expire(&move |_: &settled::Entry| Some(known.clone())).await.unwrap();
    is_problem(&world.charge("k1").await, 410, "expired");
    assert_eq!(world.shop.charges(), 1);
}

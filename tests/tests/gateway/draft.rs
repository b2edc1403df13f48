//! The normative points of draft-ietf-httpapi-idempotency-key-header-07: a test for each, named by its section. The table of
//! them is `impl/gateway/DRAFT.md`.

use std::collections::BTreeSet;

use settled_tests::{Api, Gateway, HttpReply, Stage, Upstream, get, post, until};

use crate::routes::{OPAQUE, routes, says};

/// A gateway in front of an API that knows no keys.
struct World {
    stage: Stage,
    gateway: Gateway,
    _api: Api,
}

/// One with these tables, these lines in each route, and an API that takes so many milliseconds.
fn world(tables: &str, lines: &str, delay: u64) -> World {
    let mut stage = Stage::new();
    stage.set("SERVER_DELAY_MS", delay).configure(&routes(tables, &format!("{OPAQUE}\n{lines}")));
    let api = stage.start_api(Upstream::Opaque, 0);
    let gateway = stage.start_gateway(&api.url, 0, &[]);
    World { stage, gateway, _api: api }
}

fn usual() -> World {
    world("", "", 0)
}

/// Posts with these lines of `Idempotency-Key`.
fn keys(url: &str, keys: &[&str], body: &str) -> HttpReply {
    let headers: Vec<_> = keys.iter().map(|key| ("idempotency-key", *key)).collect();
    post(url, "/v1/charges", &headers, body)
}

impl World {
    fn keys(&self, lines: &[&str], body: &str) -> HttpReply {
        keys(&self.gateway.url, lines, body)
    }

    fn key(&self, key: &str, body: &str) -> HttpReply {
        self.keys(&[key], body)
    }

    fn charges(&self) -> usize {
        self.stage.charges("-")
    }

    /// What reached the API.
    fn sent(&self) -> usize {
        std::fs::read_to_string(self.stage.path("effects.requests")).unwrap_or_default().lines().count()
    }
}

#[track_caller]
fn expect_problem(reply: &HttpReply, status: u16, name: &str) {
    assert_eq!((reply.status, reply.problem()), (status, format!("urn:settled:{name}")), "{reply:#?}");
    assert_eq!(reply.header("content-type"), Some("application/problem+json"), "{reply:#?}");
    let problem = reply.json();
    assert!(problem["title"].is_string() && problem["detail"].is_string(), "{problem}");
    assert_eq!(problem["status"], status);
}

const BODY: &str = r#"{"amount":500}"#;

#[test]
fn draft_2_1_the_key_is_a_string() {
    let world = usual();
    let first = world.key(r#""8e03978e-40d5-43e8-bc93-6894a57f9324""#, BODY);
    assert_eq!((first.status, first.json()["description"].as_str()), (200, Some(says(1).as_str())), "{first:#?}");
    // Parameters of the item mean nothing here; what is escaped is the character itself.
    assert!(world.key(r#""8e03978e-40d5-43e8-bc93-6894a57f9324";a=1"#, BODY).is_replayed());
    assert_eq!(world.key(r#""a\"b\\c""#, BODY).status, 200);
    assert!(world.key(r#""a\"b\\c""#, BODY).is_replayed());
    assert_eq!(world.charges(), 2);
}

#[test]
fn draft_2_1_what_is_no_string_is_refused() {
    let world = usual();
    for key in [
        "",
        "\"\"",
        "\"open",
        "\"a\" \"b\"",
        "\"a\", \"b\"",
        "(\"a\" \"b\")",
        ":YWJj:",
        "?1",
        "\"a\\b\"",
        "\"\u{e4}\"",
        "a b",
    ] {
        expect_problem(&world.key(key, BODY), 400, "key-invalid");
    }
    assert_eq!(world.sent(), 0);
}

#[test]
fn draft_2_1_a_bare_token_means_the_same_string() {
    let world = usual();
    let bare = world.key("8e03978e-40d5-43e8-bc93", BODY);
    assert_eq!(bare.status, 200, "{bare:#?}");
    let quoted = world.key("\"8e03978e-40d5-43e8-bc93\"", BODY);
    assert!(quoted.is_replayed() && quoted.body == bare.body, "{quoted:#?}");
    assert_eq!(world.charges(), 1);
}

#[test]
fn draft_2_1_two_keys_are_refused() {
    let world = usual();
    expect_problem(&world.keys(&["\"a\"", "\"b\""], BODY), 400, "key-invalid");
    expect_problem(&world.keys(&["\"a\"", "\"a\""], BODY), 400, "key-invalid");
    assert_eq!(world.sent(), 0);
}

#[test]
fn draft_2_2_a_key_belongs_to_one_payload() {
    let world = usual();
    assert_eq!(world.key("\"k\"", BODY).status, 200);
    let other = world.key("\"k\"", r#"{"amount":501}"#);
    expect_problem(&other, 422, "conflict");
    assert!(!other.text().contains("500") && !other.text().contains("charge 1"), "it tells of the first: {other:#?}");
    assert!(world.key("\"k\"", BODY).is_replayed());
    assert_eq!((world.charges(), world.sent()), (1, 1));
}

#[test]
fn draft_2_3_expiry_is_published_and_kept() {
    let world = world("", "retention = \"1s\"", 0);
    let first = world.key("\"k\"", BODY);
    assert_eq!(first.status, 200);
    let policy = first.header("idempotency-retention").map(str::to_owned);
    assert!(policy.is_some(), "no header says how long the answer is kept: {first:#?}");
    until("the key expires", || (!world.key("\"k\"", BODY).is_replayed()).then_some(()));
}

#[test]
fn draft_2_4_the_fingerprint_is_of_the_payload() {
    let world = usual();
    assert_eq!(world.key("\"k\"", r#"{"amount":500,"to":"bob"}"#).status, 200);
    // The same JSON, written in another way, is the same payload.
    let same = world.key("\"k\"", "{ \"to\": \"bob\",\n \"amount\": 500 }");
    assert!(same.is_replayed(), "{same:#?}");
    expect_problem(&world.key("\"k\"", r#"{"amount":500,"to":"eve"}"#), 422, "conflict");
    expect_problem(&world.key("\"k\"", r#"{"amount":500}"#), 422, "conflict");
    let url = &world.gateway.url;
    let query = post(url, "/v1/charges?dry=1", &[("idempotency-key", "\"k\"")], r#"{"amount":500,"to":"bob"}"#);
    expect_problem(&query, 422, "conflict");
    assert_eq!(world.charges(), 1);
}

#[test]
fn draft_2_5_the_server_looks_at_the_header_of_each_request() {
    let world = usual();
    assert_eq!(world.key("\"one\"", BODY).status, 200);
    assert_eq!(world.key("\"two\"", BODY).json()["description"], says(2).as_str());
    assert_eq!(world.key("\"one\"", BODY).json()["description"], says(1).as_str());
    // What is idempotent by its method needs no key, and none is looked at.
    let read = get(&world.gateway.url, "/v1/charges", &[("idempotency-key", "\"one\"")]);
    assert!(read.status == 200 && read.json()["method"] == "GET", "{read:#?}");
    assert_eq!(world.charges(), 2);
}

#[test]
fn draft_2_6_a_first_request_is_processed() {
    let world = usual();
    let first = world.key("\"k\"", BODY);
    assert_eq!((first.status, first.header("x-request-id")), (200, Some("req_1")), "{first:#?}");
    assert!(!first.is_replayed());
    assert_eq!(world.charges(), 1);
}

#[test]
fn draft_2_6_a_retry_gets_the_result() {
    let world = usual();
    let first = world.key("\"k\"", BODY);
    for _ in 0..3 {
        let again = world.key("\"k\"", BODY);
        assert!(again.is_replayed(), "{again:#?}");
        assert_eq!((again.status, &again.body), (first.status, &first.body));
        for name in ["content-type", "x-request-id", "cache-control"] {
            assert_eq!(again.header(name), first.header(name), "{name}");
        }
    }
    assert_eq!((world.charges(), world.sent()), (1, 1));
}

#[test]
fn draft_2_6_a_retry_gets_the_error() {
    let world = usual();
    let body = r#"{"amount":500,"refuse":402}"#;
    let first = world.key("\"k\"", body);
    assert_eq!(first.status, 402, "{first:#?}");
    let again = world.key("\"k\"", body);
    assert!(again.is_replayed() && again.status == 402 && again.body == first.body, "{again:#?}");
    assert_eq!((world.charges(), world.sent()), (0, 1));
}

#[test]
fn draft_2_6_a_concurrent_request_is_a_conflict() {
    let world = world("", "", 4_000);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| keys(&world.gateway.url, &["\"k\""], BODY));
        world.stage.wait_for_effects(1);
        expect_problem(&world.key("\"k\"", BODY), 409, "in-progress");
        assert_eq!(first.join().unwrap().status, 200);
    });
    assert!(world.key("\"k\"", BODY).is_replayed());
    assert_eq!(world.charges(), 1);
}

#[test]
fn draft_2_7_a_missing_key_is_400() {
    let world = usual();
    expect_problem(&world.keys(&[], BODY), 400, "key-missing");
    assert_eq!(world.sent(), 0);
}

#[test]
fn draft_2_7_another_payload_is_422() {
    let world = usual();
    assert_eq!(world.key("\"k\"", BODY).status, 200);
    expect_problem(&world.key("\"k\"", r#"{"amount":1}"#), 422, "conflict");
    assert_eq!(world.charges(), 1);
}

/// Several APIs do it so: by configuration only.
#[test]
fn draft_2_7_another_payload_is_409_by_configuration() {
    let world = world("[gateway]\nconflict_status = 409", "", 0);
    assert_eq!(world.key("\"k\"", BODY).status, 200);
    expect_problem(&world.key("\"k\"", r#"{"amount":1}"#), 409, "idempotency_conflict");
    assert_eq!(world.charges(), 1);
}

#[test]
fn draft_2_7_errors_link_to_documentation() {
    let world = usual();
    assert_eq!(world.key("\"k\"", BODY).status, 200);
    for error in [world.keys(&[], BODY), world.key("\"k\"", r#"{"amount":1}"#)] {
        let link = error.header("link").unwrap();
        assert!(link.contains("rel=\"describedby\""), "{link}");
        let page = link.split(['<', '>']).nth(1).unwrap();
        let documentation = get(&world.gateway.url, page, &[]);
        assert_eq!(documentation.status, 200);
        let name = error.problem().replace("urn:settled:", "");
        assert!(documentation.text().contains(&format!("{} {name} ", error.status)), "{name}");
    }
    // The API's own errors stay its own.
    assert!(get(&world.gateway.url, "/nowhere", &[]).header("link").is_none());
}

#[test]
fn draft_2_7_still_being_processed_is_409() {
    let world = world("", "", 4_000);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| keys(&world.gateway.url, &["\"k\""], BODY));
        world.stage.wait_for_effects(1);
        let meanwhile = world.key("\"k\"", BODY);
        expect_problem(&meanwhile, 409, "in-progress");
        assert!(meanwhile.header("retry-after").is_some(), "{meanwhile:#?}");
        // With another payload it can never be answered: it is told so at once.
        expect_problem(&world.key("\"k\"", r#"{"amount":1}"#), 422, "conflict");
        assert_eq!(first.join().unwrap().status, 200);
    });
    assert_eq!((world.charges(), world.sent()), (1, 1));
}

#[test]
fn draft_2_7_uncorrected_requests_fail_again() {
    let world = usual();
    assert_eq!(world.key("\"k\"", BODY).status, 200);
    for _ in 0..2 {
        expect_problem(&world.keys(&[], BODY), 400, "key-missing");
        expect_problem(&world.key("\"open", BODY), 400, "key-invalid");
        expect_problem(&world.key("\"k\"", r#"{"amount":1}"#), 422, "conflict");
    }
    // Corrected, it is processed.
    assert_eq!(world.key("\"other\"", r#"{"amount":1}"#).status, 200);
    assert_eq!(world.charges(), 2);
}

#[test]
fn draft_5_keys_are_validated_before_anything_else() {
    let world = usual();
    let long = format!("\"{}\"", "k".repeat(256));
    expect_problem(&world.key(&long, BODY), 400, "key-invalid");
    let longest = format!("\"{}\"", "k".repeat(255));
    assert_eq!(world.key(&longest, BODY).status, 200);
    // What would be more than a key somewhere else is a key here.
    for key in ["\"../../etc/passwd\"", "\"'; drop table operations; --\"", "\"*\"", "\"~\"", "\"/\""] {
        let first = world.key(key, BODY);
        assert_eq!(first.status, 200, "{key}: {first:#?}");
        let again = world.key(key, BODY);
        assert!(again.is_replayed() && again.body == first.body, "{key}: {again:#?}");
    }
    assert_eq!(world.charges(), 6);
}

#[test]
fn draft_5_nobody_gets_the_answer_of_another() {
    let world = usual();
    let of = |credentials: &str, path: &str| {
        post(&world.gateway.url, path, &[("idempotency-key", "\"k\""), ("authorization", credentials)], BODY)
    };
    let alice = of("Bearer alice", "/v1/charges");
    let eve = of("Bearer eve", "/v1/charges");
    let nobody = world.key("\"k\"", BODY);
    let elsewhere = of("Bearer alice", "/v1/messages");
    for (number, reply) in [&alice, &eve, &nobody, &elsewhere].into_iter().enumerate() {
        assert!(reply.status == 200 && !reply.is_replayed(), "{reply:#?}");
        assert!(reply.text().contains(&says(number + 1)), "{reply:#?}");
    }
    assert!(of("Bearer alice", "/v1/charges").is_replayed() && of("Bearer eve", "/v1/charges").is_replayed());
    assert_eq!(world.charges(), 4);
    // Nor is it found where answers are kept.
    let kept = files(&world.stage.path("ledger"));
    assert!(!kept.contains("Bearer"), "credentials are in the ledger");
}

fn files(directory: &std::path::Path) -> String {
    let mut all = String::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            all += &String::from_utf8_lossy(&std::fs::read(&path).unwrap());
        }
    }
    all
}

/// The table names each of these tests, and no other.
#[test]
fn the_table_of_the_draft_and_the_tests_agree() {
    let words = |text: &str| {
        let names =
            text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| word.starts_with("draft_"));
        names.map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let tests: BTreeSet<_> = include_str!("draft.rs")
        .lines()
        .filter_map(|line| line.strip_prefix("fn draft_"))
        .map(|rest| format!("draft_{}", rest.split('(').next().unwrap_or_default()))
        .collect();
    assert_eq!(words(include_str!("../../../impl/gateway/DRAFT.md")), tests);
}

//! Asking a PostgreSQL database, a real one.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use settled_observers::{Observer, Secret, Sql, Verdict, Way};
use settled_test_services::pgbouncer::PgBouncer;
use settled_test_services::postgres::Postgres;
use support::{given, reading, unclear};

async fn ask(url: &str, sql: &str, parameters: Vec<Value>, arguments: &str) -> Verdict {
    let way = Way::Sql(Sql::parse(sql, Secret::new(url), parameters).unwrap());
    let reading = reading(Sql::applied(), Sql::not_applied());
    Observer::open(&way, reading, Duration::from_secs(5)).unwrap().ask(&given(arguments)).await
}

#[tokio::test]
async fn a_database_is_asked_and_never_changed() {
    let mut server = Postgres::start().unwrap();
    server.sql("create table charges (id bigint, name text, at timestamptz, ok boolean)").unwrap();
    server.sql("insert into charges values (7, 'a''b', '2026-01-02 03:04:05Z', true)").unwrap();
    server
        .sql("grant all on charges to settled; create sequence numbers; grant all on sequence numbers to settled")
        .unwrap();
    let url = server.url();
    let id = || vec![json!("{id}")];

    // A number, or the text of one: the statement says which type it is.
    for arguments in [r#"{"id":7}"#, r#"{"id":"7"}"#, r#"{"id":7.0}"#] {
        let seen = ask(&url, "select id, name, ok from charges where id = $1;", id(), arguments).await;
        assert_eq!(seen, Verdict::Applied(json!([{"id": 7, "name": "a'b", "ok": true}])), "{arguments}");
    }
    assert_eq!(ask(&url, "select 1 from charges where id = $1", id(), r#"{"id":8}"#).await, Verdict::NotApplied);
    let three = vec![json!("{name}"), json!("{ok}"), json!("{at}")];
    let arguments = r#"{"name":"a'b","ok":true,"at":"2026-01-02T03:04:05Z"}"#;
    let sql = "select 1 from charges where name = $1 and ok = $2 and at = $3 -- the end";
    assert!(matches!(ask(&url, sql, three, arguments).await, Verdict::Applied(_)));
    let sql = "select 1 from charges where name = $1";
    let sly = r#"{"id":"' or true --"}"#;
    assert_eq!(ask(&url, sql, id(), sly).await, Verdict::NotApplied);

    for sql in [
        "delete from charges where id = $1 returning id",
        "with gone as (delete from charges where id = $1 returning id) select * from gone",
        "select nextval('numbers') where $1 <> 8",
        "select 1 where $1 = 8) as x; delete from charges; select (1",
        "select 1 from nowhere where id = $1",
        "select 1",
        "select 1 from charges where id = $1 and name = $2",
    ] {
        unclear(&ask(&url, sql, id(), r#"{"id":7}"#).await);
    }
    assert_eq!(server.sql("select count(*) from charges").unwrap(), "1");
    unclear(&ask(&url, "select 1 from charges where id = $1", id(), r#"{"id":"seven"}"#).await);
    unclear(&ask(&url, "select 1 from charges where id = $1", id(), "{}").await);
    let many = "select i from generate_series(1, 2000) i where i <> $1";
    assert!(unclear(&ask(&url, many, id(), r#"{"id":0}"#).await).contains("1000 rows"));

    let begun = Instant::now();
    let way = Way::Sql(Sql::parse("select pg_sleep($1)", Secret::new(url.as_str()), id()).unwrap());
    let observer =
        Observer::open(&way, reading(Sql::applied(), Sql::not_applied()), Duration::from_millis(500)).unwrap();
    unclear(&observer.ask(&given(r#"{"id":30}"#)).await);
    assert!(begun.elapsed() < Duration::from_secs(5));
    tokio::time::sleep(Duration::from_millis(300)).await;
    let running = "select count(*) from pg_stat_activity where query like '%pg_sleep(%' and pid <> pg_backend_pid() and state = 'active'";
    assert_eq!(server.sql(running).unwrap(), "0", "a question that nobody waits for does not go on");

    server.kill();
    let seen = ask(&url, "select 1 from charges where id = $1", id(), r#"{"id":8}"#).await;
    assert!(!unclear(&seen).contains("s3cret"), "{seen:?}");
}

#[tokio::test]
async fn a_pooler_between_makes_no_difference() {
    let server = Postgres::start().unwrap();
    server
        .sql("create table charges (id bigint); insert into charges values (7); grant all on charges to settled")
        .unwrap();
    let pooler = PgBouncer::start(&server, 2).unwrap();
    let url = pooler.url(&server);
    let sql = "select id from charges where id = $1";
    for _ in 0..6 {
        let (seven, eight) = tokio::join!(
            ask(&url, sql, vec![json!("{id}")], r#"{"id":7}"#),
            ask(&url, sql, vec![json!("{id}")], r#"{"id":8}"#),
        );
        assert_eq!((seven, eight), (Verdict::Applied(json!([{"id": 7}])), Verdict::NotApplied));
    }
    unclear(&ask(&url, "delete from charges where id = $1 returning id", vec![json!("{id}")], r#"{"id":7}"#).await);
    assert_eq!(server.sql("select count(*) from charges").unwrap(), "1");
}

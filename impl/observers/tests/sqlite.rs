//! Asking an SQLite database.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use settled_observers::{Observer, Secret, Sql, Verdict, Way};
use support::{given, reading, unclear};

struct Database {
    dir: tempfile::TempDir,
}

impl Database {
    fn new() -> Database {
        let database = Database { dir: tempfile::tempdir().unwrap() };
        database
            .open()
            .execute_batch(
                "create table charges (id text, cents integer, note text); insert into charges values ('7', 500, null)",
            )
            .unwrap();
        database
    }

    fn open(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.dir.path().join("bank.db")).unwrap()
    }

    fn observer(&self, sql: &str, parameters: Vec<Value>, within: Duration) -> Observer {
        let url = format!("sqlite:{}", self.dir.path().join("bank.db").display());
        let way = Way::Sql(Sql::parse(sql, Secret::new(url), parameters).unwrap());
        Observer::open(&way, reading(Sql::applied(), Sql::not_applied()), within).unwrap()
    }

    async fn ask(&self, sql: &str, parameters: Vec<Value>, arguments: &str) -> Verdict {
        self.observer(sql, parameters, Duration::from_secs(3)).ask(&given(arguments)).await
    }
}

#[tokio::test]
async fn rows_are_applied_and_none_is_not() {
    let database = Database::new();
    let sql = "select id, cents, note from charges where id = $1;";
    let seen = database.ask(sql, vec![json!("{id}")], r#"{"id":"7"}"#).await;
    assert_eq!(seen, Verdict::Applied(json!([{"id": "7", "cents": 500, "note": null}])));
    let seen = database.ask(sql, vec![json!("{id}")], r#"{"id":"8"}"#).await;
    assert_eq!(seen, Verdict::NotApplied);
    // Whatever the value is, it is a value.
    let seen = database.ask(sql, vec![json!("{id}")], r#"{"id":"' or 1=1 --"}"#).await;
    assert_eq!(seen, Verdict::NotApplied);
}

#[tokio::test]
async fn parameters_go_by_their_numbers() {
    let database = Database::new();
    let parameters = || vec![json!("{id}"), json!("{cents}")];
    let arguments = r#"{"id":"7","cents":500}"#;
    for sql in [
        "select 1 from charges where cents = $2 and id = $1",
        "select 1 from charges where cents = ?2 and id = ?1",
        "select 1 from charges where id = ? and cents = ?",
    ] {
        assert!(matches!(database.ask(sql, parameters(), arguments).await, Verdict::Applied(_)), "{sql}");
    }
    let seen = database.ask("select 1 from charges where id = $3", parameters(), arguments).await;
    assert!(unclear(&seen).contains("`$3`"), "{seen:?}");
    let seen = database.ask("select 1 from charges where id = $1", parameters(), arguments).await;
    assert!(unclear(&seen).contains("`$2`"), "{seen:?}");
    let seen = database.ask("select 1 from charges where id = :id", parameters(), arguments).await;
    assert!(unclear(&seen).contains("`:id`"), "{seen:?}");
    let seen = database.ask("select 1 from charges where id = $1 or $2", parameters(), r#"{"id":"7"}"#).await;
    assert!(unclear(&seen).contains("`cents`"), "{seen:?}");
}

#[tokio::test]
async fn nothing_is_ever_changed() {
    let database = Database::new();
    for sql in [
        "delete from charges where id = $1 returning id",
        "select 1 from charges where id = $1; delete from charges",
        "insert into charges values ($1, 1, null)",
        "attach $1 as x",
    ] {
        unclear(&database.ask(sql, vec![json!("{id}")], r#"{"id":"8"}"#).await);
    }
    let count: u32 = database.open().query_row("select count(*) from charges", [], |row| row.get(0)).unwrap();
    assert_eq!(count, 1);
}

#[tokio::test]
async fn failures_say_nothing() {
    let database = Database::new();
    unclear(&database.ask("select 1 from nowhere where id = $1", vec![json!("{id}")], r#"{"id":"8"}"#).await);
    let way = Sql::parse("select $1", Secret::new("sqlite:/nonexistent/bank.db"), vec![json!("{id}")]).unwrap();
    let observer = Observer::open(&Way::Sql(way), reading(Sql::applied(), Sql::not_applied()), support::SOON).unwrap();
    unclear(&observer.ask(&given(r#"{"id":"8"}"#)).await);
    assert!(!std::path::Path::new("/nonexistent").exists());

    // A file that somebody else writes to is waited for, for a while.
    let writer = database.open();
    writer.execute_batch("begin exclusive").unwrap();
    let observer =
        database.observer("select 1 from charges where id = $1", vec![json!("{id}")], Duration::from_millis(300));
    unclear(&observer.ask(&given(r#"{"id":"8"}"#)).await);
    drop(writer);

    let endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) from n where i <> $1";
    let begun = Instant::now();
    let seen =
        database.observer(endless, vec![json!("{id}")], Duration::from_millis(300)).ask(&given(r#"{"id":8}"#)).await;
    assert!(unclear(&seen).contains("within 300 ms"), "{seen:?}");
    assert!(begun.elapsed() < Duration::from_secs(5));
    let many =
        "with recursive n(i) as (select 1 union all select i + 1 from n where i < 2000) select i from n where i <> $1";
    assert!(unclear(&database.ask(many, vec![json!("{id}")], r#"{"id":0}"#).await).contains("1000 rows"));
}

#[test]
fn what_can_not_be_used_is_refused() {
    let wrong = |sql: &str, database: &str| Sql::parse(sql, Secret::new(database), Vec::new()).unwrap_err().to_string();
    assert!(wrong(" ; ", "sqlite:x").contains("empty"));
    assert!(wrong("select 1", "mysql://x").contains("postgres://"));
    assert!(wrong("select 1", "sqlite:").contains("no file"));
    let error = wrong("select 1", "postgres://me:secret@x:port/y");
    assert!(!error.contains("secret"), "{error}");
    let way = Way::Sql(Sql::parse("select 1", Secret::new("env:SETTLED_NOT_SET"), Vec::new()).unwrap());
    let error = Observer::open(&way, reading(Vec::new(), Vec::new()), support::SOON).unwrap_err().to_string();
    assert!(error.contains("SETTLED_NOT_SET"), "{error}");
}

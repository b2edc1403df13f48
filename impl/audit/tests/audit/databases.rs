//! Effects that show in a database.

use settled_audit::{Experiment, Verdict};
use settled_test_services::postgres::Postgres;

use super::{Server, expect, of, report};
use Verdict::{Duplicate, Safe};

#[test]
fn rows_of_sqlite_and_a_column_that_does_not_count() {
    let server = Server::new("");
    let mut options = server.options(&["insert"]);
    options.watch = vec![format!("sqlite:{}/shop.db", server.directory())];
    let tool = report(&options).tools.remove(0);
    expect(&tool, [Duplicate, Duplicate, Duplicate, Duplicate, Safe]);
    assert!(of(&tool, Experiment::Twice).changes[0].starts_with("table orders: 1 row added"), "{tool:?}");

    let server = Server::new("");
    let mut options = server.options(&["upsert"]);
    options.watch = vec![format!("sqlite:{}/shop.db", server.directory())];
    assert_eq!(of(&report(&options).tools[0], Experiment::Twice).verdict, Duplicate);
    options.ignore = vec!["orders.at".to_owned()];
    expect(&report(&options).tools[0], [Safe, Safe, Safe, Safe, Safe]);
}

#[test]
fn rows_of_postgresql() {
    let postgres = Postgres::start().unwrap();
    let url = postgres.database("shop").unwrap();
    let mut server = Server::new("");
    server.more.push(("DATABASE", url.clone()));
    let created = std::process::Command::new("psql").args(["-q", &url, "-c", "create table orders (id text)"]).status();
    assert!(created.unwrap().success());
    let mut options = server.options(&["psql"]);
    options.watch = vec![url];
    options.at_once = 3;
    let tool = report(&options).tools.remove(0);
    expect(&tool, [Duplicate, Duplicate, Duplicate, Duplicate, Safe]);
    assert!(of(&tool, Experiment::Twice).changes[0].starts_with("table orders: 1 row added"), "{tool:?}");
}

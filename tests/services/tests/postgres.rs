//! The server does what the harness says of it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use settled_test_services::pgbouncer::PgBouncer;
use settled_test_services::postgres::Postgres;

#[test]
fn what_was_committed_survives_a_kill_and_what_is_frozen_does_not_answer() {
    let mut server = Postgres::start().unwrap();
    server.sql("CREATE TABLE kept AS SELECT 7 AS x").unwrap();
    server.kill();
    assert!(server.sql("SELECT 1").is_err());
    server.start_again().unwrap();
    assert_eq!(server.sql("SELECT x FROM kept").unwrap(), "7");
    assert!(server.log().contains("automatic recovery"), "{}", server.log());

    let (answered, answers) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        server.freeze();
        scope.spawn(|| answered.send(server.sql("SELECT 1").unwrap()));
        let early = answers.recv_timeout(std::time::Duration::from_millis(300));
        server.thaw();
        assert!(early.is_err());
        assert_eq!(answers.recv().unwrap(), "1");
    });
}

#[test]
fn pgbouncer_takes_clients() {
    let server = Postgres::start().unwrap();
    let bouncer = PgBouncer::start(&server, 3).unwrap();
    assert_ne!(bouncer.url(&server), server.url());
    assert!(bouncer.log().contains("process up"), "{}", bouncer.log());
}

#[test]
fn a_standby_has_what_was_committed_and_can_be_promoted() {
    let mut primary = Postgres::start().unwrap();
    let standby = primary.standby().unwrap();
    primary.sql("CREATE TABLE t AS SELECT 7 AS n").unwrap();
    assert_eq!(standby.sql("SELECT n FROM t").unwrap(), "7");
    assert!(standby.sql("INSERT INTO t VALUES (8)").is_err(), "it is only read from");
    primary.kill();
    standby.promote().unwrap();
    standby.sql("INSERT INTO t VALUES (8)").unwrap();
    assert_eq!(standby.sql("SELECT sum(n) FROM t").unwrap(), "15");
}

//! PostgreSQL and Redis under load: killed and started again, paused for longer than anybody waits, failed over to a replica.

use std::cell::RefCell;
use std::thread;
use std::time::{Duration, Instant};

use settled_ledger_tests::stage::wire::{Answer, Request, Settings};
use settled_ledger_tests::stage::{Behaviour, Guard, ToolServer};
use settled_sweeps::load::under_load;
use settled_sweeps::scene::worker;
use settled_sweeps::switch::Switch;
use settled_sweeps::table::{Row, show};
use settled_test_services::postgres::Postgres;
use settled_test_services::redis::Redis;

/// Longer than a guard waits for its ledger.
const PAUSE: Duration = Duration::from_secs(4);

fn row(ledger: &'static str, what: &str, url: &str, act: impl FnOnce()) -> Row {
    let report = under_load(url, act);
    println!("{ledger}, {what}: {:?}, longest answer {:.1} s", report.truth.answers, report.longest.as_secs_f64());
    let mut row = Row { ledger, kind: "mixed", process: what.to_owned(), ..Row::default() };
    (row.points, row.runs, row.kills) = (report.operations, 1, 1);
    row.take(report.truth);
    row
}

#[test]
fn postgres() {
    let _alone = crate::alone();
    let server = RefCell::new(Postgres::start().unwrap());
    let url = server.borrow().url();
    let mut rows = Vec::new();
    rows.push(row("postgres", "killed", &format!("{url}&schema=killed"), || {
        server.borrow_mut().kill();
        server.borrow_mut().start_again().unwrap();
    }));
    rows.push(row("postgres", "paused", &format!("{url}&schema=paused"), || {
        server.borrow().freeze();
        thread::sleep(PAUSE);
        server.borrow().thaw();
    }));
    let standby = server.borrow().standby().unwrap();
    let (first, second) = (format!("127.0.0.1:{}", server.borrow().port()), standby.port());
    let both =
        format!("{}&target_session_attrs=read-write", url.replace(&first, &format!("{first},127.0.0.1:{second}")));
    rows.push(row("postgres", "failed over", &both, || {
        server.borrow_mut().kill();
        standby.promote().unwrap();
    }));
    show("postgres-under-load.txt", ["server", "times"], &rows);
}

/// Waits until the replica has a link to its primary.
fn follows(replica: &Redis) {
    let give_up = Instant::now() + Duration::from_secs(30);
    while !replica.command(&["INFO", "replication"]).unwrap().contains("master_link_status:up") {
        assert!(Instant::now() < give_up, "{}", replica.log());
        thread::sleep(Duration::from_millis(20));
    }
}

/// How much of its primary's stream a replica has.
fn has(replica: &Redis) -> u64 {
    let said = replica.command(&["INFO", "replication"]).unwrap();
    let offset = said.lines().find_map(|line| line.strip_prefix("slave_repl_offset:"));
    offset.and_then(|offset| offset.trim().parse().ok()).unwrap()
}

#[test]
fn redis() {
    let _alone = crate::alone();
    let server = RefCell::new(Redis::start().unwrap());
    let url = server.borrow().url();
    let mut rows = Vec::new();
    rows.push(row("redis", "killed", &format!("{url}?prefix=killed"), || {
        server.borrow_mut().kill();
        server.borrow_mut().start_again().unwrap();
    }));
    rows.push(row("redis", "paused", &format!("{url}?prefix=paused"), || {
        server.borrow().freeze();
        thread::sleep(PAUSE);
        server.borrow().thaw();
    }));
    let replicas = [(); 2].map(|()| Redis::with().replica_of(&server.borrow()).start().unwrap());
    replicas.iter().for_each(follows);
    let port = server.borrow().port();
    let switch = Switch::to(port);
    let waits =
        url.replace(&format!(":{port}/"), &format!(":{}/", switch.port())) + "?wait=1&wait_timeout=1s&prefix=waits";
    rows.push(row("redis", "failed over, wait=1", &waits, || {
        server.borrow_mut().kill();
        // The one that has more, as whoever elects a primary must choose.
        let mut replicas = replicas.each_ref();
        replicas.sort_by_key(|replica| has(replica));
        let [behind, next] = replicas;
        next.command(&["REPLICAOF", "NO", "ONE"]).unwrap();
        behind.command(&["REPLICAOF", "127.0.0.1", &next.port().to_string()]).unwrap();
        switch.turn(next.port());
    }));
    show("redis-under-load.txt", ["server", "times"], &rows);
}

/// Without waiting for replicas a failover can lose what was acknowledged: that is said at the start, and a guard that has seen
/// more than the new primary has refuses to go on.
#[test]
fn redis_without_wait_warns_and_stops() {
    let _alone = crate::alone();
    let mut server = Redis::start().unwrap();
    let replica = Redis::with().replica_of(&server).start().unwrap();
    follows(&replica);
    let switch = Switch::to(server.port());
    let url = server.url().replace(&format!(":{}/", server.port()), &format!(":{}/", switch.port()));
    let tool = ToolServer::start(Behaviour::reliable());
    let settings = Settings::new(url, tool.socket());
    let guard = Guard::start(worker().to_str().unwrap(), &settings, tool.directory(), None);
    guard.ready();
    assert!(guard.log().contains("may lose what it has acknowledged"), "{}", guard.log());
    let call = |id: &str| guard.call(&Request::opaque(id)).recv_timeout(Duration::from_secs(60)).unwrap();
    assert_eq!(call("both have it").answer, Answer::Done);
    let sent = || {
        let said = server.command(&["INFO", "replication"]).unwrap();
        let offset = said.lines().find_map(|line| line.strip_prefix("master_repl_offset:"));
        offset.and_then(|offset| offset.trim().parse::<u64>().ok()).unwrap()
    };
    let enough = sent();
    let give_up = Instant::now() + Duration::from_secs(30);
    while has(&replica) < enough {
        assert!(Instant::now() < give_up, "{}", replica.log());
    }
    // It follows no more, as if the network between them were slow; the primary acknowledges all the same.
    replica.command(&["REPLICAOF", "NO", "ONE"]).unwrap();
    assert_eq!(call("one has it").answer, Answer::Done);
    server.kill();
    switch.turn(replica.port());
    let told = call("one has it");
    assert!(told.answer == Answer::NotSent && told.body.contains("lost acknowledged changes"), "{told:?}");
    assert_eq!(tool.counts().get("one has it"), Some(&1), "{told:?}");
}

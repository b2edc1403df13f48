//! Leases, owners, places, the budget: by the server, whatever the hosts' clocks say.

use std::process::{Command, Stdio};

use settled::protocol::Epoch;
use settled::{Draw, Ledger, Liveness, Renewal, Resource};

use crate::support::*;

/// What `a_process_with_another_clock` does, in a process of its own; and where it finds the ledger.
const ROLE: &str = "SETTLED_TEST_ROLE";
const URL: &str = "SETTLED_TEST_URL";

/// This test program again, as another process, whose clock is wrong by this much.
fn another_process(role: &str, url: &str, clock: Option<&str>) -> Command {
    let this = std::env::current_exe().unwrap();
    let mut command = match clock {
        Some(clock) => {
            let mut faketime = Command::new("faketime");
            faketime.args(["-f", clock]).arg(this);
            faketime
        }
        None => Command::new(this),
    };
    command.args(["--exact", "leases::a_process_with_another_clock", "--nocapture", "--ignored"]);
    command.env(ROLE, role).env(URL, url).stdin(Stdio::null()).stderr(Stdio::inherit());
    command
}

fn told(output: &[u8], word: &str) -> String {
    let text = String::from_utf8_lossy(output);
    let found = text.split_whitespace().find_map(|part| part.strip_prefix(&format!("{word}=")).map(str::to_owned));
    found.unwrap_or_else(|| panic!("it does not say {word}: {text}"))
}

#[tokio::test]
#[ignore = "run by other tests, in a process of its own"]
async fn a_process_with_another_clock() {
    let (Ok(role), Ok(url)) = (std::env::var(ROLE), std::env::var(URL)) else {
        return;
    };
    let ledger = open(&url).await;
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    println!("clock={}", clock.as_millis());
    println!("shared={}", ledger.time().await.unwrap().unwrap());
    if role == "own" {
        println!("epoch={}", ledger.register(2 * SECOND).await.unwrap());
    } else {
        println!("sees={:?}", ledger.liveness(Epoch(role.parse().unwrap())).await.unwrap());
    }
}

#[tokio::test]
async fn wrong_clocks_move_no_lease_and_no_shared_time() {
    let server = server();
    let url = server.url();
    let ledger = open(&url).await;
    let by = ledger.register(60 * SECOND).await.unwrap();
    for clock in ["+3d", "-3d"] {
        let output = another_process(&by.to_string(), &url, Some(clock)).output().unwrap();
        let number = |word| told(&output.stdout, word).parse::<i64>().unwrap();
        let here = ledger.time().await.unwrap().unwrap().0 as i64;
        assert!((number("shared") - here).abs() < 60_000);
        assert!((number("clock") - here).abs() > 2 * 86_400_000, "its clock was not wrong");
        assert_eq!(told(&output.stdout, "sees"), "Alive");
    }
    ledger.renew(by, SECOND / 4).await.unwrap();
    tokio::time::sleep(SECOND / 2).await;
    for clock in ["+3d", "-3d"] {
        let output = another_process(&by.to_string(), &url, Some(clock)).output().unwrap();
        assert_eq!(told(&output.stdout, "sees"), "Lapsed");
    }
    assert_eq!(ledger.renew(by, SECOND).await.unwrap(), Renewal::Fenced);
}

#[tokio::test]
async fn a_process_that_has_ended_is_gone_for_all_hosts_once_one_of_its_own_has_seen_it() {
    let server = server();
    let ledger = open(&server.url()).await;
    let output = another_process("own", &server.url(), None).output().unwrap();
    let epoch = Epoch(told(&output.stdout, "epoch").parse().unwrap());
    let seen = format!("SELECT gone_at IS NOT NULL FROM settled.owners WHERE epoch = {epoch}");
    assert_eq!(server.sql(&seen).unwrap(), "f");
    assert_eq!(ledger.liveness(epoch).await.unwrap(), Liveness::Gone);
    assert_eq!(server.sql(&seen).unwrap(), "t");

    let own = ledger.register(60 * SECOND).await.unwrap();
    assert!(own > epoch, "epochs only grow");
    assert_eq!(ledger.liveness(own).await.unwrap(), Liveness::Alive);
    ledger.retire(own).await.unwrap();
    assert_eq!(ledger.liveness(own).await.unwrap(), Liveness::Gone);
    assert_eq!(ledger.renew(own, SECOND).await.unwrap(), Renewal::Fenced);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_is_first_in_a_line_stays_first() {
    let server = server();
    let ledgers = [shared(&server.url()).await, shared(&server.url()).await];
    let by = ledgers[0].register(60 * SECOND).await.unwrap();
    let resource = Resource { scope: "tests".into(), name: "door".into() };
    let watching = tokio::spawn({
        let (ledger, resource) = (ledgers[0].clone(), resource.clone());
        async move {
            let mut before: Vec<u64> = Vec::new();
            while before.len() < 200 {
                let line: Vec<u64> = ledger.line(&resource).await.unwrap().iter().map(|entry| entry.place).collect();
                assert!(line.starts_with(&before), "someone came in before those who were there: {before:?} {line:?}");
                before = line;
            }
        }
    });
    let calls = (0..200).map(|id| {
        let ledger = ledgers[id % 2].clone();
        tokio::spawn(async move { ledger.compare_and_set(claim_line(key(id), by, "door")).await.unwrap() })
    });
    for call in calls.collect::<Vec<_>>() {
        assert!(is_durable(&call.await.unwrap()));
    }
    watching.await.unwrap();
    let first = ledgers[1].line(&resource).await.unwrap().remove(0);
    ledgers[1].compare_and_set(settle(&first, b"ok")).await.unwrap();
    assert_eq!(ledgers[0].line(&resource).await.unwrap().len(), 199);
}

#[tokio::test]
async fn the_retry_budget_is_one_for_all_processes() {
    let server = server();
    let (one, other) = (open(&server.url()).await, open(&server.url()).await);
    let draw = |requests, take| Draw { requests, take, per_mille: 100, burst: 2 };
    assert!(one.draw(draw(0, true)).await.unwrap());
    assert!(other.draw(draw(0, true)).await.unwrap());
    assert!(!one.draw(draw(9, true)).await.unwrap());
    assert!(other.draw(draw(1, true)).await.unwrap());
    assert!(!one.draw(draw(1_000_000, false)).await.unwrap());
    let (a, b, c) = tokio::join!(one.draw(draw(0, true)), other.draw(draw(0, true)), one.draw(draw(0, true)));
    assert_eq!([a.unwrap(), b.unwrap(), c.unwrap()].iter().filter(|taken| **taken).count(), 2);
}

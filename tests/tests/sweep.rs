//! One charge, and a kill at every place where one is possible: each fault point of the proxy, each step of the server and
//! of the client, and pairs of kills of a proxy and its successor. After each, the same call is asked again.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeSet;

use settled_tests::{Client, Reply, Running, Server, Session, Stage, until};

/// How often the call is asked again after the last kill.
const RETRIES: usize = 3;
/// There are fewer fault points on the way of one call.
const POINTS: u64 = 200;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Opaque,
    Deduplicates,
}

impl Kind {
    fn stage(self) -> Stage {
        let mut stage = Stage::new();
        if self == Kind::Deduplicates {
            stage.configure(
                "[tools.charge]\nkind = \"deduplicates\"\npass_key_as = \"idempotency_key\"\nlimit = \"24h\"\nmargin = \"1m\"\n",
            );
        }
        stage
    }
}

/// Charges once through a fresh proxy, which may be killed meanwhile.
fn attempt(stage: &Stage, kill_at: Option<u64>) -> Reply {
    let log = stage.path("kills");
    let at = kill_at.unwrap_or_default().to_string();
    let more = [("SETTLED_KILL_AT", at.as_str()), ("SETTLED_KILL_LOG", log.to_str().unwrap())];
    let command = stage.proxy(&Server::Quick.command());
    let mut session = Session::start_with(stage, &command, if kill_at.is_some() { &more } else { &[] });
    let reply = match session.initialize() {
        Reply::Success(_) => session.charge(),
        other => other,
    };
    let ended = session.end();
    assert!(kill_at.is_some() || ended.status.success(), "{ended:?}\n{}", stage.story());
    reply
}

/// The fault points at which proxies killed themselves, in order.
fn points(stage: &Stage) -> Vec<String> {
    let log = std::fs::read_to_string(stage.path("kills")).unwrap_or_default();
    log.lines().map(|line| line.split(' ').nth(1).unwrap().to_owned()).collect()
}

/// Asks again until there is a success, or often enough; checks everything that must hold. Returns the last answer.
#[track_caller]
fn settle(stage: &Stage, kind: Kind, mut replies: Vec<Reply>) -> Reply {
    for _ in 0..RETRIES {
        replies.push(attempt(stage, None));
    }
    // No server of a killed proxy is still at work.
    stage.wait_until_empty();
    let effects = stage.effects();
    let story = || format!("{replies:#?}\n{}", stage.story());
    assert!(effects.len() <= 1, "{}", story());
    let mut told = false;
    for reply in &replies {
        match reply.receipt() {
            Some(receipt) => {
                assert_eq!(Some(&receipt), effects.first(), "a success that did not happen: {}", story());
                told = true;
            }
            None => assert!(!told || *reply == Reply::Gone, "another answer after a success: {}", story()),
        }
    }
    let last = replies.last().unwrap().clone();
    assert_ne!(last, Reply::Gone, "{}", story());
    let operation = stage.operation();
    match kind {
        Kind::Deduplicates => {
            assert!(operation.has_succeeded() && last.receipt().is_some() && effects.len() == 1, "{}", story());
        }
        Kind::Opaque if operation.has_succeeded() => {
            assert!(effects.len() == 1 && last.receipt().is_some(), "{}", story());
        }
        Kind::Opaque if operation.has_failed() => assert!(effects.is_empty(), "{}", story()),
        Kind::Opaque => assert!(operation.is_unknown() && last.status() == "unknown", "{}", story()),
    }
    last
}

/// Every name of a fault point.
const NAMES: [&str; 8] = [
    "before-store",
    "after-store",
    "before-dispatch",
    "after-reply",
    "before-write-to-server",
    "after-write-to-server",
    "before-write-to-client",
    "after-write-to-client",
];

/// Kills at the first point, the second … until a call passes without being killed.
fn sweep(kind: Kind, names: &mut BTreeSet<String>) {
    let mut table = Vec::new();
    for at in 1..POINTS {
        let stage = kind.stage();
        let first = attempt(&stage, Some(at));
        let killed = points(&stage);
        assert!(killed.len() <= 1, "one kill: {killed:?}");
        let last = settle(&stage, kind, vec![first.clone()]);
        let name = killed.first().map_or("(none)", String::as_str);
        table.push(format!(
            "{at:>3}  {name:<24} {:<6} {:>7}  {:<8} {}",
            !killed.is_empty(),
            stage.effects().len(),
            first.word(),
            last.word()
        ));
        names.extend(killed.iter().cloned());
        if killed.is_empty() {
            assert_eq!(first.word(), "done", "a call that nobody disturbed");
            break;
        }
    }
    println!("{kind:?}\n  #  point                    killed effects  first    last\n{}", table.join("\n"));
    assert!(table.last().unwrap().contains("(none)"), "the sweep came to its end");
}

fn every_point_of_the_proxy(kind: Kind) {
    let mut names = BTreeSet::new();
    // The proxy's tasks pass some points in varying order, so a single sweep can miss one.
    for _ in 0..3 {
        sweep(kind, &mut names);
        if NAMES.iter().all(|name| names.contains(*name)) {
            return;
        }
    }
    panic!("of {NAMES:?} only {names:?} were met");
}

#[test]
fn every_point_of_the_proxy_opaque() {
    every_point_of_the_proxy(Kind::Opaque);
}

#[test]
fn every_point_of_the_proxy_deduplicates() {
    every_point_of_the_proxy(Kind::Deduplicates);
}

/// The proxy is killed at one point, and its successor at another.
fn pairs_of_kills(kind: Kind) {
    let mut table = Vec::new();
    let (mut both, mut seed) = (0, 1u64);
    for _ in 0..16 {
        // A full-period generator: always the same pairs, well spread.
        let mut next = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            1 + (seed >> 33) % 16
        };
        let (first_at, second_at) = (next(), next());
        let stage = kind.stage();
        let replies = vec![attempt(&stage, Some(first_at)), attempt(&stage, Some(second_at))];
        let killed = points(&stage);
        both += usize::from(killed.len() == 2);
        let last = settle(&stage, kind, replies);
        table.push(format!(
            "{first_at:>3} {second_at:>3}  {:<52} {:>7}  {}",
            killed.join(", "),
            stage.effects().len(),
            last.word()
        ));
    }
    println!(
        "{kind:?}\n  #   #  points                                               effects  last\n{}",
        table.join("\n")
    );
    assert!(both >= 8, "two kills in only {both} runs");
}

#[test]
fn pairs_of_kills_opaque() {
    pairs_of_kills(Kind::Opaque);
}

#[test]
fn pairs_of_kills_deduplicates() {
    pairs_of_kills(Kind::Deduplicates);
}

#[test]
fn every_step_of_the_server() {
    // The step; whether it comes after the effect; what an opaque tool's caller is told in the end.
    let steps = [("before-effect", 0, "unknown"), ("after-effect", 1, "unknown"), ("after-answer", 1, "done")];
    for kind in [Kind::Opaque, Kind::Deduplicates] {
        for (step, effects, opaque) in steps {
            let mut stage = kind.stage();
            stage.set("SERVER_DIE_AT", step);
            let first = attempt(&stage, None);
            let (kills, servers) = (stage.kills(), stage.servers());
            assert_eq!(kills.len(), 1, "{step}: {}", stage.story());
            assert!(servers.contains(&kills[0]), "{step}: {}", stage.story());
            let last = settle(&stage, kind, vec![first]);
            println!("{kind:?} server {step}: {} effects, {}", stage.effects().len(), last.word());
            match kind {
                Kind::Opaque => assert_eq!((stage.effects().len(), last.word()), (effects, opaque), "{step}"),
                Kind::Deduplicates => assert_eq!((stage.effects().len(), last.word()), (1, "done"), "{step}"),
            }
        }
    }
}

/// What a client has come to when it is killed.
const CLIENT_STEPS: [&str; 5] = ["started", "proxy started", "server started", "effect", "answer"];

fn reached(stage: &Stage, client: &mut Running, step: &str) {
    match step {
        "started" => {}
        "proxy started" => until(step, || (!stage.proxies().is_empty()).then_some(())),
        "server started" => drop(stage.wait_for_servers(1)),
        "effect" => drop(stage.wait_for_effects(1)),
        _ => assert!(client.next_line().is_some(), "the client prints what it was told"),
    }
}

#[test]
fn every_step_of_the_client() {
    for step in CLIENT_STEPS {
        let mut stage = Kind::Opaque.stage();
        // Time to be killed in, before the answer comes; and after it, because a second order is to come.
        stage.set("SERVER_DELAY_MS", if step == "effect" { 1000 } else { 0 }).set("COUNT", 100_000).set("START", 500);
        let command = stage.proxy(&Server::Quick.command());
        let scenario = if step == "answer" { "loop" } else { "once" };
        let mut client = stage.start_client(Client::Node, scenario, &command);
        reached(&stage, &mut client, step);
        let killed = client.kill();
        assert!(killed.is_some(), "the client had ended by itself at: {step}");
        stage.wait_until_empty();
        if step == "answer" {
            // The orders after the first one are another test's business.
            let of_first = |effects: Vec<String>| effects.iter().filter(|line| line.contains("alice 500 ")).count();
            assert_eq!(of_first(stage.effects()), 1, "{}", stage.story());
            let reply = attempt(&stage, None);
            assert!(reply.is_replayed() && reply.receipt().is_some(), "{reply:?}\n{}", stage.story());
            assert_eq!(of_first(stage.effects()), 1, "{}", stage.story());
            continue;
        }
        let last = settle(&stage, Kind::Opaque, Vec::new());
        println!("client {step}: {} effects, {}", stage.effects().len(), last.word());
        assert_eq!((stage.effects().len(), last.word()), (1, "done"), "{step}");
    }
}

//! Orders, one after the other, while something SIGKILLs the client, the proxy or the server again and again. The client
//! starts anew at the next order that was not confirmed; nothing else is ever cleaned up.
//!
//! `RANDOM_KILLS_SEED` repeats the choices of a run. When each kill hits is up to the machine.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::time::{Duration, Instant};

use fastrand::Rng;
use serde_json::Value;
use settled_tests::{Client, Process, Running, Server, Stage};

const LONG: Duration = Duration::from_secs(25);
/// As long as that, if the machine is too busy for a test of it before.
const LONGEST: Duration = Duration::from_secs(240);
/// How long a victim is waited for.
const SEARCH: Duration = Duration::from_secs(3);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Victim {
    Client,
    Proxy,
    Server,
}

struct Shop {
    stage: Stage,
    client: Client,
    server: Server,
    command: Vec<OsString>,
    running: Option<Running>,
    /// Order → what the client was told.
    confirmed: BTreeMap<u64, String>,
    kills: BTreeMap<Victim, u32>,
}

impl Shop {
    fn new(client: Client, server: Server) -> Shop {
        let mut stage = Stage::new();
        // Long enough for kills to hit calls that are under way.
        stage.set("SERVER_DELAY_MS", 20).set("COUNT", 1_000_000);
        let command = stage.proxy(&server.command());
        let (confirmed, kills) = (BTreeMap::new(), BTreeMap::new());
        Shop { stage, client, server, command, running: None, confirmed, kills }
    }

    fn next_order(&self) -> u64 {
        self.confirmed.last_key_value().map_or(1, |(order, _)| order + 1)
    }

    fn note(&mut self, line: &str) {
        // The last line of a killed client can be half a line.
        let Ok(line) = serde_json::from_str::<Value>(line) else { return };
        let Some(order) = line["confirmed"].as_u64() else { return };
        let text = line["result"]["content"][0]["text"].as_str().expect("a receipt").to_owned();
        assert!(self.confirmed.insert(order, text).is_none(), "order {order} was confirmed twice to one client");
    }

    fn read(&mut self) {
        while let Some(line) = self.running.as_mut().and_then(Running::line_at_hand) {
            self.note(&line);
        }
    }

    fn ensure_client(&mut self) {
        if self.running.is_none() {
            let next = self.next_order();
            self.stage.set("START", next);
            self.running = Some(self.stage.start_client(self.client, "loop", &self.command));
        }
    }

    fn process(&self, victim: Victim) -> Option<(Process, &'static str)> {
        match victim {
            Victim::Client => None,
            Victim::Proxy => self.stage.proxies().pop().map(|proxy| (proxy, "mcp")),
            Victim::Server => {
                let server = self.stage.servers().into_iter().rev().find_map(Process::find)?;
                let word = self.server.word();
                // Its pid could be another process's by now.
                server.has_word(word).then_some((server, word))
            }
        }
    }

    /// Kills one, as soon as it is there; counts it if the kill hit it.
    fn kill(&mut self, victim: Victim) {
        let start = Instant::now();
        while start.elapsed() < SEARCH {
            let hit = match victim {
                // A client that has not even started a proxy has nothing to lose.
                Victim::Client if self.stage.proxies().is_empty() => false,
                Victim::Client => match self.running.take().and_then(Running::kill) {
                    Some(ended) => {
                        ended.lines.iter().for_each(|line| self.note(line));
                        true
                    }
                    None => panic!("the client ended by itself\n{}", self.stage.story()),
                },
                Victim::Proxy | Victim::Server => {
                    self.process(victim).is_some_and(|(process, word)| self.stage.kill(&process, word))
                }
            };
            if hit {
                *self.kills.entry(victim).or_default() += 1;
                return;
            }
            self.read();
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until orders come through again: starting a client takes longer than the time between two kills.
    fn wait_for_a_charge(&mut self) {
        let (start, before) = (Instant::now(), self.stage.effects().len());
        while start.elapsed() < SEARCH && self.stage.effects().len() == before {
            self.read();
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn run(&mut self, rng: &mut Rng) {
        let start = Instant::now();
        while start.elapsed() < LONG || (!self.is_tried() && start.elapsed() < LONGEST) {
            self.ensure_client();
            // Some kills come while things are starting.
            if rng.u32(0..4) > 0 {
                self.wait_for_a_charge();
            }
            std::thread::sleep(Duration::from_millis(rng.u64(0..300)));
            self.read();
            self.kill(match rng.u32(0..6) {
                0 => Victim::Client,
                1 | 2 => Victim::Proxy,
                _ => Victim::Server,
            });
        }
        // The last kill may have been the client's.
        if self.running.is_some() {
            self.kill(Victim::Client);
        }
        self.running = None;
        self.stage.wait_until_empty();
    }

    /// Whether it has been a test at all: a busy machine takes longer.
    fn is_tried(&self) -> bool {
        let each = [Victim::Client, Victim::Proxy, Victim::Server];
        self.confirmed.len() >= 10
            && self.kills.values().sum::<u32>() >= 20
            && each.iter().all(|victim| self.kills.get(victim).is_some_and(|kills| *kills >= 2))
    }

    fn check(&self) {
        let mut charges = BTreeMap::<u64, Vec<String>>::new();
        for line in self.stage.effects() {
            let order = line.split(' ').nth(2).unwrap().parse().unwrap();
            charges.entry(order).or_default().push(line);
        }
        let operations = self.stage.operations();
        let count = |is: fn(&settled_tests::Operation) -> bool| operations.iter().filter(|one| is(one)).count();
        println!(
            "{:?} client: {} orders confirmed, {} charges, ledger: {} succeeded, {} failed, {} unknown; kills {:?}",
            self.client,
            self.confirmed.len(),
            charges.len(),
            count(|one| one.has_succeeded()),
            count(|one| one.has_failed()),
            count(|one| one.is_unknown()),
            self.kills,
        );
        for (order, lines) in &charges {
            assert_eq!(lines.len(), 1, "order {order} was charged more than once: {lines:?}\n{}", self.stage.story());
        }
        for (order, text) in &self.confirmed {
            let charge = charges.get(order).map(|lines| &lines[0]);
            assert_eq!(charge, Some(text), "confirmed order {order}\n{}", self.stage.story());
        }
        let mut recorded = BTreeSet::new();
        for operation in &operations {
            let order = operation.cents();
            let charged = charges.contains_key(&order);
            assert!(recorded.insert(order), "two operations for order {order}");
            assert!(charged || !operation.has_succeeded(), "{operation:?} did not happen");
            assert!(!charged || !operation.has_failed(), "{operation:?} happened");
            assert!(operation.has_succeeded() || !self.confirmed.contains_key(&order), "{operation:?} was confirmed");
        }
        for order in charges.keys() {
            assert!(recorded.contains(order), "the ledger has lost order {order}\n{}", self.stage.story());
        }
        let confirmed = self.confirmed.len();
        assert!(self.is_tried(), "too few kills or orders: {:?}, {confirmed} orders came through", self.kills);
    }
}

fn random_kills(client: Client, server: Server) {
    let seed = match std::env::var("RANDOM_KILLS_SEED") {
        Ok(seed) => seed.parse().expect("RANDOM_KILLS_SEED is a number"),
        Err(_) => fastrand::u64(..),
    };
    println!("RANDOM_KILLS_SEED={seed}");
    let mut shop = Shop::new(client, server);
    shop.run(&mut Rng::with_seed(seed));
    shop.check();
}

#[test]
fn typescript_client_and_server() {
    random_kills(Client::Node, Server::Node);
}

#[test]
fn python_client_and_a_quick_server() {
    random_kills(Client::Python, Server::Quick);
}

//! Playing cells.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::json;
use settled_tests::{Api, FAULT_HEADER, Fault, Stage, Upstream, WISH_HEADER};

use super::cell::{Cell, Client, Way};
use super::workers::{Attempt, Job, Workers};
use crate::routes::{KEYED, OPAQUE, WAIT, routes, says};

/// What was seen of one cell.
#[derive(Clone, Debug)]
pub struct Seen {
    /// How often it was charged.
    pub charges: usize,
    /// How often the fault struck.
    pub strikes: usize,
    /// What the caller was told last.
    pub told: Told,
    /// An answer that is not true.
    pub lie: Option<String>,
    /// All attempts, for the message of a failed test.
    #[allow(dead_code, reason = "printed")]
    pub attempts: Vec<Attempt>,
}

/// What a caller was told last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// The whole answer.
    Whole,
    /// A part of the answer, which it took for the whole.
    Part,
    /// That the outcome is not known.
    Unknown,
    /// That it is being carried out.
    InProgress,
    /// Something else that is an error.
    Error,
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Told::Whole => "whole",
            Told::Part => "a part, as whole",
            Told::Unknown => "unknown",
            Told::InProgress => "in progress",
            Told::Error => "an error",
        })
    }
}

/// Keys are forwarded and may be sent again, or not; a repeat waits for the first one, or not.
fn configuration(way: Way) -> String {
    match way {
        Way::Keyed => routes(WAIT, &format!("{KEYED}\ntimeout = \"8s\"")),
        _ => routes("", &format!("{OPAQUE}\ntimeout = \"8s\"")),
    }
}

/// Plays all of these in one world: those that kill the API one after the other, all others at once.
pub fn all(cells: &[Cell], way: Way) -> Vec<(Cell, Seen)> {
    let mut stage = Stage::new();
    stage.set("SERVER_SLOW_MS", 3_000);
    if way != Way::Direct {
        stage.configure(&configuration(way));
    }
    let upstream = if way == Way::Keyed { Upstream::Keyed } else { Upstream::Opaque };
    let api = stage.start_api(upstream, 0);
    let gateway = (way != Way::Direct).then(|| stage.start_gateway(&api.url, 0, &[]));
    let url = gateway.as_ref().map_or_else(|| api.url.clone(), |gateway| gateway.url.clone());
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        // Else a panic below would wait for what is kept running.
        let _end = OnDrop(|| over.store(true, Ordering::SeqCst));
        scope.spawn(|| keep_running(&stage, api, upstream, &over));
        let jobs: Vec<Job> = cells.iter().map(|cell| job(*cell, way, &url)).collect();
        let kills = |job: &&Job| job.headers[FAULT_HEADER].as_str().unwrap_or_default().starts_with("killed");
        let (one_by_one, at_once): (Vec<&Job>, Vec<&Job>) = jobs.iter().partition(kills);
        let mut workers = Workers::new(&stage);
        let at_once: Vec<Job> = at_once.into_iter().cloned().collect();
        let mut done: BTreeMap<String, Vec<Attempt>> = workers.carry_out(&at_once).into_iter().collect();
        for job in one_by_one {
            done.extend(workers.carry_out(std::slice::from_ref(job)));
        }
        let seen = |cell: &Cell| {
            let wish = wish(*cell);
            let attempts = done.remove(&wish).unwrap_or_default();
            (*cell, look(&stage, &wish, attempts))
        };
        cells.iter().map(seen).collect()
    })
}

struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Whenever the API has killed itself, another one takes its place.
fn keep_running(stage: &Stage, mut api: Api, upstream: Upstream, over: &AtomicBool) {
    let port = api.port();
    while !over.load(Ordering::SeqCst) {
        if api.running.has_ended() {
            api = stage.start_api(upstream, port);
        }
        thread::sleep(std::time::Duration::from_millis(10));
    }
}

fn wish(cell: Cell) -> String {
    format!("{:?}.{}.{}", cell.client, cell.operation, cell.fault)
}

fn job(cell: Cell, way: Way, url: &str) -> Job {
    let wish = wish(cell);
    Job {
        id: wish.clone(),
        by: cell.client,
        client: match cell.client {
            Client::Curl => "curl",
            Client::Httpx => "httpx",
            Client::Fetch => "fetch",
            Client::OpenaiPython | Client::OpenaiNode => "openai",
        },
        asked: cell.operation,
        operation: cell.operation.name(),
        url: url.to_owned(),
        key: Some(format!("key of {wish}")),
        headers: json!({ FAULT_HEADER: cell.fault.name(), WISH_HEADER: wish }),
        // A caller that was told "in progress" asks again until the gateway gives the request up.
        attempts: if way == Way::Direct { 3 } else { 30 },
        ends_when_unknown: way == Way::Opaque,
        timeout_ms: if matches!(cell.fault, Fault::Slow | Fault::Hang) { 1_500 } else { 10_000 },
        pause_ms: 600,
    }
}

fn look(stage: &Stage, wish: &str, attempts: Vec<Attempt>) -> Seen {
    let truths = truths(stage, wish);
    let lie = attempts.iter().find(|attempt| attempt.whole && !truths.contains(&attempt.text));
    Seen {
        charges: stage.charges(wish),
        strikes: stage.strikes(wish),
        told: attempts.last().map_or(Told::Error, |last| told(last, &truths)),
        lie: lie.map(|attempt| format!("an answer that is not the charge's: {attempt:?}")),
        attempts,
    }
}

/// What the API says of the charges of a wish.
fn truths(stage: &Stage, wish: &str) -> Vec<String> {
    let effects = stage.effects();
    let its = effects.iter().enumerate().filter(|(_, line)| line.split(' ').nth(1) == Some(wish));
    its.map(|(place, _)| says(place + 1)).collect()
}

fn told(last: &Attempt, truths: &[String]) -> Told {
    let is = |name: &str| last.problem.as_deref().is_none_or(|problem| problem == format!("urn:settled:{name}"));
    match (last.whole, last.status) {
        (true, _) if truths.contains(&last.text) => Told::Whole,
        (true, _) => Told::Part,
        (false, Some(502)) if is("unknown") => Told::Unknown,
        (false, Some(409)) if is("in-progress") => Told::InProgress,
        (false, _) => Told::Error,
    }
}

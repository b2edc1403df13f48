//! Ten thousand callers at once who ask for the same: one effect, one answer, and not much memory.

use std::collections::BTreeMap;
use std::time::Instant;

use settled_ledger_tests::stage::truth::{Reader, compare};
use settled_ledger_tests::stage::wire::{Answer, Request, Settings};
use settled_ledger_tests::stage::{Behaviour, Guard, ToolServer};
use settled_sweeps::places::Place;
use settled_sweeps::scene::worker;
use settled_tests::{Server, Session, Stage};

const CALLS: usize = 10_000;
const GUARDS: usize = 3;
/// Of those whose answers are counted.
const FIRST_ID: usize = 1_000;
/// In kilobytes: as much as each of a process's callers may need, and what it needs without any.
const EACH: u64 = 40;
const WITHOUT: u64 = 60_000;

/// The most memory that a process has had, in kilobytes.
fn peak(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn one_effect_on(place: &Place) {
    let _alone = crate::alone();
    // Long enough for all of them to come while it is under way.
    let tool = ToolServer::start(Behaviour { takes: 300..301, ..Behaviour::reliable() });
    let url = place.new_ledger(tool.directory());
    let settings = Settings { attempt: 60_000, lease: 30_000, ..Settings::new(url.clone(), tool.socket()) };
    let program = worker();
    let guards: Vec<_> =
        (0..GUARDS).map(|_| Guard::start(program.to_str().unwrap(), &settings, tool.directory(), None)).collect();
    for guard in &guards {
        guard.ready();
    }
    let request = Request::opaque("the one");
    let begun = Instant::now();
    let asked: Vec<_> = (0..CALLS).map(|number| guards[number % GUARDS].call(&request)).collect();
    let told: Vec<_> =
        asked.into_iter().map(|asked| asked.recv_timeout(std::time::Duration::from_secs(120)).unwrap()).collect();
    let took = begun.elapsed();
    let peaks: Vec<u64> = guards.iter().map(|guard| peak(guard.pid())).collect();
    println!(
        "{}: {CALLS} calls at {GUARDS} guards in {:.1} s, {} effect, at most {} MB",
        place.name(),
        took.as_secs_f64(),
        tool.effects().len(),
        peaks.iter().max().unwrap() / 1_000
    );
    assert_eq!(tool.effects().len(), 1);
    assert!(
        told.iter().all(|told| told.answer == Answer::Done && told.body == told_first(&told.body)),
        "{:?}",
        told[0]
    );
    assert_eq!(told.iter().filter(|told| !told.replayed).count(), 1, "one is told that it was its own");
    assert!(peaks.iter().all(|peak| *peak < WITHOUT + EACH * (CALLS / GUARDS) as u64), "{peaks:?} kB");
    let told: Vec<_> = told.into_iter().map(|told| (request.clone(), told)).collect();
    let truth = compare(&Reader::open(&url), &tool, &told);
    assert_eq!((truth.losses, truth.repeats, truth.lies), (vec![], vec![], vec![]));
}

fn told_first(body: &str) -> &str {
    assert_eq!(body, "the result of the one");
    body
}

#[test]
fn file() {
    one_effect_on(&Place::File);
}

#[test]
fn postgres() {
    one_effect_on(&Place::postgres());
}

#[test]
fn redis() {
    one_effect_on(&Place::redis());
}

#[test]
fn through_the_mcp_proxy() {
    let _alone = crate::alone();
    let mut stage = Stage::new();
    stage.set("SERVER_DELAY_MS", 300);
    let command = stage.proxy(&Server::Quick.command());
    let mut session = Session::open(&stage, &command);
    let pid = i32::try_from(session.process().pid).unwrap();
    let call = |id: usize| {
        serde_json::json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": { "name": "charge", "arguments": { "customer": "alice", "cents": 500 },
                        "idempotencyKey": "the one" } })
    };
    let begun = Instant::now();
    let mut answers: BTreeMap<String, usize> = BTreeMap::new();
    let (mut first, mut refused) = (0, 0);
    let mut asked: Vec<usize> = (FIRST_ID..FIRST_ID + CALLS).collect();
    while !asked.is_empty() {
        // Written by parts: nobody reads the answers while it is written.
        for part in asked.chunks(100) {
            let lines: String = part.iter().map(|id| format!("{}\n", call(*id))).collect();
            session.write(lines.as_bytes());
        }
        let mut again = Vec::new();
        for id in asked {
            let reply = session.reply(id as u64);
            if reply.receipt().is_none() && reply.text().starts_with("nothing was sent") {
                // More at once than a proxy takes: its client asks again.
                refused += 1;
                again.push(id + CALLS);
                continue;
            }
            first += usize::from(!reply.is_replayed());
            *answers.entry(reply.receipt().unwrap_or_else(|| format!("{reply:?}"))).or_default() += 1;
        }
        asked = again;
    }
    println!(
        "MCP proxy: {CALLS} calls in {:.1} s, {refused} of them asked again, {} effect, at most {} MB",
        begun.elapsed().as_secs_f64(),
        stage.effects().len(),
        peak(pid) / 1_000
    );
    assert_eq!(stage.effects().len(), 1, "{}", stage.story());
    assert_eq!((answers.values().collect::<Vec<_>>(), first), (vec![&CALLS], 1), "{answers:?}");
    assert!(peak(pid) < WITHOUT + EACH * CALLS as u64);
}

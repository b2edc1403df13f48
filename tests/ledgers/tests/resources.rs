//! Resources across processes: calls that want the same thing are carried out one after the other, in the order in which they
//! were claimed; others at the same time.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use settled_ledger_tests::stage::truth::{Reader, compare};
use settled_ledger_tests::stage::{Answer, Backend, Behaviour, Effect, Pool, Request, Settings, ToolServer};

const RESOURCES: usize = 4;
const CALLS: usize = 12;

static ALONE: Mutex<()> = Mutex::new(());

fn request(resource: usize, call: usize) -> Request {
    Request::observable(format!("{resource}.{call}")).of(format!("account {resource}"))
}

fn one_at_a_time_in_order(backend: &Backend) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let tool = ToolServer::start(Behaviour { takes: 40..120, lost_before: 3, lost_after: 4, ..Behaviour::reliable() });
    let mut settings = Settings::new(backend.url(), tool.socket());
    settings.queue = 80_000;
    let pool = Pool::start(env!("CARGO_BIN_EXE_ledger_worker"), settings, PathBuf::from(tool.directory()), 3);
    let (kills, cancelled) = (6, Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for resource in 0..RESOURCES {
            for call in 0..CALLS {
                let (pool, cancelled) = (&pool, &cancelled);
                scope.spawn(move || {
                    // Much faster than they can be carried out: the lines are long, and who cancels is still waiting.
                    thread::sleep(Duration::from_millis(fastrand::u64(..300)));
                    let request = request(resource, call);
                    thread::scope(|both| {
                        both.spawn(|| pool.call(&request));
                        if call % 4 == 3 {
                            thread::sleep(Duration::from_millis(fastrand::u64(..400)));
                            let told = pool.any().cancel(&request).recv();
                            if told.is_ok_and(|told| told.answer == Answer::Cancelled) {
                                cancelled.lock().unwrap().push(request.id.clone());
                            }
                        }
                    });
                });
            }
        }
        scope.spawn(|| {
            for _ in 0..kills {
                thread::sleep(Duration::from_millis(200));
                pool.replace_one();
            }
        });
    });
    let reader = Reader::open(&backend.url());
    reader.quiet(Duration::from_secs(60));
    let truth = compare(&reader, &tool, &pool.told());
    let (effects, cancelled) = (tool.effects(), cancelled.into_inner().unwrap());
    println!(
        "{}: {} calls on {RESOURCES} resources, {kills} kills of workers, {} effects, {} cancelled, answers {:?}, with a person {}, \
         longest answer {:.1} s",
        backend.name(),
        RESOURCES * CALLS,
        effects.len(),
        cancelled.len(),
        truth.answers,
        truth.escalated,
        pool.longest().as_secs_f64(),
    );
    assert_eq!((truth.losses, truth.repeats, truth.lies), (vec![], vec![], vec![]));
    assert!(effects.len() > RESOURCES * CALLS / 4, "too little happened");
    for id in &cancelled {
        assert!(effects.iter().all(|effect| effect.id != *id), "{id} was cancelled, and happened");
    }
    assert!(!cancelled.is_empty(), "nothing was cancelled while it waited");
    let mut by_resource: BTreeMap<String, Vec<&Effect>> = BTreeMap::new();
    for effect in &effects {
        by_resource.entry(effect.resource.clone().unwrap()).or_default().push(effect);
    }
    for (resource, effects) in &mut by_resource {
        effects.sort_by_key(|effect| effect.begun);
        for pair in effects.windows(2) {
            let ended = pair[0].ended.unwrap();
            assert!(ended <= pair[1].begun, "on {resource}, {} began before {} had ended", pair[1].id, pair[0].id);
        }
        let places: Vec<u64> = effects.iter().map(|effect| place(&reader, effect)).collect();
        assert!(places.is_sorted_by(|x, y| x < y), "{resource}: {places:?}");
    }
    let overlaps = |x: &Effect, y: &Effect| x.resource != y.resource && x.begun < y.begun && y.begun < x.ended.unwrap();
    assert!(effects.iter().any(|x| effects.iter().any(|y| overlaps(x, y))), "different resources wait for each other");
}

fn place(reader: &Reader, effect: &Effect) -> u64 {
    let request = Request { tool: effect.tool.clone(), id: effect.id.clone(), resource: None };
    reader.get(&request.key()).unwrap().place
}

#[test]
fn file() {
    one_at_a_time_in_order(&Backend::file());
}

#[test]
fn postgres() {
    one_at_a_time_in_order(&Backend::postgres());
}

#[test]
fn redis() {
    one_at_a_time_in_order(&Backend::redis());
}

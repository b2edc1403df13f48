//! A guard is stopped (SIGSTOP) at each named place for longer than its lease, and then goes on: what another one was told
//! meanwhile stays true, and what was stopped before its send is not sent any more, and says so.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use settled_ledger_tests::stage::wire::Answer;
use settled_sweeps::places::Place;
use settled_sweeps::scene::{Plot, Scene};
use settled_sweeps::seat::Fate;
use settled_sweeps::sweep::in_parallel;
use settled_sweeps::table::{Row, show};

/// Leases are this long here, in milliseconds.
const LEASE: u64 = 700;

/// How far a call has come at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Come {
    /// Nothing is stored: the other guard carries it out.
    Nowhere,
    /// It is recorded as dispatched, and not sent: nobody sends it any more.
    ToItsRecord,
    /// It may have been sent.
    Further,
}

/// The places on a call's way in the engine and in its transport, in order. (A guard says that it is ready by the first answer.)
const POINTS: [(&str, Come); 9] = [
    ("before-store", Come::Nowhere),
    ("after-store", Come::ToItsRecord),
    ("before-dispatch", Come::ToItsRecord),
    ("before-send", Come::Further),
    ("after-send", Come::Further),
    ("after-reply", Come::Further),
    ("before-store:2", Come::Further),
    ("after-store:2", Come::Further),
    ("before-answer:2", Come::Further),
];

/// Those in the ledgers. (By the first script a guard registers.)
fn within(place: &Place) -> &'static [(&'static str, Come)] {
    match place {
        Place::Postgres(_) => &[
            ("before-sql-store", Come::Nowhere),
            ("after-sql-store", Come::ToItsRecord),
            ("after-sql-store:2", Come::Further),
        ],
        Place::Redis(_) => &[
            ("before-script:2", Come::Nowhere),
            ("after-script:2", Come::ToItsRecord),
            ("after-script:3", Come::Further),
        ],
        Place::File | Place::Directory(_) => &[],
    }
}

fn stop(place: &Place, point: &str, come: Come) -> Row {
    let first = vec![Fate::with("SETTLED_STOP_AT", point)];
    let scene = Scene::set_with(place, "opaque", Plot { first, ..Plot::default() }, |settings| settings.lease = LEASE);
    // Where the ledger is a directory, the other one holds it: a holder takes the ledger with it.
    scene.second.guard();
    let stopped = scene.first.guard();
    let one = scene.request("one.0");
    let [own, other] = thread::scope(|scope| {
        let asked = scope.spawn(|| scene.first.call_once(&one).unwrap());
        stopped.stopped(Duration::from_secs(60));
        let other = scene.second.call(&one);
        thread::sleep(Duration::from_millis(2 * LEASE));
        stopped.go_on();
        [asked.join().unwrap(), other]
    });
    // Whatever it had queued is sent by now.
    thread::sleep(Duration::from_millis(200));
    let again = scene.first.call(&one);
    let log = stopped.log();
    let ended = scene.end();
    let mut row = Row { ledger: place.name(), kind: "opaque", process: point.to_owned(), ..Row::default() };
    (row.runs, row.points, row.kills) = (1, 1, ended.kills.len());
    row.take(ended.truth);
    let done = [&own, &other, &again].map(|told| told.answer == Answer::Done);
    let as_it_must = match come {
        Come::Nowhere => ended.effects == 1 && done == [true; 3],
        Come::ToItsRecord => ended.effects == 0 && done == [false; 3] && log.contains("fenced"),
        Come::Further => ended.effects <= 1,
    };
    if !as_it_must {
        row.lies.push(format!("{point}: {} effects; told {own:?}, {other:?}, {again:?}\n{log}", ended.effects));
    }
    row
}

#[test]
fn through_a_lease_at_every_point() {
    let _alone = crate::alone();
    let places = [Place::File, Place::postgres(), Place::redis()].map(Arc::new);
    let mut work = Vec::new();
    for place in &places {
        work.extend(POINTS.iter().chain(within(place)).map(|(point, come)| (Arc::clone(place), *point, *come)));
    }
    let mut rows = in_parallel(work, |(place, point, come)| stop(&place, point, come));
    rows.sort_by(|a, b| (a.ledger, &a.process).cmp(&(b.ledger, &b.process)));
    show("stops.txt", ["point", "stops"], &rows);
}

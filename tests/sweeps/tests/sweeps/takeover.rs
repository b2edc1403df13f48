//! A holder whose disk fails a write gives its directory up: another process goes on with it, or it opens the log again itself.

use settled_ledger_tests::stage::wire::{Answer, Request};
use settled_sweeps::places::Place;
use settled_sweeps::scene::{Plot, Scene};
use settled_sweeps::seat::{Fate, Seat};
use settled_sweeps::sweep::in_parallel;

/// Nobody is started again: whoever is there must go on.
fn scene(fault: &str) -> Scene {
    let first = vec![Fate::with("SETTLED_DISK_FAULT", fault)];
    Scene::set(&Place::File, "opaque", Plot { first, ..Plot::default() })
}

fn done(seat: &Seat, request: &Request) {
    let told = seat.call_once(request).expect("it lives");
    assert_eq!(told.answer, Answer::Done, "{}: {told:?}\n{}", request.id, seat.log());
}

/// Everyone has been told of one effect for each of so many calls, and the disk has failed.
fn check(scene: Scene, fault: &str, calls: usize) {
    let ended = scene.end();
    let truth = &ended.truth;
    let found: Vec<_> = truth.losses.iter().chain(&truth.repeats).chain(&truth.lies).collect();
    assert!(found.is_empty(), "{fault}: {found:?}");
    assert_eq!(ended.effects, calls, "{fault}");
    assert!(ended.faults > 0, "{fault}: nothing befell it");
}

#[test]
fn a_guest_takes_over_and_the_failed_holder_is_its_guest() {
    let _alone = crate::alone();
    const CALLS: usize = 12;
    in_parallel(vec!["fsync:9+:EIO", "fsync:9+:lost", "write:12+:torn", "any:40+:EROFS"], |fault| {
        let scene = scene(fault);
        drop((scene.first.guard(), scene.second.guard()));
        for number in 0..CALLS {
            let request = scene.request(&format!("{number}.0"));
            done(&scene.first, &request);
            done(&scene.second, &request);
        }
        check(scene, fault, CALLS);
    });
}

#[test]
fn a_guest_can_be_started_after_the_disk_has_failed() {
    let _alone = crate::alone();
    in_parallel(vec!["fsync:9+:EIO", "write:12+:ENOSPC"], |fault| {
        let scene = scene(fault);
        let mut calls = 0;
        // Alone, it tells the truth.
        let refused = loop {
            let request = scene.request(&format!("{calls}.0"));
            calls += 1;
            let told = scene.first.call_once(&request).expect("it lives");
            if told.answer != Answer::Done {
                break request;
            }
            assert!(calls < 100, "{fault}: nothing befell it");
        };
        // The newcomer's disk is in order, and so is the failed one's ledger then.
        done(&scene.second, &scene.request("new.0"));
        let told = scene.first.call_once(&refused).expect("it lives");
        assert!(matches!(told.answer, Answer::Done | Answer::Unknown), "{told:?}");
        done(&scene.first, &scene.request("newer.0"));
        let effects = calls + 2;
        scene.first.end();
        check(scene, fault, effects);
    });
}

#[test]
fn a_process_that_is_alone_goes_on_when_its_disk_is_in_order_again() {
    let _alone = crate::alone();
    const CALLS: usize = 12;
    in_parallel(vec!["fsync:9:EIO", "fsync:9:lost", "write:12:torn", "write:12:ENOSPC"], |fault| {
        let scene = scene(fault);
        for number in 0..CALLS {
            done(&scene.first, &scene.request(&format!("{number}.0")));
        }
        check(scene, fault, CALLS);
    });
}

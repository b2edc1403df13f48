//! What callers do in a scene.

use std::thread;

use crate::scene::{Ended, Scene};

/// Which of the two guards comes first: where the ledger is a directory, that one holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The tested one.
    TestedFirst,
    /// The other one.
    OtherFirst,
}

/// A call, its repetition at the other guard and at the same one, two calls that want the same resource, one whose reply is lost
/// and one that is lost itself, one that is soon forgotten; then the tested guard ends in order, and a successor and the other
/// guard are asked for everything again.
pub fn everything(scene: Scene, order: Order) -> Ended {
    let id = |name: &str| format!("{name}.{}", scene.number());
    let (first, second) = (&scene.first, &scene.second);
    match order {
        Order::TestedFirst => drop((first.guard(), second.guard())),
        Order::OtherFirst => drop((second.guard(), first.guard())),
    }
    let one = scene.request(&id("one"));
    first.call(&one);
    second.call(&one);
    let [a, b] = ["a", "b"].map(|name| scene.request(&id(name)).of("account"));
    thread::scope(|both| {
        both.spawn(|| first.call(&a));
        both.spawn(|| second.call(&b));
    });
    let [lost, gone] = ["lost", "gone"].map(|name| scene.request(&id(name)));
    thread::scope(|both| {
        both.spawn(|| first.call(&lost));
        both.spawn(|| first.call(&gone));
    });
    first.call_once(&scene.request(&id("brief")));
    first.end();
    thread::scope(|both| {
        for seat in [first, second] {
            for request in [&one, &a, &b, &lost, &gone] {
                both.spawn(|| seat.call(request));
            }
        }
    });
    scene.end()
}

/// One call and one whose reply is lost, asked for again at the other guard: few points, for kills in pairs.
pub fn little(scene: Scene, order: Order) -> Ended {
    let id = |name: &str| format!("{name}.{}", scene.number());
    let (first, second) = (&scene.first, &scene.second);
    match order {
        Order::TestedFirst => drop(first.guard()),
        Order::OtherFirst => drop((second.guard(), first.guard())),
    }
    let (one, lost) = (scene.request(&id("one")), scene.request(&id("lost")));
    first.call(&one);
    first.call(&lost);
    for request in [&one, &lost] {
        second.call(request);
        first.call(request);
    }
    scene.end()
}

//! Every interleaving of those who send and of what ends their right to: an owner is said to be gone only when nothing of it can
//! be sent any more (rule 6), and an epoch that is over never holds again.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p settled-engine --release --test loom_retire`
#![cfg(loom)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::thread;
use settled_engine::held::Held;
use settled_engine::outbox::Outbox;

const NOW: Duration = Duration::from_secs(5);
const LATER: Duration = Duration::from_secs(9);

struct Out {
    epoch: u8,
    has_left: AtomicBool,
}

struct World {
    held: Held<u8>,
    out: Outbox<u8, Out>,
    /// The ledger has been told that this epoch is over: others may conclude that nothing of it will come.
    gone: [AtomicBool; 3],
    wire: AtomicUsize,
}

impl World {
    fn new() -> Arc<World> {
        let gone = [AtomicBool::new(false), AtomicBool::new(false), AtomicBool::new(false)];
        Arc::new(World { held: Held::new(1, LATER), out: Outbox::default(), gone, wire: AtomicUsize::new(0) })
    }

    /// As an attempt is launched.
    fn send(&self, epoch: u8) {
        let out = Arc::new(Out { epoch, has_left: AtomicBool::new(false) });
        self.out.add(&0, out.clone());
        if self.held.holds(epoch, || NOW) {
            self.put_on_the_wire(&out);
        }
        self.out.remove(&0, &out);
    }

    fn put_on_the_wire(&self, out: &Out) {
        assert!(!self.gone[usize::from(out.epoch)].load(Ordering::SeqCst), "sent by one who is said to be gone");
        self.wire.fetch_add(1, Ordering::Relaxed);
        out.has_left.store(true, Ordering::Release);
    }

    fn tell_if_gone(&self, epoch: u8) {
        if self.out.all(|out| out.epoch != epoch || out.has_left.load(Ordering::Acquire)) {
            self.gone[usize::from(epoch)].store(true, Ordering::SeqCst);
        }
    }

    fn shut_down(&self) {
        let epoch = self.held.close();
        self.tell_if_gone(epoch);
    }

    /// As a renewal that finds that the lease was over.
    fn goes_on_under_another(&self) {
        self.held.fence(1);
        self.held.succeed(2, LATER);
        for epoch in self.held.unretired() {
            self.tell_if_gone(epoch);
        }
    }
}

fn run(one: fn(&World), other: fn(&World), here: fn(&World), then: fn(&World)) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let world = World::new();
        let threads: Vec<_> = [one, other]
            .into_iter()
            .map(|what| {
                let world = world.clone();
                thread::spawn(move || what(&world))
            })
            .collect();
        here(&world);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        then(&world);
    });
}

#[test]
fn nothing_is_sent_by_a_process_that_said_that_it_ends() {
    run(
        |world| world.send(1),
        |world| world.send(1),
        World::shut_down,
        |world| {
            assert!(!world.held.holds(1, || NOW));
        },
    );
}

#[test]
fn nothing_is_sent_under_an_epoch_that_is_told_to_be_over() {
    run(
        |world| world.send(1),
        |world| world.send(2),
        World::goes_on_under_another,
        |world| {
            assert!(world.held.holds(2, || NOW) && !world.held.holds(1, || NOW) && world.held.is_mine(1));
        },
    );
}

#[test]
fn a_late_renewal_gives_back_neither_what_was_fenced_nor_what_was_closed() {
    run(
        |world| world.held.extend(1, LATER),
        |world| assert!(world.held.fence(1)),
        |_| {},
        |world| {
            assert!(world.held.is_fenced() && !world.held.holds(1, || NOW));
        },
    );
    run(
        World::goes_on_under_another,
        |world| world.held.extend(1, LATER),
        World::shut_down,
        |world| {
            assert!(!world.held.holds(1, || NOW) && !world.held.holds(2, || NOW), "it was shut down");
        },
    );
}

#[test]
fn who_finds_that_everything_has_left_sees_it_on_the_wire() {
    loom::model(|| {
        let world = World::new();
        let out = Arc::new(Out { epoch: 1, has_left: AtomicBool::new(false) });
        world.out.add(&0, out.clone());
        let sender = {
            let world = world.clone();
            thread::spawn(move || world.put_on_the_wire(&out))
        };
        if world.out.all_of(&0, |out| out.has_left.load(Ordering::Acquire)) {
            assert_eq!(world.wire.load(Ordering::Relaxed), 1);
        }
        sender.join().unwrap();
    });
}

#[test]
fn what_is_done_while_it_is_held_is_done_before_it_is_fenced() {
    loom::model(|| {
        let world = World::new();
        let noted = {
            let world = world.clone();
            thread::spawn(move || {
                let fenced = &world.gone[0];
                world.held.while_held(
                    1,
                    || NOW,
                    || assert!(!fenced.load(Ordering::SeqCst), "noted after it was fenced"),
                )
            })
        };
        if world.held.fence(1) {
            world.gone[0].store(true, Ordering::SeqCst);
        }
        noted.join().unwrap();
    });
}

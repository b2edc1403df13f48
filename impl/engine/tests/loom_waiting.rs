//! Every interleaving of those who wait for news of a name and of those who bring them: no change is missed between a look and
//! a wait, and what nobody waits for takes no memory.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p settled-engine --release --test loom_waiting`
#![cfg(loom)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::pin::pin;

use loom::future::block_on;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use settled_engine::waiting::Waiting;

#[derive(Default)]
struct World {
    waiting: Waiting<u8>,
    version: AtomicUsize,
}

impl World {
    /// As a ledger waits: until the version is another one than `seen`. Without an end that is a deadlock, which loom reports.
    fn changed(&self, seen: usize) {
        block_on(async {
            let waiter = self.waiting.on(1);
            let mut changed = pin!(waiter.changed.notified());
            changed.as_mut().enable();
            if self.version.load(Ordering::SeqCst) == seen {
                changed.await;
            }
        });
        assert_ne!(self.version.load(Ordering::SeqCst), seen, "woken without a change");
    }

    fn change(&self) {
        self.version.fetch_add(1, Ordering::SeqCst);
        self.waiting.wake(&1);
    }
}

fn explore(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(model);
}

#[test]
fn two_who_wait_are_both_woken_and_leave_nothing_behind() {
    explore(|| {
        let world = Arc::new(World::default());
        let waiter = {
            let world = world.clone();
            thread::spawn(move || world.changed(0))
        };
        let writer = {
            let world = world.clone();
            thread::spawn(move || world.change())
        };
        world.changed(0);
        waiter.join().unwrap();
        writer.join().unwrap();
        assert_eq!(world.waiting.names(), 0, "nobody waits any more");
    });
}

#[test]
fn a_waiter_that_comes_while_another_leaves_is_woken_too() {
    explore(|| {
        let world = Arc::new(World::default());
        let leaves = {
            let world = world.clone();
            thread::spawn(move || drop(world.waiting.on(1)))
        };
        let writer = {
            let world = world.clone();
            thread::spawn(move || world.change())
        };
        world.changed(0);
        leaves.join().unwrap();
        writer.join().unwrap();
        assert_eq!(world.waiting.names(), 0);
    });
}

#[test]
fn everyone_is_woken_when_something_may_have_been_missed() {
    explore(|| {
        let world = Arc::new(World::default());
        let connection = {
            let world = world.clone();
            thread::spawn(move || {
                world.version.store(1, Ordering::SeqCst);
                world.waiting.wake_all();
            })
        };
        world.changed(0);
        connection.join().unwrap();
    });
}

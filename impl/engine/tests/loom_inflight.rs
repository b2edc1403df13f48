//! Every interleaving of a few callers on one key of the in-flight table, explored by loom.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p settled-engine --release --test loom_inflight`
#![cfg(loom)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use settled_engine::inflight::{Entered, InFlight};

type Table = InFlight<u8, u8, Waiter>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Answer,
    LookAgain,
}

#[derive(Default)]
struct Slot {
    told: Mutex<Option<Told>>,
    wake: Condvar,
}

/// The waiter that the table holds: as a oneshot sender, its drop is the request to look again.
struct Waiter(Option<Arc<Slot>>);

impl Waiter {
    fn new() -> (Waiter, Arc<Slot>) {
        let slot = Arc::new(Slot::default());
        (Waiter(Some(slot.clone())), slot)
    }

    fn answer(mut self) {
        tell(&self.0.take().unwrap(), Told::Answer);
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if let Some(slot) = self.0.take() {
            tell(&slot, Told::LookAgain);
        }
    }
}

fn tell(slot: &Slot, what: Told) {
    let before = slot.told.lock().unwrap().replace(what);
    assert_eq!(before, None, "a waiter was told twice");
    slot.wake.notify_one();
}

/// Blocks for ever if the waiter is lost: loom reports that as a deadlock.
fn wait(slot: &Slot) -> Told {
    let mut told = slot.told.lock().unwrap();
    loop {
        match *told {
            Some(told) => return told,
            None => told = slot.wake.wait(told).unwrap(),
        }
    }
}

struct World {
    table: Table,
    leaders: AtomicUsize,
    /// The operation has been carried out: a leader after that answers from what is stored.
    done: AtomicUsize,
    effects: AtomicUsize,
}

impl World {
    fn new() -> Arc<World> {
        Arc::new(World {
            table: Table::new(1),
            leaders: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
            effects: AtomicUsize::new(0),
        })
    }

    /// One caller. `falls`: it gives up the first time that it leads, without an answer.
    fn call(&self, fingerprint: u8, mut falls: bool) {
        loop {
            let (waiter, slot) = Waiter::new();
            match self.table.enter(&0, fingerprint, waiter) {
                Entered::Leads(mut lead, own) => {
                    assert_eq!(self.leaders.fetch_add(1, Ordering::SeqCst), 0, "two leaders of one key");
                    if falls {
                        falls = false;
                        self.leaders.fetch_sub(1, Ordering::SeqCst);
                        drop(lead);
                        drop(own);
                        assert_eq!(wait(&slot), Told::LookAgain);
                        continue;
                    }
                    if self.done.swap(1, Ordering::SeqCst) == 0 {
                        self.effects.fetch_add(1, Ordering::SeqCst);
                    }
                    own.answer();
                    lead.take_joined().into_iter().for_each(Waiter::answer);
                    self.leaders.fetch_sub(1, Ordering::SeqCst);
                    drop(lead);
                    assert_eq!(wait(&slot), Told::Answer);
                    return;
                }
                Entered::Joined => match wait(&slot) {
                    Told::Answer => return,
                    Told::LookAgain => continue,
                },
                Entered::Other | Entered::HeldUp => assert_eq!(wait(&slot), Told::LookAgain),
            }
        }
    }
}

fn explore(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

fn run(callers: [(u8, bool); 2], here: (u8, bool)) {
    explore(move || {
        let world = World::new();
        let threads: Vec<_> = callers
            .into_iter()
            .map(|(fingerprint, falls)| {
                let world = world.clone();
                thread::spawn(move || world.call(fingerprint, falls))
            })
            .collect();
        world.call(here.0, here.1);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(world.effects.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn three_duplicates_have_one_leader_at_a_time_and_all_are_answered() {
    run([(1, false), (1, false)], (1, false));
}

#[test]
fn a_leader_that_ends_without_an_answer_wakes_its_joiners_to_look_again() {
    run([(1, true), (1, false)], (1, false));
}

#[test]
fn another_fingerprint_never_gets_the_leaders_answer_and_is_not_lost() {
    run([(1, false), (2, false)], (1, true));
}

#[test]
fn who_comes_during_a_delivery_waits_for_its_end() {
    explore(|| {
        let world = World::new();
        let delivered = Arc::new(AtomicUsize::new(0));
        let hold = world.table.hold(&0);
        let caller = {
            let (world, delivered) = (world.clone(), delivered.clone());
            thread::spawn(move || {
                world.call(1, false);
                assert_eq!(delivered.load(Ordering::SeqCst), 1, "answered before the delivery had ended");
            })
        };
        delivered.store(1, Ordering::SeqCst);
        drop(hold);
        caller.join().unwrap();
    });
}

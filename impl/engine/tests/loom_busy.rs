//! Every interleaving of tasks that begin and end and of one who waits until none is left: it is woken, and not too early.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p settled-engine --release --test loom_busy`
#![cfg(loom)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

use loom::future::block_on;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use settled_engine::busy::Busy;

fn explore(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(model);
}

/// A wait that nobody ends is a deadlock, which loom reports.
#[test]
fn who_waits_until_nothing_is_at_work_is_woken_and_not_before() {
    explore(|| {
        let busy = Busy::default();
        let ended = Arc::new(AtomicUsize::new(0));
        let tasks: Vec<_> = (0..2)
            .map(|_| {
                let at_work = busy.enter();
                let ended = ended.clone();
                thread::spawn(move || {
                    ended.fetch_add(1, Ordering::Relaxed);
                    drop(at_work);
                })
            })
            .collect();
        block_on(busy.idle());
        assert_eq!(ended.load(Ordering::Relaxed), 2, "idle while a task is at work");
        tasks.into_iter().for_each(|task| task.join().unwrap());
    });
}

#[test]
fn a_task_that_begins_another_one_is_never_idle_in_between() {
    explore(|| {
        let busy = Busy::default();
        let ended = Arc::new(AtomicUsize::new(0));
        let first = busy.enter();
        let task = {
            let (busy, ended) = (busy.clone(), ended.clone());
            thread::spawn(move || {
                let second = busy.enter();
                drop(first);
                ended.store(1, Ordering::Relaxed);
                drop(second);
            })
        };
        block_on(busy.idle());
        assert_eq!(ended.load(Ordering::Relaxed), 1);
        task.join().unwrap();
    });
}

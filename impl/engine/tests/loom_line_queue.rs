//! Every interleaving of those who record lines of a history, one who flushes, and the writer: each line is written once and in
//! its order, or told to be missing; a flush returns, and not before its lines are written; a close leaves nothing behind.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p settled-engine --release --test loom_line_queue`
#![cfg(loom)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use settled_engine::line_queue::LineQueue;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Told(u64),
    Missing(u64),
}

struct World {
    queue: LineQueue<Line>,
    file: Mutex<Vec<Line>>,
    grown: Condvar,
}

impl World {
    fn new(room: usize) -> Arc<World> {
        Arc::new(World {
            queue: LineQueue::new(room, 2, Duration::ZERO),
            file: Mutex::new(Vec::new()),
            grown: Condvar::new(),
        })
    }

    fn record(&self, line: u64) {
        self.queue.push(Line::Told(line), |lines, _| Line::Missing(lines));
    }

    /// The writer's thread. It is gone after so many turns.
    fn write(&self, turns: usize) {
        let mut lines = Vec::new();
        for _ in 0..turns {
            self.queue.take(&mut lines);
            if lines.is_empty() {
                break;
            }
            let count = lines.len();
            self.file.lock().unwrap().append(&mut lines);
            self.queue.wrote(count);
            self.grown.notify_all();
        }
        self.queue.end();
    }

    fn file(&self) -> Vec<Line> {
        self.file.lock().unwrap().clone()
    }
}

fn explore(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

fn writer(world: &Arc<World>, turns: usize) -> thread::JoinHandle<()> {
    let world = world.clone();
    thread::spawn(move || world.write(turns))
}

/// A flush that never returns is a deadlock, which loom reports.
#[test]
fn a_flush_returns_once_its_lines_are_written() {
    explore(|| {
        let world = World::new(9);
        let writer = writer(&world, usize::MAX);
        let other = {
            let world = world.clone();
            thread::spawn(move || world.record(10))
        };
        world.record(1);
        world.record(2);
        world.queue.flush();
        let file = world.file();
        let own: Vec<_> = file.iter().filter(|line| **line != Line::Told(10)).copied().collect();
        assert_eq!(own, [Line::Told(1), Line::Told(2)]);
        other.join().unwrap();
        world.queue.close();
        writer.join().unwrap();
        assert_eq!(world.file().len(), 3, "closing leaves nothing behind");
    });
}

#[test]
fn what_has_no_room_is_told_with_the_next_line() {
    explore(|| {
        let world = World::new(1);
        let writer = writer(&world, usize::MAX);
        world.record(1);
        world.record(2);
        world.queue.flush();
        world.record(3);
        world.queue.close();
        writer.join().unwrap();
        let count = |line: &Line| match line {
            Line::Told(_) => 1,
            Line::Missing(lines) => *lines,
        };
        assert_eq!(world.file().iter().map(count).sum::<u64>(), 3, "{:?}", world.file());
        assert_eq!(world.file().last(), Some(&Line::Told(3)));
    });
}

#[test]
fn nobody_waits_for_a_writer_that_is_gone() {
    explore(|| {
        let world = World::new(9);
        let writer = writer(&world, 1);
        world.record(1);
        world.record(2);
        world.queue.flush();
        writer.join().unwrap();
    });
}

#[test]
fn lines_are_written_also_if_nobody_hurries() {
    explore(|| {
        let world = World::new(9);
        let writer = writer(&world, usize::MAX);
        world.record(1);
        let mut file = world.file.lock().unwrap();
        while file.is_empty() {
            file = world.grown.wait(file).unwrap();
        }
        drop(file);
        world.queue.close();
        writer.join().unwrap();
    });
}

//! Every interleaving (up to a bound on preemptions) of two submitters, a closer and the committer. Run with
//! `RUSTFLAGS="--cfg loom" cargo test -p settled-ledger-file --release --test loom_group_commit`.
#![cfg(loom)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use loom::sync::{Arc, Condvar, Mutex, MutexGuard};
use loom::thread;
use settled_ledger_file::group_commit::{Closed, GroupCommit, Item};

/// What happened to the items, by id.
#[derive(Debug, Default)]
struct Seen {
    committed: Vec<usize>,
    /// Each completion, and whether it was an acknowledgement.
    completed: Vec<(usize, bool)>,
    syncs: usize,
}

#[derive(Default)]
struct Board {
    seen: Mutex<Seen>,
    completed: Condvar,
}

impl Board {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap()
    }

    /// Waits for the completion of an item; says whether it was an acknowledgement.
    fn answer(&self, id: usize) -> bool {
        let mut seen = self.seen();
        loop {
            if let Some(&(_, ok)) = seen.completed.iter().find(|(i, _)| *i == id) {
                return ok;
            }
            seen = self.completed.wait(seen).unwrap();
        }
    }
}

struct Call {
    id: usize,
    board: Arc<Board>,
}

impl Item for Call {
    type Error = &'static str;

    fn complete(self, result: Result<(), &'static str>) {
        self.board.seen().completed.push((self.id, result.is_ok()));
        self.board.completed.notify_all();
    }
}

/// Runs `body` for every schedule; a deadlock, that is to say a hang, fails in loom itself.
fn model(body: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(body);
}

/// A committer whose commit number `fail_at` (from 1) and no other fails.
fn committer(board: &Arc<Board>, fail_at: usize) -> Arc<GroupCommit<Call>> {
    let board = Arc::clone(board);
    let commit = move |batch: &mut [Call]| {
        let mut seen = board.seen();
        seen.syncs += 1;
        if seen.syncs == fail_at {
            return Err("the disk failed");
        }
        seen.committed.extend(batch.iter().map(|call| call.id));
        // Long enough that the committer waits for stragglers where it may.
        Ok(Some(Duration::from_millis(1)))
    };
    Arc::new(GroupCommit::start("committer", commit).unwrap())
}

/// One thread and this one each submit two items or one, while nobody or this thread closes. Returns which were accepted.
fn race(group: &Arc<GroupCommit<Call>>, board: &Arc<Board>, per_thread: usize, close_early: bool) -> Vec<usize> {
    let submit = {
        let (group, board) = (Arc::clone(group), Arc::clone(board));
        move |id| match group.submit(Call { id, board: Arc::clone(&board) }) {
            Ok(()) => Some(id),
            Err(Closed(call)) => {
                assert_eq!(call.id, id);
                None
            }
        }
    };
    let other = thread::spawn({
        let submit = submit.clone();
        move || (0..per_thread).filter_map(submit).collect::<Vec<_>>()
    });
    let mut accepted: Vec<usize> = (10..10 + per_thread).filter_map(&submit).collect();
    if close_early {
        group.close();
    }
    accepted.extend(other.join().unwrap());
    group.close();
    accepted.sort_unstable();
    accepted
}

fn sorted<T: Ord + Clone>(of: &[T]) -> Vec<T> {
    let mut of = of.to_vec();
    of.sort_unstable();
    of
}

#[test]
fn every_item_is_committed_and_completed_exactly_once() {
    model(|| {
        let board = Arc::new(Board::default());
        let group = committer(&board, 0);
        let accepted = race(&group, &board, 2, false);
        let seen = board.seen();
        assert_eq!(accepted, [0, 1, 10, 11], "an open committer accepts");
        assert_eq!(sorted(&seen.committed), accepted);
        assert_eq!(seen.completed, seen.committed.iter().map(|&id| (id, true)).collect::<Vec<_>>());
        // Each submitter's own items keep their order.
        let place = |id| seen.committed.iter().position(|&c| c == id);
        assert!(place(0) < place(1) && place(10) < place(11));
    });
}

#[test]
fn closing_loses_no_accepted_item() {
    model(|| {
        let board = Arc::new(Board::default());
        let group = committer(&board, 0);
        let accepted = race(&group, &board, 1, true);
        let seen = board.seen();
        assert!(accepted.contains(&10));
        assert_eq!(sorted(&seen.committed), accepted);
        assert_eq!(sorted(&seen.completed), accepted.iter().map(|&id| (id, true)).collect::<Vec<_>>());
    });
}

#[test]
fn after_a_failure_nobody_is_acknowledged_and_nobody_hangs() {
    for fail_at in [1, 2] {
        model(move || {
            let board = Arc::new(Board::default());
            let group = committer(&board, fail_at);
            let accepted = race(&group, &board, 2, false);
            let seen = board.seen();
            let ids: Vec<usize> = seen.completed.iter().map(|&(id, _)| id).collect();
            assert_eq!(sorted(&ids), accepted, "each is completed once");
            let acknowledged: Vec<usize> = seen.completed.iter().filter(|(_, ok)| *ok).map(|&(id, _)| id).collect();
            assert_eq!(acknowledged, seen.committed);
            assert!(seen.syncs <= fail_at, "no commit after the failed one");
            let first_failure = seen.completed.iter().position(|(_, ok)| !ok).unwrap_or(seen.completed.len());
            assert!(seen.completed[first_failure..].iter().all(|(_, ok)| !ok));
        });
    }
}

#[test]
fn every_submitter_is_answered_while_the_committer_stays_open() {
    for fail_at in [0, 1, 2] {
        model(move || {
            let board = Arc::new(Board::default());
            let group = committer(&board, fail_at);
            let call_and_wait = {
                let (group, board) = (Arc::clone(&group), Arc::clone(&board));
                move |id| {
                    group.submit(Call { id, board: Arc::clone(&board) }).unwrap();
                    board.answer(id)
                }
            };
            let other = thread::spawn({
                let call_and_wait = call_and_wait.clone();
                move || call_and_wait(0)
            });
            let answers = [call_and_wait(10), call_and_wait(11)];
            let answer = other.join().unwrap();
            let seen = board.seen();
            for (id, ok) in [(0, answer), (10, answers[0]), (11, answers[1])] {
                assert_eq!(ok, seen.committed.contains(&id));
            }
            assert_eq!(seen.completed.len(), 3);
            drop(seen);
            group.close();
        });
    }
}

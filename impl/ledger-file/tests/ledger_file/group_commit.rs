//! Group commit with real threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use settled_ledger_file::group_commit::{Closed, GroupCommit, Item};

struct Call {
    id: usize,
    answer: Sender<Result<usize, String>>,
}

impl Item for Call {
    type Error = String;

    fn complete(self, result: Result<(), String>) {
        // A caller that no longer listens is no concern of the committer's.
        let _ = self.answer.send(result.map(|()| self.id));
    }
}

fn call(id: usize) -> (Call, Receiver<Result<usize, String>>) {
    let (answer, answered) = channel();
    (Call { id, answer }, answered)
}

#[test]
fn callers_share_commits() {
    const CALLERS: usize = 16;
    const EACH: usize = 50;
    let commits = Arc::new(AtomicUsize::new(0));
    let group = GroupCommit::start("committer", {
        let commits = Arc::clone(&commits);
        move |_: &mut [Call]| {
            commits.fetch_add(1, Ordering::Relaxed);
            thread::sleep(Duration::from_millis(1));
            Ok(Some(Duration::from_millis(1)))
        }
    })
    .unwrap();
    thread::scope(|scope| {
        for caller in 0..CALLERS {
            let group = &group;
            scope.spawn(move || {
                for i in 0..EACH {
                    let (call, answered) = call(caller * EACH + i);
                    group.submit(call).unwrap();
                    assert_eq!(answered.recv().unwrap(), Ok(caller * EACH + i));
                    assert!(answered.recv().is_err(), "answered once");
                }
            });
        }
    });
    group.close();
    let commits = commits.load(Ordering::Relaxed);
    assert!((EACH..CALLERS * EACH / 4).contains(&commits), "{commits} commits for {} calls", CALLERS * EACH);
}

#[test]
fn a_failure_is_final() {
    let group = GroupCommit::start("committer", |batch: &mut [Call]| {
        if batch.iter().any(|c| c.id == 1) { Err("broken".to_owned()) } else { Ok(None) }
    })
    .unwrap();
    for (id, expected) in [(0, Ok(0)), (1, Err("broken".to_owned())), (2, Err("broken".to_owned()))] {
        let (call, answered) = call(id);
        group.submit(call).unwrap();
        assert_eq!(answered.recv().unwrap(), expected);
    }
}

#[test]
fn a_closed_committer_gives_the_item_back() {
    let group = GroupCommit::start("committer", |_: &mut [Call]| Ok(None)).unwrap();
    let (first, answered) = call(7);
    group.submit(first).unwrap();
    group.close();
    group.close();
    assert_eq!(answered.try_recv().unwrap(), Ok(7), "close returns after the last completion");
    let Err(Closed(back)) = group.submit(call(8).0) else { panic!("accepted after close") };
    assert_eq!(back.id, 8);
}

#[test]
fn a_panic_of_the_commit_function_leaves_nobody_waiting() {
    let group = GroupCommit::start("committer", |_: &mut [Call]| panic!("as tested")).unwrap();
    let (first, answered) = call(1);
    group.submit(first).unwrap();
    assert!(answered.recv().is_err(), "dropped");
    group.close();
    assert!(group.submit(call(2).0).is_err());
}

#[test]
fn a_completion_may_close_even_while_another_thread_closes() {
    struct Closer(Arc<OnceLock<GroupCommit<Closer>>>, Sender<()>);
    impl Item for Closer {
        type Error = ();
        fn complete(self, _: Result<(), ()>) {
            thread::sleep(Duration::from_millis(20));
            self.0.wait().close();
            self.1.send(()).unwrap();
        }
    }
    let group = Arc::new(OnceLock::new());
    let (done, finished) = channel();
    assert!(group.set(GroupCommit::start("committer", |_: &mut [Closer]| Ok(None)).unwrap()).is_ok());
    group.wait().submit(Closer(Arc::clone(&group), done)).ok().unwrap();
    group.wait().close();
    finished.try_recv().unwrap();
}

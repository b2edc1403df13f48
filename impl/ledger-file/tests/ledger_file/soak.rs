//! Space is given back while the ledger is used, whoever is killed meanwhile, and nothing that is kept is lost.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::suite::make::{LEASE, change, claim, key, settled};
use bytes::Bytes;
use settled::{Change, Entry, Ledger, Remains, Stored};
use settled_ledger_file::{FileLedger, FileLedgerOptions};
use settled_protocol::{Time, Version};
use tempfile::tempdir;

/// Names the directory, and makes a test's binary one of the processes.
const ROLE: &str = "SETTLED_TEST_SOAK";
const SEGMENT: u64 = 32 << 10;

fn open(dir: &Path) -> FileLedger {
    let mut options = FileLedgerOptions::default();
    options.log.segment_bytes = SEGMENT;
    options.log.preallocate_bytes = 8 << 10;
    FileLedger::open(dir, options).unwrap()
}

/// Both changes of an operation.
fn changes(id: &str, keep_until: Option<Time>) -> [Change; 2] {
    let key = key("soak", id);
    let mut end = change(&key, 2, settled());
    end.outcome = Some(Bytes::from(format!("done {id}")));
    end.keep_until = keep_until;
    [claim(&key), end]
}

/// Every so many keys one is never forgotten.
const KEPT: u64 = 16;

fn is_kept(n: u64) -> bool {
    n.is_multiple_of(KEPT)
}

async fn operate(ledger: &FileLedger, id: &str, keep_until: Option<Time>) -> bool {
    for change in changes(id, keep_until) {
        if !matches!(ledger.compare_and_set(change).await, Ok(Stored::Durable(_))) {
            return false;
        }
    }
    true
}

/// Forgets what is due; returns how much that was.
async fn sweep(ledger: &Arc<FileLedger>) -> usize {
    let now = ledger.time().await.unwrap().unwrap();
    let (mut after, mut swept) = (None::<Entry>, 0);
    loop {
        let due = ledger.due(now, after.as_ref(), 200).await.unwrap();
        let Some(last) = due.last() else { return swept };
        after = Some(last.clone());
        let mut forgetting = tokio::task::JoinSet::new();
        for entry in due {
            let tombstone = Remains::Tombstone { keep_until: now.after(100) };
            let remains = if entry.tombstone { Remains::Nothing } else { tombstone };
            let ledger = Arc::clone(ledger);
            forgetting.spawn(async move { ledger.forget(&entry.key, entry.record.version(), remains).await.unwrap() });
        }
        swept += forgetting.join_all().await.into_iter().filter(|forgotten| *forgotten).count();
    }
}

fn disk_bytes(dir: &Path) -> u64 {
    // A file may be removed while it is looked for.
    fs::read_dir(dir).unwrap().filter_map(|entry| entry.ok()?.metadata().ok()).map(|meta| meta.len()).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disk_use_stays_flat() {
    let dir = tempdir().unwrap();
    let (holder, guest) = (Arc::new(open(dir.path())), Arc::new(open(dir.path())));
    let until = Instant::now() + Duration::from_secs(8);
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..8_u64 {
        let ledger = Arc::clone(&holder);
        tasks.spawn(async move {
            let mut n = 0;
            while Instant::now() < until {
                let now = ledger.time().await.unwrap().unwrap();
                // A few of each task's are kept, all of them early.
                let kept = n < 160 && is_kept(n);
                assert!(operate(&ledger, &format!("{task}.{n}"), (!kept).then_some(now.after(200))).await);
                n += 1;
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            n
        });
    }
    let (mut sizes, mut swept) = (Vec::new(), 0);
    while Instant::now() < until {
        swept += sweep(&guest).await;
        sizes.push(disk_bytes(dir.path()));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let written: u64 = tasks.join_all().await.into_iter().sum();
    let (early, late) = sizes.split_at(sizes.len() / 2);
    let most = |sizes: &[u64]| sizes.iter().copied().max().unwrap();
    let size = holder.size().await.unwrap();
    println!(
        "{written} operations, {swept} forgotten or buried, {} and {} bytes at most, {size:?}",
        most(early),
        most(late)
    );
    assert!(swept > 500 && size.disk_bytes > size.live_bytes);
    assert!(most(late) < most(early) * 3 / 2 + 4 * SEGMENT, "{sizes:?}");
    assert!(!dir.path().join("log.0000000000000000").exists());
    for task in 0..8 {
        for n in (0..160).filter(|n| is_kept(*n)) {
            let id = format!("{task}.{n}");
            assert_eq!(guest.history(&key("soak", &id)).await.unwrap(), changes(&id, None));
        }
    }
}

/// Not a test of its own: one of the processes that are killed.
#[test]
fn process() {
    let Some(dir) = std::env::var_os(ROLE).map(PathBuf::from) else {
        return;
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let ledger = Arc::new(open(&dir.join("ledger")));
        let epoch = ledger.register(LEASE).await.unwrap();
        println!("epoch {epoch}");
        let log = |what: &str| Arc::new(OpenOptions::new().append(true).create(true).open(dir.join(what)).unwrap());
        let (stored, forgetting, forgotten) = (log("stored"), log("forgetting"), log("forgotten"));
        let note = |file: &File, id: &str| (&*file).write_all(format!("{id}\n").as_bytes()).unwrap();
        let mut tasks = tokio::task::JoinSet::new();
        for task in 0..6 {
            let (ledger, stored) = (Arc::clone(&ledger), Arc::clone(&stored));
            let (forgetting, forgotten) = (Arc::clone(&forgetting), Arc::clone(&forgotten));
            tasks.spawn(async move {
                for n in 0_u64.. {
                    let id = |n: u64| format!("{epoch}.{task}.{n}");
                    if operate(&ledger, &id(n), None).await {
                        note(&stored, &id(n));
                    }
                    if let Some(old) = n.checked_sub(20).filter(|old| !is_kept(*old)) {
                        note(&forgetting, &id(old));
                        if ledger
                            .forget(&key("soak", id(old)), Version(2), Remains::Nothing)
                            .await
                            .is_ok_and(|done| done)
                        {
                            note(&forgotten, &id(old));
                        }
                    }
                }
            });
        }
        tasks.join_all().await;
    });
}

fn start(dir: &Path) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["soak::process", "--exact", "--nocapture"])
        .env(ROLE, dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines
        .find(|line| line.as_ref().unwrap().contains("epoch "))
        .expect("the process ended before it had an epoch")
        .unwrap();
    child
}

fn lines(file: &Path) -> HashSet<String> {
    let text = fs::read_to_string(file).unwrap_or_default();
    // The last line may be unfinished.
    text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')).map(str::to_owned).collect()
}

#[test]
fn whoever_is_killed_while_space_is_given_back_loses_nothing() {
    let dir = tempdir().unwrap();
    let mut random = fastrand::Rng::with_seed(11);
    let mut alive: Vec<Child> = (0..2).map(|_| start(dir.path())).collect();
    let until = Instant::now() + Duration::from_secs(10);
    let mut kills = 0;
    while Instant::now() < until {
        std::thread::sleep(Duration::from_millis(random.u64(100..600)));
        let mut victim = alive.swap_remove(random.usize(..alive.len()));
        victim.kill().unwrap();
        victim.wait().unwrap();
        kills += 1;
        alive.push(start(dir.path()));
    }
    for mut child in alive {
        child.kill().unwrap();
        child.wait().unwrap();
        kills += 1;
    }
    let ledger = open(&dir.path().join("ledger"));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let lines = |name: &str| lines(&dir.path().join(name));
    let (stored, forgetting, forgotten) = (lines("stored"), lines("forgetting"), lines("forgotten"));
    let (mut losses, mut ghosts) = (0, 0);
    for id in &stored {
        let found = runtime.block_on(ledger.history(&key("soak", id))).unwrap();
        losses += u64::from(!forgetting.contains(id) && found != changes(id, None));
        ghosts += u64::from(forgotten.contains(id) && !found.is_empty());
    }
    let size = runtime.block_on(ledger.size()).unwrap();
    println!(
        "kills {kills}, operations {}, forgotten {}, losses {losses}, ghosts {ghosts}, {size:?}",
        stored.len(),
        forgotten.len()
    );
    assert_eq!((losses, ghosts), (0, 0));
    assert!(kills >= 10 && stored.len() > 1000);
    assert!(!dir.path().join("ledger/log.0000000000000000").exists());
    assert!(size.disk_bytes < 3 * size.live_bytes + 8 * SEGMENT);
}

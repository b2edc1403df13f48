//! Several processes on one directory, killed and stopped at random: nothing acknowledged is lost, nothing happens twice,
//! nobody hangs. Each test starts its own binary again as those processes.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::suite::make::{LEASE, alive, change, key};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use settled::{Filter, Ledger, Stored};
use settled_ledger_file::{FileLedger, FileLedgerOptions};
use settled_protocol::{Epoch, Key, State, Version};

/// Names the directory, and makes a test's binary one of the processes.
const ROLE: &str = "SETTLED_TEST_KILL";
/// No call may take longer: one and a half times the patience.
const BOUND: Duration = Duration::from_secs(15);
const KEYS: u64 = 24;

fn open(dir: &Path) -> FileLedger {
    FileLedger::open(dir.join("ledger"), FileLedgerOptions::default()).unwrap()
}

fn shared_key(id: u64) -> Key {
    key("shared", id)
}

/// Not a test of its own: one of the processes that the tests start.
#[test]
fn process() {
    let Some(role) = std::env::var_os(ROLE) else {
        return;
    };
    let dir = PathBuf::from(role);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(hammer(&dir));
}

/// Advances the shared keys for ever. What was acknowledged goes into a file, which outlives a kill.
async fn hammer(dir: &Path) {
    let ledger = Arc::new(open(dir));
    let epoch = ledger.register(LEASE).await.unwrap();
    println!("epoch {epoch}");
    let acknowledged = Arc::new(appending(&dir.join(format!("acknowledged.{epoch}"))));
    let refused = Arc::new(appending(&dir.join(format!("refused.{epoch}"))));
    let slowest = Arc::new(AtomicU64::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..6 {
        let (ledger, dir) = (Arc::clone(&ledger), dir.to_owned());
        let (acknowledged, refused) = (Arc::clone(&acknowledged), Arc::clone(&refused));
        let slowest = Arc::clone(&slowest);
        tasks.spawn(async move {
            for n in 0_u64.. {
                let key = shared_key(fastrand::u64(..KEYS));
                let started = Instant::now();
                let held = match ledger.get(&key).await {
                    Ok(entry) => entry.map_or(0, |entry| entry.record.version().0),
                    Err(error) => return complain(&dir, &format!("get: {error}")),
                };
                let mut next = change(&key, held + 1, State::Created);
                next.by = epoch;
                next.event = format!("{epoch}.{task}.{n}");
                let event = next.event.clone();
                match ledger.compare_and_set(next).await {
                    Ok(Stored::Durable(_)) => {
                        let line = format!("{} {} {event}\n", key.id(), held + 1);
                        (&*acknowledged).write_all(line.as_bytes()).unwrap();
                    }
                    Ok(Stored::Refused) => {
                        (&*refused).write_all(format!("{event}\n").as_bytes()).unwrap();
                    }
                    Err(error) => return complain(&dir, &format!("store: {error}")),
                }
                let took = started.elapsed().as_millis() as u64;
                if slowest.fetch_max(took, Ordering::Relaxed) < took {
                    fs::write(dir.join(format!("slowest.{epoch}")), took.to_string()).unwrap();
                }
                if n % 16 == 0 {
                    // Meets changes and the ends of waits, whoever holds the directory.
                    let waited = ledger.changed(&key, Some(Version(held + 1)));
                    let _ = tokio::time::timeout(Duration::from_millis(20), waited).await;
                }
            }
        });
    }
    tasks.join_all().await;
}

fn appending(file: &Path) -> File {
    OpenOptions::new().append(true).create(true).open(file).unwrap()
}

fn complain(dir: &Path, what: &str) {
    writeln!(appending(&dir.join("complaints")), "{what}").unwrap();
}

struct Process {
    child: Child,
    epoch: Epoch,
}

impl Process {
    fn start(dir: &Path) -> Process {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["kill::process", "--exact", "--nocapture"])
            .env(ROLE, dir)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let epoch = lines.find_map(|line| {
            let line = line.unwrap();
            line.split_once("epoch ").map(|(_, epoch)| Epoch(epoch.trim().parse().unwrap()))
        });
        Process { child, epoch: epoch.expect("the process ended before it had an epoch") }
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// Stops it, and returns when it has stopped.
    fn stop(&self) {
        self.signal(Signal::SIGSTOP);
        std::thread::sleep(Duration::from_millis(50));
    }

    fn end(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

struct Deaths {
    kills: u64,
    stops: u64,
}

fn havoc(dir: &Path, processes: usize, lasting: Duration, seed: u64) -> Deaths {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut alive: Vec<Process> = (0..processes).map(|_| Process::start(dir)).collect();
    let mut epochs: HashSet<_> = alive.iter().map(|process| Some(process.epoch)).collect();
    let mut deaths = Deaths { kills: 0, stops: 0 };
    let until = Instant::now() + lasting;
    while Instant::now() < until {
        std::thread::sleep(Duration::from_millis(random.u64(20..200)));
        let victim = random.usize(..alive.len());
        if random.u8(..4) == 0 {
            alive[victim].signal(Signal::SIGSTOP);
            std::thread::sleep(Duration::from_millis(random.u64(1..150)));
            deaths.stops += 1;
            if random.bool() {
                alive[victim].signal(Signal::SIGCONT);
                continue;
            }
        }
        alive.swap_remove(victim).end();
        deaths.kills += 1;
        alive.push(Process::start(dir));
        let epoch = alive.last().map(|process| process.epoch);
        assert!(epochs.insert(epoch), "{epoch:?} was given away twice");
    }
    for process in alive {
        process.end();
        deaths.kills += 1;
    }
    deaths
}

/// Every line of the files that begin with `prefix`, without unfinished ones.
fn lines(dir: &Path, prefix: &str) -> Vec<String> {
    let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let files = files.filter(|file| file.file_name().to_string_lossy().starts_with(prefix));
    files.flat_map(|file| BufReader::new(File::open(file.path()).unwrap()).lines()).map(Result::unwrap).collect()
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_happens_twice() {
    let dir = tempfile::tempdir().unwrap();
    let deaths = havoc(dir.path(), 3, Duration::from_secs(10), 7);
    assert_eq!(lines(dir.path(), "complaints"), Vec::<String>::new());
    let slowest = lines(dir.path(), "slowest").iter().map(|ms| ms.parse().unwrap()).max();
    let slowest = Duration::from_millis(slowest.unwrap());

    let ledger = open(dir.path());
    assert!(ledger.is_holder());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut stored: HashMap<(String, u64), String> = HashMap::new();
    let (mut events, mut repeats) = (HashMap::new(), 0);
    for id in 0..KEYS {
        let history = runtime.block_on(ledger.history(&shared_key(id))).unwrap();
        for (i, change) in history.into_iter().enumerate() {
            assert_eq!(change.record.version().0, i as u64 + 1, "versions have no gap and no repeat");
            let times = events.entry(change.event.clone()).or_insert(0);
            *times += 1;
            repeats += u64::from(*times > 1);
            stored.insert((id.to_string(), i as u64 + 1), change.event);
        }
    }
    let acknowledged = lines(dir.path(), "acknowledged");
    let mut losses = 0;
    let mut versions = HashMap::new();
    for line in &acknowledged {
        let [id, version, event] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let place = (id.to_owned(), version.parse::<u64>().unwrap());
        let twice = versions.insert(place.clone(), event.to_owned());
        assert_eq!(twice, None, "{place:?} was acknowledged twice");
        losses += u64::from(stored.get(&place).map(String::as_str) != Some(event));
    }
    let refused = lines(dir.path(), "refused");
    let lies = refused.iter().filter(|event| events.contains_key(*event)).count();
    println!(
        "kills {}, stops {}, stores {}, acknowledged {}, refused {}, losses {losses}, repeats {repeats}, refused but stored {lies}, \
         slowest call {slowest:?}",
        deaths.kills,
        deaths.stops,
        stored.len(),
        acknowledged.len(),
        refused.len(),
    );
    assert_eq!((losses, repeats, lies), (0, 0, 0));
    assert!(deaths.kills >= 20 && acknowledged.len() >= 1000);
    assert!(slowest <= BOUND);
    assert_eq!(runtime.block_on(ledger.scan(Filter::All)).unwrap().len() as u64, KEYS);
}

#[tokio::test]
async fn an_owner_is_alive_while_stopped_and_dead_once_killed() {
    let dir = tempfile::tempdir().unwrap();
    let (holder, guest) = (Process::start(dir.path()), Process::start(dir.path()));
    let epochs = [holder.epoch, guest.epoch];
    assert_ne!(epochs[0], epochs[1]);
    let ledger = open(dir.path());
    let both = async || (alive(&ledger, epochs[0]).await, alive(&ledger, epochs[1]).await);
    assert_eq!(both().await, (true, true));
    guest.stop();
    assert_eq!(both().await, (true, true));
    guest.end();
    assert_eq!(both().await, (true, false));
    // Only the holder knows of leases, but that an owner has gone everyone can see.
    holder.stop();
    assert!(!alive(&ledger, epochs[1]).await);
    holder.end();
    assert_eq!(both().await, (false, false));
    // The one that is left holds the directory now, and gives away a new number.
    let mine = ledger.register(LEASE).await.unwrap();
    assert!(mine > epochs[0] && mine > epochs[1] && ledger.is_holder());
    assert!(alive(&ledger, mine).await);
}

#[tokio::test]
async fn a_stopped_holder_keeps_nobody_for_ever() {
    let dir = tempfile::tempdir().unwrap();
    let holder = Process::start(dir.path());
    let mut options = FileLedgerOptions::default();
    options.patience = Duration::from_secs(2);
    let guest = FileLedger::open(dir.path().join("ledger"), options.clone()).unwrap();
    holder.stop();
    let started = Instant::now();
    let failed = guest.get(&shared_key(0)).await.unwrap_err().to_string();
    assert!(failed.contains("hasn't ended"), "{failed}");
    assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
    let started = Instant::now();
    FileLedger::open(dir.path().join("ledger"), options).unwrap_err();
    assert!(started.elapsed() < Duration::from_secs(3));
    holder.signal(Signal::SIGCONT);
    guest.get(&shared_key(0)).await.unwrap();
    // One that is killed while it is stopped is replaced at once.
    holder.stop();
    let waiting = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        holder.end();
    };
    let started = Instant::now();
    let key = shared_key(0);
    let (found, ()) = tokio::join!(guest.get(&key), waiting);
    found.unwrap();
    assert!(started.elapsed() < Duration::from_secs(2) && guest.is_holder());
}

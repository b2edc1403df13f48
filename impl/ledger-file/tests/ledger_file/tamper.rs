//! Files taken away from under running processes, and between runs: nothing acknowledged is lost without a word.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::suite::make::{LEASE, alive, claim, key};
use settled::{Ledger, LedgerError, Stored};
use settled_ledger_file::{FileLedger, FileLedgerOptions};
use settled_protocol::Epoch;
use tempfile::tempdir;

const LOG: &str = "log.0000000000000000";

fn try_open(dir: &Path) -> Result<FileLedger, LedgerError> {
    FileLedger::open(dir, FileLedgerOptions::default())
}

fn open(dir: &Path) -> FileLedger {
    try_open(dir).unwrap()
}

async fn store(ledger: &FileLedger, id: u32) -> Result<Stored, LedgerError> {
    ledger.compare_and_set(claim(&key("tamper", id))).await
}

/// A ledger with one record and one dead owner.
async fn closed_ledger(dir: &Path) {
    let ledger = open(dir);
    ledger.register(LEASE).await.unwrap();
    store(&ledger, 1).await.unwrap();
    ledger.close();
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn remove(path: &Path) {
    if path.is_dir() { fs::remove_dir_all(path).unwrap() } else { fs::remove_file(path).unwrap() }
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let started = Instant::now();
    while !holds().await {
        assert!(started.elapsed() < Duration::from_secs(5), "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_removed_file_makes_a_second_holder() {
    let dir = tempdir().unwrap();
    let holder = open(dir.path());
    holder.register(LEASE).await.unwrap();
    store(&holder, 0).await.unwrap();
    assert_eq!(names(dir.path()), ["LEDGER", LOG, "owners", "socket"]);
    // A file that might be taken for the lock is of no account.
    fs::write(dir.path().join("LOCK"), "").unwrap();
    let files = names(dir.path());
    for (id, file) in (1..).zip(files.iter().filter(|file| *file != LOG)) {
        remove(&dir.path().join(file));
        let other = open(dir.path());
        assert!(holder.is_holder() && !other.is_holder(), "without `{file}`");
        assert_ne!(store(&other, id).await.unwrap(), Stored::Refused);
        assert_eq!(store(&holder, id).await.unwrap(), Stored::Refused);
    }
    drop(holder);
    let next = open(dir.path());
    assert!(next.is_holder());
    assert_eq!(store(&next, 1).await.unwrap(), Stored::Refused);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_whose_file_is_taken_away_stays_alive() {
    let dir = tempdir().unwrap();
    let (holder, guest, other) = (open(dir.path()), open(dir.path()), open(dir.path()));
    let epochs = [holder.register(LEASE).await.unwrap(), guest.register(LEASE).await.unwrap()];
    let owners = dir.path().join("owners");
    let all_alive = async || {
        for (epoch, ledger) in epochs.iter().flat_map(|epoch| [&holder, &guest, &other].map(|ledger| (epoch, ledger))) {
            assert!(alive(ledger, *epoch).await);
        }
    };
    let file = |epoch: Epoch| owners.join(epoch.to_string());
    for _ in 0..3 {
        let copies = epochs.map(|epoch| fs::read(file(epoch)).unwrap());
        epochs.iter().for_each(|epoch| fs::remove_file(file(*epoch)).unwrap());
        all_alive().await;
        epochs.iter().zip(copies).for_each(|(epoch, copy)| fs::write(file(*epoch), copy).unwrap());
        all_alive().await;
        fs::remove_dir_all(&owners).unwrap();
        all_alive().await;
        until("the owners' files are made anew", async || epochs.iter().all(|epoch| file(*epoch).exists())).await;
        let locked = |epoch: &Epoch| File::open(file(*epoch)).unwrap().try_lock_shared().is_err();
        assert!(epochs.iter().all(locked));
    }
    // A new holder knows the guest again once it is back.
    holder.close();
    store(&other, 1).await.unwrap();
    store(&guest, 2).await.unwrap();
    assert!(other.is_holder() && !guest.is_holder());
    assert!(!alive(&other, epochs[0]).await);
    fs::remove_file(file(epochs[1])).unwrap();
    assert!(alive(&other, epochs[1]).await);
    // And the dead stay dead, with and without a file.
    fs::remove_dir_all(&owners).unwrap();
    guest.close();
    until("the guest has gone", async || !alive(&other, epochs[1]).await).await;
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert!(!owners.exists());
}

/// Takes the log away from under its holder.
type Take = fn(&Path, &Path);

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_whose_log_is_taken_away_acknowledges_nothing_more() {
    let takes: [(&str, Take); 8] = [
        ("its directory was removed or renamed", |dir, _| fs::remove_dir_all(dir).unwrap()),
        ("its directory was removed or renamed", |dir, spare| fs::rename(dir, spare).unwrap()),
        ("its directory was replaced", |dir, spare| {
            fs::rename(dir, spare).unwrap();
            fs::create_dir(dir).unwrap();
        }),
        ("its directory was replaced", |dir, spare| {
            fs::rename(dir, spare).unwrap();
            fs::create_dir(dir).unwrap();
            fs::hard_link(spare.join(LOG), dir.join(LOG)).unwrap();
        }),
        ("the file was removed", |dir, _| fs::remove_file(dir.join(LOG)).unwrap()),
        ("the file was replaced", |dir, spare| {
            fs::copy(dir.join(LOG), spare).unwrap();
            fs::rename(spare, dir.join(LOG)).unwrap();
        }),
        ("the file was cut to 0", |dir, _| drop(File::create(dir.join(LOG)).unwrap())),
        ("the file was cut to 100", |dir, _| {
            File::options().write(true).open(dir.join(LOG)).unwrap().set_len(100).unwrap();
        }),
    ];
    for (what, take) in takes {
        let parent = tempdir().unwrap();
        let (dir, spare) = (parent.path().join("ledger"), parent.path().join("spare"));
        let (holder, guest) = (open(&dir), open(&dir));
        store(&holder, 1).await.unwrap();
        take(&dir, &spare);
        for (id, ledger) in [(2, &guest), (3, &holder), (4, &guest)] {
            let error = store(ledger, id).await.unwrap_err();
            assert!(matches!(error, LedgerError::Poisoned(_)), "{what}: {error}");
            let error = error.to_string();
            for part in [what, LOG, "restore it from a backup", &dir.display().to_string()] {
                assert!(error.contains(part), "{part} is not in: {error}");
            }
        }
        assert!(holder.register(LEASE).await.is_err());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_is_taken_away_does_not_grow_into_another_directory() {
    let parent = tempdir().unwrap();
    let (dir, spare) = (parent.path().join("ledger"), parent.path().join("spare"));
    let mut options = FileLedgerOptions::default();
    options.log.segment_bytes = 300;
    let holder = FileLedger::open(&dir, options).unwrap();
    holder.register(LEASE).await.unwrap();
    store(&holder, 1).await.unwrap();
    fs::rename(&dir, &spare).unwrap();
    fs::create_dir(&dir).unwrap();
    store(&holder, 2).await.unwrap_err();
    tokio::time::sleep(Duration::from_millis(700)).await;
    drop(holder);
    assert_eq!(names(&dir), Vec::<String>::new());
    fs::remove_dir(&dir).unwrap();
    fs::rename(&spare, &dir).unwrap();
    assert_eq!(store(&open(&dir), 1).await.unwrap(), Stored::Refused);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_is_put_back_in_time_does_no_harm() {
    let parent = tempdir().unwrap();
    let (dir, spare) = (parent.path().join("ledger"), parent.path().join("spare"));
    let holder = open(&dir);
    store(&holder, 1).await.unwrap();
    fs::rename(&dir, &spare).unwrap();
    fs::rename(&spare, &dir).unwrap();
    store(&holder, 2).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_log_is_not_begun_anew() {
    let losses: [fn(&Path); 6] = [
        |log| fs::remove_file(log).unwrap(),
        |log| drop(File::create(log).unwrap()),
        |log| File::options().write(true).open(log).unwrap().set_len(20).unwrap(),
        |log| {
            let zeros = vec![0; fs::read(log).unwrap().len()];
            fs::write(log, zeros).unwrap();
        },
        // The owners tell too.
        |log| {
            fs::remove_file(log).unwrap();
            fs::remove_file(log.with_file_name("LEDGER")).unwrap();
        },
        |log| {
            File::create(log).unwrap();
            fs::remove_file(log.with_file_name("LEDGER")).unwrap();
        },
    ];
    for lose in losses {
        let dir = tempdir().unwrap();
        closed_ledger(dir.path()).await;
        let log = dir.path().join(LOG);
        lose(&log);
        let before = (names(dir.path()), fs::read(&log).ok());
        for result in [try_open(dir.path()), FileLedger::open_existing(dir.path()), try_open(dir.path())] {
            let error = result.unwrap_err();
            assert!(matches!(error, LedgerError::Corrupt(_)), "{error}");
            let error = error.to_string();
            for part in ["the log is lost", LOG, "restore the directory from a backup", "remove the whole directory"] {
                assert!(error.contains(part), "{part} is not in: {error}");
            }
            assert!(error.contains(&dir.path().display().to_string()), "{error}");
        }
        assert_eq!((names(dir.path()), fs::read(&log).ok()), before, "nothing was changed");
        for name in names(dir.path()) {
            remove(&dir.path().join(name));
        }
        assert_ne!(store(&open(dir.path()), 1).await.unwrap(), Stored::Refused);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_has_not_begun_may_be_empty_or_missing() {
    let dir = tempdir().unwrap();
    for _ in 0..2 {
        open(dir.path()).close();
        assert_eq!(names(dir.path()), [LOG]);
    }
    fs::remove_file(dir.path().join(LOG)).unwrap();
    store(&open(dir.path()), 1).await.unwrap();
    assert_eq!(names(dir.path()), ["LEDGER", LOG]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_without_its_marker_gets_one() {
    let dir = tempdir().unwrap();
    closed_ledger(dir.path()).await;
    let marker = dir.path().join("LEDGER");
    assert!(fs::read_to_string(&marker).unwrap().contains("log format 1"));
    fs::remove_file(&marker).unwrap();
    assert_eq!(store(&open(dir.path()), 1).await.unwrap(), Stored::Refused);
    assert!(marker.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_that_is_taken_away_is_made_anew() {
    let dir = tempdir().unwrap();
    let (holder, guest) = (open(dir.path()), open(dir.path()));
    let socket = dir.path().join("socket");
    for (id, replaced) in [(1, false), (2, true)] {
        fs::remove_file(&socket).unwrap();
        if replaced {
            fs::write(&socket, "").unwrap();
        }
        let started = Instant::now();
        let newcomer = open(dir.path());
        assert!(started.elapsed() < Duration::from_secs(3) && !newcomer.is_holder());
        assert_ne!(store(&newcomer, id).await.unwrap(), Stored::Refused);
        assert_eq!(store(&guest, id).await.unwrap(), Stored::Refused, "older connections go on");
    }
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    drop(holder);
    assert!(!socket.exists());
}

fn message(result: Result<FileLedger, LedgerError>) -> String {
    match result {
        Err(LedgerError::Unavailable(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_path_that_leads_to_a_file_is_named() {
    let dir = tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "mine").unwrap();
    for path in [file.clone(), file.join("ledger"), file.join("deep/ledger")] {
        for result in [try_open(&path), FileLedger::open_existing(&path)] {
            let why = message(result);
            assert!(why.contains(&format!("`{}` is a file, not a directory", file.display())), "{why}");
        }
    }
    assert_eq!(fs::read(&file).unwrap(), b"mine");
}

#[test]
fn a_path_that_is_too_long_leaves_nothing_behind() {
    let dir = tempdir().unwrap();
    let name_too_long = dir.path().join("a/b").join("c".repeat(300)).join("d");
    let path_too_long = dir.path().join(vec!["e".repeat(200); 21].join("/"));
    let only_just = {
        let mut path = dir.path().to_owned();
        while path.as_os_str().len() + 101 < 4090 {
            path.push("f".repeat(100));
        }
        path.join("g".repeat(4090 - path.as_os_str().len() - 1))
    };
    for path in [name_too_long, path_too_long, only_just] {
        message(try_open(&path));
        assert_eq!(names(dir.path()), Vec::<String>::new(), "{} bytes", path.as_os_str().len());
    }
    // One that is as long as may be is of use.
    let mut path = dir.path().to_owned();
    while path.as_os_str().len() + 101 < 4000 {
        path.push("f".repeat(100));
    }
    let holder = open(&path);
    assert!(holder.is_holder() && !open(&path).is_holder());
}

/// Names the directory to look at, and makes this test's binary the process that does so.
const LOOK: &str = "SETTLED_TEST_LOOK";

/// Not a test of its own: a process that may not be allowed to see a ledger.
#[test]
fn process() {
    let Some(dir) = std::env::var_os(LOOK).map(PathBuf::from) else {
        return;
    };
    for result in [FileLedger::open_existing(&dir), try_open(&dir)] {
        let why = message(result);
        assert!(why.contains("no permission to look into"), "{why}");
    }
    println!("looked");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_that_may_not_be_seen_is_not_called_absent() {
    let dir = tempdir().unwrap();
    let open_to_all = fs::Permissions::from_mode(0o755);
    fs::set_permissions(dir.path(), open_to_all).unwrap();
    let closed = dir.path().join("closed");
    let ledger = closed.join("ledger");
    closed_ledger(&ledger).await;
    let shut = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let root = nix::unistd::geteuid().is_root();
    // Everybody can run it from here, whatever the permissions where it was built.
    let program = dir.path().join("program");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    for (outer, inner) in [(0o755, 0), (0, 0o700)] {
        shut(&ledger, inner);
        shut(&closed, outer);
        let mut look = Command::new(&program);
        look.args(["tamper::process", "--exact", "--nocapture"]).env(LOOK, &ledger).current_dir("/");
        if root {
            // Nothing is hidden from root.
            look.uid(65534).gid(65534);
        }
        let looked = look.output().unwrap();
        shut(&closed, 0o700);
        let said = String::from_utf8_lossy(&looked.stdout);
        assert!(looked.status.success() && said.contains("looked"), "{looked:?}");
    }
    fs::set_permissions(&ledger, fs::Permissions::from_mode(0o700)).unwrap();
}

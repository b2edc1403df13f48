//! Which calls are counted, and that the k-th can be the last.

use std::path::Path;
use std::process::Command;

use settled_profile::tracer::{DiskFault, Trigger};
use tempfile::TempDir;

use super::{run, text};

/// A checkpoint as JSON, replaced as a whole.
const JSON: &str = r#"
import json, os
for step in ("a", "b"):
    with open("state.tmp", "w") as file:
        json.dump({"done": step}, file)
        file.flush()
        os.fsync(file.fileno())
    os.rename("state.tmp", "state.json")
open("/dev/null", "w").write("not in the directory")
os.path.exists("state.json") and open("state.json").read()
print("over")
"#;

#[tokio::test]
async fn a_file_replaced_by_rename_is_four_calls() {
    let directory = TempDir::new().unwrap();
    let left = run(JSON, directory.path(), None).await;
    let once = ["openat state.tmp", "write state.tmp", "fsync state.tmp", "rename state.json"];
    assert_eq!(left.calls(), [once, once].concat());
    assert_eq!(left.ended.writes[1].bytes, Some(r#"{"done": "a"}"#.len() as u64));
    assert_eq!(left.ended.writes.iter().map(|write| write.number).collect::<Vec<_>>(), (1..=8).collect::<Vec<_>>());
    assert!(left.ended.status.success() && left.struck().is_none() && left.printed == "over\n");
}

#[tokio::test]
async fn killed_at_a_call_before_it_is_carried_out() {
    let (a, b) = (Some(r#"{"done": "a"}"#.to_owned()), Some(r#"{"done": "b"}"#.to_owned()));
    let empty = Some(String::new());
    // What is in the two files when the k-th call is not carried out.
    let states = [
        (1, None, None),
        (2, empty.clone(), None),
        (3, a.clone(), None),
        (4, a.clone(), None),
        (5, None, a.clone()),
        (6, empty, a.clone()),
        (7, b.clone(), a.clone()),
        (8, b, a),
    ];
    for (number, temporary, state) in states {
        let directory = TempDir::new().unwrap();
        let left = run(JSON, directory.path(), (Trigger::AtWrite(number), DiskFault::Kill)).await;
        assert!(left.killed(), "{:?}", left.ended);
        assert_eq!(left.struck().unwrap().0, number);
        assert_eq!(left.ended.writes.len(), number as usize);
        assert_eq!(text(directory.path(), "state.tmp"), temporary, "{number}");
        assert_eq!(text(directory.path(), "state.json"), state, "{number}");
        assert_eq!(left.printed, "");
    }
}

#[tokio::test]
async fn a_process_that_ends_before_its_fault_is_not_struck() {
    let directory = TempDir::new().unwrap();
    let left = run(JSON, directory.path(), (Trigger::AtWrite(9), DiskFault::Kill)).await;
    assert!(left.ended.status.success() && left.struck().is_none());
    let left = run(JSON, directory.path(), (Trigger::WhenArmed, DiskFault::Kill)).await;
    assert!(left.ended.status.success() && left.struck().is_none());
}

const SQLITE: &str = r#"
import sqlite3, sys
database = sqlite3.connect("state.db")
database.execute("PRAGMA journal_mode=MODE")
database.execute("CREATE TABLE IF NOT EXISTS steps (name TEXT)")
database.commit()
for step in "abc":
    database.execute("INSERT INTO steps VALUES (?)", (step,))
    database.commit()
    print(step)
"#;

/// How many steps a SQLite database knows, which must be whole.
fn steps(directory: &Path) -> usize {
    let program = r#"
import sqlite3
database = sqlite3.connect("state.db")
assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
known = database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
print(database.execute("SELECT count(*) FROM steps").fetchone()[0] if known else 0)
"#;
    let output = Command::new("python3").args(["-S", "-c", program]).current_dir(directory).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}

#[tokio::test]
async fn sqlite_killed_at_a_write_has_what_it_has_committed() {
    for mode in ["WAL", "DELETE"] {
        let program = SQLITE.replace("MODE", mode);
        let whole = TempDir::new().unwrap();
        let left = run(&program, whole.path(), None).await;
        let calls = left.calls();
        assert!(calls.iter().any(|call| call.starts_with("pwrite64 ")), "{calls:?}");
        assert!(calls.iter().any(|call| call.starts_with("fdatasync ")), "{calls:?}");
        assert!(!calls.iter().any(|call| call.ends_with("-shm")), "{calls:?}");
        assert_eq!(steps(whole.path()), 3);

        let last = u32::try_from(calls.len()).unwrap();
        for number in [last / 3, last / 2, last] {
            let directory = TempDir::new().unwrap();
            let left = run(&program, directory.path(), (Trigger::AtWrite(number), DiskFault::Kill)).await;
            assert!(left.killed() && left.struck().unwrap().0 == number);
            assert_eq!(left.calls(), calls[..number as usize], "the same calls in each run");
            let (known, said) = (steps(directory.path()), left.printed.lines().count());
            // In WAL mode a killed process's writes are with the kernel before they are synced: one more may be there.
            assert!(known == said || known == said + 1, "{mode} {number}: {known} known, {said} said");
        }
    }
}

#[tokio::test]
async fn all_threads_are_watched_and_killed() {
    let program = r#"
import threading, time
def write(number):
    with open(f"file-{number}", "w") as file:
        file.write("x" * 10)
threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print("over")
"#;
    let directory = TempDir::new().unwrap();
    let mut calls = run(program, directory.path(), None).await.calls();
    calls.sort();
    let wanted = |call: &str| (0..8).map(|number| format!("{call} file-{number}")).collect::<Vec<_>>();
    assert_eq!(calls, [wanted("openat"), wanted("write")].concat());

    let directory = TempDir::new().unwrap();
    let left = run(program, directory.path(), (Trigger::AtWrite(5), DiskFault::Kill)).await;
    assert!(left.killed() && left.struck().unwrap().0 == 5 && left.printed.is_empty());
}

#[tokio::test]
async fn io_uring_is_refused() {
    let program = r#"
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
parameters = ctypes.create_string_buffer(120)
print(libc.syscall(425, 8, parameters), errno.errorcode[ctypes.get_errno()])
"#;
    let directory = TempDir::new().unwrap();
    assert_eq!(run(program, directory.path(), None).await.printed, "-1 ENOSYS\n");
}

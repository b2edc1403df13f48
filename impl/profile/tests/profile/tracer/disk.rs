//! A disk that is full, read-only or torn.

use std::fs;
use std::io::{BufRead, BufReader, Write as _};
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use settled_profile::tracer::{DiskFault, Traced, Trigger};
use tempfile::TempDir;

use super::{LONG, Left, ended, plan, python, run, text};

/// Tries what a process can do to a directory, and says how each ended.
const TRIES: &str = r#"
import errno, os
open("old", "w").write("0123456789")
os.mkdir("begin")
def attempt(name, do):
    try:
        do()
        print(name, "ok")
    except OSError as error:
        print(name, errno.errorcode[error.errno])
def overwrite():
    file = os.open("old", os.O_WRONLY)
    os.pwrite(file, b"abc", 0)
def grow():
    file = os.open("old", os.O_WRONLY)
    os.pwrite(file, b"abc", 8)
def append():
    file = os.open("old", os.O_WRONLY | os.O_APPEND)
    os.write(file, b"abc")
open_before = os.open("old", os.O_RDWR)
os.unlink("begin") if os.path.isfile("begin") else os.rmdir("begin")
attempt("read", lambda: open("old").read())
attempt("overwrite", overwrite)
attempt("open-before", lambda: os.writev(open_before, [b"a", b"bc"]))
attempt("open", lambda: os.open("old", os.O_WRONLY))
attempt("grow", grow)
attempt("append", append)
attempt("create", lambda: open("new", "w"))
attempt("mkdir", lambda: os.mkdir("directory"))
attempt("rename", lambda: os.rename("old", "older"))
attempt("unlink", lambda: os.unlink("older"))
attempt("elsewhere", lambda: open("../elsewhere", "w").write("x"))
"#;

async fn tries(fault: DiskFault) -> (Left, Vec<String>, TempDir) {
    let directory = TempDir::new().unwrap();
    let watched = directory.path().join("watched");
    fs::create_dir(&watched).unwrap();
    // The fourth call is the first after `open`, `write` and `mkdir`.
    let left = run(TRIES, &watched, (Trigger::AtWrite(4), fault)).await;
    let lines = left.printed.lines().map(str::to_owned).collect();
    (left, lines, directory)
}

#[tokio::test]
async fn a_full_disk_takes_only_what_needs_no_room() {
    let (left, said, directory) = tries(DiskFault::Full).await;
    let wanted = [
        "read ok",
        "overwrite ok",
        "open-before ok",
        "open ok",
        "grow ENOSPC",
        "append ENOSPC",
        "create ENOSPC",
        "mkdir ENOSPC",
        "rename ok",
        "unlink ok",
        "elsewhere ok",
    ];
    assert_eq!(said, wanted);
    assert!(left.ended.status.success());
    let struck = left.ended.struck.unwrap();
    assert_eq!(
        (struck.call.as_str(), struck.bytes),
        ("pwrite64", Some(3)),
        "the first that failed, not the first of all"
    );
    assert_eq!(fs::read_dir(directory.path().join("watched")).unwrap().count(), 0, "nothing was made in spite of it");
    fs::write(directory.path().join("watched/after"), "there is room again").unwrap();
}

#[tokio::test]
async fn a_read_only_disk_takes_nothing() {
    let program = TRIES.replace("os.unlink(\"begin\") if os.path.isfile(\"begin\") else os.rmdir(\"begin\")", "");
    let directory = TempDir::new().unwrap();
    let watched = directory.path().join("watched");
    fs::create_dir(&watched).unwrap();
    let left = run(&program, &watched, (Trigger::AtWrite(4), DiskFault::ReadOnly)).await;
    let said: Vec<_> = left.printed.lines().collect();
    let wanted = [
        "read ok",
        // Opening it is no change and so not counted: the fault's moment, the fourth call, is the write.
        "overwrite EROFS",
        "open-before EROFS",
        "open EROFS",
        "grow EROFS",
        "append EROFS",
        "create EROFS",
        "mkdir EROFS",
        "rename EROFS",
        "unlink ENOENT",
        "elsewhere ok",
    ];
    assert_eq!(said, wanted);
    assert_eq!(left.struck(), Some((4, "pwrite64")));
    assert_eq!(text(&watched, "old").as_deref(), Some("0123456789"));
}

#[tokio::test]
async fn a_torn_write_is_half_of_it() {
    let program = |write: &str| {
        format!(
            "import os\nfile = os.open('file', os.O_WRONLY | os.O_CREAT)\nos.write(file, b'before')\nos.fsync(file)\n{write}\n\
             print('not reached')"
        )
    };
    let cases = [
        ("os.write(file, b'0123456789')", "before01234"),
        ("os.pwrite(file, b'0123456789', 2)", "be01234"),
        ("os.writev(file, [b'012', b'345', b'', b'6789'])", "before01234"),
        ("os.pwritev(file, [b'012', b'3456789'], 6)", "before01234"),
        ("os.sendfile(file, os.open('/proc/self/exe', os.O_RDONLY), 1, 6)", "beforeELF"),
        // At a call that is no write, the next write is meant.
        ("os.fsync(file); os.rename('file', 'file'); os.write(file, b'0123456789')", "before01234"),
    ];
    for (write, state) in cases {
        let directory = TempDir::new().unwrap();
        let left = run(&program(write), directory.path(), (Trigger::AtWrite(4), DiskFault::Torn)).await;
        assert!(left.killed(), "{write}: {:?} {:?}", left.ended, left.calls());
        assert_eq!(text(directory.path(), "file").as_deref(), Some(state), "{write}");
        assert!(left.struck().unwrap().0 >= 4 && left.printed.is_empty());
    }
    let directory = TempDir::new().unwrap();
    let left = run(&program("os.fsync(file)"), directory.path(), (Trigger::AtWrite(4), DiskFault::Torn)).await;
    assert!(left.ended.status.success() && left.struck().is_none(), "there was no write any more");
}

#[tokio::test]
async fn an_armed_fault_strikes_the_next_call() {
    let program = r#"
open("first", "w").write("x")
print("ready")
input()
open("second", "w").write("x")
"#;
    let directory = TempDir::new().unwrap();
    let strike = Some((Trigger::WhenArmed, DiskFault::Kill));
    let mut traced = Traced::spawn(python(program, directory.path()), plan(directory.path(), strike)).unwrap();
    let mut ready = String::new();
    BufReader::new(traced.take_stdout().unwrap()).read_line(&mut ready).unwrap();
    traced.arm();
    traced.take_stdin().unwrap().write_all(b"\n").unwrap();
    let ended = ended(&mut traced).await;
    assert_eq!(ended.status.signal(), Some(9));
    assert_eq!(ended.struck.map(|write| write.path), Some(directory.path().canonicalize().unwrap().join("second")));
    assert!(!directory.path().join("second").exists());
}

#[tokio::test]
async fn a_process_that_waits_for_room_is_known_to_be_struck() {
    let program = r#"
import time
while True:
    try:
        open("file", "w")
    except OSError:
        time.sleep(0.01)
"#;
    let directory = TempDir::new().unwrap();
    let strike = Some((Trigger::AtWrite(1), DiskFault::Full));
    let mut traced = Traced::spawn(python(program, directory.path()), plan(directory.path(), strike)).unwrap();
    let deadline = tokio::time::Instant::now() + LONG;
    while traced.struck().is_none() {
        assert!(tokio::time::Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    traced.kill();
    assert_eq!(ended(&mut traced).await.struck, traced.struck());
}

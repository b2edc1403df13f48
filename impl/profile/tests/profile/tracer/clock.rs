//! A wall clock that is ahead.

use std::time::SystemTime;

use super::*;

const DAY: u64 = 24 * 60 * 60;

async fn ahead(command: Command, directory: &Path, by: Duration) -> Left {
    let plan = Plan { ahead: Some(by), ..plan(directory, None) };
    left(Traced::spawn(command, plan).unwrap(), directory).await
}

/// Whether this is a time of the last minutes, two days on.
fn is_in_two_days(seconds: &str) -> bool {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let told = seconds.split('.').next().unwrap().parse::<u64>().unwrap_or_else(|_| panic!("{seconds}"));
    (now + 2 * DAY - 600..=now + 2 * DAY).contains(&told)
}

/// Every way of asking, in the program itself and in others that it starts.
const ASKS: &str = r#"
import ctypes, datetime, subprocess, sys, threading, time
libc = ctypes.CDLL(None)
print(time.time())
print(datetime.datetime.now(datetime.timezone.utc).timestamp())
print(time.clock_gettime(time.CLOCK_REALTIME))
pair = (ctypes.c_long * 2)()
libc.gettimeofday(pair, None)
print(pair[0])
libc.time.restype = ctypes.c_long
print(libc.time(None))
libc.syscall(201, pair)
print(pair[0])
libc.syscall(228, 5, pair)
print(pair[0])
print(subprocess.run(["date", "+%s"], capture_output=True, text=True).stdout.strip())
thread = threading.Thread(target=lambda: print(time.time()))
thread.start()
thread.join()
"#;

#[tokio::test]
async fn whoever_asks_is_told_a_time_two_days_on() {
    let directory = tempfile::TempDir::new().unwrap();
    let ran = ahead(python(ASKS, directory.path()), directory.path(), Duration::from_secs(2 * DAY)).await;
    assert!(ran.ended.status.success() && ran.ended.told_time, "{}", ran.printed);
    assert_eq!(ran.printed.lines().count(), 9, "{}", ran.printed);
    for told in ran.printed.lines() {
        assert!(is_in_two_days(told), "{told} in {}", ran.printed);
    }
}

#[tokio::test]
async fn so_is_a_program_in_javascript() {
    let directory = tempfile::TempDir::new().unwrap();
    let mut node = tracer::command("node");
    node.args(["-e", "setTimeout(() => console.log(Date.now() / 1000), 50)"]).stdout(Stdio::piped());
    let ran = ahead(node, directory.path(), Duration::from_secs(2 * DAY)).await;
    assert!(is_in_two_days(ran.printed.trim()), "{}", ran.printed);
}

/// Waits of every kind end when they are to: those that count time, and those until a time of the clock.
const WAITS: &str = r#"
import ctypes, os, struct, subprocess, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
begun = time.monotonic()
time.sleep(0.05)
threading.Event().wait(0.05)
condition = threading.Condition()
with condition:
    condition.wait(0.05)
subprocess.run(["sleep", "0.05"], timeout=30)

def until(seconds):
    at = time.time() + seconds
    return (ctypes.c_long * 2)(int(at), int(at % 1 * 1e9))

given = until(0.1)
kept = list(given)
semaphore = (ctypes.c_char * 64)()
assert libc.sem_init(semaphore, 0, 0) == 0
assert libc.sem_timedwait(semaphore, given) == -1 and ctypes.get_errno() == 110, ctypes.get_errno()
assert list(given) == kept
assert libc.sem_timedwait(semaphore, until(-3600)) == -1 and ctypes.get_errno() == 110
print(libc.clock_nanosleep(0, 1, until(0.1), None))
print(libc.clock_nanosleep(0, 1, until(-3600), None))
timer = libc.timerfd_create(0, 0)
at = until(0.1)
assert libc.timerfd_settime(timer, 1, (ctypes.c_long * 4)(0, 0, *at), None) == 0
print(len(os.read(timer, 8)))
assert libc.timerfd_settime(timer, 1, (ctypes.c_long * 4)(0, 0, 0, 0), None) == 0
print(0.5 <= time.monotonic() - begun < 60)
"#;

#[tokio::test]
async fn waits_are_as_long_as_they_are() {
    for by in [0, 2 * DAY, 20_000 * DAY] {
        let directory = tempfile::TempDir::new().unwrap();
        let ran = ahead(python(WAITS, directory.path()), directory.path(), Duration::from_secs(by)).await;
        assert!(ran.ended.status.success(), "{by}: {}", ran.printed);
        assert_eq!(ran.printed.lines().collect::<Vec<_>>(), ["0", "0", "8", "True"], "{by}");
    }
}

#[tokio::test]
async fn nobody_is_told_who_does_not_ask() {
    let directory = tempfile::TempDir::new().unwrap();
    let mut silent = tracer::command("true");
    silent.stdout(Stdio::piped());
    assert!(!ahead(silent, directory.path(), Duration::from_secs(DAY)).await.ended.told_time);
    let unchanged = run("import time\nprint(time.time())", directory.path(), None).await;
    assert!(!unchanged.ended.told_time && !is_in_two_days(unchanged.printed.trim()));
}

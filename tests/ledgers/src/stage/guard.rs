//! A guard: a process with an engine, which callers ask.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::wire::{Line, Request, Said, Settings, Told};

/// The file, in its directory, that a guard writes its history to if it is given no other.
pub const HISTORY: &str = "history.jsonl";

/// How long a guard may take to start while its ledger is there.
const START: Duration = Duration::from_secs(40);

/// Who waits for an answer.
type Waiting = Arc<Mutex<Option<HashMap<u64, Sender<Told>>>>>;

/// The library that shifts a program's clock. (The program of that name stands between a test and what it starts, and would be
/// killed in its place.)
fn faketime() -> PathBuf {
    let places = ["/usr/lib", "/usr/lib64", "/usr/local/lib"].map(PathBuf::from);
    let within = places.iter().filter_map(|place| fs::read_dir(place).ok()).flatten();
    let all = within.filter_map(|entry| Some(entry.ok()?.path())).chain(places.iter().cloned());
    all.map(|place| place.join("faketime/libfaketimeMT.so.1"))
        .find(|library| library.exists())
        .expect("libfaketimeMT.so.1: install faketime")
}

/// A running guard, killed when dropped.
pub struct Guard {
    child: Mutex<Child>,
    pid: Pid,
    lines: Mutex<Option<ChildStdin>>,
    waiting: Waiting,
    ready: Mutex<Receiver<u32>>,
    log: PathBuf,
    /// How often it was stopped; odd while it is.
    stops: AtomicU64,
}

impl Guard {
    /// Starts one: this program (`env!("CARGO_BIN_EXE_ledger_worker")`), with its log in this directory. `clock` shifts its wall
    /// clock, in the words of `faketime`.
    ///
    /// # Panics
    /// If it can't be started.
    pub fn start(program: &str, settings: &Settings, directory: &Path, clock: Option<&str>) -> Guard {
        let mut command = Command::new(program);
        if let Some(clock) = clock {
            // Only what a host's administrator can set is set.
            command.env("LD_PRELOAD", faketime()).env("FAKETIME", clock).env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        }
        Guard::start_as(command, settings, directory)
    }

    /// Starts one by this command, which leads to the program and lacks only the settings, its last argument.
    ///
    /// # Panics
    /// If it can't be started.
    pub fn start_as(mut command: Command, settings: &Settings, directory: &Path) -> Guard {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let log = directory.join(format!("guard.{number}"));
        let mut settings = settings.clone();
        settings.history.get_or_insert_with(|| directory.join(HISTORY));
        let mut child = command
            .arg(serde_json::to_string(&settings).unwrap())
            .env("RUST_LOG", "settled=info")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let lines = Mutex::new(child.stdin.take());
        let said = BufReader::new(child.stdout.take().unwrap());
        let waiting: Waiting = Arc::new(Mutex::new(Some(HashMap::new())));
        let (is_ready, ready) = channel();
        thread::spawn({
            let waiting = Arc::clone(&waiting);
            move || {
                for line in said.lines().map_while(Result::ok) {
                    match serde_json::from_str(&line) {
                        Ok(Said::Ready { epoch }) => drop(is_ready.send(epoch)),
                        Ok(Said::Told { number, told }) => {
                            let waits = waiting.lock().unwrap().as_mut().and_then(|waiting| waiting.remove(&number));
                            if let Some(waits) = waits {
                                // Who no longer waits needs no answer.
                                let _ = waits.send(told);
                            }
                        }
                        // A line that was cut off by a kill was not told.
                        Err(_) => {}
                    }
                }
                waiting.lock().unwrap().take();
            }
        });
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
        let ready = Mutex::new(ready);
        Guard { child: Mutex::new(child), pid, lines, waiting, ready, log, stops: AtomicU64::new(0) }
    }

    /// Waits until it works, and returns its epoch.
    ///
    /// # Panics
    /// If it doesn't start.
    pub fn ready(&self) -> u32 {
        let ready = self.ready.lock().unwrap().recv_timeout(START);
        ready.unwrap_or_else(|_| panic!("the guard doesn't start:\n{}", self.log()))
    }

    /// Waits until it works; whether it does, rather than having died before.
    ///
    /// # Panics
    /// If it neither starts nor dies.
    pub fn is_ready(&self) -> bool {
        match self.ready.lock().unwrap().recv_timeout(START) {
            Ok(_) => true,
            Err(RecvTimeoutError::Disconnected) => false,
            Err(RecvTimeoutError::Timeout) => panic!("the guard doesn't start:\n{}", self.log()),
        }
    }

    /// Waits for so long until it works; whether it does.
    pub fn is_ready_within(&self, limit: Duration) -> bool {
        self.ready.lock().unwrap().recv_timeout(limit).is_ok()
    }

    /// Its process's number.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw()
    }

    /// Ends its input: it finishes, says goodbye to the ledger, and ends. Returns when it has, or is killed.
    pub fn end(&self) {
        self.lines.lock().unwrap().take();
        let until = Instant::now() + Duration::from_secs(10);
        while !self.is_dead() && Instant::now() < until {
            thread::sleep(Duration::from_millis(2));
        }
        self.kill();
    }

    /// Asks for an operation. The answer comes, or the guard dies.
    pub fn call(&self, request: &Request) -> Receiver<Told> {
        let request = request.clone();
        self.ask(|number| Line::Call { number, request })
    }

    /// Wishes that a call does not happen.
    pub fn cancel(&self, request: &Request) -> Receiver<Told> {
        let request = request.clone();
        self.ask(|number| Line::Cancel { number, request })
    }

    fn ask(&self, line: impl FnOnce(u64) -> Line) -> Receiver<Told> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let (tell, told) = channel();
        if let Some(waiting) = self.waiting.lock().unwrap().as_mut() {
            waiting.insert(number, tell);
        }
        let line = serde_json::to_string(&line(number)).unwrap() + "\n";
        // If it is dead, the caller learns that from the answer that doesn't come.
        if let Some(lines) = self.lines.lock().unwrap().as_mut() {
            let _ = lines.write_all(line.as_bytes());
        }
        told
    }

    fn signal(&self, signal: Signal) {
        let mut child = self.child.lock().unwrap();
        // The number of one that is dead may be another's by now.
        if matches!(child.try_wait(), Ok(None)) {
            let _ = kill(self.pid, signal);
        }
    }

    /// Kills it (SIGKILL), and returns when it is dead.
    pub fn kill(&self) {
        let mut child = self.child.lock().unwrap();
        let _ = child.kill();
        let _ = child.wait();
    }

    /// Stops it (SIGSTOP), and returns when it has stopped.
    pub fn stop(&self) {
        self.stops.fetch_add(1, Ordering::SeqCst);
        self.signal(Signal::SIGSTOP);
        self.stopped(Duration::from_secs(5));
    }

    /// Lets it go on.
    pub fn go_on(&self) {
        self.signal(Signal::SIGCONT);
        self.stops.fetch_add(1, Ordering::SeqCst);
    }

    /// Waits until it is stopped, by itself or by a signal.
    ///
    /// # Panics
    /// If it isn't in time.
    pub fn stopped(&self, within: Duration) {
        let until = Instant::now() + within;
        loop {
            let status = fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
            // pid (name) state …
            let state = status.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
            if state.is_none_or(|state| matches!(state, 'T' | 'Z' | 'X')) {
                return;
            }
            assert!(Instant::now() < until, "it doesn't stop:\n{}", self.log());
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Tells whether it was stopped between two looks: how often it was stopped or let go on.
    pub fn stops(&self) -> u64 {
        self.stops.load(Ordering::SeqCst)
    }

    /// Whether it is dead.
    pub fn is_dead(&self) -> bool {
        self.waiting.lock().unwrap().is_none()
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.kill();
    }
}

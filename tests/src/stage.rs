//! One test's world.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::process::{MARK, Process, clear};
use crate::running::{Ended, Running};
use crate::wait::until;

/// A directory of its own, the environment of everything that is started in it, and what it all left. Its processes end
/// with it.
pub struct Stage {
    directory: tempfile::TempDir,
    environment: Vec<(String, String)>,
    pub(crate) config: Option<PathBuf>,
    pids: Mutex<Pids>,
    started: AtomicUsize,
}

struct Pids {
    pipe: File,
    text: String,
}

impl Default for Stage {
    fn default() -> Self {
        Stage::new()
    }
}

impl Stage {
    /// An empty one.
    pub fn new() -> Stage {
        let directory = tempfile::Builder::new().prefix("settled-test-").tempdir().expect("a temporary directory");
        // A pipe instead of a file: it keeps the pid of every server that was ever started.
        let pipe = directory.path().join("pids");
        mkfifo(&pipe, Mode::from_bits_truncate(0o600)).expect("a named pipe");
        // Open for writing too: no server waits for a reader, and the pipe never ends.
        let pipe =
            OpenOptions::new().read(true).write(true).custom_flags(nix::fcntl::OFlag::O_NONBLOCK.bits()).open(pipe);
        let pids = Mutex::new(Pids { pipe: pipe.expect("the named pipe opens"), text: String::new() });
        Stage { directory, environment: Vec::new(), config: None, pids, started: AtomicUsize::new(0) }
    }

    /// A file or directory in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Where it is.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Sets a variable for everything that is started from now on.
    pub fn set(&mut self, name: &str, value: impl ToString) -> &mut Self {
        self.unset(name);
        self.environment.push((name.to_owned(), value.to_string()));
        self
    }

    /// Removes a variable.
    pub fn unset(&mut self, name: &str) -> &mut Self {
        self.environment.retain(|(known, _)| known != name);
        self
    }

    /// Writes the `settled.toml` of the proxies that are started from now on.
    pub fn configure(&mut self, toml: &str) -> &mut Self {
        let file = self.path("settled.toml");
        std::fs::write(&file, toml).expect("the configuration can be written");
        self.config = Some(file);
        self
    }

    /// Starts a command.
    pub fn start(&self, argv: &[OsString]) -> Running {
        self.start_with(argv, &[])
    }

    /// Starts a command with some variables more.
    pub fn start_with(&self, argv: &[OsString], more: &[(&str, &str)]) -> Running {
        let (program, arguments) = argv.split_first().expect("a command");
        let stderr = self.path(&format!("stderr-{}", self.started.fetch_add(1, Ordering::Relaxed)));
        let of_a_test = |name: &str| {
            ["SERVER_", "CLIENT_", "SETTLED_"].iter().any(|prefix| name.starts_with(prefix))
                || ["EFFECTS", "TOOL", "CALL_META", "START", "COUNT"].contains(&name)
        };
        let inherited = std::env::vars_os().filter(|(name, _)| !name.to_str().is_some_and(of_a_test));
        let child = Command::new(program)
            .args(arguments)
            .env_clear()
            .envs(inherited)
            .env(MARK, self.directory())
            .env("EFFECTS", self.path("effects"))
            .env("SERVER_PID_FILE", self.path("pids"))
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .envs(more.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&stderr).expect("a file for standard error"))
            .spawn();
        match child {
            Ok(child) => Running::new(child, stderr),
            Err(error) => panic!("{}: {error}; run tests/clients/install", program.display()),
        }
    }

    /// Runs a command to its end.
    #[track_caller]
    pub fn run(&self, argv: &[OsString]) -> Ended {
        let mut running = self.start(argv);
        running.close_input();
        running.wait()
    }

    /// The effects so far, each as its line.
    pub fn effects(&self) -> Vec<String> {
        whole_lines(&self.path("effects"))
    }

    /// The effects so far; waits for that many.
    #[track_caller]
    pub fn wait_for_effects(&self, count: usize) -> Vec<String> {
        until(&format!("{count} effects"), || Some(self.effects()).filter(|effects| effects.len() >= count))
    }

    /// The pids of the servers that killed themselves, as they were told to.
    pub fn kills(&self) -> Vec<u32> {
        let pid = |line: String| line.strip_prefix("killed ").expect("a kill").parse().expect("a pid");
        whole_lines(&self.path("effects.kills")).into_iter().map(pid).collect()
    }

    /// The pids of all servers that were started so far.
    pub fn servers(&self) -> Vec<u32> {
        let mut pids = self.pids.lock().expect("no panic while reading");
        let mut read = [0; 4096];
        while let Ok(length @ 1..) = pids.pipe.read(&mut read) {
            let text = String::from_utf8_lossy(read.get(..length).unwrap_or_default()).into_owned();
            pids.text.push_str(&text);
        }
        let whole = pids.text.rfind('\n').map_or(0, |end| end + 1);
        pids.text.get(..whole).unwrap_or_default().lines().map(|pid| pid.trim().parse().expect("a pid")).collect()
    }

    /// The pids of all servers; waits for that many.
    #[track_caller]
    pub fn wait_for_servers(&self, count: usize) -> Vec<u32> {
        until(&format!("{count} servers"), || Some(self.servers()).filter(|servers| servers.len() >= count))
    }

    /// Everything that runs in it now.
    pub fn processes(&self) -> Vec<Process> {
        Process::of_stage(self.directory())
    }

    /// The proxies that run in it now.
    pub fn proxies(&self) -> Vec<Process> {
        let mut proxies = self.processes();
        proxies.retain(|process| process.argv.get(1).is_some_and(|word| word == "mcp"));
        let pids: Vec<u32> = proxies.iter().map(|process| process.pid).collect();
        // Between fork and exec a server looks like its proxy.
        proxies.retain(|process| !pids.contains(&process.parent));
        proxies
    }

    /// Kills a process of this stage with SIGKILL and returns when it is gone. `false` if it had ended by itself.
    ///
    /// # Panics
    /// If no word of its command line ends with `word`: then it is not the process meant.
    #[track_caller]
    pub fn kill(&self, process: &Process, word: &str) -> bool {
        assert!(process.has_word(word), "{process:?} is not {word}");
        process.kill(self.directory())
    }

    /// Waits until nothing runs in it.
    #[track_caller]
    pub fn wait_until_empty(&self) {
        until("all processes have ended", || self.processes().is_empty().then_some(()));
    }

    /// All that is known of what happened, for the message of a failed test.
    pub fn story(&self) -> String {
        let mut story =
            format!("effects {:#?}\nkills {:?}\nservers {:?}\n", self.effects(), self.kills(), self.servers());
        if self.path("ledger").exists() {
            let history = std::fs::read_to_string(self.path("ledger/history.jsonl")).unwrap_or_default();
            story.push_str(&format!("ledger {:#?}\nhistory\n{history}\n", self.operations()));
        }
        for number in 0..self.started.load(Ordering::Relaxed) {
            let text = std::fs::read(self.path(&format!("stderr-{number}"))).unwrap_or_default();
            if !text.is_empty() {
                story.push_str(&format!("standard error {number}\n{}\n", String::from_utf8_lossy(&text)));
            }
        }
        story
    }

    /// Makes sure that the verifier finds nothing broken in the ledger and the history of this stage, if it has them. (A ledger
    /// that a test has damaged can't be verified.)
    #[track_caller]
    pub fn expect_sound(&self) {
        let ledger = self.path("ledger");
        if !ledger.join("history.jsonl").exists() {
            return;
        }
        let mut argv = self.settled(&["verify", "--json"]);
        argv.push(ledger.into());
        let ended = self.run(&argv);
        let report: serde_json::Value = serde_json::from_str(&ended.lines.join("\n")).unwrap_or_default();
        let violations = report["violations"].as_array().cloned().unwrap_or_default();
        assert!(violations.is_empty(), "{violations:#?}\n{}", self.story());
    }

    /// Makes sure that there are exactly so many effects; returns them.
    #[track_caller]
    pub fn expect_effects(&self, count: usize) -> Vec<String> {
        let effects = self.effects();
        assert!(effects.len() == count, "{count} effects expected\n{}", self.story());
        effects
    }
}

/// Every test ends with what the verifier says of all that its proxies did.
impl Drop for Stage {
    fn drop(&mut self) {
        clear(self.directory());
        if !std::thread::panicking() {
            self.expect_sound();
        }
    }
}

pub(crate) fn whole_lines(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    text.get(..whole).unwrap_or_default().lines().map(str::to_owned).collect()
}

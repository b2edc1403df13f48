//! The tool that the guards guard: it outlives them, and knows what really happened.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::ops::Range;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::wire::{Ask, Reply};

/// One effect.
#[derive(Clone, Debug)]
pub struct Effect {
    /// The tool's name.
    pub tool: String,
    /// The operation's id.
    pub id: String,
    /// The attempt that led to it.
    pub attempt: u32,
    /// What it was done to.
    pub resource: Option<String>,
    /// When it began.
    pub begun: Instant,
    /// When it ended, if it has.
    pub ended: Option<Instant>,
}

/// How the tool behaves. Probabilities in percent, times in milliseconds.
#[derive(Clone, Debug)]
pub struct Behaviour {
    /// How long an effect takes.
    pub takes: Range<u64>,
    /// How long a request lies around before its effect begins.
    pub late: Range<u64>,
    /// How often the connection is lost before anything happens.
    pub lost_before: u8,
    /// How often the connection is lost while the request lies around; the effect comes.
    pub lost_early: u8,
    /// How often the reply is lost.
    pub lost_after: u8,
    /// How often the reply comes only after this time.
    pub hangs: (u8, u64),
    /// How long a deduplicating tool remembers.
    pub remembers: Duration,
}

impl Behaviour {
    /// Quick, and always with an answer.
    pub fn reliable() -> Behaviour {
        Behaviour {
            takes: 0..10,
            late: 0..1,
            lost_before: 0,
            lost_early: 0,
            lost_after: 0,
            hangs: (0, 0),
            remembers: Duration::from_secs(3_600),
        }
    }
}

/// A running tool.
pub struct ToolServer {
    directory: TempDir,
    effects: Arc<Mutex<Vec<Effect>>>,
}

impl ToolServer {
    /// Starts one.
    ///
    /// # Panics
    /// If it can't listen.
    pub fn start(behaviour: Behaviour) -> ToolServer {
        let directory = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(directory.path().join("tool")).unwrap();
        let effects = Arc::new(Mutex::new(Vec::new()));
        let world = World { behaviour, effects: Arc::clone(&effects), remembered: Arc::default() };
        // It ends with the test's process.
        thread::spawn(move || {
            for connection in listener.incoming() {
                let (connection, world) = (connection.unwrap(), world.clone());
                thread::spawn(move || world.serve(connection));
            }
        });
        ToolServer { directory, effects }
    }

    /// Where it listens.
    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("tool")
    }

    /// A directory for the test's own files.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Every effect there was so far.
    ///
    /// # Panics
    /// If the tool has panicked.
    pub fn effects(&self) -> Vec<Effect> {
        self.effects.lock().unwrap().clone()
    }

    /// How many effects each operation had, by its id.
    pub fn counts(&self) -> HashMap<String, usize> {
        let mut counts = HashMap::new();
        for effect in self.effects() {
            *counts.entry(effect.id).or_default() += 1;
        }
        counts
    }
}

#[derive(Clone)]
struct World {
    behaviour: Behaviour,
    effects: Arc<Mutex<Vec<Effect>>>,
    /// When a key was first applied.
    remembered: Arc<Mutex<HashMap<String, Instant>>>,
}

impl World {
    /// One request. A guard that has gone away meanwhile needs no answer, but the effect comes all the same.
    fn serve(&self, connection: UnixStream) {
        let mut line = String::new();
        if BufReader::new(&connection).read_line(&mut line).is_err() {
            return;
        }
        // A guard that was killed while it sent has sent nothing.
        let Ok(ask) = serde_json::from_str::<Ask>(&line) else { return };
        let reply = match ask {
            Ask { seal: Some(_), .. } => Some(Reply::Unclear),
            Ask { observe: true, .. } => Some(self.observe(&ask)),
            _ => self.apply(&ask, &connection),
        };
        if let Some(reply) = reply {
            let line = serde_json::to_string(&reply).unwrap() + "\n";
            let _ = (&connection).write_all(line.as_bytes());
        }
    }

    fn observe(&self, ask: &Ask) -> Reply {
        let effects = self.effects.lock().unwrap();
        match effects.iter().find(|effect| effect.id == ask.id) {
            None => Reply::NotApplied,
            Some(effect) if effect.ended.is_none() => Reply::Unclear,
            Some(_) => Reply::Done(result(&ask.id)),
        }
    }

    fn apply(&self, ask: &Ask, connection: &UnixStream) -> Option<Reply> {
        let behaviour = &self.behaviour;
        if chance(behaviour.lost_before) {
            return None;
        }
        let lost_early = chance(behaviour.lost_early);
        if lost_early {
            let _ = connection.shutdown(std::net::Shutdown::Both);
        }
        thread::sleep(some_of(&behaviour.late));
        if !(ask.tool == "deduplicates" && self.is_remembered(&ask.id)) {
            self.take_effect(ask);
        }
        if chance(behaviour.hangs.0) {
            thread::sleep(Duration::from_millis(behaviour.hangs.1));
        }
        let lost = lost_early || chance(behaviour.lost_after);
        (!lost).then(|| Reply::Done(result(&ask.id)))
    }

    /// Whether a key was applied so recently that the tool knows it; if not, it does from now on.
    fn is_remembered(&self, id: &str) -> bool {
        let mut remembered = self.remembered.lock().unwrap();
        let now = Instant::now();
        let known = remembered.get(id).is_some_and(|first| now < *first + self.behaviour.remembers);
        if !known {
            remembered.insert(id.to_owned(), now);
        }
        known
    }

    fn take_effect(&self, ask: &Ask) {
        let number = {
            let mut effects = self.effects.lock().unwrap();
            effects.push(Effect {
                tool: ask.tool.clone(),
                id: ask.id.clone(),
                attempt: ask.attempt,
                resource: ask.resource.clone(),
                begun: Instant::now(),
                ended: None,
            });
            effects.len() - 1
        };
        thread::sleep(some_of(&self.behaviour.takes));
        self.effects.lock().unwrap()[number].ended = Some(Instant::now());
    }
}

/// What an operation's result is.
pub fn result(id: &str) -> String {
    format!("the result of {id}")
}

fn chance(percent: u8) -> bool {
    fastrand::u8(..100) < percent
}

fn some_of(millis: &Range<u64>) -> Duration {
    Duration::from_millis(fastrand::u64(millis.clone()))
}

//! The tool that the guards guard, as a process that can be killed: what it has done is in a file, which outlives it.
//!
//! What an operation's id begins with says what befalls it: `lost` loses the reply to the first request that takes effect, `gone`
//! loses the first request.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use settled::fault;
use settled_ledger_tests::stage::tool::result;
use settled_ledger_tests::stage::wire::{Ask, Reply, Seal};

/// How long an effect takes.
const TAKES: Duration = Duration::from_millis(2);

/// What has happened, by the tool's own file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Happened {
    /// How many effects each operation had.
    pub effects: HashMap<String, usize>,
    /// Effects on one resource that were there at the same time.
    pub overlaps: Vec<String>,
    /// The attempts that are forbidden, by operation: up to this one.
    sealed: HashMap<String, u32>,
    /// The operations whose first request was lost.
    dropped: HashSet<String>,
}

impl Happened {
    /// Reads the file; a tool that has done nothing has none.
    ///
    /// # Panics
    /// If the tool has written what it never writes.
    pub fn read(path: &Path) -> Happened {
        let mut happened = Happened::default();
        for line in fs::read_to_string(path).unwrap_or_default().lines() {
            let mut words = line.split(' ');
            let mut word = || words.next().unwrap_or_default().to_owned();
            match (&*word(), word(), word()) {
                ("effect", id, _) => *happened.effects.entry(id).or_default() += 1,
                ("seal", id, attempt) => drop(happened.sealed.insert(id, attempt.parse().unwrap())),
                ("drop", id, _) => drop(happened.dropped.insert(id)),
                ("overlap", a, b) => happened.overlaps.push(format!("{a} and {b}")),
                _ => panic!("the tool has written {line}"),
            }
        }
        happened
    }
}

struct World {
    file: File,
    happened: Happened,
    /// Who has which resource now.
    busy: HashMap<String, String>,
}

/// Serves for ever.
///
/// # Panics
/// If it can't listen, or can't write.
pub fn serve(socket: &Path, effects: &Path) {
    let happened = Happened::read(effects);
    let file = OpenOptions::new().create(true).append(true).open(effects).unwrap();
    let world = Arc::new(Mutex::new(World { file, happened, busy: HashMap::new() }));
    let _ = fs::remove_file(socket);
    let listener = UnixListener::bind(socket).unwrap();
    for connection in listener.incoming() {
        let (connection, world) = (connection.unwrap(), Arc::clone(&world));
        thread::spawn(move || answer(&world, &connection));
    }
}

fn answer(world: &Mutex<World>, mut connection: &UnixStream) {
    let mut line = String::new();
    if BufReader::new(connection).read_line(&mut line).is_err() {
        return;
    }
    // A guard that was killed while it sent has sent nothing.
    let Ok(ask) = serde_json::from_str::<Ask>(&line) else { return };
    let reply = match ask {
        Ask { observe: true, .. } => Some(world.lock().unwrap().observe(&ask)),
        Ask { seal: Some(seal), .. } => Some(world.lock().unwrap().seal(&ask, seal)),
        _ => apply(world, &ask),
    };
    if let Some(reply) = reply {
        let line = serde_json::to_string(&reply).unwrap() + "\n";
        fault::point("tool-before-reply");
        // A guard that is dead needs none.
        let _ = connection.write_all(line.as_bytes());
        fault::point("tool-after-reply");
    }
}

fn apply(world: &Mutex<World>, ask: &Ask) -> Option<Reply> {
    let first = {
        let mut world = world.lock().unwrap();
        if ask.id.starts_with("gone") && world.happened.dropped.insert(ask.id.clone()) {
            world.write(&format!("drop {}", ask.id));
            return None;
        }
        let applied = world.happened.effects.contains_key(&ask.id);
        if world.happened.sealed.get(&ask.id).is_some_and(|sealed| ask.attempt <= *sealed) && !applied {
            return Some(Reply::Refused);
        }
        // What is done a second time changes nothing, unless the tool knows nothing of keys.
        let again = applied && !matches!(&*ask.tool, "opaque" | "observable");
        if !again {
            world.effect(ask);
        }
        !applied
    };
    thread::sleep(TAKES);
    if let Some(resource) = &ask.resource {
        world.lock().unwrap().busy.remove(resource);
    }
    let lost = ask.id.starts_with("lost") && first;
    (!lost).then(|| Reply::Done(result(&ask.id)))
}

impl World {
    fn effect(&mut self, ask: &Ask) {
        fault::point("tool-before-effect");
        if let Some(resource) = &ask.resource
            && let Some(other) = self.busy.insert(resource.clone(), ask.id.clone())
        {
            self.write(&format!("overlap {other} {}", ask.id));
        }
        self.write(&format!("effect {} {}", ask.id, ask.attempt));
        *self.happened.effects.entry(ask.id.clone()).or_default() += 1;
        fault::point("tool-after-effect");
    }

    fn observe(&self, ask: &Ask) -> Reply {
        match self.happened.effects.get(&ask.id) {
            None => Reply::NotApplied,
            Some(_) => Reply::Done(result(&ask.id)),
        }
    }

    fn seal(&mut self, ask: &Ask, seal: Seal) -> Reply {
        if self.happened.effects.contains_key(&ask.id) {
            return Reply::Done(result(&ask.id));
        }
        let attempt = match seal {
            Seal::Attempts => ask.attempt,
            Seal::Operation => u32::MAX,
        };
        let sealed = self.happened.sealed.get(&ask.id).copied().unwrap_or_default().max(attempt);
        fault::point("tool-before-seal");
        self.write(&format!("seal {} {sealed}", ask.id));
        self.happened.sealed.insert(ask.id.clone(), sealed);
        fault::point("tool-after-seal");
        Reply::Sealed
    }

    /// In one write: a kill comes before it or after it.
    fn write(&mut self, line: &str) {
        self.file.write_all(format!("{line}\n").as_bytes()).unwrap();
    }
}

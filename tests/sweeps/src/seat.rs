//! A guard's place in a scene: when the one in it dies, its successor takes it.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use settled_ledger_tests::stage::Guard;
use settled_ledger_tests::stage::wire::{Answer, Request, Settings, Told};

/// No call to a guard that lives may take longer, on a machine that is busy with many scenes.
const NO_ANSWER: Duration = Duration::from_secs(60);

/// How often nothing may be sent before somebody starts the guards again.
const TROUBLE: usize = 4;

/// How long guards are waited for, one of which has a disk that fails, or too little of something.
const BRIEFLY: Duration = Duration::from_secs(4);

/// What befalls a process.
#[derive(Clone, Debug, Default)]
pub struct Fate {
    /// What it has in its environment.
    pub environment: Vec<(String, String)>,
    /// What a shell does before it becomes the process.
    pub shell: Option<String>,
    /// Whether it may never come to work: then it is killed.
    pub may_not_start: bool,
}

impl Fate {
    /// A process with this in its environment.
    pub fn with(name: &str, value: impl Into<String>) -> Fate {
        Fate { environment: vec![(name.to_owned(), value.into())], ..Fate::default() }
    }

    /// A process whose disk fails so.
    pub fn disk(fault: &str) -> Fate {
        Fate { may_not_start: true, ..Fate::with("SETTLED_DISK_FAULT", fault) }
    }

    /// A process that a shell makes after these commands.
    pub fn shell(commands: &str) -> Fate {
        Fate { shell: Some(commands.to_owned()), may_not_start: true, ..Fate::default() }
    }

    /// The command that starts this program to that fate.
    pub fn command(&self, program: &std::path::Path) -> Command {
        let mut command = match &self.shell {
            None => Command::new(program),
            Some(commands) => {
                let mut shell = Command::new("sh");
                shell.arg("-c").arg(format!("{commands}; exec \"$0\" \"$@\"")).arg(program);
                shell
            }
        };
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// The n-th process is killed at the n-th of these points.
pub fn kills(at: &[u64]) -> Vec<Fate> {
    at.iter().map(|at| Fate::with("SETTLED_KILL_AT", at.to_string())).collect()
}

/// Everyone who sits in a scene.
#[derive(Default)]
pub(crate) struct Company {
    guards: Mutex<Vec<Arc<Guard>>>,
    told: Mutex<Vec<(Request, Told)>>,
    trouble: AtomicUsize,
    /// Somebody watches these guards, and starts them again when calls take long: a guard waits long for another one that lives.
    watched: AtomicBool,
}

impl Company {
    /// What callers were told.
    pub(crate) fn told(&self) -> Vec<(Request, Told)> {
        lock(&self.told).clone()
    }

    /// How often a guard died under a call, didn't start, or could send nothing.
    pub(crate) fn trouble(&self) -> usize {
        self.trouble.load(Ordering::SeqCst)
    }

    fn note_trouble(&self) {
        self.trouble.fetch_add(1, Ordering::SeqCst);
    }

    /// Somebody starts all guards again: successors take their places.
    pub(crate) fn disperse(&self) {
        lock(&self.guards).drain(..).for_each(|guard| guard.kill());
    }
}

/// A place for a guard.
pub struct Seat {
    program: PathBuf,
    settings: Settings,
    directory: PathBuf,
    fates: Mutex<std::vec::IntoIter<Fate>>,
    guard: Mutex<Option<Arc<Guard>>>,
    company: Arc<Company>,
    /// In words, for who looks into a failure.
    plot: String,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Seat {
    pub(crate) fn new(
        program: PathBuf,
        settings: Settings,
        directory: PathBuf,
        fates: Vec<Fate>,
        company: Arc<Company>,
    ) -> Seat {
        let plot = format!("{fates:?}");
        if fates.iter().any(|fate| fate.may_not_start) {
            company.watched.store(true, Ordering::SeqCst);
        }
        let fates = Mutex::new(fates.into_iter());
        Seat { program, settings, directory, fates, guard: Mutex::default(), company, plot }
    }

    /// The guard in it, or its successor if that is dead. The processes of a fate come first, one after the other; those that
    /// come after the last one are left alone.
    ///
    /// # Panics
    /// If it doesn't start, and doesn't die either.
    pub fn guard(&self) -> Arc<Guard> {
        let mut guard = lock(&self.guard);
        loop {
            if let Some(guard) = &*guard
                && !guard.is_dead()
            {
                return Arc::clone(guard);
            }
            *guard = Some(self.next());
        }
    }

    /// Starts one guard; whether it works.
    ///
    /// # Panics
    /// If it doesn't start, and doesn't die either, although nothing befalls it.
    pub fn try_to_start(&self) -> bool {
        let next = self.next();
        let works = !next.is_dead();
        *lock(&self.guard) = Some(next);
        works
    }

    fn next(&self) -> Arc<Guard> {
        let fate = lock(&self.fates).next().unwrap_or_default();
        let mut command = fate.command(&self.program);
        command.env("SETTLED_KILL_LOG", self.directory.join("kills"));
        command.env("SETTLED_DISK_LOG", self.directory.join("faults"));
        let next = Arc::new(Guard::start_as(command, &self.settings, &self.directory));
        lock(&self.company.guards).push(Arc::clone(&next));
        match fate.may_not_start || self.company.watched.load(Ordering::SeqCst) {
            true if !next.is_ready_within(BRIEFLY) => {
                self.company.note_trouble();
                // It may be the holder's disk that keeps it from working.
                self.company.disperse();
            }
            true => {}
            false => drop(next.is_ready()),
        }
        next
    }

    /// Calls until there is an answer, at one guard after the other as they die, and again if nothing was sent. If that goes on,
    /// all guards are started again. Returns the last answer.
    ///
    /// # Panics
    /// If a guard that lives doesn't answer, or none ever does.
    pub fn call(&self, request: &Request) -> Told {
        let give_up = Instant::now() + NO_ANSWER;
        let (mut unsent, mut last) = (0, None);
        while Instant::now() < give_up {
            match self.call_once(request) {
                Some(told) if told.answer != Answer::NotSent => return told,
                Some(told) => (unsent, last) = (unsent + 1, Some(told)),
                None => {}
            }
            if unsent == TROUBLE {
                self.company.disperse();
                unsent = 0;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("nobody carries out {}: {last:?}\n{}", request.id, self.log());
    }

    /// Calls once; `None` if the guard dies meanwhile.
    ///
    /// # Panics
    /// If it lives and doesn't answer.
    pub fn call_once(&self, request: &Request) -> Option<Told> {
        let asked = self.guard().call(request);
        let mut answered = Err(RecvTimeoutError::Timeout);
        if self.company.watched.load(Ordering::SeqCst) {
            answered = asked.recv_timeout(BRIEFLY);
            if answered == Err(RecvTimeoutError::Timeout) {
                self.company.disperse();
            }
        }
        if answered == Err(RecvTimeoutError::Timeout) {
            answered = asked.recv_timeout(NO_ANSWER);
        }
        match answered {
            Ok(told) => {
                if told.answer == Answer::NotSent {
                    self.company.note_trouble();
                }
                lock(&self.company.told).push((request.clone(), told.clone()));
                Some(told)
            }
            Err(RecvTimeoutError::Disconnected) => {
                self.company.note_trouble();
                None
            }
            Err(RecvTimeoutError::Timeout) => panic!("{} is not answered:\n{}", request.id, self.log()),
        }
    }

    /// Lets the guard in it end in order, if there is one.
    pub fn end(&self) {
        if let Some(guard) = lock(&self.guard).take() {
            guard.end();
        }
    }

    /// What befell it, and what the guard in it has logged.
    pub fn log(&self) -> String {
        let log = lock(&self.guard).as_ref().map(|guard| guard.log()).unwrap_or_default();
        format!("{}\n{}\n{log}", self.plot, self.directory.display())
    }
}

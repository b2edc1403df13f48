//! Several guards on one ledger, replaced as they die; and callers who never give up.

use std::path::PathBuf;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use super::guard::Guard;
use super::wire::{Answer, Request, Settings, Told};

/// No call to a guard that lives may take longer, whatever happens to the ledger.
const NO_ANSWER: Duration = Duration::from_secs(90);

/// Guards on one ledger.
pub struct Pool {
    program: String,
    settings: Settings,
    directory: PathBuf,
    guards: Vec<RwLock<Arc<Guard>>>,
    told: Mutex<Vec<(Request, Told)>>,
    longest: Mutex<Duration>,
}

impl Pool {
    /// Starts them.
    ///
    /// # Panics
    /// If one doesn't start.
    pub fn start(program: &str, settings: Settings, directory: PathBuf, size: usize) -> Pool {
        let guards: Vec<_> = (0..size).map(|_| Guard::start(program, &settings, &directory, None)).collect();
        for guard in &guards {
            guard.ready();
        }
        let guards = guards.into_iter().map(|guard| RwLock::new(Arc::new(guard))).collect();
        let (told, longest) = (Mutex::default(), Mutex::default());
        Pool { program: program.to_owned(), settings, directory, guards, told, longest }
    }

    /// Any of them.
    ///
    /// # Panics
    /// Never, unless a caller did.
    pub fn any(&self) -> Arc<Guard> {
        Arc::clone(&self.guards[fastrand::usize(..self.guards.len())].read().unwrap())
    }

    /// Kills one of them, and starts another in its place.
    ///
    /// # Panics
    /// If that doesn't start.
    pub fn replace_one(&self) {
        let place = &self.guards[fastrand::usize(..self.guards.len())];
        place.read().unwrap().kill();
        let next = Guard::start(&self.program, &self.settings, &self.directory, None);
        next.ready();
        *place.write().unwrap() = Arc::new(next);
    }

    /// Calls until there is an answer, at one guard after the other as they die, and again if nothing was sent. Returns what is
    /// told in the end.
    ///
    /// # Panics
    /// If a guard that lives doesn't answer.
    pub fn call(&self, request: &Request) -> Told {
        let mut last = None;
        for _ in 0..100 {
            let guard = self.any();
            let stops = guard.stops();
            let asked = Instant::now();
            match guard.call(request).recv_timeout(NO_ANSWER) {
                Ok(told) => {
                    // One that is stopped can't answer.
                    if stops.is_multiple_of(2) && guard.stops() == stops {
                        let mut longest = self.longest.lock().unwrap();
                        *longest = asked.elapsed().max(*longest);
                    }
                    self.told.lock().unwrap().push((request.clone(), told.clone()));
                    if told.answer != Answer::NotSent {
                        return told;
                    }
                    last = Some(told);
                }
                Err(RecvTimeoutError::Disconnected) => {}
                Err(RecvTimeoutError::Timeout) => panic!("{} is not answered:\n{}", request.id, guard.log()),
            }
            thread::sleep(Duration::from_millis(20));
        }
        panic!("nobody carries out {}: {last:?}\n{}", request.id, self.logs());
    }

    /// Everything that callers were told.
    ///
    /// # Panics
    /// Never, unless a caller did.
    pub fn told(&self) -> Vec<(Request, Told)> {
        self.told.lock().unwrap().clone()
    }

    /// How long the longest call took, at a guard that wasn't stopped meanwhile.
    ///
    /// # Panics
    /// Never, unless a caller did.
    pub fn longest(&self) -> Duration {
        *self.longest.lock().unwrap()
    }

    /// What all of them have logged that live.
    ///
    /// # Panics
    /// Never, unless a caller did.
    pub fn logs(&self) -> String {
        self.guards.iter().map(|guard| guard.read().unwrap().log()).collect()
    }
}

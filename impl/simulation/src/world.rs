//! What the parts of a run share: its plan, the time, the dice, the log, who lives, and what is known to be true.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use settled::protocol::{Digest, Ends, Epoch, Key, Millis, Time};
use settled::{Clock, Engine, History, HistoryLine, Resource};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

use crate::caller::arguments;
use crate::coverage::Coverage;
use crate::log::EventLog;
use crate::plan::{Plan, Rates};
use crate::process::Process;
use crate::proxy::{Connection, Life};
use crate::server::Server;
use crate::truth::Truth;
use crate::violation::{Property, Violation};

/// When every run begins.
const BEGINNING: u64 = 1_700_000_000_000;

/// The scope of all keys.
pub(crate) const SCOPE: &str = "shop";

/// Everything of one run.
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) server: Server,
    begun: Instant,
    calm: AtomicBool,
    state: Mutex<State>,
}

struct State {
    random: Rng,
    log: EventLog,
    coverage: Coverage,
    truth: Truth,
    violations: Vec<Violation>,
    guards: Vec<Guard>,
    owners: BTreeMap<Epoch, Arc<Process>>,
    lines: Vec<HistoryLine>,
    ledger_down: u32,
}

/// A guard's place, which one process after the other takes.
#[derive(Clone, Default)]
pub(crate) struct Guard {
    pub(crate) process: Option<Arc<Process>>,
    pub(crate) engine: Option<Engine>,
    /// A proxy's client, and its server.
    pub(crate) client: Option<Arc<Connection>>,
    pub(crate) server: Option<Arc<Life>>,
    /// Tells a proxy to end.
    pub(crate) tell: Option<UnboundedSender<()>>,
    lives: u32,
    cut_from_ledger: u32,
    cut_from_tools: u32,
    /// What its host's clock is off by, in milliseconds.
    skew: i64,
}

impl World {
    pub(crate) fn new(plan: Plan, told: bool) -> Arc<World> {
        let mut random = Rng::with_seed(plan.seed);
        let server = Server::new(plan.ledger, random.u64(..));
        let state = State {
            random,
            log: EventLog::new(told),
            coverage: Coverage::default(),
            truth: Truth::default(),
            violations: Vec::new(),
            guards: vec![Guard::default(); plan.guards],
            owners: BTreeMap::new(),
            lines: Vec::new(),
            ledger_down: 0,
        };
        Arc::new(World { plan, server, begun: Instant::now(), calm: AtomicBool::new(false), state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Milliseconds since the run began.
    pub(crate) fn now(&self) -> Millis {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// The true time.
    pub(crate) fn time(&self) -> Time {
        Time(BEGINNING + self.now())
    }

    /// Waits until so many milliseconds after the beginning.
    pub(crate) async fn until(&self, at: Millis) {
        tokio::time::sleep_until(self.begun + Duration::from_millis(at)).await;
    }

    /// Throws dice.
    pub(crate) fn draw<T>(&self, draw: impl FnOnce(&mut Rng) -> T) -> T {
        draw(&mut self.state().random)
    }

    /// Waits a random while.
    pub(crate) async fn delay(&self, range: std::ops::RangeInclusive<Millis>) {
        let wait = self.draw(|random| random.u64(range));
        if wait > 0 {
            tokio::time::sleep(Duration::from_millis(wait)).await;
        }
    }

    /// Whether something goes wrong now that does so at one of the plan's rates. It is counted if it does.
    pub(crate) fn happens(&self, rate: impl FnOnce(&Rates) -> u32, name: &'static str) -> bool {
        let rate = rate(&self.plan.rates);
        if rate == 0 || self.calm.load(Ordering::Relaxed) {
            return false;
        }
        let mut state = self.state();
        let happens = state.random.u32(..1_000) < rate;
        if happens {
            state.coverage.fault(name);
            let at = self.now();
            state.log.note(at, format_args!("⚡ {name}"));
        }
        happens
    }

    /// From here on nothing goes wrong.
    pub(crate) fn calm_down(&self) {
        self.calm.store(true, Ordering::Relaxed);
        let mut state = self.state();
        state.ledger_down = 0;
        for guard in &mut state.guards {
            (guard.cut_from_ledger, guard.cut_from_tools) = (0, 0);
        }
    }

    /// Notes what happens.
    pub(crate) fn note(&self, what: fmt::Arguments<'_>) {
        let at = self.now();
        self.state().log.note(at, what);
    }

    /// Counts a fault.
    pub(crate) fn fault(&self, name: &'static str) {
        let at = self.now();
        let mut state = self.state();
        state.coverage.fault(name);
        state.log.note(at, format_args!("⚡ {name}"));
    }

    /// Something is not as it must be.
    pub(crate) fn violated(&self, property: Property, what: String) {
        let at = self.now();
        let mut state = self.state();
        state.log.note(at, format_args!("✗ {}: {what}", property.name()));
        state.violations.push(Violation { property, at, what });
    }

    /// A task of a process panicked.
    pub(crate) fn panicked(&self, message: &str) {
        self.violated(Property::NoPanic, format!("a task panicked: {message}"));
    }

    /// What is known to be true.
    pub(crate) fn truth<T>(&self, act: impl FnOnce(&mut Truth) -> T) -> T {
        act(&mut self.state().truth)
    }

    /// What has been covered.
    pub(crate) fn coverage<T>(&self, act: impl FnOnce(&mut Coverage) -> T) -> T {
        act(&mut self.state().coverage)
    }

    /// A guard's place.
    pub(crate) fn guard(&self, guard: usize) -> Guard {
        self.state().guards.get(guard).cloned().unwrap_or_default()
    }

    /// Changes a guard's place.
    pub(crate) fn with_guard<T>(&self, guard: usize, act: impl FnOnce(&mut Guard) -> T) -> Option<T> {
        self.state().guards.get_mut(guard).map(act)
    }

    /// Takes down, or lets up again, the ledger's server.
    pub(crate) fn ledger_down(&self, down: bool) {
        let mut state = self.state();
        state.ledger_down = if down { state.ledger_down + 1 } else { state.ledger_down.saturating_sub(1) };
    }

    /// Whether a guard can reach the ledger's server.
    pub(crate) fn reaches_ledger(&self, guard: usize) -> bool {
        let state = self.state();
        state.ledger_down == 0 && state.guards.get(guard).is_some_and(|guard| guard.cut_from_ledger == 0)
    }

    /// Whether a guard can reach the tools.
    pub(crate) fn reaches_tools(&self, guard: usize) -> bool {
        self.state().guards.get(guard).is_some_and(|guard| guard.cut_from_tools == 0)
    }

    /// A process has become an owner.
    pub(crate) fn owns(&self, owner: Epoch, process: &Arc<Process>) {
        self.state().owners.insert(owner, process.clone());
    }

    /// The process that is an owner.
    pub(crate) fn owner(&self, owner: Epoch) -> Option<Arc<Process>> {
        self.state().owners.get(&owner).cloned()
    }

    /// The owners whose processes live.
    pub(crate) fn living(&self) -> Vec<Epoch> {
        let owners = &self.state().owners;
        owners.iter().filter(|(_, process)| process.is_alive()).map(|(epoch, _)| *epoch).collect()
    }

    /// Ends all that holds on to this world, and takes what came of it.
    pub(crate) fn end(&self) -> Came {
        let guards = std::mem::take(&mut self.state().guards);
        for process in guards.iter().filter_map(|guard| guard.process.as_ref()) {
            process.kill();
        }
        drop(guards);
        self.server.end();
        let at = self.now();
        let mut state = self.state();
        let owners = std::mem::take(&mut state.owners);
        let came = Came {
            simulated: Duration::from_millis(at),
            events: state.log.events(),
            digest: state.log.digest(),
            story: state.log.take_story(),
            coverage: std::mem::take(&mut state.coverage),
            violations: std::mem::take(&mut state.violations),
        };
        drop(state);
        drop(owners);
        came
    }

    /// The lines of all histories, so far.
    pub(crate) fn take_lines(&self) -> Vec<HistoryLine> {
        std::mem::take(&mut self.state().lines)
    }

    /// The key of a wish.
    pub(crate) fn key(&self, tool: usize, wish: u32) -> Key {
        let own = self.plan.tools.get(tool).is_some_and(|tool| tool.ends == Ends::WithWindow);
        let id = match self.plan.proxied {
            false => format!("wish-{wish}"),
            true if own => format!("key:wish-{wish}"),
            // These arguments are canonical.
            true => format!("args:{}", Digest::of(&arguments(wish, false))),
        };
        // These parts are neither empty nor too long.
        Key::new(SCOPE, format!("tool-{tool}"), id).unwrap_or_else(|_| unreachable!())
    }

    /// What a wish must have to itself.
    pub(crate) fn resource(&self, tool: usize, wish: u32) -> Option<Resource> {
        let wanted = self.plan.tools.get(tool).is_some_and(|tool| tool.resource);
        wanted.then(|| Resource { scope: SCOPE.to_owned(), name: format!("account-{tool}-{}", wish % 2) })
    }
}

impl Guard {
    /// Takes the place for another process.
    pub(crate) fn next_life(&mut self) -> u32 {
        self.lives += 1;
        self.lives
    }

    pub(crate) fn cut_from_ledger(&mut self, cut: bool) {
        self.cut_from_ledger = if cut { self.cut_from_ledger + 1 } else { self.cut_from_ledger.saturating_sub(1) };
    }

    pub(crate) fn cut_from_tools(&mut self, cut: bool) {
        self.cut_from_tools = if cut { self.cut_from_tools + 1 } else { self.cut_from_tools.saturating_sub(1) };
    }

    pub(crate) fn set_clock(&mut self, by: i64) {
        self.skew += by;
    }

    pub(crate) fn skew(&self) -> i64 {
        self.skew
    }
}

/// What came of a run.
pub(crate) struct Came {
    pub(crate) simulated: Duration,
    pub(crate) events: u64,
    pub(crate) digest: u64,
    pub(crate) story: Vec<String>,
    pub(crate) coverage: Coverage,
    pub(crate) violations: Vec<Violation>,
}

/// The clock of one process: as its host's was when it began, and what has gone by since.
pub(crate) struct SimulatedClock {
    pub(crate) world: std::sync::Weak<World>,
    pub(crate) skew: i64,
}

impl Clock for SimulatedClock {
    fn now(&self) -> Time {
        let true_time = self.world.upgrade().map_or(0, |world| world.time().0);
        Time(true_time.saturating_add_signed(self.skew))
    }

    fn running(&self) -> Duration {
        // Zero stands for "over".
        Duration::from_millis(1_000 + self.world.upgrade().map_or(0, |world| world.now()))
    }
}

/// Writes one guard's history into the run's log.
pub(crate) struct Recorder {
    pub(crate) world: std::sync::Weak<World>,
    pub(crate) guard: usize,
}

impl History for Recorder {
    fn record(&self, line: &HistoryLine) {
        let Some(world) = self.world.upgrade() else { return };
        let at = world.now();
        let mut state = world.state();
        let State { log, lines, truth, .. } = &mut *state;
        truth.heard(line);
        let key = line.key.as_ref().map(|key| format!("{}/{}", key.tool(), key.id())).unwrap_or_default();
        log.note(at, format_args!("guard {}: {key} {}", self.guard, Brief(line)));
        lines.push(line.clone());
    }
}

/// A history line in a few words.
struct Brief<'a>(&'a HistoryLine);

impl fmt::Display for Brief<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use settled::Happened;
        match &self.0.what {
            Happened::Asked { call, .. } => write!(f, "asked (call {call})"),
            Happened::Stored { record, because, .. } => {
                write!(f, "stored version {}: {} ({because})", record.version(), record.state().name())
            }
            Happened::Sent { generation, attempt, epoch, .. } => {
                write!(f, "sent attempt {attempt} of {generation} under {epoch}")
            }
            Happened::Answered { call, answer, replayed, .. } => {
                write!(f, "answered call {call}: {answer}{}", if *replayed { ", replayed" } else { "" })
            }
            Happened::Expired { version, .. } => write!(f, "expired version {version}"),
            other => write!(f, "{other:?}"),
        }
    }
}

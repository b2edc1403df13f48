//! A simulated process: tasks that are stopped and killed together, at whatever they wait for.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Waker};

use settled::task::{self, Group};
use tokio::task::{AbortHandle, JoinHandle};

use crate::world::World;

/// One process, from its start until it is killed.
pub(crate) struct Process {
    /// Which guard's.
    pub(crate) guard: usize,
    /// How many of that guard's came before it.
    pub(crate) life: u32,
    world: Weak<World>,
    state: Mutex<State>,
}

struct State {
    alive: bool,
    stopped: bool,
    waiting: Vec<Waker>,
    tasks: Vec<AbortHandle>,
}

/// Tasks are looked through for those that have ended when there are so many.
const MANY: usize = 64;

impl Process {
    /// A process without tasks.
    pub(crate) fn new(world: &Arc<World>, guard: usize, life: u32) -> Arc<Process> {
        let state = State { alive: true, stopped: false, waiting: Vec::new(), tasks: Vec::new() };
        Arc::new(Process { guard, life, world: Arc::downgrade(world), state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it has not been killed.
    pub(crate) fn is_alive(&self) -> bool {
        self.state().alive
    }

    /// Whether it is alive and not stopped.
    pub(crate) fn is_running(&self) -> bool {
        let state = self.state();
        state.alive && !state.stopped
    }

    /// Ends all its tasks where they are.
    pub(crate) fn kill(&self) {
        let tasks = {
            let mut state = self.state();
            state.alive = false;
            state.waiting.clear();
            std::mem::take(&mut state.tasks)
        };
        tasks.iter().for_each(AbortHandle::abort);
    }

    /// Stops it, or lets it go on.
    pub(crate) fn stop(&self, stopped: bool) {
        let waiting = {
            let mut state = self.state();
            state.stopped = stopped;
            if stopped { Vec::new() } else { std::mem::take(&mut state.waiting) }
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Begins a task of it.
    pub(crate) fn spawn<F>(self: &Arc<Self>, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        task::spawn_in(self.clone(), future)
    }
}

impl Group for Process {
    fn turn(&self, context: &mut Context<'_>, poll: &mut dyn FnMut(&mut Context<'_>)) {
        {
            let mut state = self.state();
            if !state.alive {
                return;
            }
            if state.stopped {
                state.waiting.push(context.waker().clone());
                return;
            }
        }
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| poll(context)))
            && let Some(world) = self.world.upgrade()
        {
            world.panicked(&text(&*panic));
        }
    }

    fn begun(&self, task: AbortHandle) {
        let mut state = self.state();
        if !state.alive {
            task.abort();
            return;
        }
        if state.tasks.len() >= MANY && state.tasks.len().is_multiple_of(MANY) {
            state.tasks.retain(|task| !task.is_finished());
        }
        state.tasks.push(task);
    }
}

fn text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic").to_owned()
}

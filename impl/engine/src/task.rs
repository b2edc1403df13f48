//! Where this crate's tasks run: on tokio, each by itself, unless they were begun within a [`Group`].
//!
//! A simulation runs many processes on one thread. What is begun by a task of one of them belongs to that process: it stops
//! when the process is stopped, and ends when it is killed.

use std::cell::RefCell;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::task::{AbortHandle, JoinHandle};

/// Tasks that run, stop and end together.
pub trait Group: Send + Sync + 'static {
    /// A task's turn: either calls `poll`, at most once, or doesn't, and wakes the task later.
    fn turn(&self, context: &mut Context<'_>, poll: &mut dyn FnMut(&mut Context<'_>));

    /// A task has been begun.
    fn begun(&self, task: AbortHandle);
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<dyn Group>>> = const { RefCell::new(None) };
}

fn current() -> Option<Arc<dyn Group>> {
    CURRENT.with_borrow(Clone::clone)
}

/// Begins a task, in the group of the task that calls this, if it has one.
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    match current() {
        None => tokio::spawn(future),
        Some(group) => spawn_in(group, future),
    }
}

/// Begins a task in a group.
pub fn spawn_in<F>(group: Arc<dyn Group>, future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let task = tokio::spawn(within(Some(group.clone()), future));
    group.begun(task.abort_handle());
    task
}

/// The future, in the group of the task that calls this: for tasks that are begun by other means than [`spawn`].
pub fn here<F: Future + Send + 'static>(future: F) -> impl Future<Output = F::Output> + Send + 'static
where
    F::Output: Send,
{
    within(current(), future)
}

async fn within<F: Future + Send>(group: Option<Arc<dyn Group>>, future: F) -> F::Output {
    let Some(group) = group else { return future.await };
    let mut future = Box::pin(future);
    std::future::poll_fn(move |context| turn(&group, future.as_mut(), context)).await
}

fn turn<F: Future>(group: &Arc<dyn Group>, mut future: Pin<&mut F>, context: &mut Context<'_>) -> Poll<F::Output> {
    let mut polled = Poll::Pending;
    group.turn(context, &mut |context| {
        let _inside = Inside(CURRENT.replace(Some(group.clone())));
        polled = future.as_mut().poll(context);
    });
    polled
}

/// Puts back the group that was current before.
struct Inside(Option<Arc<dyn Group>>);

impl Drop for Inside {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

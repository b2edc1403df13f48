//! Uploads that wait for the store: those that come while others are being written are then written together.

use tokio::sync::{mpsc, oneshot};

use super::StoreError;
use super::batch::Received;
use crate::wire::Uploaded;

/// This many uploads wait at most. Whoever comes then waits to wait.
const WAITING: usize = 64;
/// At most this many operations are written together, if they are of several uploads.
const TOGETHER: usize = 4_000;

pub(super) struct Waiting {
    pub received: Received,
    tell: oneshot::Sender<Result<Uploaded, StoreError>>,
}

impl Waiting {
    pub fn tell(self, answer: Result<Uploaded, StoreError>) {
        // Whoever has gone away will ask again.
        let _ = self.tell.send(answer);
    }
}

/// The way into the store.
pub(super) struct Queue(mpsc::Sender<Waiting>);

impl Queue {
    pub fn new() -> (Queue, Gathering) {
        let (queue, waiting) = mpsc::channel(WAITING);
        (Queue(queue), Gathering { waiting, next: None })
    }

    pub async fn ask(&self, received: Received) -> Result<Uploaded, StoreError> {
        let (tell, answer) = oneshot::channel();
        let ended = || StoreError::Unavailable("the store has been closed".to_owned());
        self.0.send(Waiting { received, tell }).await.map_err(|_| ended())?;
        answer.await.map_err(|_| ended())?
    }
}

/// What comes out of it, to be written together.
pub(super) struct Gathering {
    waiting: mpsc::Receiver<Waiting>,
    next: Option<Waiting>,
}

impl Gathering {
    /// The next uploads; none if there will be none.
    pub async fn next(&mut self) -> Option<Vec<Waiting>> {
        let first = match self.next.take() {
            Some(next) => next,
            None => self.waiting.recv().await?,
        };
        Some(self.gather(first))
    }

    /// The same, for a thread.
    pub fn blocking_next(&mut self) -> Option<Vec<Waiting>> {
        let first = self.next.take().or_else(|| self.waiting.blocking_recv())?;
        Some(self.gather(first))
    }

    fn gather(&mut self, first: Waiting) -> Vec<Waiting> {
        let mut operations = first.received.operations();
        let mut together = vec![first];
        while let Ok(next) = self.waiting.try_recv() {
            operations += next.received.operations();
            if operations > TOGETHER {
                self.next = Some(next);
                break;
            }
            together.push(next);
        }
        together
    }
}

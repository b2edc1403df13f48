//! A guest's connection to the holder: many calls under way at once.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader, BufWriter};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::socket;
use crate::sync::lock;
use crate::wire::{self, ALIVE, Answer, Call, HELLO, Reply, Request};

/// The connection ended before the answer came: the request may have been carried out or not.
pub(crate) struct Lost;

pub(crate) struct Connection {
    frames: UnboundedSender<Vec<u8>>,
    waiting: Arc<Mutex<Waiting>>,
    last_id: AtomicU64,
}

/// Those who wait for an answer; `None` once there won't be any.
type Waiting = Option<HashMap<u64, Waiter>>;

struct Waiter {
    /// The parts that have come so far.
    parts: Option<Reply>,
    done: oneshot::Sender<Reply>,
}

/// Tells all who wait that nothing will come, also when the task ends because its runtime does.
struct Ending(Arc<Mutex<Waiting>>);

impl Drop for Ending {
    fn drop(&mut self) {
        lock(&self.0).take();
    }
}

impl Connection {
    /// Connects to the holder of `dir`, and waits for its greeting. The connection ends when nothing has come from the
    /// holder for as long as `silence`.
    pub async fn open(dir: &Path, silence: Duration) -> io::Result<Connection> {
        let (mut from, mut to) = socket::connect(dir).await?.into_split();
        to.write_all(HELLO).await?;
        let mut hello = [0; HELLO.len()];
        from.read_exact(&mut hello).await?;
        if hello != *HELLO {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "the process that holds the ledger is of another version: use the same one, or stop it",
            ));
        }
        let (frames, outgoing) = mpsc::unbounded_channel();
        let waiting = Arc::new(Mutex::new(Some(HashMap::new())));
        let ending = Ending(Arc::clone(&waiting));
        tokio::spawn(async move {
            let ended = tokio::select! {
                ended = read(from, silence, &ending.0) => ended,
                ended = write(to, outgoing) => ended,
            };
            if let Err(error) = ended {
                tracing::debug!(%error, "lost the process that holds the ledger");
            }
        });
        Ok(Connection { frames, waiting, last_id: AtomicU64::new(ALIVE) })
    }

    /// Whether it is still good.
    pub fn is_open(&self) -> bool {
        lock(&self.waiting).is_some()
    }

    /// Has the holder carry out a request.
    pub async fn request(&self, request: &Request) -> Result<Reply, Lost> {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let frame = wire::encode(&Call { id, request }).map_err(|_| Lost)?;
        let (done, reply) = oneshot::channel();
        match lock(&self.waiting).as_mut() {
            Some(waiting) => waiting.insert(id, Waiter { parts: None, done }),
            None => return Err(Lost),
        };
        self.frames.send(frame).map_err(|_| Lost)?;
        reply.await.map_err(|_| Lost)
    }
}

async fn read(from: OwnedReadHalf, silence: Duration, waiting: &Mutex<Waiting>) -> io::Result<()> {
    let mut from = BufReader::with_capacity(64 << 10, from);
    loop {
        let answer = timeout(silence, wire::read(&mut from, wire::MAX_ANSWER)).await??;
        let Some(Answer { id, more, reply }) = answer else {
            return Ok(());
        };
        let mut waiting = lock(waiting);
        let Some(waiting) = waiting.as_mut() else {
            return Ok(());
        };
        if more {
            if let Some(waiter) = waiting.get_mut(&id) {
                waiter.parts = Some(join(waiter.parts.take(), reply));
            }
        } else if let Some(waiter) = waiting.remove(&id) {
            // Whoever asked may have given up meanwhile.
            let _ = waiter.done.send(join(waiter.parts, reply));
        }
    }
}

/// Puts the next part to those before.
fn join(parts: Option<Reply>, next: Reply) -> Reply {
    match (parts, next) {
        (Some(Reply::Entries(mut all)), Reply::Entries(next)) => {
            all.extend(next);
            Reply::Entries(all)
        }
        (Some(Reply::Changes(mut all)), Reply::Changes(next)) => {
            all.extend(next);
            Reply::Changes(all)
        }
        (_, next) => next,
    }
}

async fn write(to: OwnedWriteHalf, mut frames: UnboundedReceiver<Vec<u8>>) -> io::Result<()> {
    let mut to = BufWriter::with_capacity(64 << 10, to);
    while let Some(frame) = frames.recv().await {
        to.write_all(&frame).await?;
        // One system call for all that is ready.
        while let Ok(frame) = frames.try_recv() {
            to.write_all(&frame).await?;
        }
        to.flush().await?;
    }
    Ok(())
}

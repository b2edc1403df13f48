//! The holder's side of the socket: serves the ledger to the directory's other processes.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use settled::{Change, Entry, LedgerError};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader, BufWriter};
use tokio::net::unix::OwnedWriteHalf;
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::error::from_io;
use crate::log::disk::FileId;
use crate::socket::{self, Listening};
use crate::store::{Store, Ticket};
use crate::sync::lock;
use crate::wire::{self, ALIVE, Answer, Call, HELLO, Reply, Request};

/// A holder with nothing to say says that it is alive this often.
const ALIVE_EVERY: Duration = Duration::from_millis(250);
/// How long a newcomer may take to greet.
const GREETING: Duration = Duration::from_secs(10);

/// How often the socket is looked after.
const LOOK_AFTER: Duration = Duration::from_millis(500);

/// Serves until it is dropped.
pub(crate) struct Server {
    accepting: AbortHandle,
    door: Arc<Door>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
        socket::remove(&self.door.dir, *lock(&self.door.socket));
    }
}

/// Where the holder can be found.
struct Door {
    dir: PathBuf,
    /// The directory that this process holds.
    held: FileId,
    /// The socket that it listens to.
    socket: Mutex<FileId>,
}

impl Server {
    /// Serves `store` on the socket in `dir`, which this process must hold, and which is `held`.
    pub fn start(dir: &Path, held: FileId, store: Arc<Store>, runtime: &Handle) -> Result<Server, LedgerError> {
        let error = |e| from_io("listen on the socket in", dir, &e);
        let Listening { listener, user, id } = socket::listen(dir).map_err(error)?;
        let _context = runtime.enter();
        let listener = UnixListener::from_std(listener).map_err(error)?;
        let door = Arc::new(Door { dir: dir.to_owned(), held, socket: Mutex::new(id) });
        let accepting = runtime.spawn(accept(Arc::clone(&door), listener, user, store)).abort_handle();
        Ok(Server { accepting, door })
    }
}

impl Door {
    /// Listens anew if the socket was taken away, unless the directory was too.
    fn mend(&self) -> io::Result<Option<UnixListener>> {
        if socket::is_at(&self.dir, *lock(&self.socket)) || !FileId::at(&self.dir).is_ok_and(|dir| dir == self.held) {
            return Ok(None);
        }
        let Listening { listener, id, .. } = socket::listen(&self.dir)?;
        *lock(&self.socket) = id;
        tracing::debug!(directory = %self.dir.display(), "the socket was gone, and is there again");
        UnixListener::from_std(listener).map(Some)
    }
}

async fn accept(door: Arc<Door>, mut listener: UnixListener, user: u32, store: Arc<Store>) {
    // Ended, all of them, with this task.
    let mut connections = JoinSet::new();
    let mut look_after = interval(LOOK_AFTER);
    look_after.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        while connections.try_join_next().is_some() {}
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = look_after.tick() => {
                match door.mend() {
                    Ok(Some(mended)) => listener = mended,
                    Ok(None) => {}
                    Err(error) => tracing::warn!(%error, "can't listen on the ledger's socket again"),
                }
                continue;
            }
        };
        match accepted {
            Ok((stream, _)) => {
                let peer = stream.peer_cred().map(|peer| peer.uid());
                if peer.as_ref().is_ok_and(|peer| *peer == user) {
                    let store = Arc::clone(&store);
                    let connection = store.owners.next_connection();
                    connections.spawn(async move {
                        if let Err(error) = serve(stream, connection, store).await {
                            tracing::debug!(%error, "a connection to the ledger failed");
                        }
                    });
                } else {
                    tracing::warn!(?peer, "refused a connection of another user to the ledger");
                }
            }
            Err(error) => {
                tracing::warn!(%error, "can't accept a connection to the ledger");
                tokio::time::sleep(ALIVE_EVERY).await;
            }
        }
    }
}

/// Forgets the owners that a guest was when its connection has ended.
struct Guest {
    connection: u64,
    store: Arc<Store>,
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.store.disconnected(self.connection);
    }
}

async fn serve(stream: UnixStream, connection: u64, store: Arc<Store>) -> io::Result<()> {
    let (from, mut to) = stream.into_split();
    let mut from = BufReader::with_capacity(64 << 10, from);
    to.write_all(HELLO).await?;
    let mut hello = [0; HELLO.len()];
    timeout(GREETING, from.read_exact(&mut hello)).await??;
    if hello != *HELLO {
        // It has our greeting, and can tell its user.
        return Ok(());
    }
    let guest = Guest { connection, store: Arc::clone(&store) };
    let (answers, outgoing) = mpsc::unbounded_channel();
    // Ended, all of them, with the connection.
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        // When this fails, reading does too, and tells.
        let _ = write(to, outgoing).await;
    });
    while let Some(call) = wire::read(&mut from, wire::MAX_CALL).await? {
        let Call { id, request }: Call<Request> = call;
        while tasks.try_join_next().is_some() {}
        if let Request::Owns(epochs) = &request {
            guest.store.connected(connection, epochs);
        }
        let (store, answers) = (Arc::clone(&store), answers.clone());
        tasks.spawn(async move {
            let reply = answer(Arc::clone(&store), request).await;
            // Without an answer the other side turns to the next holder.
            if reply.is_certain() || !store.tenure().is_over() {
                send(id, reply, &answers);
            }
        });
    }
    Ok(())
}

/// Carries out a request.
pub(crate) async fn answer(store: Arc<Store>, request: Request) -> Reply {
    if let Err(error) = store.tenure().check_place() {
        return Reply::Failed(error.into());
    }
    let reply = match request {
        Request::Register { lease } => store.register(lease).await.map(Reply::Epoch),
        Request::Renew { epoch, lease } => store.renew(epoch, lease).await.map(Reply::Renewed),
        Request::Retire(epoch) => store.retire(epoch).await.map(|()| Reply::Done),
        Request::Liveness(epoch) => store.liveness(epoch).await.map(Reply::Liveness),
        Request::Time => Ok(Reply::Time(store.time())),
        Request::CompareAndSet { change, token, again } => {
            let ticket = Ticket { token, again };
            let accepted = store.compare_and_set(&change, ticket);
            accepted.await.map(Reply::Accepted)
        }
        Request::Forget { key, expected, remains, token, again } => {
            let ticket = Ticket { token, again };
            let accepted = store.forget(&key, expected, remains, ticket);
            accepted.await.map(Reply::Accepted)
        }
        Request::Get(key) => store.get(&key).map(|entry| Reply::Entry(entry.map(Box::new))),
        Request::Scan(filter) => read(move || store.scan(filter).map(Reply::Entries)).await,
        Request::Line(resource) => read(move || store.line(&resource).map(Reply::Entries)).await,
        Request::Due { now, after, limit } => {
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            read(move || store.due(now, after.as_deref(), limit).map(Reply::Entries)).await
        }
        Request::History(key) => read(move || store.history(&key).map(Reply::Changes)).await,
        Request::Changed { key, seen } => {
            store.changed(&key, seen).await;
            Ok(Reply::Done)
        }
        // The connection that it came by has been noted.
        Request::Owns(_) => Ok(Reply::Done),
        Request::Draw(draw) => Ok(Reply::Drawn(store.draw(draw))),
        Request::Size => Ok(Reply::Size(store.size())),
    };
    reply.unwrap_or_else(|error| Reply::Failed(error.into()))
}

/// Runs what may read for long.
async fn read(reading: impl FnOnce() -> Result<Reply, LedgerError> + Send + 'static) -> Result<Reply, LedgerError> {
    let read = tokio::task::spawn_blocking(reading).await;
    read.unwrap_or_else(|e| Err(LedgerError::Unavailable(format!("reading it failed: {e}"))))
}

/// Sends a reply, a list in parts.
fn send(id: u64, reply: Reply, to: &UnboundedSender<Vec<u8>>) {
    let parts = match reply {
        Reply::Entries(entries) => parts(entries, size_of_entry).into_iter().map(Reply::Entries).collect(),
        Reply::Changes(changes) => parts(changes, size_of_change).into_iter().map(Reply::Changes).collect(),
        other => vec![other],
    };
    let last = parts.len() - 1;
    for (i, reply) in parts.into_iter().enumerate() {
        let more = i < last;
        match wire::encode(&Answer { id, more, reply }) {
            // If it can't be sent, nobody waits for it any more.
            Ok(frame) => drop(to.send(frame)),
            Err(error) => tracing::error!(%error, "can't encode an answer of the ledger"),
        }
    }
}

/// Splits a list into parts of about [`wire::PART`] bytes; at least one.
fn parts<T>(items: Vec<T>, size: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    let mut parts = Vec::new();
    let mut part = Vec::new();
    let mut bytes = 0;
    for item in items {
        bytes += size(&item);
        part.push(item);
        if bytes >= wire::PART {
            parts.push(std::mem::take(&mut part));
            bytes = 0;
        }
    }
    if !part.is_empty() || parts.is_empty() {
        parts.push(part);
    }
    parts
}

/// What a record takes besides its bodies, roughly.
const RECORD: usize = 256;

fn size_of_entry(entry: &Entry) -> usize {
    let bodies = [&entry.sent, &entry.outcome];
    let bodies = bodies.into_iter().flatten().map(bytes::Bytes::len);
    RECORD + entry.asked.len() + bodies.sum::<usize>()
}

fn size_of_change(change: &Change) -> usize {
    let bodies = [&change.asked, &change.sent, &change.outcome];
    let bodies = bodies.into_iter().flatten().map(bytes::Bytes::len);
    RECORD + bodies.sum::<usize>()
}

async fn write(to: OwnedWriteHalf, mut frames: UnboundedReceiver<Vec<u8>>) -> io::Result<()> {
    let mut to = BufWriter::with_capacity(64 << 10, to);
    let alive = wire::encode(&Answer { id: ALIVE, more: false, reply: Reply::Done })?;
    loop {
        match timeout(ALIVE_EVERY, frames.recv()).await {
            Ok(Some(frame)) => {
                to.write_all(&frame).await?;
                // One system call for all that is ready.
                while let Ok(frame) = frames.try_recv() {
                    to.write_all(&frame).await?;
                }
            }
            Ok(None) => return Ok(()),
            Err(_) => to.write_all(&alive).await?,
        }
        to.flush().await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_split_and_never_into_nothing() {
        assert_eq!(parts(Vec::<usize>::new(), |n| *n), [Vec::<usize>::new()]);
        let big = wire::PART;
        assert_eq!(parts(vec![1, big, 2, 3], |n| *n), [vec![1, big], vec![2, 3]]);
        assert_eq!(parts(vec![big, big], |n| *n), [vec![big], vec![big]]);
    }
}

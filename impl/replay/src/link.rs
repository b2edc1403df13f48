//! Lines of JSON over a stream, one for each message.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};

use crate::wire::{FromPart, OpAnswer, Role, ToPart};

/// Writes a message.
///
/// # Errors
/// If the stream is broken.
pub async fn write<T: Serialize>(to: &mut (impl AsyncWrite + Unpin), message: &T) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    to.write_all(&line).await?;
    to.flush().await
}

/// Reads a message; `None` at the end of the stream.
///
/// # Errors
/// If the stream is broken, or holds something else.
pub async fn read<T: DeserializeOwned>(from: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    if from.read_until(b'\n', &mut line).await? == 0 {
        return Ok(None);
    }
    Ok(Some(serde_json::from_slice(&line)?))
}

/// A process's connection to the conductor.
#[derive(Clone)]
pub struct Link {
    to_conductor: mpsc::UnboundedSender<FromPart>,
    awaited: Arc<Mutex<HashMap<u64, oneshot::Sender<ToPart>>>>,
    next: Arc<AtomicU64>,
}

impl Link {
    /// Connects, and says hello. What the conductor says of itself comes through the receiver.
    ///
    /// # Errors
    /// If the conductor is not there.
    pub async fn connect(
        socket: &Path,
        role: Role,
        port: u16,
        incarnation: u32,
    ) -> io::Result<(Link, mpsc::UnboundedReceiver<ToPart>)> {
        let (from, mut to) = UnixStream::connect(socket).await?.into_split();
        write(&mut to, &FromPart::Hello { role, port, incarnation }).await?;
        let (to_conductor, mut outgoing) = mpsc::unbounded_channel::<FromPart>();
        tokio::spawn(async move {
            while let Some(message) = outgoing.recv().await {
                if write(&mut to, &message).await.is_err() {
                    break;
                }
            }
        });
        let awaited: Arc<Mutex<HashMap<u64, oneshot::Sender<ToPart>>>> = Arc::default();
        let (commands, received) = mpsc::unbounded_channel();
        let waiting = awaited.clone();
        tokio::spawn(async move {
            let mut from = BufReader::new(from);
            while let Ok(Some(message)) = read::<ToPart>(&mut from).await {
                let id = match &message {
                    ToPart::Answer { id, .. } | ToPart::Go { id, .. } => Some(*id),
                    _ => None,
                };
                let waiter = id.and_then(|id| waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&id));
                match waiter {
                    // Who has gone away needs no answer.
                    Some(waiter) => drop(waiter.send(message)),
                    None => drop(commands.send(message)),
                }
            }
            // Without its conductor a process has nothing to do.
            std::process::exit(0);
        });
        Ok((Link { to_conductor, awaited, next: Arc::default() }, received))
    }

    /// Says something.
    pub fn say(&self, message: FromPart) {
        // The conductor's end is this process's end.
        let _ = self.to_conductor.send(message);
    }

    async fn ask(&self, message: impl FnOnce(u64) -> FromPart) -> Option<ToPart> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (waiter, answer) = oneshot::channel();
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner).insert(id, waiter);
        self.say(message(id));
        answer.await.ok()
    }

    /// Asks the ledger, through the conductor.
    pub async fn op(&self, op: crate::wire::Op) -> OpAnswer {
        match self.ask(|id| FromPart::Op { id, op }).await {
            Some(ToPart::Answer { answer, .. }) => answer,
            _ => OpAnswer::Unavailable("the conductor has gone away".to_owned()),
        }
    }

    /// Waits at a gate. Returns whether nothing is to come of it.
    pub async fn gate(&self, gate: crate::wire::Gate) -> bool {
        matches!(self.ask(|id| FromPart::Gate { id, gate }).await, Some(ToPart::Go { lost: true, .. }))
    }
}

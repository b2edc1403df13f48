//! MCP over standard input and output: a message a line.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsString;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::oneshot;

use super::process::Process;
use super::{MOST_BYTES, reply};
use crate::answer::{Missing, short};
use crate::error::AuditError;

/// A connection to a process.
pub(super) struct Stdio {
    process: tokio::sync::Mutex<Process>,
    input: Input,
    shared: Arc<Mutex<Shared>>,
}

/// The server's standard input, until it is closed.
type Input = Arc<tokio::sync::Mutex<Option<ChildStdin>>>;

/// What the reader and those who wait know of each other.
#[derive(Default)]
struct Shared {
    /// Who waits, by id. One id can be given twice: that is an experiment.
    waiting: HashMap<u64, VecDeque<oneshot::Sender<Value>>>,
    /// The first line that was no message.
    garbage: Option<String>,
    /// Nothing more will come.
    is_over: bool,
}

impl Stdio {
    pub(super) fn start(command: &[OsString]) -> Result<Stdio, AuditError> {
        let (process, input, output) = Process::start(command)?;
        let input = Input::new(tokio::sync::Mutex::new(Some(input)));
        let shared = Arc::new(Mutex::new(Shared::default()));
        tokio::spawn(read(output, Arc::clone(&shared), Arc::clone(&input)));
        Ok(Stdio { process: tokio::sync::Mutex::new(process), input, shared })
    }

    pub(super) async fn request(&self, id: u64, message: &Value) -> Result<Value, Missing> {
        let (sender, receiver) = oneshot::channel();
        let is_over = {
            let mut shared = lock(&self.shared);
            if !shared.is_over {
                shared.waiting.entry(id).or_default().push_back(sender);
            }
            shared.is_over
        };
        if is_over || self.say(message).await.is_err() {
            return Err(self.death().await);
        }
        match receiver.await {
            Ok(response) => Ok(response),
            Err(_) => Err(self.death().await),
        }
    }

    pub(super) async fn say(&self, message: &Value) -> Result<(), Missing> {
        match write(&self.input, message).await {
            Ok(()) => Ok(()),
            Err(_) => Err(self.death().await),
        }
    }

    pub(super) fn garbage(&self) -> Option<String> {
        lock(&self.shared).garbage.clone()
    }

    /// Ends the session as the protocol says: the server's input is closed, and it is killed only if it stays.
    pub(super) async fn close(self) {
        self.input.lock().await.take();
        self.process.into_inner().leave().await;
    }

    pub(super) async fn kill(self) {
        self.process.into_inner().kill().await;
    }

    async fn death(&self) -> Missing {
        let mut end = self.process.lock().await.end().await;
        if let Some(line) = self.garbage() {
            end.push_str(&format!("; its standard output had what is no JSON-RPC message: `{}`", short(&line, 80)));
        }
        Missing::Died(end)
    }
}

async fn write(input: &Input, message: &Value) -> std::io::Result<()> {
    let mut input = input.lock().await;
    let input = input.as_mut().ok_or(std::io::ErrorKind::BrokenPipe)?;
    input.write_all(format!("{message}\n").as_bytes()).await?;
    input.flush().await
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives each answer to who waits for it, until the output ends.
async fn read(output: ChildStdout, shared: Arc<Mutex<Shared>>, input: Input) {
    let mut output = BufReader::new(output);
    let mut line = Vec::new();
    while let Ok(true) = next(&mut output, &mut line).await {
        let Ok(message) = serde_json::from_slice::<Value>(&line) else {
            if !line.trim_ascii().is_empty() {
                let text = String::from_utf8_lossy(&line).into_owned();
                lock(&shared).garbage.get_or_insert(text);
            }
            continue;
        };
        if message.get("method").is_some() {
            // A server that doesn't read its input must not stop what it writes from being read.
            if let Some(reply) = reply(&message) {
                let input = Arc::clone(&input);
                tokio::spawn(async move { write(&input, &reply).await });
            }
        } else if let Some(id) = message.get("id").and_then(Value::as_u64) {
            let mut shared = lock(&shared);
            // Who no longer waits doesn't want it.
            if let Some(waiting) = shared.waiting.get_mut(&id).and_then(VecDeque::pop_front) {
                let _ = waiting.send(message);
            }
        } else {
            lock(&shared).garbage.get_or_insert(message.to_string());
        }
    }
    let mut shared = lock(&shared);
    shared.is_over = true;
    shared.waiting.clear();
}

/// The next line; false: there is none, or it is longer than any message.
async fn next(output: &mut BufReader<ChildStdout>, line: &mut Vec<u8>) -> std::io::Result<bool> {
    line.clear();
    let most = u64::try_from(MOST_BYTES).unwrap_or(u64::MAX);
    let read = output.take(most).read_until(b'\n', line).await?;
    Ok(read > 0 && read < MOST_BYTES)
}

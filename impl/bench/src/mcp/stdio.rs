//! A client over standard input and output, with any number of calls in flight.

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::sync::{mpsc, oneshot};

use crate::error::BenchError;
use crate::mcp::{Tool, messages, process};

type Waiting = Arc<Mutex<Option<HashMap<u64, oneshot::Sender<Result<(), BenchError>>>>>>;

/// A session with a process. The process ends with it.
pub struct Session {
    process: tokio::sync::Mutex<Child>,
    pid: Option<u32>,
    lines: mpsc::UnboundedSender<String>,
    waiting: Waiting,
    next: AtomicU64,
}

impl Session {
    /// Starts a process and opens the session.
    ///
    /// # Errors
    /// If it does not answer.
    pub async fn open(words: &[String]) -> Result<Arc<Session>, BenchError> {
        let mut command = process::command(words)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = process::start(command)?;
        let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(BenchError::Ended("a pipe"));
        };
        let waiting: Waiting = Arc::new(Mutex::new(Some(HashMap::new())));
        let (lines, outgoing) = mpsc::unbounded_channel();
        tokio::spawn(write(input, outgoing));
        tokio::spawn(read(output, waiting.clone()));
        let pid = process.id();
        let process = tokio::sync::Mutex::new(process);
        let session = Arc::new(Session { process, pid, lines, waiting, next: AtomicU64::new(2) });
        session.ask(0, messages::initialize()).await?;
        session.say(messages::INITIALIZED.to_owned())?;
        session.ask(1, messages::LIST.to_owned()).await?;
        Ok(session)
    }

    /// The number of the process.
    pub fn pid(&self) -> Option<u32> {
        self.pid
    }

    /// Ends the process, and returns when it has gone.
    pub async fn end(&self) {
        let _ = self.process.lock().await.kill().await;
    }

    fn say(&self, line: String) -> Result<(), BenchError> {
        self.lines.send(line).map_err(|_| BenchError::Ended("a process that was to answer"))
    }

    async fn ask(&self, id: u64, line: String) -> Result<(), BenchError> {
        let (answer, answered) = oneshot::channel();
        let gone = || BenchError::Ended("a process that was to answer");
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).as_mut().ok_or_else(gone)?.insert(id, answer);
        self.say(line)?;
        answered.await.map_err(|_| gone())?
    }

    /// Makes a call.
    ///
    /// # Errors
    /// If it is not answered as it should be.
    pub async fn call(&self, tool: Tool) -> Result<(), BenchError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.ask(id, messages::call(id, tool, id)).await
    }
}

async fn write(mut input: ChildStdin, mut lines: mpsc::UnboundedReceiver<String>) {
    let mut bytes = Vec::new();
    while let Some(line) = lines.recv().await {
        let mut next = Some(line);
        // One write for all that is there.
        while let Some(line) = next {
            bytes.extend_from_slice(line.as_bytes());
            bytes.push(b'\n');
            next = lines.try_recv().ok();
        }
        if input.write_all(&bytes).await.is_err() {
            return;
        }
        bytes.clear();
    }
}

async fn read(output: ChildStdout, waiting: Waiting) {
    let mut output = BufReader::with_capacity(1 << 16, output);
    let mut line = String::new();
    while output.read_line(&mut line).await.is_ok_and(|length| length > 0) {
        let answered = messages::answered(&line);
        line.clear();
        let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(all) = waiting.as_mut() else { return };
        match answered {
            Ok(None) => {}
            Ok(Some(id)) => {
                if let Some(answer) = all.remove(&id) {
                    let _ = answer.send(Ok(()));
                }
            }
            // One wrong answer ends the measurement, whomever it is for.
            Err(error) => {
                let why = error.to_string();
                for (_, answer) in all.drain() {
                    let _ = answer.send(Err(BenchError::Other(why.clone())));
                }
            }
        }
    }
    // Nobody is to wait for a process that has gone.
    *waiting.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

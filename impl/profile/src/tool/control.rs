//! What the tool and the harness say to each other: one line each way, on a connection for each point.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

/// Where a process of the harness is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Point {
    /// It listens, at this address.
    Listening(String),
    /// The tool is called; nothing has happened.
    Called,
    /// The effect is on the disk; nothing is answered.
    Effected,
    /// The answer goes out.
    Answered,
    /// The caller has gone, or has cancelled the call, and an answer was owed to it.
    Abandoned,
    /// A relay has a call.
    Relayed,
}

/// A process of the harness is at a point.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Reached {
    /// Which.
    pub point: Point,
    /// The run that was named by the caller.
    pub run: String,
    /// The step.
    pub step: String,
    /// The tool's process.
    pub process: u32,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Go on.
    Go,
    /// Do nothing more for this call, and end its connection without an answer.
    Cut,
    /// Hand the call on twice.
    Twice,
}

/// The harness, as the tool sees it.
#[derive(Clone)]
pub struct Control {
    socket: Arc<PathBuf>,
}

impl Control {
    pub fn new(socket: PathBuf) -> Self {
        Self { socket: Arc::new(socket) }
    }

    /// Says where this process is, and does not go on before the harness says how. Without a harness there is no tool.
    pub async fn reach(&self, point: Point, run: &str, step: &str) -> Order {
        match self.ask(point, run, step).await {
            Ok(order) => order,
            Err(_) => std::process::exit(0),
        }
    }

    async fn ask(&self, point: Point, run: &str, step: &str) -> std::io::Result<Order> {
        let reached = Reached { point, run: run.to_owned(), step: step.to_owned(), process: std::process::id() };
        let mut line = serde_json::to_vec(&reached)?;
        line.push(b'\n');
        let mut stream = UnixStream::connect(self.socket.as_path()).await?;
        stream.write_all(&line).await?;
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).await?;
        Ok(serde_json::from_str(&answer)?)
    }
}

//! The processes that take part.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};

use crate::error::BenchError;

/// How long something may take to start.
const START: Duration = Duration::from_secs(60);

/// A command, by its words.
///
/// # Errors
/// If there are none.
pub fn command(words: &[String]) -> Result<Command, BenchError> {
    let (program, arguments) = words.split_first().ok_or_else(|| BenchError::Other("an empty command".to_owned()))?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    Ok(command)
}

/// Starts it.
///
/// # Errors
/// If it can't be started.
pub fn start(mut command: Command) -> Result<Child, BenchError> {
    let program = command.as_std().get_program().to_owned();
    command.spawn().map_err(BenchError::file(Path::new(&program)))
}

/// The first URL of this machine in what a process says, line by line.
///
/// # Errors
/// If it ends, or a minute passes, before it has said one.
pub async fn url(says: impl AsyncRead + Unpin + Send + 'static) -> Result<String, BenchError> {
    let mut lines = BufReader::new(says).lines();
    let found = async {
        while let Ok(Some(line)) = lines.next_line().await {
            if let Some(at) = line.find("http://127.0.0.1:") {
                let url = line.get(at..).unwrap_or_default();
                return Some(url.split_whitespace().next().unwrap_or_default().to_owned());
            }
        }
        None
    };
    let found = tokio::time::timeout(START, found).await;
    // What it says later must not fill the pipe.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    found.ok().flatten().ok_or(BenchError::Ended("a process that was to listen"))
}

/// Waits until something listens on a port of this machine.
///
/// # Errors
/// If nothing does within a minute.
pub async fn listens(port: u16) -> Result<(), BenchError> {
    let begun = tokio::time::Instant::now();
    while begun.elapsed() < START {
        if tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Err(BenchError::Ended("a process that was to listen"))
}

/// A port that is free now.
///
/// # Errors
/// If there is none.
pub fn free_port() -> Result<u16, BenchError> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").map_err(BenchError::file("a free port"))?;
    Ok(listener.local_addr().map_err(BenchError::file("a free port"))?.port())
}

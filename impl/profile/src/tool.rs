//! The tool that frameworks call: a process of its own, whose effects are lines of a file, each synced. It asks the harness
//! what to do at every [`Point`].

mod control;
mod effects;
mod http;
mod mcp;
mod relay;
mod stdio;
mod step;

pub use control::{Order, Point, Reached};
pub use effects::{Effect, read as read_effects};

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use tokio::net::TcpListener;

use self::control::Control;
use self::step::Tool;

/// What the process is.
#[derive(Clone, Debug)]
pub enum Serve {
    /// The tool over HTTP, at `/step`, and over MCP, at `/mcp`.
    Http(SocketAddr),
    /// The tool over MCP, on standard input and output.
    Stdio,
    /// Hands on what comes over HTTP to this address, and what it is told to twice.
    Relay(SocketAddr, SocketAddr),
    /// Hands on what comes on standard input to this command, and what it is told to twice.
    RelayStdio(Vec<OsString>),
}

/// How the tool's process is started.
#[derive(Clone, Debug)]
pub struct ToolOptions {
    /// What it is.
    pub serve: Serve,
    /// The harness's socket.
    pub control: PathBuf,
    /// The file of effects.
    pub effects: PathBuf,
}

/// Is the tool, until its caller (over stdio) or the harness has gone.
///
/// # Errors
/// If it can't listen, or its standard input can't be read.
pub async fn serve(options: ToolOptions) -> std::io::Result<()> {
    // Whoever stops or cancels a framework means the framework: what has reached the tool still happens.
    ignore_signals()?;
    let control = Control::new(options.control);
    let tool = Tool::new(control.clone(), options.effects);
    match options.serve {
        Serve::Http(address) => http::serve(TcpListener::bind(address).await?, tool).await,
        Serve::Stdio => stdio::serve(tool).await,
        Serve::Relay(address, to) => relay::http(TcpListener::bind(address).await?, to, control).await,
        Serve::RelayStdio(command) => relay::stdio(&command, control).await,
    }
}

fn ignore_signals() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
        let mut signals = signal(kind)?;
        tokio::spawn(async move { while signals.recv().await.is_some() {} });
    }
    Ok(())
}

//! `settled profile-tool`: the tool that frameworks under trial call. The harness starts it.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use settled_profile::tool::{Serve, ToolOptions, serve};

use crate::failure::{Exit, Failure};
use crate::runtime::block_on;

/// The tool of `settled profile run`, or a relay in front of it.
#[derive(Debug, Args)]
pub struct ToolArgs {
    /// The harness's socket
    #[arg(long)]
    control: PathBuf,
    /// The file of effects
    #[arg(long)]
    effects: PathBuf,
    /// Serve HTTP at this address
    #[arg(long, required_unless_present = "stdio")]
    listen: Option<SocketAddr>,
    /// Serve MCP on standard input and output
    #[arg(long, conflicts_with = "listen")]
    stdio: bool,
    /// Hand everything on to this address
    #[arg(long, requires = "listen")]
    relay: Option<SocketAddr>,
    /// Hand everything on to this command
    #[arg(last = true, requires = "stdio")]
    command: Vec<OsString>,
}

/// Runs the command.
pub fn serve_tool(args: ToolArgs) -> Result<Exit, Failure> {
    let serves = match (args.listen, args.relay) {
        (Some(address), Some(to)) => Serve::Relay(address, to),
        (Some(address), None) => Serve::Http(address),
        (None, _) if args.command.is_empty() => Serve::Stdio,
        (None, _) => Serve::RelayStdio(args.command),
    };
    let options = ToolOptions { serve: serves, control: args.control, effects: args.effects };
    block_on(async move {
        serve(options).await?;
        Ok(Exit::Good)
    })
}

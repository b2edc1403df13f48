//! `settled bench`: what this project's parts take, beside others.

mod engine;
mod mcp;
mod model;

use clap::{Args, Subcommand};

use crate::failure::{Exit, Failure};

/// Measures.
#[derive(Debug, Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Debug, Subcommand)]
enum BenchCommand {
    Model(model::ModelArgs),
    Engine(engine::EngineArgs),
    Mcp(mcp::McpArgs),
    #[command(hide = true)]
    McpServer(mcp::ServerArgs),
}

/// Runs the command.
pub fn run(args: BenchArgs) -> Result<Exit, Failure> {
    match args.command {
        BenchCommand::Model(args) => model::run(args),
        BenchCommand::Engine(args) => engine::run(args),
        BenchCommand::Mcp(args) => mcp::run(args),
        BenchCommand::McpServer(args) => mcp::serve(&args),
    }
}

//! `settled bench`: what this project's parts take, beside others.

mod engine;
mod gateway;
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
    Gateway(gateway::GatewayArgs),
    #[command(hide = true)]
    McpServer(mcp::ServerArgs),
    #[command(hide = true)]
    GatewayServer(gateway::ServerArgs),
}

/// Runs the command.
pub fn run(args: BenchArgs) -> Result<Exit, Failure> {
    match args.command {
        BenchCommand::Model(args) => model::run(args),
        BenchCommand::Engine(args) => engine::run(args),
        BenchCommand::Mcp(args) => mcp::run(args),
        BenchCommand::McpServer(args) => mcp::serve(&args),
        BenchCommand::Gateway(args) => gateway::run(args),
        BenchCommand::GatewayServer(args) => gateway::serve(&args),
    }
}

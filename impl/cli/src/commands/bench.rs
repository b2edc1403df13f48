//! `settled bench`: what this project's parts take, beside others.

mod engine;
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
}

/// Runs the command.
pub fn run(args: BenchArgs) -> Result<Exit, Failure> {
    match args.command {
        BenchCommand::Model(args) => model::run(args),
        BenchCommand::Engine(args) => engine::run(args),
    }
}

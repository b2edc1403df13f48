//! `settled`: model-check tool-call protocols, and guard real tools with the checked core.

mod commands;
mod failure;
mod output;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::failure::{Exit, Failure};

#[derive(Debug, Parser)]
#[command(name = "settled", version, about, long_about = None, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Check(commands::check::CheckArgs),
    Protocols(commands::protocols::ProtocolsArgs),
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            eprintln!("settled: {failure}");
            failure.exit_code()
        }
    }
}

fn run(command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Check(args) => commands::check::run(args),
        Command::Protocols(args) => commands::protocols::run(args),
    }
}

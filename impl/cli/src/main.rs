//! `settled`: model-check tool-call protocols, and guard real tools with the checked core.

mod commands;
mod failure;
mod history;
mod ledger;
mod metrics;
mod output;
mod runtime;

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
    Demo(commands::demo::DemoArgs),
    Check(commands::check::CheckArgs),
    Diff(commands::diff::DiffArgs),
    Explore(commands::explore::ExploreArgs),
    Protocols(commands::protocols::ProtocolsArgs),
    Properties(commands::properties::PropertiesArgs),
    Faults(commands::faults::FaultsArgs),
    Bench(commands::bench::BenchArgs),
    Simulate(commands::simulate::SimulateArgs),
    Mcp(commands::mcp::McpArgs),
    Gateway(commands::gateway::GatewayArgs),
    Replay(commands::replay::ReplayArgs),
    #[command(hide = true)]
    ReplayPart(commands::replay::PartArgs),
    Log(commands::log::LogArgs),
    Resolve(commands::resolve::ResolveArgs),
    Stats(commands::stats::StatsArgs),
    Verify(commands::verify::VerifyArgs),
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
        Command::Demo(args) => commands::demo::run(args),
        Command::Check(args) => commands::check::run(args),
        Command::Diff(args) => commands::diff::run(args),
        Command::Explore(args) => commands::explore::run(args),
        Command::Protocols(args) => commands::protocols::run(args),
        Command::Properties(args) => commands::properties::run(args),
        Command::Faults(args) => commands::faults::run(args),
        Command::Bench(args) => commands::bench::run(args),
        Command::Simulate(args) => commands::simulate::run(args),
        Command::Mcp(args) => commands::mcp::run(args),
        Command::Gateway(args) => commands::gateway::run(args),
        Command::Replay(args) => commands::replay::run(args),
        Command::ReplayPart(args) => commands::replay::run_part(&args),
        Command::Log(args) => commands::log::run(args),
        Command::Resolve(args) => commands::resolve::run(args),
        Command::Stats(args) => commands::stats::run(args),
        Command::Verify(args) => commands::verify::run(args),
    }
}

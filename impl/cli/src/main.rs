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
    Audit(commands::audit::AuditArgs),
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
    Profile(commands::profile::ProfileArgs),
    #[command(hide = true)]
    ProfileTool(commands::profile::ToolArgs),
    #[command(hide = true)]
    ProfileLibrary(commands::profile_library::LibraryArgs),
    Replay(commands::replay::ReplayArgs),
    #[command(hide = true)]
    ReplayPart(commands::replay::PartArgs),
    Log(commands::log::LogArgs),
    Resolve(commands::resolve::ResolveArgs),
    Stats(commands::stats::StatsArgs),
    Sync(commands::sync::SyncArgs),
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
        Command::Audit(args) => commands::audit::run(args),
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
        Command::Profile(args) => commands::profile::run(args),
        Command::ProfileTool(args) => commands::profile::serve_tool(args),
        Command::ProfileLibrary(args) => commands::profile_library::run(args),
        Command::Replay(args) => commands::replay::run(args),
        Command::ReplayPart(args) => commands::replay::run_part(&args),
        Command::Log(args) => commands::log::run(args),
        Command::Resolve(args) => commands::resolve::run(args),
        Command::Stats(args) => commands::stats::run(args),
        Command::Sync(args) => commands::sync::run(args),
        Command::Verify(args) => commands::verify::run(args),
    }
}

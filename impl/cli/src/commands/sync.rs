//! `settled sync`: operations of devices that act offline.

mod change;
mod demo;
mod device;
mod serve;

use clap::{Args, Subcommand};

use crate::failure::{Exit, Failure};

/// Operations of devices that act offline: each takes effect once, and all replicas converge.
#[derive(Debug, Args)]
pub struct SyncArgs {
    #[command(subcommand)]
    command: SyncCommand,
}

#[derive(Debug, Subcommand)]
enum SyncCommand {
    Demo(demo::DemoArgs),
    Act(device::ActArgs),
    Run(device::RunArgs),
    Show(device::ShowArgs),
    Dismiss(device::DismissArgs),
    Serve(serve::ServeArgs),
}

/// Runs the command.
pub fn run(args: SyncArgs) -> Result<Exit, Failure> {
    match args.command {
        SyncCommand::Demo(args) => demo::run(&args),
        SyncCommand::Act(args) => device::act(&args),
        SyncCommand::Run(args) => device::run(&args),
        SyncCommand::Show(args) => device::show(&args),
        SyncCommand::Dismiss(args) => device::dismiss(&args),
        SyncCommand::Serve(args) => serve::run(args),
    }
}

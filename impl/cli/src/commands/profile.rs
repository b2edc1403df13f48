//! `settled profile`: what agent frameworks really do when they die.

mod adapters;
mod cache;
mod cells;
mod compare;
mod install;
mod machine;
mod run;
mod show;
mod tool;

use clap::{Args, Subcommand};

pub use self::tool::{ToolArgs, serve_tool};
use crate::failure::{Exit, Failure};

/// Drives unchanged agent frameworks through real faults, and counts the effects of their tool.
#[derive(Debug, Args)]
pub struct ProfileArgs {
    #[command(subcommand)]
    command: ProfileCommand,
}

#[derive(Debug, Subcommand)]
enum ProfileCommand {
    Adapters(adapters::AdaptersArgs),
    Install(install::InstallArgs),
    Run(run::RunArgs),
    Show(show::ShowArgs),
    Compare(compare::CompareArgs),
    Cells(cells::CellsArgs),
}

/// Runs the command.
pub fn run(args: ProfileArgs) -> Result<Exit, Failure> {
    match args.command {
        ProfileCommand::Adapters(args) => adapters::run(args),
        ProfileCommand::Install(args) => install::run(args),
        ProfileCommand::Run(args) => run::run(args),
        ProfileCommand::Show(args) => show::run(args),
        ProfileCommand::Compare(args) => compare::run(args),
        ProfileCommand::Cells(args) => cells::run(args),
    }
}

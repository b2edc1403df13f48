//! `settled protocols`: the shipped protocols, and their text.

use clap::{Args, Subcommand};
use settled_model::library;

use crate::failure::{Exit, Failure};

/// Lists the shipped protocols, or shows one.
#[derive(Debug, Args)]
pub struct ProtocolsArgs {
    #[command(subcommand)]
    command: Option<ProtocolsCommand>,
}

#[derive(Debug, Subcommand)]
enum ProtocolsCommand {
    /// Print a shipped protocol's TOML: a start for one of your own.
    Show {
        /// Its name.
        name: String,
    },
}

/// Runs the command.
pub fn run(args: ProtocolsArgs) -> Result<Exit, Failure> {
    match args.command {
        None => {
            for (name, _) in library::SHIPPED {
                let description = super::check::load(name)?;
                crate::output::line(format!("{name:<26} {}", description.about))?;
            }
        }
        Some(ProtocolsCommand::Show { name }) => match library::text(&name) {
            Some(text) => crate::output::line(text.trim_end())?,
            None => {
                super::check::load(&name)?;
            }
        },
    }
    Ok(Exit::Good)
}

//! `settled protocols`: the shipped protocols, and their text.

use clap::{Args, Subcommand};
use settled_model::{Description, library};

use super::protocol::load;
use crate::failure::{Exit, Failure};
use crate::output::line;

/// Lists the shipped protocols, or shows one.
#[derive(Debug, Args)]
pub struct ProtocolsArgs {
    #[command(subcommand)]
    command: Option<ProtocolsCommand>,
}

#[derive(Debug, Subcommand)]
enum ProtocolsCommand {
    /// List them (as without a command).
    List,
    /// Print a shipped protocol's TOML: a start for one of your own.
    Show {
        /// Its name.
        name: String,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Group {
    InUse,
    Defect,
    Ours,
    Devices,
}

impl Group {
    const ALL: [Group; 4] = [Group::InUse, Group::Defect, Group::Ours, Group::Devices];

    fn title(self) -> &'static str {
        match self {
            Group::InUse => "Protocols in use or proposed",
            Group::Defect => "Defects seen in public",
            Group::Ours => "This project’s policies",
            Group::Devices => "Devices that act offline",
        }
    }

    /// By what it describes, by where it comes from, and by the first part of its name.
    fn of(description: &Description) -> Group {
        const IN_USE: [&str; 10] = [
            "atomic-op-id",
            "ietf-",
            "keys-above-",
            "langgraph-",
            "mcp-",
            "naive-retry",
            "observe-with-budget",
            "redis-",
            "stripe-",
            "workflow-",
        ];
        if description.devices.is_some() {
            Group::Devices
        } else if description.source.contains("of this project") {
            Group::Ours
        } else if IN_USE.iter().any(|known| description.name.starts_with(known)) {
            Group::InUse
        } else {
            Group::Defect
        }
    }
}

/// Runs the command.
pub fn run(args: ProtocolsArgs) -> Result<Exit, Failure> {
    match args.command {
        None | Some(ProtocolsCommand::List) => list()?,
        Some(ProtocolsCommand::Show { name }) => match library::text(&name) {
            Some(text) => line(text.trim_end())?,
            // Its error says what there is.
            None => drop(library::load(&name).map_err(|error| Failure::input(error.to_string()))?),
        },
    }
    Ok(Exit::Good)
}

fn list() -> Result<(), Failure> {
    let all = library::SHIPPED.iter().map(|(name, _)| load(name)).collect::<Result<Vec<_>, _>>()?;
    let width = all.iter().map(|description| description.name.chars().count()).max().unwrap_or_default();
    for group in Group::ALL {
        let members: Vec<_> = all.iter().filter(|description| Group::of(description) == group).collect();
        if members.is_empty() {
            continue;
        }
        line(format!("{}:", group.title()))?;
        for description in members {
            line(format!("  {:<width$}  {}", description.name, description.about))?;
        }
        line("")?;
    }
    line("`settled protocols show NAME` prints one, `settled check NAME` checks it.")?;
    Ok(())
}

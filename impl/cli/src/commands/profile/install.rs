//! `settled profile install`: frameworks into the cache.

use std::time::Duration;

use clap::Args;
use indicatif::ProgressBar;
use settled_profile::files::shipped;
use settled_profile::install::{InstallError, Wanted};

use super::cache::CacheArgs;
use crate::failure::{Exit, Failure};
use crate::output;

/// Installs the frameworks that adapters are for: from the network, each into a directory of the cache.
#[derive(Debug, Args)]
pub struct InstallArgs {
    /// Adapters: shipped ones by their names, or directories; NAME@VERSION for another version
    #[arg(value_name = "NAME|DIR[@VERSION]", required_unless_present = "all")]
    adapters: Vec<String>,
    /// All shipped adapters
    #[arg(long, conflicts_with = "adapters")]
    all: bool,
    #[command(flatten)]
    cache: CacheArgs,
}

/// Runs the command.
pub fn run(args: InstallArgs) -> Result<Exit, Failure> {
    let cache = args.cache.cache()?;
    let names = if args.all { shipped() } else { args.adapters };
    let wanted: Result<Vec<Wanted>, InstallError> = names.iter().map(|name| Wanted::named(name)).collect();
    let mut failures = Vec::new();
    for wanted in wanted.map_err(|error| Failure::input(error.to_string()))? {
        let bar = ProgressBar::new_spinner();
        bar.enable_steady_tick(Duration::from_millis(250));
        bar.set_message(wanted.given.clone());
        let installed = cache.install(&wanted, |command| bar.set_message(format!("{}: {command}", wanted.given)));
        bar.finish_and_clear();
        match installed {
            Ok(adapter) => {
                let (name, version) = (&adapter.name, &adapter.version);
                output::line(format!("{name} {version}: {}", adapter.directory.display()))?;
            }
            Err(error) => {
                eprintln!("settled: {error}");
                failures.push(wanted.given);
            }
        }
    }
    match failures.is_empty() {
        true => Ok(Exit::Good),
        false => Err(Failure::nothing(format!("not installed: {}", failures.join(", ")))),
    }
}

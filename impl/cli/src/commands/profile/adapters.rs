//! `settled profile adapters`: those that are shipped.

use clap::Args;
use comfy_table::{Table, presets};
use settled_profile::files::shipped;
use settled_profile::install::{InstallError, Wanted};

use super::cache::CacheArgs;
use crate::failure::{Exit, Failure};
use crate::output;

/// Lists the shipped adapters, and whether they are installed.
#[derive(Debug, Args)]
pub struct AdaptersArgs {
    #[command(flatten)]
    cache: CacheArgs,
}

/// Runs the command.
pub fn run(args: AdaptersArgs) -> Result<Exit, Failure> {
    let cache = args.cache.cache()?;
    let input = |error: InstallError| Failure::input(error.to_string());
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(["adapter", "version", "variants", "installed", "about"]);
    for name in shipped() {
        let wanted = Wanted::named(&name).map_err(input)?;
        let adapter = wanted.adapter().map_err(input)?;
        let installed = match cache.has(&wanted).map_err(input)? {
            true => "yes",
            false if adapter.install.is_empty() => "not needed",
            false => "no",
        };
        let variants = adapter.ways().len().to_string();
        table.add_row([&name, &adapter.version, &variants, installed, &adapter.about]);
    }
    output::line(table.trim_fmt())?;
    Ok(Exit::Good)
}

//! A protocol by name or from a file, and its exploration with a progress bar.

use std::io::IsTerminal;
use std::path::Path;

use indicatif::{ProgressBar, ProgressStyle};
use settled_model::{Description, Limits, PropertyName, Report};

use crate::failure::Failure;

/// A shipped protocol by name, or one from a file.
pub fn load(name: &str) -> Result<Description, Failure> {
    // A file never stands in for a shipped protocol of its name.
    let loaded =
        if settled_model::library::text(name).is_none() && (name.ends_with(".toml") || Path::new(name).is_file()) {
            settled_model::load_file(Path::new(name))
        } else {
            settled_model::library::load(name)
        };
    loaded.map_err(|error| Failure::input(error.to_string()))
}

/// A property on the command line: by its name, with hyphens or spaces.
pub fn parse_property(text: &str) -> Result<PropertyName, String> {
    let hyphens = |name: &str| name.replace(' ', "-");
    let found = PropertyName::ALL.iter().find(|property| hyphens(property.name()) == hyphens(text));
    found.copied().ok_or_else(|| {
        let names: Vec<_> = PropertyName::ALL.iter().map(|property| hyphens(property.name())).collect();
        format!("the properties are: {}", names.join(", "))
    })
}

/// Checks one protocol, with a progress bar on a terminal.
pub fn explore(description: &Description, limits: Limits) -> Result<Report, Failure> {
    let bar = bar(&description.name, "{spinner} {prefix}: {pos} states, {per_sec}, {msg}");
    let report = settled_model::check(description, limits, |progress| {
        bar.set_position(progress.unique_states as u64);
        bar.set_message(format!("{} moves, depth {}", progress.transitions, progress.depth));
    })
    .map_err(|error| Failure::input(format!("{}: {error}", description.name)))?;
    bar.finish_and_clear();
    Ok(report)
}

/// Explores a shipped protocol with the limits that a check has if none are given.
pub fn shipped(name: &str) -> Result<Report, Failure> {
    explore(&load(name)?, Limits::default())
}

/// A progress bar on a terminal; nothing elsewhere.
pub fn bar(prefix: &str, template: &str) -> ProgressBar {
    let bar = if std::io::stderr().is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_prefix(prefix.to_owned());
    bar
}

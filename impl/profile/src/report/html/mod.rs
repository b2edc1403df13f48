//! Reports as a page that needs no other file and no network.

mod about;
mod comparison;
mod data;
mod matrix;
mod resume;

use super::words::{count, escape};
use crate::profile::{Profile, Report};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// The only script that the page's policy lets run: the SHA-256 of [`SCRIPT`].
const SCRIPT_HASH: &str = "sha256-e9XlI3iKxMfKTm7UnxiKZWlLRfH4F0vnNfjC9VxAwtg=";

/// A profile and the number by which the page's parts refer to it.
type Numbered<'a> = (usize, &'a Profile);

/// These reports as a page: the matrix, every run's course, Khan's resume contract, what differs between versions and
/// behind a guard, and how it was measured.
#[must_use]
pub fn html(reports: &[Report]) -> String {
    let profiles = ordered(reports);
    let cells: usize = profiles.iter().map(|(_, profile)| profile.cells.len()).sum();
    let runs: usize = profiles.iter().flat_map(|(_, profile)| &profile.cells).map(|result| result.runs.len()).sum();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         script-src '{SCRIPT_HASH}'; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Conformance profiles</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<header>\n\
         <h1>Conformance profiles</h1>\n\
         <p>What agent frameworks really do when they are killed, cut off or resumed twice: each step of a run calls a tool, \
         and should take effect once. {}, {}, {}.</p>\n\
         <nav aria-label=\"Parts\"><a href=\"#matrix\">Matrix</a> <a href=\"#resume-contract\">Resume contract</a> \
         <a href=\"#comparison\">Comparison</a> <a href=\"#about\">About</a></nav>\n</header>\n<main>\n\
         {matrix}{resume}{comparison}{about}</main>\n{dialog}\
         <script type=\"application/json\" id=\"data\">{data}</script>\n<script>{SCRIPT}</script>\n</body>\n</html>\n",
        count(profiles.len(), "profile"),
        count(cells, "cell"),
        count(runs, "run"),
        matrix = matrix::section(&profiles),
        resume = resume::section(&profiles),
        comparison = comparison::section(reports, &profiles),
        about = about::section(reports),
        dialog = DIALOG,
        data = data::json(&profiles),
    )
}

/// Filled by the script with what came of a cell.
const DIALOG: &str = "<dialog id=\"detail\" aria-labelledby=\"detail-title\">\n<div class=\"bar\">\
    <h2 id=\"detail-title\" tabindex=\"-1\"></h2>\
    <button type=\"button\" id=\"detail-close\" aria-label=\"Close\">Close</button></div>\n\
    <div id=\"detail-body\"></div>\n</dialog>\n";

/// All profiles: variants in the order in which they first come, the versions of each together, alone before guarded.
fn ordered(reports: &[Report]) -> Vec<Numbered<'_>> {
    let all: Vec<_> = reports.iter().flat_map(|report| &report.profiles).collect();
    let key = |profile: &Profile| (profile.adapter.clone(), profile.variant.clone());
    let first = |profile: &Profile| all.iter().position(|other| key(other) == key(profile));
    let mut ordered = all.clone();
    ordered.sort_by_key(|profile| (first(profile), profile.version.clone(), profile.behind.clone()));
    ordered.into_iter().enumerate().collect()
}

/// The heading of a profile's row: its framework, version and variant, and what it is behind.
fn heading(profile: &Profile) -> String {
    let behind = profile
        .behind
        .as_ref()
        .map_or(String::new(), |behind| format!(" <span class=\"behind\">behind {}</span>", escape(behind)));
    format!(
        "<span class=\"framework\">{}</span> <span class=\"version\">{}</span> <span class=\"variant\">{}</span>{behind}",
        escape(&profile.adapter),
        escape(&profile.version),
        escape(&profile.variant)
    )
}

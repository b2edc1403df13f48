//! What differs between versions of one framework, and before and behind a guard.

use super::super::compare::{Group, before_and_after, by_variant};
use super::super::words::{count, escape};
use super::matrix::field;
use super::{Numbered, heading};
use crate::profile::Report;

/// Up to so many tables are shown at once.
const FEW: usize = 3;

/// Its section.
pub(super) fn section(reports: &[Report], profiles: &[Numbered<'_>]) -> String {
    let groups = by_variant(reports);
    let several: Vec<_> = groups.iter().filter(|group| group.profiles.len() > 1).collect();
    let text = if several.is_empty() {
        "<p>No variant was measured in two versions, or alone and behind a guard.</p>\n".to_owned()
    } else {
        let summary = before_and_after(&groups).unwrap_or_default();
        let summary: String = summary.lines().map(|line| format!("<p>{}</p>\n", escape(line))).collect();
        let tables: String = several.iter().map(|group| table(group, profiles, several.len() <= FEW)).collect();
        summary + &tables
    };
    format!("<section id=\"comparison\" aria-label=\"Comparison\">\n<h2>Comparison</h2>\n{text}</section>\n")
}

fn table(group: &Group<'_>, profiles: &[Numbered<'_>], open: bool) -> String {
    let open = if open { " open" } else { "" };
    let cells = group.cells();
    let differing: Vec<_> = cells.iter().copied().filter(|cell| group.differs(*cell)).collect();
    let title = escape(&group.name());
    if differing.is_empty() {
        return format!("<p>{title}: none of {} differs.</p>\n", count(cells.len(), "cell"));
    }
    let number = |wanted: &&crate::Profile| {
        profiles.iter().find(|(_, profile)| std::ptr::eq(*profile, *wanted)).map_or(0, |(number, _)| *number)
    };
    let heads: String =
        group.profiles.iter().map(|profile| format!("<th scope=\"col\">{}</th>", heading(profile))).collect();
    let row = |cell: &crate::Cell| {
        let fields: String = group
            .profiles
            .iter()
            .map(|profile| format!("<td>{}</td>", field(number(profile), profile, *cell)))
            .collect();
        format!("<tr><th scope=\"row\" title=\"{}\">{cell}</th>{fields}</tr>\n", escape(&cell.says().replace('`', "")))
    };
    let rows: String = differing.iter().map(row).collect();
    format!(
        "<details{open}>\n<summary>{title}: {} of {} differ</summary>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" \
         aria-label=\"{title}, to scroll\">\n<table class=\"pairs\">\n<thead><tr><td></td>{heads}</tr></thead>\n\
         <tbody>\n{rows}</tbody>\n</table>\n</div>\n</details>\n",
        differing.len(),
        count(cells.len(), "cell")
    )
}

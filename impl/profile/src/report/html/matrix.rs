//! The matrix: a row for each profile, a column for each cell.

use super::super::mark::{Kind, Mark, groups, result};
use super::super::words::escape;
use super::{Numbered, heading};
use crate::cell::Cell;
use crate::profile::Profile;

/// Its section, with the filters above it and the legend below.
pub(super) fn section(profiles: &[Numbered<'_>]) -> String {
    let groups: Vec<_> = groups(profiles.iter().map(|(_, profile)| *profile)).collect();
    let heads: String = groups
        .iter()
        .map(|(name, cells)| format!("<th scope=\"colgroup\" colspan=\"{}\">{}</th>", cells.len(), escape(name)))
        .collect();
    let columns: String =
        groups.iter().map(|(_, cells)| format!("<colgroup span=\"{}\"></colgroup>", cells.len())).collect();
    let cells: Vec<_> = groups.iter().flat_map(|(_, cells)| cells.iter().copied()).collect();
    let names: String = cells
        .iter()
        .map(|cell| {
            format!(
                "<th scope=\"col\" class=\"cell\" title=\"{}\"><span>{cell}</span></th>",
                escape(&cell.says().replace('`', ""))
            )
        })
        .collect();
    let row = |(number, profile): &Numbered<'_>| {
        let fields: String = cells.iter().map(|cell| format!("<td>{}</td>", field(*number, profile, *cell))).collect();
        let behind = profile.behind.as_deref().unwrap_or_default();
        format!(
            "<tr data-name=\"{}\" data-behind=\"{}\"><th scope=\"row\">{}</th>{fields}</tr>\n",
            escape(&format!("{} {} {}", profile.adapter, profile.version, profile.variant).to_lowercase()),
            escape(behind),
            heading(profile)
        )
    };
    let rows: String = profiles.iter().map(row).collect();
    format!(
        "<section id=\"matrix\" aria-label=\"Matrix\">\n{}<div class=\"scroll\" tabindex=\"0\" role=\"region\" \
         aria-label=\"The matrix, to scroll\">\n<table class=\"matrix\">\n<colgroup></colgroup>{columns}\n\
         <thead>\n<tr><td></td>{heads}</tr>\n<tr><td></td>{names}</tr>\n</thead>\n<tbody>\n{rows}</tbody>\n</table>\n</div>\n\
         {}</section>\n",
        filters(profiles),
        legend()
    )
}

/// What came of a cell, as a button that opens it.
pub(super) fn field(number: usize, profile: &Profile, cell: Cell) -> String {
    let Some(result) = result(profile, cell) else {
        return match profile.left_out.get(cell.name()) {
            Some(why) => {
                format!("<span class=\"out\" title=\"{0}\" aria-label=\"not tried: {0}\">·</span>", escape(why))
            }
            None => "<span class=\"out\" aria-label=\"not tried\"></span>".to_owned(),
        };
    };
    let mark = Mark::of(result);
    let (class, sign) = match mark.worst() {
        Some(kind) => (kind.name(), kind.sign(mark.most)),
        None => ("missed", "–".to_owned()),
    };
    let times = mark.worst().and_then(|worst| mark.counts.iter().find(|(kind, _)| *kind == worst));
    let times = times.map_or_else(|| format!("0/{}", mark.missed), |(_, times)| format!("{times}/{}", mark.struck));
    let some_missed = if mark.missed > 0 && mark.struck > 0 { "<i>−</i>" } else { "" };
    let disagrees = if mark.disagrees { "<b class=\"differs\">≠</b>" } else { "" };
    format!(
        "<button type=\"button\" class=\"mark {class}\" data-profile=\"{number}\" data-cell=\"{cell}\" \
         data-kinds=\"{}\" aria-label=\"{}\" title=\"{1}\">{sign}<small>{times}{some_missed}{disagrees}</small></button>",
        kinds(&mark).join(" "),
        escape(&format!("{cell}: {}", said(&mark)))
    )
}

/// What the filter looks for.
fn kinds(mark: &Mark) -> Vec<&'static str> {
    let mut kinds: Vec<_> = mark.counts.iter().map(|(kind, _)| kind.name()).collect();
    if mark.missed > 0 {
        kinds.push("missed");
    }
    if mark.disagrees {
        kinds.push("disagrees");
    }
    kinds
}

/// A mark in words: `duplicate 3 of 5 (up to 2 effects), once 2 of 5`.
fn said(mark: &Mark) -> String {
    let each = mark.counts.iter().map(|(kind, times)| match kind {
        Kind::Duplicate => format!("duplicate {times} of {} (up to {} effects)", mark.struck, mark.most),
        kind => format!("{} {times} of {}", kind.name(), mark.struck),
    });
    let mut parts: Vec<_> = each.collect();
    if mark.missed > 0 {
        parts.push(format!("missed {}", mark.missed));
    }
    if mark.disagrees {
        parts.push("the model predicts otherwise".to_owned());
    }
    parts.join(", ")
}

fn filters(profiles: &[Numbered<'_>]) -> String {
    let mut guards: Vec<_> = profiles.iter().filter_map(|(_, profile)| profile.behind.as_deref()).collect();
    guards.sort_unstable();
    guards.dedup();
    let guards: String =
        guards.iter().map(|guard| format!("<option value=\"{0}\">behind {0}</option>", escape(guard))).collect();
    let guard = if guards.is_empty() {
        String::new()
    } else {
        format!(
            "<label>Guard <select id=\"filter-behind\"><option value=\"*\">any</option>\
             <option value=\"\">none</option>{guards}</select></label>\n"
        )
    };
    let kinds: String =
        Kind::ALL.iter().map(|kind| format!("<option value=\"{0}\">{0}</option>", kind.name())).collect();
    format!(
        "<form class=\"filters\" hidden>\n<label>Framework <input type=\"search\" id=\"filter-name\" autocomplete=\"off\" \
         placeholder=\"name, version, variant\"></label>\n\
         <label>Outcome <select id=\"filter-kind\"><option value=\"\">any</option>{kinds}\
         <option value=\"missed\">missed</option><option value=\"disagrees\">not as the model predicts</option></select></label>\n\
         {guard}<output id=\"filter-count\"></output>\n</form>\n"
    )
}

fn legend() -> String {
    let entry = |kind: &Kind| {
        let sign = if *kind == Kind::Duplicate { "2×".to_owned() } else { kind.sign(0) };
        format!(
            "<li><span class=\"mark {}\" aria-hidden=\"true\">{sign}</span> {}: {}</li>\n",
            kind.name(),
            kind.name(),
            kind.says()
        )
    };
    let kinds: String = Kind::ALL.iter().rev().map(entry).collect();
    format!(
        "<ul class=\"legend\">\n{kinds}\
         <li><span class=\"mark missed\" aria-hidden=\"true\">–</span> missed: the fault did not strike; the run says nothing</li>\n\
         <li><b class=\"differs\" aria-hidden=\"true\">≠</b> the model predicts otherwise</li>\n\
         <li>3/5: in 3 of 5 runs; −: in others the fault did not strike; ·: can’t be tried</li>\n</ul>\n\
         <p class=\"hint\" hidden>Choose a cell to see its runs. In the matrix the arrow keys move, Enter opens, Escape closes.</p>\n"
    )
}

//! Khan's resume contract, profile by profile.

use super::super::words::{count, escape};
use super::{Numbered, heading};
use crate::khan::{Finding, Property, Witness};

/// Its section.
pub(super) fn section(profiles: &[Numbered<'_>]) -> String {
    let heads: String = Property::ALL
        .iter()
        .map(|property| format!("<th scope=\"col\" title=\"{}\">{}</th>", escape(property.says()), property.name()))
        .collect();
    let row = |(number, profile): &Numbered<'_>| {
        let fields: String = Property::ALL.iter().map(|property| field(*number, &property.of(profile))).collect();
        format!("<tr><th scope=\"row\">{}</th>{fields}</tr>\n", heading(profile))
    };
    let rows: String = profiles.iter().map(row).collect();
    let says: String = Property::ALL
        .iter()
        .map(|property| format!("<dt>{}</dt><dd>{}</dd>\n", property.name(), escape(property.says())))
        .collect();
    format!(
        "<section id=\"resume-contract\" aria-label=\"Resume contract\">\n<h2>The resume contract</h2>\n\
         <p>The six properties of Khan, “Resume Means Resume” (arXiv:2608.03836), each decided from the cells that try it.</p>\n\
         <details><summary>What each says here</summary><dl>\n{says}</dl></details>\n\
         <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"The resume contract, to scroll\">\n\
         <table class=\"contract\">\n<thead><tr><td></td>{heads}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n</div>\n</section>\n"
    )
}

fn field(number: usize, finding: &Finding) -> String {
    match finding {
        Finding::Holds { runs } => {
            let runs = count(usize::try_from(*runs).unwrap_or(usize::MAX), "run");
            format!("<td class=\"once\">✓ <small>{runs}</small></td>")
        }
        Finding::NotTried => "<td class=\"none\">not tried</td>".to_owned(),
        Finding::Violated { by } => {
            let witness = |Witness { cell, times, of }: &Witness| {
                format!(
                    "<li><button type=\"button\" class=\"link\" data-profile=\"{number}\" data-cell=\"{cell}\">{cell}</button> \
                     {times}/{of}</li>"
                )
            };
            let all: String = by.iter().map(witness).collect();
            let cells = count(by.len(), "cell");
            format!("<td class=\"duplicate\"><details><summary>✗ in {cells}</summary><ul>{all}</ul></details></td>")
        }
    }
}

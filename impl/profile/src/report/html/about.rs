//! How it was measured.

use super::super::words::escape;
use crate::profile::Report;

/// Its section.
pub(super) fn section(reports: &[Report]) -> String {
    let all: String = reports.iter().map(about).collect();
    format!("<section id=\"about\" aria-label=\"About\">\n<h2>About</h2>\n{all}</section>\n")
}

fn about(report: &Report) -> String {
    let machine = &report.machine;
    let cores = if machine.cores == 1 { "1 core".to_owned() } else { format!("{} cores", machine.cores) };
    let facts = [
        ("Measured", report.made.clone()),
        ("Command", report.command.clone()),
        ("settled", report.settled.clone()),
        ("Machine", format!("{}, {}, {cores}", machine.system, machine.processor)),
        ("Seed", report.seed.to_string()),
        ("Format", report.format.clone()),
    ];
    let facts: String =
        facts.iter().map(|(name, value)| format!("<dt>{name}</dt><dd>{}</dd>\n", escape(value))).collect();
    let mut rows: Vec<_> = report
        .profiles
        .iter()
        .map(|profile| {
            let fields = [&profile.framework, &profile.version, &profile.runtime, &profile.transport];
            let fields: String = fields.iter().map(|field| format!("<td>{}</td>", escape(field))).collect();
            format!("<tr><th scope=\"row\">{}</th>{fields}</tr>\n", escape(&profile.adapter))
        })
        .collect();
    rows.dedup();
    format!(
        "<dl class=\"facts\">\n{facts}</dl>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" \
         aria-label=\"Versions, to scroll\">\n<table class=\"versions\">\n<thead><tr><th scope=\"col\">adapter</th>\
         <th scope=\"col\">package</th><th scope=\"col\">version</th><th scope=\"col\">runs on</th>\
         <th scope=\"col\">reaches its tool by</th></tr></thead>\n<tbody>\n{}</tbody>\n</table>\n</div>\n",
        rows.concat()
    )
}

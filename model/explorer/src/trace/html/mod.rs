//! A trace as a page to step through.

use super::changes::{Change, changes};
use super::words::{escape, plain};
use super::{Snapshot, Step, Trace};
use crate::faults::Fault;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// The only script that the page's policy lets run: the SHA-256 of [`SCRIPT`].
const SCRIPT_HASH: &str = "sha256-0QhAKk/jrOfiEVW51D5nl6Orv6sT0Hk6uYQqofGbTYk=";

/// What a state consists of, and the sections' headings.
type Section = (&'static str, fn(&Snapshot) -> &[String]);
const SECTIONS: [Section; 5] = [
    ("Callers", |state| &state.callers),
    ("Guards", |state| &state.guards),
    ("Ledger", |state| &state.ledger),
    ("On its way", |state| &state.network),
    ("Effects", |state| &state.effects),
];

impl Trace {
    /// The trace as a page that needs no other file and no network: the diagram, and the state after each step.
    pub fn html(&self) -> String {
        let title = written(&format!("{} {}", self.protocol, self.violates()));
        let (says, means) = (written(&capital(self.property.says())), written(self.property.means()));
        let ending = self.ending().map(|ending| format!(" {}.", written(&capital(&ending)))).unwrap_or_default();
        let effects = match self.effects_in_words() {
            none if none.is_empty() => none,
            some => format!("; {}", written(&some)),
        };
        let description = serde_json::to_string_pretty(&self.description).unwrap_or_default();
        // Line breaks are the description's own; nothing else in it may act on the page.
        let description: Vec<_> = description.lines().map(written).collect();
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
             script-src '{SCRIPT_HASH}'; base-uri 'none'; form-action 'none'\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<header>\n<h1>{title}</h1>\n\
             <p><strong>{says}.</strong> {means}</p>\n<p>{count}{effects}.{ending}</p>\n{needs}\n\
             <details>\n<summary>Protocol description</summary>\n<pre tabindex=\"0\">{description}</pre>\n</details>\n</header>\n\
             <main>\n<section class=\"diagram\" aria-label=\"Sequence diagram\">\n{diagram}</section>\n\
             <section class=\"panel\" aria-label=\"Steps\">\n{controls}<ol class=\"states\" start=\"0\">\n{states}</ol>\n\
             </section>\n</main>\n<script>{SCRIPT}</script>\n</body>\n</html>\n",
            count = match self.steps.len() {
                0 => "It is violated at the beginning".to_owned(),
                1 => "It is violated after 1 step".to_owned(),
                many => format!("It is violated after {many} steps"),
            },
            controls = controls(),
            needs = self.needs_list(),
            description = description.join("\n"),
            diagram = self.diagram(false),
            states = self.states(),
        )
    }

    fn needs_list(&self) -> String {
        let needed = self.needed();
        if needed.is_empty() {
            return "<p>It needs no fault.</p>".to_owned();
        }
        let item = |(fault, count): &(Fault, u8)| {
            format!("<li><b>{}: {count}</b>. {}</li>\n", fault.name(), written(fault.says()))
        };
        let items: String = needed.iter().map(item).collect();
        format!("<p>The faults that it needs:</p>\n<ul class=\"needs\">\n{items}</ul>")
    }

    /// Every state, from the beginning to the last. A page without scripts shows all of them.
    fn states(&self) -> String {
        let all = || std::iter::once(&self.beginning).chain(self.steps.iter().map(|step| &step.state));
        let used = SECTIONS.map(|(heading, lines)| (heading, lines, all().any(|state| !lines(state).is_empty())));
        let devices = self.beginning.callers.iter().any(|line| line.starts_with("device"));
        let mut before = &self.beginning;
        let mut states = String::new();
        for (number, state) in all().enumerate() {
            let step = number.checked_sub(1).and_then(|index| self.steps.get(index));
            states.push_str(&format!("<li class=\"state\" data-step=\"{number}\">\n{}\n", self.heading(number, step)));
            for (heading, lines, _) in used.iter().filter(|(.., used)| *used) {
                let heading = if *heading == "Callers" && devices { "Devices" } else { heading };
                states.push_str(&format!("<h3>{heading}</h3>\n{}\n", list(lines(before), lines(state))));
            }
            states.push_str("</li>\n");
            before = state;
        }
        states
    }

    fn heading(&self, number: usize, step: Option<&Step>) -> String {
        let Some(step) = step else {
            return "<h2>The beginning</h2>".to_owned();
        };
        let mut heading = format!("<h2>{}: {}</h2>", written(&step.way()), written(&step.text));
        if let Some(name) = &step.fault {
            let says = Fault::ALL.iter().find(|fault| fault.name() == name).map_or("", |fault| fault.says());
            heading.push_str(&format!("\n<p class=\"fault\"><b>✗ fault: {}</b>. {}</p>", written(name), written(says)));
        }
        for line in &step.told {
            heading.push_str(&format!("\n<p class=\"told\">{}</p>", written(line)));
        }
        if self.round_begins().is_some_and(|begins| begins < number) {
            heading.push_str("\n<p class=\"round\">Repeats for ever.</p>");
        }
        if number == self.steps.len() {
            heading.push_str(&format!("\n<p class=\"violated\"><b>{}</b></p>", written(&self.violates())));
        }
        heading
    }
}

/// Shown once the script runs. The buttons' signs are drawn, since not every font has them.
fn controls() -> String {
    let back = "<path d=\"M15 3v14L5 10z\"/>";
    let on = "<path d=\"M5 3v14l10-7z\"/>";
    let buttons = [
        ("first", "First", "Home", format!("{back}<path d=\"M3 3h2v14H3z\"/>")),
        ("back", "Back", "Left arrow", back.to_owned()),
        ("on", "Forward", "Right arrow", on.to_owned()),
        ("last", "Last", "End", format!("{on}<path d=\"M15 3h2v14h-2z\"/>")),
    ];
    let button = |(go, name, key, sign): &(&str, &str, &str, String)| {
        format!(
            "<button type=\"button\" data-go=\"{go}\" aria-label=\"{name}\" title=\"{name} ({key})\">\
             <svg viewBox=\"0 0 20 20\" width=\"18\" height=\"18\" aria-hidden=\"true\">{sign}</svg></button>\n"
        )
    };
    let buttons: String = buttons.iter().map(button).collect();
    format!(
        "<div class=\"controls\" hidden>\n{buttons}<span class=\"count\"></span>\n</div>\n\
         <p class=\"said\" aria-live=\"polite\" hidden></p>\n"
    )
}

/// Text from anywhere, safe to put into the page.
fn written(text: &str) -> String {
    escape(&plain(text))
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

fn list(before: &[String], now: &[String]) -> String {
    let lines = changes(before, now);
    if lines.is_empty() {
        return "<p class=\"none\">none</p>".to_owned();
    }
    let item = |(change, line): &(Change, &str)| match change {
        Change::Kept => format!("<li>{}</li>\n", written(line)),
        Change::New => format!("<li class=\"new\"><ins>{}</ins></li>\n", written(line)),
        Change::Gone => format!("<li class=\"gone\"><del>{}</del></li>\n", written(line)),
    };
    format!("<ul>\n{}</ul>", lines.iter().map(item).collect::<String>())
}

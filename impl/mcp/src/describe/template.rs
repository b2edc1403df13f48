//! The file.

use super::listing::{Argument, Listed, Listing};
use super::text::{comment, key, string, strings};
use crate::config::UpstreamConfig;

/// The widest column of names.
const NAMES: usize = 40;

/// The longest description.
const DESCRIPTION: usize = 160;

/// The file for a server. `named`: its name in a file of several.
pub(super) fn write(listing: &Listing, named: Option<&(String, UpstreamConfig)>) -> String {
    let mut file = String::new();
    head(&mut file, listing);
    criteria(&mut file, listing);
    let tools = match named {
        None => {
            top(&mut file);
            "tools".to_owned()
        }
        Some((name, upstream)) => {
            server(&mut file, name, upstream);
            format!("servers.{}.tools", key(name))
        }
    };
    for (name, listed) in &listing.tools {
        tool(&mut file, &tools, name, listed);
    }
    file
}

fn line(file: &mut String, text: impl AsRef<str>) {
    file.push_str(text.as_ref().trim_end());
    file.push('\n');
}

fn head(file: &mut String, listing: &Listing) {
    let server = match listing.server.is_empty() {
        true => "the server".to_owned(),
        false => comment(&listing.server, DESCRIPTION),
    };
    let tools = listing.tools.len();
    line(file, format!("# settled.toml for {server}: {tools} tool{}.", if tools == 1 { "" } else { "s" }));
    for text in [
        "#",
        "# It is safe as it is: every tool is guarded as one that nothing is known about, so a call whose outcome is unknown",
        "# is never repeated, but held for a person. Go through the tools to make it better:",
        "#",
        "#  1. Does it only read? `kind = \"read-only\"` lets its calls pass. The server's own claims were NOT checked.",
        "#  2. Which arguments name the operation? `key = [...]`; without it, all of them do.",
        "#  3. Is it hard to live with twice? Fill in the three criteria. A tool that has two of them needs a `resource` and a way",
        "#     to find out what became of a call (`observe`, `seal`, `kind = \"deduplicates\"`), or `opaque = \"ask\"`.",
        "#",
    ] {
        line(file, text);
    }
    if listing.nameless > 0 {
        line(file, format!("# {} more have no name that can be read, and are not in this file.", listing.nameless));
        line(file, "#");
    }
}

/// The table to fill in.
fn criteria(file: &mut String, listing: &Listing) {
    let shown = |name: &str| comment(&key(name), NAMES);
    let width = listing.tools.keys().map(|name| shown(name).chars().count()).max().unwrap_or(0).max("tool".len());
    line(
        file,
        "#   outside      its effect is out of reach of whoever could repair it: money, mail, machines, other people's data",
    );
    line(file, "#   irrevocable  its effect can't be taken back");
    line(file, "#   exclusive    its effect must not overlap with that of another call");
    line(file, "#");
    line(file, format!("#   {:width$}   {:22}   outside   irrevocable   exclusive", "tool", "claimed, not checked"));
    for (name, listed) in &listing.tools {
        let name = shown(name);
        let space = " ".repeat(width.saturating_sub(name.chars().count()));
        line(file, format!("#   {name}{space}   {:22}   ?         ?             ?", in_short(listed)));
    }
    line(file, "");
}

/// The claims, in two words.
fn in_short(listed: &Listed) -> &'static str {
    let is = |hint| listed.claims(hint);
    match (is("readOnlyHint"), is("destructiveHint"), is("idempotentHint")) {
        (Some(true), _, _) => "read-only",
        (_, Some(true), Some(true)) => "destructive idempotent",
        (_, Some(true), _) => "destructive",
        (_, _, Some(true)) => "idempotent",
        (None, None, None) => "-",
        _ => "writes",
    }
}

const NEW_TOOLS: &str =
    "new_tools = \"guard\"               # tools that are not in this file are guarded, whatever is claimed of them";

const OBSERVE: &str = "# mode = \"observe\"                # to try it out: all calls pass, and what would have been done is counted. PROTECTS NOTHING";

fn top(file: &mut String) {
    line(file, NEW_TOOLS);
    line(file, OBSERVE);
    line(
        file,
        "# scope = \"...\"                   # separates the keys of this server, or tenant, from those of others",
    );
}

fn server(file: &mut String, name: &str, upstream: &UpstreamConfig) {
    line(file, format!("[servers.{}]", key(name)));
    match upstream {
        UpstreamConfig::Command { command, env } => {
            line(file, format!("command = {}", strings(command.iter().map(String::as_str))));
            if !env.is_empty() {
                let names: Vec<String> = env.keys().map(|name| comment(name, NAMES)).collect();
                line(file, format!("# env = {{ ... }}                   # as in your file: {}", names.join(", ")));
            }
        }
        UpstreamConfig::Url(server) => {
            line(file, format!("url = {}", string(server.url.as_str())));
            if !server.headers.is_empty() {
                let names: Vec<&str> = server.headers.iter().map(|(name, _)| name.as_str()).collect();
                line(file, format!("# headers = {{ ... }}               # as in your file: {}", names.join(", ")));
            }
        }
    }
    line(file, NEW_TOOLS);
    line(file, OBSERVE);
}

fn tool(file: &mut String, tools: &str, name: &str, listed: &Listed) {
    line(file, "");
    let description = comment(&listed.description, DESCRIPTION);
    if !description.is_empty() {
        line(file, format!("# {description}"));
    }
    if listed.times() > 1 {
        line(file, format!("# The server lists {} tools of this name. All of them are meant.", listed.times()));
    }
    let claims: Vec<String> = listed
        .claims
        .iter()
        .map(|(name, value)| format!("{} = {}", comment(name, NAMES), comment(value, NAMES)))
        .collect();
    match claims.is_empty() {
        true => line(file, "# claimed, not checked: nothing"),
        false => line(file, format!("# claimed, not checked: {}", claims.join(", "))),
    }
    line(file, format!("[{tools}.{}]", key(name)));
    line(file, format!("seen = \"sha256:{}\"", listed.definition()));
    line(
        file,
        "kind = \"opaque\"                   # nothing can be found out about a lost call: it is held for a person",
    );
    let mut option = |text: String, why: &str| match why.is_empty() {
        true => line(file, format!("# {text}")),
        false => line(file, format!("# {text:31} # {why}")),
    };
    if listed.claims("readOnlyHint") == Some(true) {
        option("kind = \"read-only\"".to_owned(), "if it is true that it only reads");
    } else if listed.claims("idempotentHint") == Some(true) {
        option("kind = \"idempotent\"".to_owned(), "if it is true that repeating it changes nothing");
    }
    let arguments = listed.arguments.iter().map(|argument| {
        let required = if argument.required { "" } else { ", optional" };
        format!("{} ({}{required})", comment(&argument.name, NAMES), comment(&argument.kind, NAMES))
    });
    let arguments: Vec<String> = arguments.collect();
    let key = strings(keys(&listed.arguments));
    let key = if key == "[]" { "[\"...\"]".to_owned() } else { key };
    let named = comment(&arguments.join(", "), 2 * DESCRIPTION);
    option(format!("key = {key}"), if named.is_empty() { "it takes no arguments that are declared" } else { &named });
    if let Some(carrier) = listed.arguments.iter().find(|argument| carries_a_key(&argument.name)) {
        let carrier = string(&carrier.name);
        option(
            format!("pass_key_as = {carrier}"),
            "if the tool takes an idempotency key there; see `kind = \"deduplicates\"`",
        );
    }
    let matching = |is: fn(&str) -> bool| {
        let names: Vec<&str> =
            listed.arguments.iter().map(|argument| argument.name.as_str()).filter(|name| is(name)).collect();
        (!names.is_empty()).then(|| strings(names))
    };
    if let Some(names) = matching(changes_by_itself) {
        option(format!("ephemeral = {names}"), "if it differs between a call and its retry");
    }
    if let Some(names) = matching(is_confidential) {
        option(format!("encrypt = {names}"), "if it must not be kept in clear; needs `[encryption]`");
    }
    option("outside = true".to_owned(), "the three criteria, see above");
    option("irrevocable = true".to_owned(), "");
    option("exclusive = true".to_owned(), "");
}

/// The arguments that are likely to name an operation: those that end as names of things do, else those that are required.
fn keys(arguments: &[Argument]) -> Vec<&str> {
    let fit = |argument: &&Argument| {
        !carries_a_key(&argument.name) && !changes_by_itself(&argument.name) && !is_confidential(&argument.name)
    };
    let names = |wanted: &dyn Fn(&Argument) -> bool| {
        let named = arguments.iter().filter(fit).filter(|argument| argument.required && wanted(argument));
        named.map(|argument| argument.name.as_str()).collect::<Vec<_>>()
    };
    let of_things = names(&|argument| names_a_thing(&argument.name));
    if of_things.is_empty() { names(&|_| true) } else { of_things }
}

/// The words of a name, in lower case: `orderId`, `order_id` and `order-id` have the same.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut lower = false;
    for c in name.chars() {
        if !c.is_alphanumeric() || (c.is_uppercase() && lower) {
            words.push(String::new());
        }
        if c.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(c.to_lowercase());
        }
        lower = c.is_lowercase() || c.is_numeric();
    }
    words.retain(|word| !word.is_empty());
    words
}

fn ends_with(name: &str, any: &[&str]) -> bool {
    words(name).last().is_some_and(|word| any.contains(&word.as_str()))
}

fn names_a_thing(name: &str) -> bool {
    const LAST: [&str; 9] = ["id", "ids", "uuid", "guid", "number", "no", "ref", "reference", "sku"];
    ends_with(name, &LAST)
}

fn carries_a_key(name: &str) -> bool {
    let words = words(name).concat();
    ["idempotencykey", "idempotency", "dedupkey", "deduplicationid", "requestid", "clienttoken", "clientrequesttoken"]
        .contains(&words.as_str())
}

fn changes_by_itself(name: &str) -> bool {
    const LAST: [&str; 6] = ["timestamp", "nonce", "now", "traceparent", "traceid", "trace"];
    ends_with(name, &LAST)
}

fn is_confidential(name: &str) -> bool {
    const ANY: [&str; 14] = [
        "password",
        "passwd",
        "secret",
        "pin",
        "pan",
        "cvv",
        "cvc",
        "ssn",
        "iban",
        "card",
        "token",
        "passphrase",
        "credential",
        "credentials",
    ];
    words(name).iter().any(|word| ANY.contains(&word.as_str()))
}

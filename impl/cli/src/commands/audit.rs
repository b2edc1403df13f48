//! `settled audit`: what a tool server does with a call that comes twice.

mod table;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use settled_audit::{ArgumentsFile, Choice, Experiment, Observer, Options, Outcome, Remote, Report, Secrets, Target};
use settled_observers::Secret;

use crate::failure::{Exit, Failure};
use crate::output;
use crate::runtime::block_on;

/// Makes the calls of an MCP server's tools twice, with a lost answer, across a restart, at once, and says what came of it.
///
/// Real calls are made, of the tools that you choose: give it a server, a directory or a database that may be written to. Without
/// --tool it lists the tools and calls none. Exit code 0: nothing found; 1: a duplicate, a wrong record or an untrue claim; 2: bad
/// input; 3: of a tool nothing could be told.
#[derive(Debug, Args)]
pub struct AuditArgs {
    /// The server's address, if it is reached over Streamable HTTP
    #[arg(long, value_name = "URL", conflicts_with = "command")]
    url: Option<url::Url>,
    /// A header of every request to it, for example 'Authorization: Bearer env:TOKEN' (a word `env:NAME` is that environment
    /// variable); may be given several times
    #[arg(long, value_name = "NAME: VALUE", requires = "url")]
    header: Vec<String>,
    /// A file of certificates (PEM) to trust besides those that this machine trusts
    #[arg(long, value_name = "FILE", requires = "url")]
    ca: Option<PathBuf>,
    /// A shell command that kills the server behind --url and starts it again, and ends then
    #[arg(long, value_name = "COMMAND", requires = "url")]
    restart: Option<String>,
    /// A tool to call; may be given several times
    #[arg(long, value_name = "NAME", value_delimiter = ',', conflicts_with_all = ["all_tools", "read_only_tools"])]
    tool: Vec<String>,
    /// Call all tools, those that write included
    #[arg(long, conflicts_with = "read_only_tools")]
    all_tools: bool,
    /// Call the tools that say that they only read (`readOnlyHint: true`)
    #[arg(long)]
    read_only_tools: bool,
    /// What the tools are called with (TOML, or JSON if its name ends so) [default: what suits their input schemas]
    #[arg(long, value_name = "FILE")]
    arguments: Option<PathBuf>,
    /// Where effects show: a directory, `sqlite:FILE` or `postgres://…`; may be given several times
    #[arg(long, value_name = "DIR|sqlite:FILE|URL")]
    watch: Vec<String>,
    /// A tool that tells the server's state, for example `read_graph` or 'list {"all": true}' [arguments: the file's [observer]]
    #[arg(long, value_name = "TOOL")]
    observer: Option<String>,
    /// What is watched and doesn't count: a file, a table (`log`), a column (`orders.updated_at`), a place of the observer's answer
    /// (`/time`), or a directory of them; may be given several times
    #[arg(long, value_name = "NAME")]
    ignore: Vec<String>,
    /// How often each experiment is made
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// How many calls are made at once
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u8).range(2..=100))]
    at_once: u8,
    /// An experiment to make, besides a single call: twice, lost-answer, restart, concurrent, different-at-once or retried-id; may
    /// be given several times [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    experiment: Vec<Experiment>,
    /// How long the answer to a call is waited for
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = humantime::parse_duration)]
    timeout: Duration,
    /// How long the server may take to start and to list its tools
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = humantime::parse_duration)]
    start: Duration,
    /// For how long nothing may change before a state counts as reached
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = humantime::parse_duration)]
    settle: Duration,
    /// Write the report to this file, as JSON; `-`: to standard output, instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Print the JSON Schema of such a report, and end
    #[arg(long)]
    schema: bool,
    /// The server's command, after --
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs the command.
pub fn run(args: AuditArgs) -> Result<Exit, Failure> {
    if args.schema {
        output::json(&settled_audit::schema())?;
        return Ok(Exit::Good);
    }
    let (options, secrets) = options(&args)?;
    if options.choice != Choice::List {
        eprintln!("settled: real calls are made; what they change is not undone");
    }
    let shows_progress = std::io::stderr().is_terminal();
    let progress = |what: &str| {
        if shows_progress {
            eprint!("\r\u{1b}[K{what}");
        }
    };
    let audited = block_on(async { Ok(settled_audit::audit(&options, &secrets, &progress).await) });
    if shows_progress {
        eprint!("\r\u{1b}[K");
    }
    let report = match audited? {
        Ok(report) => report,
        Err(error) if error.is_input() => return Err(Failure::input(secrets.hide(&error.to_string()))),
        Err(error) => {
            eprintln!("settled: {}; nothing could be told", secrets.hide(&error.to_string()));
            return Ok(Exit::NotFinished);
        }
    };
    tell(&report, args.json.as_deref())?;
    Ok(match report.outcome() {
        Outcome::Nothing => Exit::Good,
        Outcome::Defects => Exit::Violated,
        Outcome::OnlyUnknown => Exit::NotFinished,
    })
}

fn tell(report: &Report, json: Option<&std::path::Path>) -> Result<(), Failure> {
    match json {
        Some(path) if path.as_os_str() == "-" => Ok(output::json(report)?),
        Some(path) => {
            let text = serde_json::to_string_pretty(report).map_err(|error| Failure::internal(error.to_string()))?;
            let written = std::fs::write(path, text + "\n");
            written.map_err(|error| Failure::input(format!("{}: {error}", path.display())))?;
            Ok(output::line(table::text(report).trim_end())?)
        }
        None => Ok(output::line(table::text(report).trim_end())?),
    }
}

fn options(args: &AuditArgs) -> Result<(Options, Secrets), Failure> {
    let mut hidden = Vec::new();
    let target = match &args.url {
        Some(url) => {
            if !matches!(url.scheme(), "http" | "https") {
                return Err(Failure::input(format!("--url {url}: an address begins with http:// or https://")));
            }
            hidden.extend(url.password().map(str::to_owned));
            let mut headers = Vec::new();
            for text in &args.header {
                headers.push(header(text, &mut hidden)?);
            }
            let (ca, restart) = (args.ca.clone(), args.restart.clone());
            Target::Url(Box::new(Remote { url: url.clone(), headers, ca, restart }))
        }
        None if args.command.is_empty() => {
            return Err(Failure::input("name the server: its command after `--`, or `--url URL`"));
        }
        None => Target::Command(args.command.clone()),
    };
    let arguments = args.arguments.as_deref().map(ArgumentsFile::load).transpose();
    let arguments = arguments.map_err(|error| Failure::input(error.to_string()))?.unwrap_or_default();
    let observer = args.observer.as_deref().map(|text| observer(text, &arguments)).transpose()?;
    let choice = match (args.all_tools, args.read_only_tools, args.tool.is_empty()) {
        (true, _, _) => Choice::All,
        (_, true, _) => Choice::ReadOnly,
        (_, _, true) => Choice::List,
        (_, _, false) => Choice::Named(args.tool.clone()),
    };
    hidden.extend(args.watch.iter().filter_map(|place| url::Url::parse(place).ok()?.password().map(str::to_owned)));
    let secrets = Secrets::new(std::env::vars_os(), hidden);
    let options = Options {
        target,
        choice,
        arguments,
        watch: args.watch.clone(),
        observer,
        ignore: args.ignore.clone(),
        repeat: args.repeat,
        at_once: usize::from(args.at_once),
        experiments: if args.experiment.is_empty() { Experiment::ALL.to_vec() } else { args.experiment.clone() },
        timeout: args.timeout,
        start: args.start,
        settle: args.settle,
    };
    Ok((options, secrets))
}

fn header(text: &str, hidden: &mut Vec<String>) -> Result<(http::HeaderName, http::HeaderValue), Failure> {
    let wrong = |problem: String| Failure::input(format!("--header: {problem}"));
    let (name, value) = text.split_once(':').ok_or_else(|| {
        wrong(format!(
            "`{}` has no colon: write it such as 'X-Api-Key: env:KEY'",
            text.split(' ').next().unwrap_or("it")
        ))
    })?;
    let name = name.trim().parse().map_err(|_| wrong(format!("`{name}` is no name of a header")))?;
    let resolved = Secret::new(value.trim()).resolve().map_err(|error| wrong(error.to_string()))?;
    // "Bearer" is no secret, and what follows it is.
    hidden.extend(resolved.split_whitespace().map(str::to_owned));
    let mut value: http::HeaderValue =
        resolved.parse().map_err(|_| wrong(format!("what is given for {name} can't be sent")))?;
    value.set_sensitive(true);
    Ok((name, value))
}

/// A tool's name, and what it is called with.
fn observer(text: &str, arguments: &ArgumentsFile) -> Result<Observer, Failure> {
    let (tool, given) = match text.split_once(' ') {
        Some((tool, given)) => (tool, given.trim()),
        None => (text, ""),
    };
    let arguments = match given {
        "" => arguments.observer.clone(),
        given => serde_json::from_str(given).map_err(|error| {
            Failure::input(format!("--observer: after the tool's name comes a JSON object: {error}"))
        })?,
    };
    Ok(Observer { tool: tool.to_owned(), arguments })
}

//! `settled bench mcp`: what the MCP proxy adds to a call, beside no proxy and other proxies.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use settled_bench::BenchError;
use settled_bench::mcp::{self, Beside, Link, Settings, show};

use crate::failure::{Exit, Failure};
use crate::output::line;
use crate::runtime::block_on;

/// Measures passed and guarded calls through `settled mcp` with 1, 16 and 128 in flight, over stdio and HTTP, beside no proxy and
/// beside other proxies. A few minutes; nothing else should run.
#[derive(Debug, Args)]
pub struct McpArgs {
    /// Print the numbers as JSON.
    #[arg(long)]
    json: bool,
    /// One short round: about half a minute.
    #[arg(long)]
    quick: bool,
    /// Also measure this proxy over stdio; may be given several times. The words of its command are separated by spaces; {server}
    /// stands for the server's command, {url} for the URL of a server over HTTP, {config} for a file with the server's command as
    /// MCP clients write it. Without any, `fastmcp` and `mcp-proxy` are measured where they are installed
    #[arg(long, value_name = "NAME=COMMAND", value_parser = named)]
    beside: Vec<(String, Vec<String>)>,
    /// The same for a proxy that listens on the port {port} of this machine, path /mcp
    #[arg(long, value_name = "NAME=COMMAND", value_parser = named)]
    beside_http: Vec<(String, Vec<String>)>,
    /// Where ledgers are written, below a directory that goes away afterwards [default: the present directory]. Syncs of a file
    /// system in memory say nothing
    #[arg(long, value_name = "DIR", default_value = ".", hide_default_value = true)]
    dir: PathBuf,
    /// How many rounds [default: 5, or 1 if it is to be quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: Option<u32>,
    /// Then makes so many passed calls, and so many guarded ones, and looks at the proxy's memory meanwhile, for example 1000000
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    calls: u64,
    /// How long each measurement takes.
    #[arg(long, hide = true, value_name = "TIME", value_parser = humantime::parse_duration)]
    span: Option<Duration>,
}

/// An MCP server that does nothing: what `settled bench mcp` calls.
#[derive(Debug, Args)]
pub struct ServerArgs {
    /// Serve HTTP on a free port instead of standard input and output.
    #[arg(long)]
    http: bool,
}

/// Runs the command.
pub fn run(args: McpArgs) -> Result<Exit, Failure> {
    let dir = tempfile::Builder::new().prefix("settled-bench-").tempdir_in(&args.dir);
    let dir = dir.map_err(|error| Failure::input(format!("--dir {}: {error}", args.dir.display())))?;
    let (span, rounds) = if args.quick { (Duration::from_millis(250), 1) } else { (Duration::from_secs(1), 5) };
    let mut beside = all(args.beside, Link::Stdio);
    beside.extend(all(args.beside_http, Link::Http));
    if beside.is_empty() {
        beside = installed();
    }
    let settings = Settings {
        program: std::env::current_exe()?,
        dir: dir.path().to_path_buf(),
        span: args.span.unwrap_or(span),
        rounds: args.rounds.map_or(rounds, |rounds| rounds as usize),
        beside,
        calls: args.calls,
    };
    let report = block_on(async move { mcp::run(&settings, |what| eprintln!("{what}")).await.map_err(failure) });
    dir.close()?;
    let report = report?;
    if args.json {
        crate::output::json(&report)?;
    } else {
        line(show::report(&report))?;
    }
    Ok(Exit::Good)
}

/// Runs the server.
pub fn serve(args: &ServerArgs) -> Result<Exit, Failure> {
    if args.http {
        block_on(async { mcp::server::over_http(|url| println!("{url}")).await.map_err(failure) })?;
    } else {
        mcp::server::over_stdio()?;
    }
    Ok(Exit::Good)
}

fn failure(error: BenchError) -> Failure {
    Failure::nothing(error.to_string())
}

fn named(text: &str) -> Result<(String, Vec<String>), String> {
    match text.split_once('=').map(|(name, command)| (name.to_owned(), words(command))) {
        Some((name, words)) if !name.is_empty() && !words.is_empty() => Ok((name, words)),
        _ => Err("write it as NAME=COMMAND".to_owned()),
    }
}

fn all(named: Vec<(String, Vec<String>)>, front: Link) -> Vec<Beside> {
    named.into_iter().map(|(name, command)| Beside { name, front, command }).collect()
}

/// The public proxies that are on the search path.
fn installed() -> Vec<Beside> {
    let known = [
        ("fastmcp", Link::Stdio, "fastmcp run {config} --no-banner"),
        ("fastmcp", Link::Http, "fastmcp run {config} --no-banner --transport http --port {port}"),
        ("mcp-proxy", Link::Stdio, "mcp-proxy --transport streamablehttp {url}"),
        ("mcp-proxy", Link::Http, "mcp-proxy --port {port} -- {server}"),
    ];
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |name: &str| std::env::split_paths(&path).any(|directory| directory.join(name).is_file());
    let there = known.into_iter().filter(|(name, ..)| is_there(name));
    there.flat_map(|(name, front, command)| all(vec![(name.to_owned(), words(command))], front)).collect()
}

fn words(command: &str) -> Vec<String> {
    command.split_whitespace().map(str::to_owned).collect()
}

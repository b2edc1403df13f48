//! `settled mcp`: an MCP proxy over stdio in front of any MCP server.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use settled::protocol::Key;
use settled::{Engine, EngineOptions, History, JsonLines, NoHistory, Promise};
use settled_ledgers::Opened;
use settled_mcp::config::Kind;
use settled_mcp::{Config, ProxyOptions};
use tracing_subscriber::EnvFilter;

use crate::failure::{Exit, Failure};
use crate::runtime::block_on;
use crate::{ledger, metrics};

/// Stands between an MCP client and an MCP server (stdio), and makes guarded tool calls happen at most once.
///
/// In an MCP client's configuration, put `settled mcp --` in front of the server's own command.
#[derive(Debug, Args)]
pub struct McpArgs {
    /// What is declared of the server's tools [default: nothing; annotations decide]
    #[arg(long, value_name = "settled.toml")]
    config: Option<PathBuf>,
    /// Separates the keys of this server (or tenant) from those of others [default: from the command and the directory]
    #[arg(long, value_name = "NAME")]
    scope: Option<String>,
    /// The ledger: a directory, or a URL: file:DIR, postgres://…, redis://…, or memory: to try things out [default: the
    /// configuration's, else $XDG_STATE_HOME/settled or ~/.local/state/settled]
    #[arg(long, value_name = "DIR|URL", env = "SETTLED_LEDGER", hide_env_values = true)]
    ledger: Option<String>,
    /// Where everything that happens is written down, as JSON lines [default: history.jsonl in the ledger's directory; nowhere
    /// if the ledger is not a directory]
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
    /// The history is put aside (as FILE.1, FILE.2 and so on) whenever it has grown to this many MiB
    #[arg(long, value_name = "MIB", default_value_t = JsonLines::PART_BYTES >> 20, value_parser = clap::value_parser!(u64).range(1..1 << 40))]
    history_size: u64,
    /// How many histories that were put aside are kept
    #[arg(long, value_name = "N", default_value_t = JsonLines::PARTS_KEPT)]
    history_keep: u32,
    /// Serve what is counted for Prometheus at this address, for example 127.0.0.1:9464 [default: the configuration's, else
    /// nowhere]
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics: Option<SocketAddr>,
    /// The MCP server's command, after --
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs the command.
pub fn run(args: McpArgs) -> Result<Exit, Failure> {
    let filter = EnvFilter::try_from_env("SETTLED_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    let ansi = std::io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(ansi).init();
    let mut config = match &args.config {
        Some(path) => Config::load(path).map_err(|error| Failure::input(error.to_string()))?,
        None => Config::default(),
    };
    if let Some(scope) = &args.scope {
        Key::new(scope.as_str(), "tool", "id").map_err(|error| Failure::input(format!("--scope: {error}")))?;
        config.scope = Some(scope.clone());
    }
    block_on(async move {
        if let Some(address) = args.metrics {
            metrics::serve(address)?;
        } else if let Some(address) = config.metrics
            && let Err(failure) = metrics::serve(address)
        {
            // One file can be that of many processes, and only one of them gets the port.
            tracing::warn!("goes on without /metrics: {failure}");
        }
        let named = args.ledger.clone().or(config.ledger.take());
        let url = named.clone().map_or_else(ledger::default_url, Ok)?;
        let opened = ledger::open(&url).await?;
        // Whoever is told to look there has to be told where, unless they find it without.
        config.ledger = named.is_some().then(|| shown(&opened)).transpose()?;
        warn_of_promise(&opened, &config);
        let options = EngineOptions {
            history: history(&args, &opened)?,
            patience: config.patience,
            lease: config.lease.unwrap_or(EngineOptions::default().lease),
            retry_budget: config.retries,
            ..EngineOptions::default()
        };
        let engine = Engine::start(opened.ledger.clone(), options).await;
        let engine = engine.map_err(|error| Failure::unavailable(&opened.display, &error))?;
        let options = ProxyOptions { config, command: args.command, engine };
        let ended = settled_mcp::run(options, tokio::io::stdin(), tokio::io::stdout())
            .await
            .map_err(|error| Failure::nothing(error.to_string()))?;
        let code = ended.server.and_then(|status| status.code()).unwrap_or(0);
        if code != 0 {
            eprintln!("settled: the server ended with status {code}");
        }
        Ok(Exit::Code(u8::try_from(code).unwrap_or(1)))
    })
}

/// How to name the ledger from anywhere: a whole path, or its URL without what is secret in it.
fn shown(opened: &Opened) -> Result<String, Failure> {
    match &opened.directory {
        Some(directory) => Ok(std::path::absolute(directory)?.display().to_string()),
        None => Ok(opened.display.clone()),
    }
}

fn history(args: &McpArgs, opened: &Opened) -> Result<Arc<dyn History>, Failure> {
    let in_directory = || opened.directory.as_deref().map(|directory| directory.join(ledger::HISTORY_FILE));
    let Some(path) = args.history.clone().or_else(in_directory) else {
        return Ok(Arc::new(NoHistory));
    };
    let history = JsonLines::append_in_parts(&path, args.history_size << 20, args.history_keep);
    Ok(Arc::new(history.map_err(|error| unusable(&path, &error))?))
}

fn unusable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::input(format!("{}: {error}", path.display()))
}

/// Rule 8: what the ledger can't promise makes some tools unsafe on it.
fn warn_of_promise(opened: &Opened, config: &Config) {
    let Promise::MayBeLost(why) = opened.ledger.promise() else {
        return;
    };
    let unsafe_tools: Vec<&str> = config
        .tools
        .iter()
        .filter(|(_, tool)| matches!(tool.kind, Kind::Opaque | Kind::Observable { .. }))
        .map(|(name, _)| name.as_str())
        .collect();
    let declared = match unsafe_tools.is_empty() {
        true => "no declared tool is among them".to_owned(),
        false => format!("declared here: {}", unsafe_tools.join(", ")),
    };
    tracing::warn!(
        ledger = opened.display,
        "this ledger may lose what it has acknowledged ({why}): a call can then take effect twice if its tool is opaque or \
         observable ({declared}; tools that are not declared are opaque). Only tools that deduplicate, are sealable or \
         transactional are safe on it"
    );
}

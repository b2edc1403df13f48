//! `settled mcp`: an MCP proxy over stdio in front of any MCP server.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use settled::protocol::Key;
use settled::{Engine, EngineOptions, JsonLines};
use settled_mcp::{Config, ProxyOptions};
use tracing_subscriber::EnvFilter;

use crate::failure::{Exit, Failure};
use crate::ledger;
use crate::runtime::block_on;

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
    /// The ledger's directory [default: the configuration's, else $XDG_STATE_HOME/settled or ~/.local/state/settled]
    #[arg(long, value_name = "DIR", env = "SETTLED_LEDGER")]
    ledger: Option<PathBuf>,
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
    if let Some(scope) = args.scope {
        Key::new(scope.as_str(), "tool", "id").map_err(|error| Failure::input(format!("--scope: {error}")))?;
        config.scope = Some(scope);
    }
    // Whoever is told to look there has to be told where, unless they find it without.
    config.ledger = args.ledger.or(config.ledger).map(std::path::absolute).transpose()?;
    let directory = ledger::directory(config.ledger.clone())?;
    block_on(async move {
        let ledger = ledger::open(&directory).await?;
        let history = directory.join(ledger::HISTORY_FILE);
        let history = JsonLines::append_to(&history)
            .map_err(|error| Failure::input(format!("{}: {error}", history.display())))?;
        let options = EngineOptions { history: Arc::new(history), ..EngineOptions::default() };
        let engine = Engine::start(ledger, options).await.map_err(|error| Failure::unavailable(&directory, &error))?;
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

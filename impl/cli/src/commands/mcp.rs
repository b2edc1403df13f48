//! `settled mcp`: an MCP proxy in front of any MCP server, over stdio or HTTP on either side.

mod choice;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use settled::{Engine, EngineOptions, Promise};
use settled_ledgers::Opened;
use settled_mcp::config::Kind;
use settled_mcp::{Behind, Config, DescribeOptions, FrontOptions, HttpProxyOptions, ProxyOptions};
use tokio::net::TcpListener;
use tracing_subscriber::EnvFilter;

use self::choice::{Choice, Chosen};
use crate::failure::{Exit, Failure};
use crate::history::HistoryArgs;
use crate::runtime::block_on;
use crate::{ledger, metrics};

/// Stands between MCP clients and MCP servers, and makes guarded tool calls happen at most once.
///
/// In an MCP client's configuration, put `settled mcp --` in front of the server's own command. Or serve HTTP with `--listen`.
#[derive(Debug, Args)]
pub struct McpArgs {
    /// What is declared of the server's tools, or of several servers [default: nothing; annotations decide]
    #[arg(long, value_name = "settled.toml")]
    config: Option<PathBuf>,
    /// Which of the servers of the configuration
    #[arg(long, value_name = "NAME", requires = "config", conflicts_with_all = ["command", "upstream"])]
    server: Option<String>,
    /// The MCP server's address, if it is reached over HTTP
    #[arg(long, value_name = "URL", conflicts_with = "command")]
    upstream: Option<String>,
    /// A header of every request to it, for example 'Authorization: Bearer env:TOKEN' (a word `env:NAME` is that environment
    /// variable); may be given several times
    #[arg(long, value_name = "NAME: VALUE", requires = "upstream")]
    upstream_header: Vec<String>,
    /// A file of certificates (PEM) to trust besides those that this machine trusts
    #[arg(long, value_name = "FILE", requires = "upstream")]
    upstream_ca: Option<PathBuf>,
    /// Serve HTTP at this address, for example 127.0.0.1:8080, instead of standard input and output: the server at /mcp, several of
    /// them at /NAME [default: the configuration's, if no server is named here]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// Print a settled.toml for the server, filled in with what it says of its tools, and end
    #[arg(long, conflicts_with_all = ["listen", "scope", "ledger", "history", "metrics"])]
    describe: bool,
    /// Separates the keys of this server (or tenant) from those of others [default: from the command and the directory]
    #[arg(long, value_name = "NAME")]
    scope: Option<String>,
    /// The ledger: a directory, or a URL: file:DIR, postgres://…, redis://…, or memory: to try things out [default: the
    /// configuration's, else $XDG_STATE_HOME/settled or ~/.local/state/settled]
    #[arg(long, value_name = "DIR|URL", env = "SETTLED_LEDGER", hide_env_values = true)]
    ledger: Option<String>,
    #[command(flatten)]
    history: HistoryArgs,
    /// Serve what is counted for Prometheus at this address, for example 127.0.0.1:9464 [default: the configuration's, else
    /// nowhere]
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics: Option<SocketAddr>,
    /// The MCP server's command, after --
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs the command.
pub fn run(args: McpArgs) -> Result<Exit, Failure> {
    let filter = EnvFilter::try_from_env("SETTLED_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    let ansi = std::io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(ansi).init();
    let config = match &args.config {
        Some(path) => Config::load(path).map_err(|error| Failure::input(error.to_string()))?,
        None => Config::default(),
    };
    let mut choice = choice::choose(&args, &config)?;
    block_on(async move {
        if args.describe {
            return describe(choice).await;
        }
        let engine = start(&args, &config, &mut choice).await?;
        match choice {
            Choice::Stdio(chosen) => over_stdio(*chosen, engine).await,
            Choice::Http { address, servers } => over_http(&config, address, servers, engine).await,
        }
    })
}

async fn describe(choice: Choice) -> Result<Exit, Failure> {
    let Choice::Stdio(chosen) = choice else {
        return Err(Failure::input(
            "name the server to describe: by `--server NAME`, `--upstream URL`, or its command after `--`",
        ));
    };
    let Chosen { fronted, declared } = *chosen;
    let named = fronted.name.clone().zip(declared);
    let text = settled_mcp::describe(DescribeOptions { behind: fronted.behind, named }).await;
    let text = text.map_err(|error| Failure::nothing(error.to_string()))?;
    crate::output::line(text.trim_end())?;
    Ok(Exit::Good)
}

async fn over_stdio(chosen: Chosen, engine: Engine) -> Result<Exit, Failure> {
    let config = chosen.fronted.config;
    let (stdin, stdout) = (tokio::io::stdin(), tokio::io::stdout());
    let ended = match chosen.fronted.behind {
        Behind::Http(upstream) => {
            let options = HttpProxyOptions { config, upstream: *upstream, engine };
            settled_mcp::run_http(options, stdin, stdout).await
        }
        Behind::Command(command, env) => {
            let options = ProxyOptions { config: Config { env, ..config }, command, engine };
            settled_mcp::run(options, stdin, stdout).await
        }
        Behind::Starts(_) => return Err(Failure::input("name a server")),
    };
    let ended = ended.map_err(|error| Failure::nothing(error.to_string()))?;
    let code = ended.server.and_then(|status| status.code()).unwrap_or(0);
    if code != 0 {
        eprintln!("settled: the server ended with status {code}");
    }
    Ok(Exit::Code(u8::try_from(code).unwrap_or(1)))
}

async fn over_http(
    config: &Config,
    address: SocketAddr,
    servers: Vec<Chosen>,
    engine: Engine,
) -> Result<Exit, Failure> {
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|error| Failure::input(format!("can't listen at {address}: {error}")))?;
    let address = listener.local_addr()?;
    for Chosen { fronted, .. } in &servers {
        eprintln!("settled: http://{address}/{}", fronted.name.as_deref().unwrap_or("mcp"));
    }
    let options = FrontOptions {
        http: config.http.clone(),
        limits: config.limits,
        servers: servers.into_iter().map(|chosen| chosen.fronted).collect(),
        engine,
    };
    settled_mcp::listen(options, listener).await.map_err(|error| Failure::nothing(error.to_string()))?;
    Ok(Exit::Good)
}

/// Opens the ledger, and starts what all servers share.
async fn start(args: &McpArgs, config: &Config, choice: &mut Choice) -> Result<Engine, Failure> {
    if let Some(address) = args.metrics {
        metrics::serve(address)?;
    } else if let Some(address) = config.metrics
        && let Err(failure) = metrics::serve(address)
    {
        // One file can be that of many processes, and only one of them gets the port.
        tracing::warn!("goes on without /metrics: {failure}");
    }
    let named = args.ledger.clone().or(config.ledger.clone());
    let url = named.clone().map_or_else(ledger::default_url, Ok)?;
    let opened = ledger::open(&url).await?;
    // Whoever is told to look there has to be told where, unless they find it without.
    let shown = named.is_some().then(|| shown(&opened)).transpose()?;
    for config in choice.configs() {
        config.ledger.clone_from(&shown);
        warn_of_promise(&opened, config);
    }
    let options = EngineOptions {
        history: args.history.open(&opened)?,
        patience: config.patience,
        lease: config.lease.unwrap_or(EngineOptions::default().lease),
        retry_budget: config.retries,
        ..EngineOptions::default()
    };
    let engine = Engine::start(opened.ledger.clone(), options).await;
    engine.map_err(|error| Failure::unavailable(&opened.display, &error))
}

/// How to name the ledger from anywhere: a whole path, or its URL without what is secret in it.
fn shown(opened: &Opened) -> Result<String, Failure> {
    match &opened.directory {
        Some(directory) => Ok(std::path::absolute(directory)?.display().to_string()),
        None => Ok(opened.display.clone()),
    }
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

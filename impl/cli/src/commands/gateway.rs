//! `settled gateway`: an HTTP gateway in front of any server behind HTTP.

use std::io::IsTerminal;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::Args;
use http::Uri;
use settled::{Engine, EngineOptions, Promise};
use settled_gateway::config::{InFlight, Key, Kind};
use settled_gateway::{Config, GatewayOptions, Reload};
use settled_ledgers::Opened;
use tokio::net::TcpListener;
use tracing_subscriber::EnvFilter;

use crate::failure::{Exit, Failure};
use crate::history::HistoryArgs;
use crate::runtime::block_on;
use crate::{ledger, metrics};

/// Stands in front of a server behind HTTP, and makes every request with an `Idempotency-Key` happen at most once.
///
/// SIGTERM lets it finish what is under way; SIGHUP has it read its configuration again.
#[derive(Debug, Args)]
pub struct GatewayArgs {
    /// What is declared of the server [default: nothing; every POST and PATCH with a key is guarded, the rest is passed on]
    #[arg(long, value_name = "settled.toml")]
    config: Option<PathBuf>,
    /// The server's address, for example https://api.example.com
    #[arg(long, value_name = "URL", value_parser = settled_gateway::config::upstream)]
    upstream: Option<Uri>,
    /// A file of certificates (PEM) to trust besides those that this machine trusts
    #[arg(long, value_name = "FILE")]
    upstream_ca: Option<PathBuf>,
    /// Where to listen [default: the configuration's, else 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// Separates the keys of this gateway from those of others on the same ledger [default: the server's host]
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
}

/// What the command line says, which goes before the configuration, whenever that is read.
#[derive(Clone)]
struct Said {
    upstream: Option<Uri>,
    upstream_ca: Option<PathBuf>,
    scope: Option<String>,
}

impl Said {
    fn before(&self, config: Config) -> Config {
        Config {
            upstream: self.upstream.clone().or(config.upstream),
            upstream_ca: self.upstream_ca.clone().or(config.upstream_ca),
            scope: self.scope.clone().or(config.scope),
            ..config
        }
    }
}

/// Runs the command.
pub fn run(args: GatewayArgs) -> Result<Exit, Failure> {
    let filter = EnvFilter::try_from_env("SETTLED_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    let ansi = std::io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(ansi).init();
    let said =
        Said { upstream: args.upstream.clone(), upstream_ca: args.upstream_ca.clone(), scope: args.scope.clone() };
    let config = match &args.config {
        Some(path) => Config::load(path).map_err(|error| Failure::input(error.to_string()))?,
        None => Config::default(),
    };
    let config = said.before(config);
    let Some(upstream) = config.upstream.clone() else {
        return Err(Failure::input(
            "no server is named: use `--upstream https://HOST`, or write `upstream = \"https://HOST\"` in the configuration",
        ));
    };
    block_on(async move {
        let address = args.listen.or(config.listen).unwrap_or_else(|| (Ipv4Addr::LOCALHOST, 8080).into());
        let listener = TcpListener::bind(address).await;
        let listener = listener.map_err(|error| Failure::input(format!("can't listen at {address}: {error}")))?;
        let engine = start(&args, &config).await?;
        eprintln!("settled: http://{} -> {upstream}", listener.local_addr()?);
        let reload = args.config.map(|file| Reload { file, adapt: Box::new(move |config| said.before(config)) });
        let options = GatewayOptions { config, reload, engine };
        settled_gateway::run(options, listener).await.map_err(|error| Failure::input(error.to_string()))?;
        Ok(Exit::Good)
    })
}

async fn start(args: &GatewayArgs, config: &Config) -> Result<Engine, Failure> {
    if let Some(address) = args.metrics.or(config.metrics) {
        metrics::serve(address)?;
    }
    let named = args.ledger.clone().or(config.ledger.clone());
    let opened = ledger::open(&named.map_or_else(ledger::default_url, Ok)?).await?;
    warn_of_promise(&opened, config);
    let options = EngineOptions {
        history: args.history.open(&opened)?,
        patience: match config.gateway.in_flight {
            InFlight::Conflict => Some(std::time::Duration::ZERO),
            InFlight::Wait => None,
        },
        ..EngineOptions::default()
    };
    let engine = Engine::start(opened.ledger.clone(), options).await;
    engine.map_err(|error| Failure::unavailable(&opened.display, &error))
}

/// Rule 8: what the ledger can't promise makes some upstreams unsafe on it.
fn warn_of_promise(opened: &Opened, config: &Config) {
    let Promise::MayBeLost(why) = opened.ledger.promise() else {
        return;
    };
    let doubtful = config
        .routes
        .iter()
        .filter(|route| route.key != Key::Ignore && matches!(route.kind, Kind::Opaque | Kind::Observable { .. }));
    let names: Vec<String> = doubtful.map(|route| route.name()).collect();
    let declared = match names.is_empty() {
        true => "no declared route is among them".to_owned(),
        false => format!("declared here: {}", names.join(", ")),
    };
    tracing::warn!(
        ledger = opened.display,
        "this ledger may lose what it has acknowledged ({why}): a request can then take effect twice where the upstream is opaque or \
         observable ({declared}; what is not declared is opaque). Only upstreams that go by keys are safe on it"
    );
}

//! `settled sync serve`: the server that devices upload their operations to, and pull those of others from.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use http::HeaderValue;
use settled_sync::Schema;
use settled_sync::server::{self, Origins, ServerOptions, Token};
use settled_sync::store::{self, StoreError, StoreOptions};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::failure::{Exit, Failure};
use crate::metrics;
use crate::runtime::block_on;

/// Serves devices: applies each operation once, and gives all of them to everybody in one order.
///
/// SIGTERM lets it finish what is under way. Its API is described at /v1/openapi.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Where operations and states are kept: sqlite:FILE, or postgres://…, which several servers may share
    #[arg(long, value_name = "URL", env = "SETTLED_SYNC_STORE", hide_env_values = true)]
    store: String,
    /// The kinds of targets, each with its rule (TOML)
    #[arg(long, value_name = "FILE")]
    schema: PathBuf,
    /// Where to listen
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8081")]
    listen: SocketAddr,
    /// How far a device's clock may be off to be believed
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = humantime::parse_duration)]
    bound: Duration,
    /// How many operations it takes, and gives, at once
    #[arg(long, value_name = "COUNT", default_value = "1000")]
    most: NonZeroUsize,
    /// How many uploads it works on at a time; who comes then is asked to come again
    #[arg(long, value_name = "COUNT", default_value = "64")]
    uploads: NonZeroUsize,
    /// How long an upload may take to arrive
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = humantime::parse_duration)]
    patience: Duration,
    /// A file with the token that devices have to show (Authorization: Bearer) [default: none]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// An origin whose web pages may speak to it, for example https://app.example.com, or `*` for all; may be repeated
    #[arg(long, value_name = "ORIGIN", value_parser = origin)]
    allow_origin: Vec<HeaderValue>,
    /// Serve what is counted for Prometheus at this address, for example 127.0.0.1:9464 [default: nowhere]
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics: Option<SocketAddr>,
}

fn origin(text: &str) -> Result<HeaderValue, String> {
    let uri = text.parse::<http::Uri>().ok();
    let origin = uri.is_some_and(|uri| uri.scheme().is_some() && uri.authority().is_some() && uri.path() == "/");
    if text != "*" && (!origin || text.ends_with('/')) {
        return Err("an origin is `https://HOST` or `https://HOST:PORT`, without a path; `*` stands for all".to_owned());
    }
    HeaderValue::from_str(text).map_err(|error| error.to_string())
}

/// Runs the command.
pub fn run(args: ServeArgs) -> Result<Exit, Failure> {
    let filter = EnvFilter::try_from_env("SETTLED_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    let ansi = std::io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(ansi).init();
    let schema = Schema::load(&args.schema).map_err(|error| Failure::input(error.to_string()))?;
    let token = args.token_file.as_deref().map(Token::load).transpose();
    let token = token.map_err(|error| Failure::input(format!("--token-file: {error}")))?;
    if token.is_none() && !args.listen.ip().is_loopback() {
        tracing::warn!(listen = %args.listen, "whoever reaches this address can upload and read everything: give a token with --token-file");
    }
    let origins = match args.allow_origin.iter().any(|origin| origin == "*") {
        true => Origins::Anybody,
        false if args.allow_origin.is_empty() => Origins::Nobody,
        false => Origins::Of(args.allow_origin),
    };
    let options =
        ServerOptions { token, origins, most: args.most, uploads: args.uploads.get(), patience: args.patience };
    let kept = StoreOptions { schema, bound: args.bound, most: args.most.get() };
    block_on(async move {
        let listener = TcpListener::bind(args.listen).await;
        let listener = listener.map_err(|error| Failure::input(format!("can't listen at {}: {error}", args.listen)))?;
        if let Some(address) = args.metrics {
            metrics::serve(address)?;
            server::describe();
        }
        let store = store::open(&args.store, kept).await.map_err(|error| match error {
            StoreError::Unavailable(_) => Failure::nothing(error.to_string()),
            other => Failure::input(other.to_string()),
        })?;
        let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let stop = async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        eprintln!("settled: http://{}", listener.local_addr()?);
        server::serve(listener, store, options, stop).await?;
        Ok(Exit::Good)
    })
}

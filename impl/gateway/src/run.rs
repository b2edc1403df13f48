//! Running the gateway, from its start to its end.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use settled::{Engine, Entry, task};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::config::{Config, ConfigError};
use crate::front::accept;
use crate::gateway::Gateway;
use crate::setup::{Setup, SetupError};

/// How often it is looked what earlier processes left, and what is over.
const MAINTENANCE: Duration = Duration::from_secs(1);

/// How long clients may take to read the last bytes.
const LAST_BYTES: Duration = Duration::from_secs(15);

/// What to run.
pub struct GatewayOptions {
    /// What is declared.
    pub config: Config,
    /// Where it was read from, to be read again when told to.
    pub reload: Option<Reload>,
    /// The engine, on the ledger that all gateways in front of this server share.
    pub engine: Engine,
}

/// Where a configuration is read again.
pub struct Reload {
    /// The file.
    pub file: PathBuf,
    /// What is to be changed in what it says.
    pub adapt: Box<dyn Fn(Config) -> Config + Send + Sync>,
}

/// Why the gateway can't work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GatewayError {
    /// The configuration can't be used.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// Signals can't be received.
    #[error("the gateway can't listen for signals: {0}")]
    Signals(std::io::Error),
}

/// What a running gateway is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// To end: what is under way is finished first; a second time, at once.
    End,
    /// To read its configuration again. What is under way keeps the one that it began with.
    Reload,
}

/// Serves until SIGTERM or SIGINT comes; SIGHUP has the configuration read again.
///
/// # Errors
/// [`GatewayError`].
pub async fn run(options: GatewayOptions, listener: TcpListener) -> Result<(), GatewayError> {
    let signals = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()];
    let (tell, told) = mpsc::unbounded_channel();
    for kind in signals {
        let mut signal = signal(kind).map_err(GatewayError::Signals)?;
        let tell = tell.clone();
        let means = if kind == SignalKind::hangup() { Told::Reload } else { Told::End };
        task::spawn(async move { while signal.recv().await.is_some() && tell.send(means).is_ok() {} });
    }
    serve(options, listener, told).await
}

/// As [`run`]; what is received stands for signals.
///
/// # Errors
/// As [`run`].
pub async fn serve(
    options: GatewayOptions,
    listener: TcpListener,
    mut told: mpsc::UnboundedReceiver<Told>,
) -> Result<(), GatewayError> {
    let GatewayOptions { config, reload, engine } = options;
    crate::respond::describe();
    let gateway = Arc::new(Gateway::new(engine.clone(), Setup::new(&config)?));
    let looking_after = gateway.clone();
    let resolve = move |entry: &Entry| looking_after.setup().resolve(entry);
    let maintained = engine.clone();
    let maintaining = task::spawn(async move { maintained.maintain(Arc::new(resolve), MAINTENANCE).await });
    let mut connections = JoinSet::new();
    tokio::select! {
        biased;
        () = until_end(&gateway, &mut told, reload) => {
            tracing::warn!("told to end: what is under way is finished first; a second signal ends at once");
        }
        () = accept(&gateway, &listener, &mut connections) => {}
    }
    gateway.draining.raise();
    drop(listener);

    let all_done = async {
        while connections.join_next().await.is_some() {}
        engine.idle().await;
    };
    tokio::select! {
        biased;
        done = timeout(gateway.setup().limits.drain_timeout, all_done) => if done.is_err() {
            tracing::error!("a request is still under way after `drain_timeout`: its outcome stays unknown");
        },
        () = ended(&mut told) => {
            tracing::error!("ended before what was under way had an outcome: that will be unknown");
        }
    }
    maintaining.abort();
    if let Err(error) = engine.retire().await {
        tracing::warn!(%error, "the ledger could not be told that this process sends nothing any more");
    }
    connections.abort_all();
    let _ = timeout(LAST_BYTES, maintaining).await;
    Ok(())
}

/// Reads the configuration again whenever told to, until told to end.
async fn until_end(gateway: &Gateway, told: &mut mpsc::UnboundedReceiver<Told>, reload: Option<Reload>) {
    loop {
        match told.recv().await {
            Some(Told::End) => return,
            Some(Told::Reload) => match &reload {
                None => tracing::warn!("told to read the configuration again, but there is no file of it"),
                Some(Reload { file, adapt }) => match read_again(gateway, file, adapt) {
                    Ok(setup) => {
                        gateway.change(setup);
                        tracing::warn!(file = %file.display(), "the configuration was read again");
                    }
                    Err(error) => tracing::error!(%error, "the configuration stays as it was"),
                },
            },
            None => std::future::pending().await,
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum NotRead {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Setup(#[from] SetupError),
}

fn read_again(gateway: &Gateway, file: &Path, adapt: &dyn Fn(Config) -> Config) -> Result<Setup, NotRead> {
    let setup = Setup::new(&adapt(Config::load(file)?))?;
    setup.same_keys(&gateway.setup())?;
    Ok(setup)
}

/// Resolves when told to end.
async fn ended(told: &mut mpsc::UnboundedReceiver<Told>) {
    while let Some(what) = told.recv().await {
        if what == Told::End {
            return;
        }
    }
    std::future::pending().await
}

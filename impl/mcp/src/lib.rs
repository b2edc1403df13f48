//! The MCP proxy of `settled`: it stands between MCP clients and servers, over stdio and HTTP, and makes every guarded tool
//! call take effect at most once.
//!
//! Whatever is not a guarded call is relayed byte for byte. A guarded call gets a key, is recorded before it is sent,
//! and is answered with the tool's own answer: also when the client gave up and asks again, when the server died, or
//! when this process did.
//!
//! Read [`config`] first (what the user declares), then `guarded` (which calls are guarded, which operation a call is, and
//! its life), `told` (what the client is told of it), `behind` (the server's processes) and [`upstream`] (a server behind
//! HTTP), `front` (clients over HTTP), `relay` and `inward` (everything else, in both directions).
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod at_rest;
mod behind;
mod book;
pub mod config;
mod describe;
mod flag;
mod front;
#[doc(hidden)]
pub mod fuzzing;
mod guarded;
mod inward;
mod labels;
mod listed;
mod messages;
mod readable;
mod relay;
mod service;
mod session;
mod told;
pub mod upstream;
mod watch;

use std::convert::Infallible;
use std::ffi::OsString;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use settled::protocol::KeyError;
use settled::{Engine, task};
use settled_observers::Unusable;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::behind::start::Program;
use crate::flag::Flag;
use crate::guarded::guard;
use crate::messages::{incoming, lines};
use crate::service::{Service, Upstream};
use crate::upstream::{Http, HttpOptions, UpstreamError};

pub use at_rest::KeyFileError;
pub use behind::start::{EndBy, StartServer, Started};
pub use config::{Config, ConfigError};
pub use describe::{DescribeError, DescribeOptions, describe};
pub use front::{Behind, FrontOptions, Fronted, listen, serve_front};
pub use readable::Reader;

/// How long the client may take to read the last messages.
const LAST_MESSAGES: Duration = Duration::from_secs(15);

/// What to run.
#[derive(Clone)]
pub struct ProxyOptions {
    /// What is declared of the server's tools.
    pub config: Config,
    /// The server's command: program and arguments.
    pub command: Vec<OsString>,
    /// The engine, on the ledger that all proxies for this server share.
    pub engine: Engine,
}

/// What to run in front of a server behind HTTP.
#[derive(Clone)]
pub struct HttpProxyOptions {
    /// What is declared of the server's tools.
    pub config: Config,
    /// Where the server is.
    pub upstream: HttpOptions,
    /// The engine, on the ledger that all proxies for this server share.
    pub engine: Engine,
}

/// How the server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The status of its last process, if it is known.
    pub server: Option<ExitStatus>,
}

/// Why the proxy can't work.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// No command was given.
    #[error("no server command was given: write it after `--`, as in `settled mcp -- npx some-server`")]
    NoCommand,
    /// The command can't be started.
    #[error("the server command `{}` can't be started: {source}", program.display())]
    CannotStart {
        /// The program.
        program: OsString,
        /// Why.
        source: std::io::Error,
    },
    /// The command ended before it sent any message.
    #[error(
        "the server command `{}` ended before it sent any message ({}): run it by itself to see why",
        program.display(),
        status.map_or_else(|| "its status is not known".to_owned(), |status| status.to_string())
    )]
    EndedAtStart {
        /// The program.
        program: OsString,
        /// Its status.
        status: Option<ExitStatus>,
    },
    /// The server behind HTTP can't be reached in the configured way.
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    /// The scope can't be part of a key.
    #[error("the configured scope can't be used: {0}")]
    Scope(#[from] KeyError),
    /// What is to be asked about a tool's calls can't be.
    #[error("the observer of `{tool}` can't be used: {source}")]
    Observer {
        /// The tool.
        tool: String,
        /// Why.
        source: Unusable,
    },
    /// A key of `[encryption]` can't be used.
    #[error(transparent)]
    Keys(#[from] KeyFileError),
    /// What the ledger holds was encrypted with other keys.
    #[error("{0}")]
    OtherKeys(String),
    /// Signals can't be received.
    #[error("the proxy can't listen for signals: {0}")]
    Signals(std::io::Error),
    /// It can't be listened at an address.
    #[error("the proxy can't listen: {0}")]
    Listen(std::io::Error),
}

/// The scope of the keys of all calls to this server: the configured one, or one derived from its command.
pub fn scope(config: &Config, command: &[OsString]) -> String {
    config.scope.clone().unwrap_or_else(|| {
        // Where it is not known, it can't be told apart by it either.
        let directory = std::env::current_dir().unwrap_or_default();
        guard::default_scope(command, &directory)
    })
}

/// Runs the server and stands between it and the client, until the client closes its side or SIGTERM or SIGINT comes.
/// Guarded calls under way then still run to their outcome and are recorded, within their timeouts, before the server is
/// ended.
///
/// A read of the process's own standard input can't be interrupted: after this returns, a program that used it should
/// exit without waiting for its runtime.
///
/// # Errors
/// [`ProxyError`], if the server can't be started or ends at once.
pub async fn run<R, W>(options: ProxyOptions, stdin: R, stdout: W) -> Result<Ended, ProxyError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let mut command = options.command.iter().cloned();
    let program = command.next().ok_or(ProxyError::NoCommand)?;
    let starts = Arc::new(Program { program, arguments: command.collect(), env: options.config.env.clone() });
    until_a_signal(|told| serve(options, starts, told, stdin, stdout)).await
}

/// As [`run`], with a server that is started in another way than as a process. A message of `told` stands for a signal that
/// tells the proxy to end. All tasks are begun by [`settled::task::spawn`].
///
/// # Errors
/// As [`run`].
pub async fn serve<R, W>(
    options: ProxyOptions,
    starts: Arc<dyn StartServer>,
    told: mpsc::UnboundedReceiver<()>,
    stdin: R,
    stdout: W,
) -> Result<Ended, ProxyError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let ProxyOptions { config, command, engine } = options;
    let scope = scope(&config, &command);
    let program = command.into_iter().next().ok_or(ProxyError::NoCommand)?;
    let upstream = Upstream::Process { program, starts };
    serve_one(Service::new(Arc::new(config), scope, engine, upstream)?, told, stdin, stdout).await
}

/// As [`run`], with a server behind HTTP.
///
/// # Errors
/// [`ProxyError`], if its address, or what is to be trusted, can't be used. A server that can't be reached is none: whoever
/// asks is told.
pub async fn run_http<R, W>(options: HttpProxyOptions, stdin: R, stdout: W) -> Result<Ended, ProxyError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let HttpProxyOptions { config, upstream, engine } = options;
    let scope = config.scope.clone().unwrap_or_else(|| upstream.scope());
    let upstream = Upstream::Http(Http::open(upstream)?);
    let service = Service::new(Arc::new(config), scope, engine, upstream)?;
    until_a_signal(|told| serve_one(service, told, stdin, stdout)).await
}

/// Serves, and tells whoever serves of every SIGTERM and SIGINT.
async fn until_a_signal<F>(serving: impl FnOnce(mpsc::UnboundedReceiver<()>) -> F) -> Result<Ended, ProxyError>
where
    F: Future<Output = Result<Ended, ProxyError>>,
{
    let (signals, told) = signals()?;
    tokio::select! {
        biased;
        ended = serving(told) => ended,
        never = signals => match never {},
    }
}

/// Serves one client over lines.
async fn serve_one<R, W>(
    service: Arc<Service>,
    mut told: mpsc::UnboundedReceiver<()>,
    stdin: R,
    stdout: W,
) -> Result<Ended, ProxyError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let (config, engine) = (service.config.clone(), service.engine.clone());
    service.check_keys().await?;
    let closing = Flag::default();
    let (client, writing) = lines::write_to_client(stdout, closing.clone());
    let mut session = service.open(None, client, closing.clone())?;
    let maintaining = task::spawn(service::maintain(engine.clone(), vec![service]));
    let mut reading = task::spawn(session.proxy.clone().read_client(incoming::from_lines(
        stdin,
        session.proxy.client.clone(),
        config.limits.frame_bytes,
    )));

    tokio::select! {
        biased;
        _ = &mut reading => {}
        () = signalled(&mut told) => {
            tracing::warn!("told to end: calls under way are finished first; a second signal ends at once");
        }
        () = session.served() => {}
    }
    closing.raise();
    // Its end may have been seen already, so it can't be awaited again.
    reading.abort();

    // Calls that were taken are answered, and what was sent is recorded.
    let all_done = async {
        session.idle().await;
        tokio::select! {
            biased;
            () = engine.idle() => {}
            () = session::nothing_out(&engine) => {}
        }
    };
    tokio::select! {
        biased;
        done = timeout(longest(&config), all_done) => if done.is_err() {
            tracing::error!("a call is still under way after the longest timeout: its outcome stays unknown");
        },
        // Whoever insists is obeyed: what was sent is recorded as such, and the next process finds it.
        () = signalled(&mut told) => {
            tracing::error!("ended before the calls under way had an outcome: they will be unknown");
            session.give_up();
        }
    }

    maintaining.abort();
    if let Err(error) = engine.retire().await {
        tracing::warn!(%error, "the ledger could not be told that this process sends nothing any more");
    }
    let served = session.end().await;
    let _ = maintaining.await;
    let _ = timeout(LAST_MESSAGES, writing).await;
    match served {
        Some(Ok(server)) => Ok(Ended { server }),
        Some(Err(error)) => Err(error),
        None => Ok(Ended { server: None }),
    }
}

/// The longest that an attempt may take.
fn longest(config: &Config) -> Duration {
    config.tools.values().map(|tool| tool.timeout).fold(config.defaults.timeout, Duration::max)
}

/// Resolves when the proxy is told to end.
async fn signalled(told: &mut mpsc::UnboundedReceiver<()>) {
    if told.recv().await.is_none() {
        std::future::pending::<()>().await;
    }
}

/// Where every SIGTERM and SIGINT arrives, as long as the future is run.
pub(crate) fn signals() -> Result<(impl Future<Output = Infallible>, mpsc::UnboundedReceiver<()>), ProxyError> {
    let terminate = signal(SignalKind::terminate()).map_err(ProxyError::Signals)?;
    let interrupt = signal(SignalKind::interrupt()).map_err(ProxyError::Signals)?;
    let (tell, told) = mpsc::unbounded_channel();
    Ok((pass_signals(terminate, interrupt, tell), told))
}

/// Passes every SIGTERM and SIGINT on.
async fn pass_signals(mut terminate: Signal, mut interrupt: Signal, tell: mpsc::UnboundedSender<()>) -> Infallible {
    loop {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        // Whoever is told no longer has ended.
        let _ = tell.send(());
    }
}

//! The MCP proxy of `settled` over stdio: it stands between an MCP client and a server, and makes every guarded tool
//! call take effect at most once.
//!
//! Whatever is not a guarded call is relayed byte for byte. A guarded call gets a key, is recorded before it is sent,
//! and is answered with the tool's own answer: also when the client gave up and asks again, when the server died, or
//! when this process did.
//!
//! Read [`config`] first (what the user declares), then `guard` (which calls are guarded), `keys` (which operation a
//! call is), `call` (its life), `observe` (what became of it), `supervisor` (the process behind it), `relay` (everything
//! else).
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod answer;
mod book;
mod call;
pub mod config;
mod flag;
mod frame;
#[doc(hidden)]
pub mod fuzzing;
mod guard;
mod keys;
mod lines;
mod observe;
mod process;
mod relay;
mod server;
mod splice;
mod start;
mod supervisor;
mod tool;
mod tools;

use std::collections::HashMap;
use std::convert::Infallible;
use std::ffi::OsString;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use settled::protocol::{KeyError, State};
use settled::{Engine, Entry, Filter, Recoverable, task};
use settled_observers::{Observer, Unusable};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{sleep, timeout};

use crate::book::Book;
use crate::config::Ask;
use crate::flag::Flag;
use crate::observe::QUESTIONS;
use crate::relay::{CALLS, Proxy};
use crate::start::Program;
use crate::supervisor::{Supervisor, Wiring};
use crate::tools::Tools;

pub use config::{Config, ConfigError};
pub use start::{EndBy, StartServer, Started};

/// How long the server's own end may take before it is forced.
const END: Duration = Duration::from_secs(15);

/// How often what was left, what is unknown and what is over is looked through.
const MAINTENANCE: Duration = Duration::from_secs(10);

/// How often it is looked, at the end, whether calls are still under way.
const STILL_OUT: Duration = Duration::from_millis(250);

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
    /// Signals can't be received.
    #[error("the proxy can't listen for signals: {0}")]
    Signals(std::io::Error),
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
    let terminate = signal(SignalKind::terminate()).map_err(ProxyError::Signals)?;
    let interrupt = signal(SignalKind::interrupt()).map_err(ProxyError::Signals)?;
    let (tell, told) = mpsc::unbounded_channel();
    let mut command = options.command.iter().cloned();
    let program = command.next().ok_or(ProxyError::NoCommand)?;
    let starts = Arc::new(Program { program, arguments: command.collect() });
    tokio::select! {
        biased;
        ended = serve(options, starts, told, stdin, stdout) => ended,
        never = pass_signals(terminate, interrupt, tell) => match never {},
    }
}

/// As [`run`], with a server that is started in another way than as a process. A message of `told` stands for a signal that
/// tells the proxy to end. All tasks are begun by [`settled::task::spawn`].
///
/// # Errors
/// As [`run`].
pub async fn serve<R, W>(
    options: ProxyOptions,
    starts: Arc<dyn StartServer>,
    mut told: mpsc::UnboundedReceiver<()>,
    stdin: R,
    stdout: W,
) -> Result<Ended, ProxyError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let ProxyOptions { config, command, engine } = options;
    let scope = scope(&config, &command);
    settled::protocol::Key::new(scope.as_str(), "tool", "id")?;
    let program = command.into_iter().next().ok_or(ProxyError::NoCommand)?;

    let observers = observers(&config)?;
    let config = Arc::new(config);
    let (closing, give_up) = (Flag::default(), Flag::default());
    let book = Arc::new(Book::new(engine.epoch()));
    let tools = Arc::new(Tools::new());
    let (client, writing) = lines::write_to_client(stdout, closing.clone());
    let wiring = Wiring {
        book: book.clone(),
        client: client.clone(),
        tools: tools.clone(),
        closing: closing.clone(),
        give_up: give_up.clone(),
    };
    let (server, supervisor, process) = Supervisor::start(program, starts, wiring)?;
    let mut serving = task::spawn(supervisor.run(process));
    let keeping = task::spawn(tools.clone().keep(server.clone(), config.clone()));
    let proxy = Arc::new(Proxy {
        config: config.clone(),
        scope,
        engine: engine.clone(),
        server: server.clone(),
        client,
        tools,
        book,
        calls: Default::default(),
        observers,
        permits: Arc::new(Semaphore::new(CALLS)),
        questions: Arc::new(Semaphore::new(QUESTIONS)),
        ready: Flag::default(),
        closing: closing.clone(),
    });
    let maintaining = task::spawn(maintain(proxy.clone()));
    let mut reading = task::spawn(proxy.clone().read_client(stdin));

    let mut served = tokio::select! {
        biased;
        _ = &mut reading => None,
        () = signalled(&mut told) => {
            tracing::warn!("told to end: calls under way are finished first; a second signal ends at once");
            None
        }
        served = &mut serving => Some(served),
    };
    closing.raise();
    // Its end may have been seen already, so it can't be awaited again.
    reading.abort();

    // Calls that were taken are answered, and what was sent is recorded.
    let longest = config.tools.values().map(|tool| tool.timeout).fold(config.defaults.timeout, Duration::max);
    let permits = u32::try_from(CALLS).unwrap_or(u32::MAX);
    let all_done = async {
        // All permits are free only when no call is under way.
        let _ = proxy.permits.acquire_many(permits).await;
        tokio::select! {
            biased;
            () = engine.idle() => {}
            () = nothing_out(&proxy) => {}
        }
    };
    tokio::select! {
        biased;
        done = timeout(longest, all_done) => if done.is_err() {
            tracing::error!("a call is still under way after the longest timeout: its outcome stays unknown");
        },
        // Whoever insists is obeyed: what was sent is recorded as such, and the next process finds it.
        () = signalled(&mut told) => {
            tracing::error!("ended before the calls under way had an outcome: they will be unknown");
            give_up.raise();
        }
    }

    maintaining.abort();
    if let Err(error) = engine.retire().await {
        tracing::warn!(%error, "the ledger could not be told that this process sends nothing any more");
    }
    if served.is_none() {
        let end = async {
            server.close().await;
            (&mut serving).await
        };
        served = match timeout(END, end).await {
            Ok(served) => Some(served),
            Err(_) => {
                give_up.raise();
                timeout(END, &mut serving).await.ok()
            }
        };
    }
    keeping.abort();
    let _ = (keeping.await, maintaining.await);
    drop((proxy, server));
    let _ = timeout(END, writing).await;
    match served {
        Some(Ok(Ok(server))) => Ok(Ended { server }),
        Some(Ok(Err(error))) => Err(error),
        _ => Ok(Ended { server: None }),
    }
}

/// Resolves when the proxy is told to end.
async fn signalled(told: &mut mpsc::UnboundedReceiver<()>) {
    if told.recv().await.is_none() {
        std::future::pending::<()>().await;
    }
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

/// Gets every declared observer ready that is not a tool of the server.
fn observers(config: &Config) -> Result<HashMap<String, Observer>, ProxyError> {
    let mut observers = HashMap::new();
    for (tool, declared) in &config.tools {
        let Some(observe) = declared.observe() else { continue };
        let Ask::Way(way) = &observe.ask else { continue };
        let observer = Observer::open(way, observe.reading.clone(), observe.timeout)
            .map_err(|source| ProxyError::Observer { tool: tool.clone(), source })?;
        observers.insert(tool.clone(), observer);
    }
    Ok(observers)
}

/// Looks after what earlier proxies for this server left behind, what is unknown, and what is over. Never returns.
async fn maintain(proxy: Arc<Proxy>) {
    let resolving = proxy.clone();
    let resolve = move |entry: &Entry| {
        if entry.key.scope() != resolving.scope {
            return None;
        }
        let (terms, origin) = guard::recovery(&resolving.config, entry)?;
        let tool = resolving.tool(&entry.key, terms.declared.clone());
        Some(Recoverable { policy: terms.policy(origin), tool: Some(Arc::new(tool)), limits: terms.limits(origin) })
    };
    proxy.engine.maintain(Arc::new(resolve), MAINTENANCE).await;
}

/// Resolves when nothing that this process has recorded as sent, or as about to be, is without an outcome. What is unknown may
/// stay so: whoever comes next goes on to find out.
async fn nothing_out(proxy: &Proxy) {
    let epoch = proxy.engine.epoch();
    loop {
        sleep(STILL_OUT).await;
        let Ok(entries) = proxy.engine.ledger().scan(Filter::Unsettled).await else { continue };
        let is_out = entries.iter().any(|entry| match entry.record.state() {
            State::Dispatched(sent) => sent.owner() == epoch,
            State::Created => entry.by == epoch,
            _ => false,
        });
        if !is_out {
            return;
        }
    }
}

//! The front over Streamable HTTP (Model Context Protocol, revisions 2025-03-26 to 2026-07-28): many clients, many
//! servers.
//!
//! | module | what it does |
//! | --- | --- |
//! | `connection`, `wire` | a client's connection, and when what was handed to it has left |
//! | `door` | foreign origins and names are kept out; who a client is |
//! | `receive`, `revision` | what a request must be, and of which revision it is |
//! | `post`, `listen`, `authorise` | the methods |
//! | `sessions`, `open` | the sessions, each with a server of its own, and their end |
//! | `streams` | which message goes where, and what is kept for a client that comes back |
//! | `payload`, `reply` | responses |
//!
//! A disconnect is no cancel up to revision 2025-11-25, and is one from 2026-07-28 on. Either way a guarded call that
//! was sent runs to its outcome, and an answer that did not reach its client is given to whoever asks again with the
//! same key.

mod authorise;
mod connection;
mod door;
mod listen;
mod open;
mod payload;
mod post;
mod receive;
mod reply;
mod revision;
mod sessions;
mod streams;
mod well_known;
mod wire;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use settled::{Engine, task};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::behind::start::{Program, StartServer};
use crate::config::{Config, HttpConfig, LimitsConfig};
use crate::flag::Flag;
use crate::front::door::Door;
use crate::front::sessions::Sessions;
use crate::service::{Service, Upstream};
use crate::upstream::{Http, HttpOptions};
use crate::{ProxyError, longest, service, session, signalled};

/// How many connections there may be at once; more wait to be taken.
const CONNECTIONS: usize = 16_384;

/// How long to wait when no connection can be taken: what it lacks (file descriptors) others may give back.
const BREATH: Duration = Duration::from_millis(50);

/// How often it is looked what nobody needs any more.
const TIDY: Duration = Duration::from_secs(1);

/// How long clients may take to read the last messages.
const LAST_MESSAGES: Duration = Duration::from_secs(15);

/// The name in the path of the only server.
const ONLY: &str = "mcp";

/// What is behind a path.
pub struct Fronted {
    /// The name of the server, which is its path; `None` for the only one, which is served at `/mcp` and `/`.
    pub name: Option<String>,
    /// What is declared of it; see [`Config::for_server`].
    pub config: Config,
    /// How it is reached.
    pub behind: Behind,
}

/// How a server is reached.
pub enum Behind {
    /// By a command that is run once for each session: program, arguments, and variables of its environment.
    Command(Vec<OsString>, BTreeMap<String, String>),
    /// By something else that is started once for each session. Its scope must be configured.
    Starts(Arc<dyn StartServer>),
    /// Over HTTP.
    Http(Box<HttpOptions>),
}

/// What to serve over HTTP.
pub struct FrontOptions {
    /// Who may call.
    pub http: HttpConfig,
    /// How much may be asked for.
    pub limits: LimitsConfig,
    /// The servers: one without a name, or any number with names.
    pub servers: Vec<Fronted>,
    /// The engine.
    pub engine: Engine,
}

/// Everything that the connections share.
pub(crate) struct Front {
    http: HttpConfig,
    limits: LimitsConfig,
    services: Vec<Arc<Service>>,
    /// Which of them is at a path's first part.
    names: BTreeMap<String, usize>,
    /// There is only one, without a name.
    is_only: bool,
    door: Door,
    sessions: Sessions,
    /// This process is to end.
    draining: Flag,
    /// And does not wait any more for what is under way.
    give_up: Flag,
    /// Nothing is under way any more: servers may be ended.
    may_end: Flag,
    longest: Duration,
    /// How many sessions may have calls under way.
    busy: watch::Sender<usize>,
    /// How many have not ended.
    open: watch::Sender<usize>,
}

impl Front {
    fn service_at(&self, path: &str) -> Option<usize> {
        let path = path.strip_suffix('/').unwrap_or(path);
        if self.is_only && path.is_empty() {
            return Some(0);
        }
        let (name, rest) = path.strip_prefix('/')?.split_once('/').unwrap_or((path.strip_prefix('/')?, ""));
        let fits = rest.is_empty() || !self.is_only && rest == ONLY;
        self.names.get(name).filter(|_| fits).copied()
    }

    fn paths(&self) -> Vec<String> {
        self.names.keys().map(|name| format!("/{name}")).collect()
    }

    fn opened(&self) {
        self.busy.send_modify(|busy| *busy += 1);
        self.open.send_modify(|open| *open += 1);
    }

    fn idle(&self) {
        self.busy.send_modify(|busy| *busy = busy.saturating_sub(1));
    }

    fn ended(&self) {
        self.open.send_modify(|open| *open = open.saturating_sub(1));
    }
}

/// Serves servers over HTTP until SIGTERM or SIGINT comes. Calls under way then still run to their outcome and are
/// recorded, within their timeouts, and are answered, before the servers are ended; a second signal ends at once.
///
/// # Errors
/// [`ProxyError`], if a server can't be served in the configured way. Servers are started only when a client comes.
pub async fn listen(options: FrontOptions, listener: TcpListener) -> Result<(), ProxyError> {
    let (signals, told) = crate::signals()?;
    tokio::select! {
        biased;
        ended = serve_front(options, listener, told) => ended,
        never = signals => match never {},
    }
}

/// As [`listen()`]; a message of `told` stands for a signal.
///
/// # Errors
/// As [`listen()`].
pub async fn serve_front(
    options: FrontOptions,
    listener: TcpListener,
    mut told: mpsc::UnboundedReceiver<()>,
) -> Result<(), ProxyError> {
    let engine = options.engine.clone();
    let front = front(options, &listener)?;
    for service in &front.services {
        service.check_keys().await?;
    }
    let maintaining = task::spawn(service::maintain(engine.clone(), front.services.clone()));
    let tidying = task::spawn(tidy(front.clone()));
    let mut connections = JoinSet::new();
    tokio::select! {
        biased;
        () = signalled(&mut told) => {
            tracing::warn!("told to end: calls under way are finished first; a second signal ends at once");
        }
        () = accept(&front, &listener, &mut connections) => {}
    }
    front.draining.raise();
    drop(listener);

    let (mut busy, mut open) = (front.busy.subscribe(), front.open.subscribe());
    let all_done = async {
        // The sender lives as long as the front.
        let _ = busy.wait_for(|busy| *busy == 0).await;
        tokio::select! {
            biased;
            () = engine.idle() => {}
            () = session::nothing_out(&engine) => {}
        }
    };
    tokio::select! {
        biased;
        done = timeout(front.longest + LAST_MESSAGES, all_done) => if done.is_err() {
            tracing::error!("a call is still under way after the longest timeout: its outcome stays unknown");
        },
        () = signalled(&mut told) => {
            tracing::error!("ended before the calls under way had an outcome: they will be unknown");
            front.give_up.raise();
        }
    }
    maintaining.abort();
    tidying.abort();
    if let Err(error) = engine.retire().await {
        tracing::warn!(%error, "the ledger could not be told that this process sends nothing any more");
    }
    front.may_end.raise();
    let all_ended = async {
        let _ = open.wait_for(|open| *open == 0).await;
    };
    // Each session has a limit of its own for its end.
    tokio::select! {
        () = all_ended => {}
        () = signalled(&mut told) => front.give_up.raise(),
    }
    let _ = timeout(LAST_MESSAGES, async { while connections.join_next().await.is_some() {} }).await;
    connections.abort_all();
    let _ = (maintaining.await, tidying.await);
    Ok(())
}

fn front(options: FrontOptions, listener: &TcpListener) -> Result<Arc<Front>, ProxyError> {
    let FrontOptions { http, limits, servers, engine } = options;
    let address = listener.local_addr().map_err(ProxyError::Listen)?;
    let is_only = matches!(&servers[..], [only] if only.name.is_none());
    let (mut services, mut names, mut slowest) = (Vec::new(), BTreeMap::new(), Duration::ZERO);
    for Fronted { name, config, behind } in servers {
        let scope = match (&config.scope, &behind) {
            (Some(scope), _) => scope.clone(),
            (None, Behind::Command(command, _)) => crate::scope(&config, command),
            (None, Behind::Http(options)) => options.scope(),
            (None, Behind::Starts(_)) => String::new(),
        };
        let upstream = match behind {
            Behind::Command(command, env) => {
                let mut command = command.into_iter();
                let program = command.next().ok_or(ProxyError::NoCommand)?;
                let starts = Program { program: program.clone(), arguments: command.collect(), env };
                Upstream::Process { program, starts: Arc::new(starts) }
            }
            Behind::Starts(starts) => Upstream::Process { program: name.clone().unwrap_or_default().into(), starts },
            Behind::Http(options) => Upstream::Http(Http::open(*options)?),
        };
        slowest = slowest.max(longest(&config));
        names.insert(name.unwrap_or_else(|| ONLY.to_owned()), services.len());
        services.push(Service::new(Arc::new(config), scope, engine.clone(), upstream)?);
    }
    let door = Door::new(&http, address);
    Ok(Arc::new(Front {
        http,
        limits,
        services,
        names,
        is_only,
        door,
        sessions: Sessions::default(),
        draining: Flag::default(),
        give_up: Flag::default(),
        may_end: Flag::default(),
        longest: slowest,
        busy: watch::Sender::new(0),
        open: watch::Sender::new(0),
    }))
}

/// Takes connections. Never returns.
async fn accept(front: &Arc<Front>, listener: &TcpListener, connections: &mut JoinSet<()>) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(permit) = room.clone().acquire_owned().await else { return };
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _)) => {
                let serving = connection::serve(front.clone(), stream);
                connections.spawn(async move {
                    serving.await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "no connection can be taken: is the limit of open files too low?");
                sleep(BREATH).await;
            }
        }
    }
}

async fn tidy(front: Arc<Front>) {
    loop {
        sleep(TIDY).await;
        front.sessions.tidy(&front.http);
    }
}

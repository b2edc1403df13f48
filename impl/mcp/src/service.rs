//! One MCP server that is served: to one client over stdio, or to many over HTTP.

use std::collections::HashMap;
use std::ffi::OsString;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use settled::protocol::{Digest, Key, State};
use settled::{Engine, Entry, Filter, Recoverable};
use settled_observers::Observer;
use tokio::sync::Semaphore;

use crate::ProxyError;
use crate::at_rest::{Lacks, Secrets};
use crate::behind::start::StartServer;
use crate::behind::supervisor::{Supervisor, Wiring};
use crate::book::Book;
use crate::config::{Ask, Config};
use crate::flag::Flag;
use crate::guarded::admission::Admission;
use crate::guarded::guard;
use crate::guarded::keys::Merged;
use crate::guarded::observe::QUESTIONS;
use crate::listed::tools::Tools;
use crate::messages::context::Context;
use crate::messages::lines::ClientSink;
use crate::relay::Proxy;
use crate::session::{self, Attempts, Session};
use crate::told::offers::Offers;
use crate::upstream::{self, link::Link};
use crate::watch::Watch;

/// How often what was left, what is unknown and what is over is looked through.
const MAINTENANCE: Duration = Duration::from_secs(10);

/// How many operations of a ledger are looked at at a time.
const PAGE: usize = 1000;

/// How many characters of a principal's digest are part of a scope.
const PRINCIPAL: usize = 16;

/// The server behind.
#[derive(Clone)]
pub(crate) enum Upstream {
    /// A command that is run, once per session.
    Process {
        /// How errors name it.
        program: OsString,
        /// How it is started.
        starts: Arc<dyn StartServer>,
    },
    /// One behind HTTP.
    Http(Arc<upstream::Http>),
}

/// One MCP server that is served.
pub(crate) struct Service {
    pub(crate) config: Arc<Config>,
    /// The scope of the keys of all calls that come without a principal.
    pub(crate) scope: String,
    pub(crate) engine: Engine,
    upstream: Upstream,
    observers: Arc<HashMap<String, Observer>>,
    questions: Arc<Semaphore>,
    merged: Arc<Merged>,
    admission: Arc<Admission>,
    secrets: Secrets,
    watch: Option<Watch>,
    /// The sessions that may still be open, oldest first.
    sessions: Mutex<Vec<Weak<Proxy>>>,
}

impl Service {
    /// A server to be served under these keys.
    ///
    /// # Errors
    /// [`ProxyError::Scope`], [`ProxyError::Observer`] and [`ProxyError::Keys`].
    pub(crate) fn new(
        config: Arc<Config>,
        scope: String,
        engine: Engine,
        upstream: Upstream,
    ) -> Result<Arc<Service>, ProxyError> {
        Key::new(scope.as_str(), "tool", "id")?;
        let observers = Arc::new(observers(&config)?);
        let secrets = Secrets::open(config.encryption.as_ref())?;
        let admission = Admission::new(config.limits, &engine);
        let watch = Watch::begin(&config);
        Ok(Arc::new(Service {
            config,
            scope,
            engine,
            upstream,
            observers,
            questions: Arc::new(Semaphore::new(QUESTIONS)),
            admission,
            secrets,
            watch,
            merged: Arc::default(),
            sessions: Mutex::default(),
        }))
    }

    /// Makes sure that the keys are there which the ledger's operations of this server need: without them a call that was made
    /// before would not be recognised, and be carried out again.
    ///
    /// # Errors
    /// [`ProxyError::OtherKeys`], if one is missing.
    pub(crate) async fn check_keys(&self) -> Result<(), ProxyError> {
        if self.config.encryption.is_none() {
            return Ok(());
        }
        let ledger = self.engine.ledger();
        let mut last = None;
        loop {
            // The engine says what is wrong with a ledger that can't be read, once something is to be sent.
            let Ok(page) = ledger.page(Filter::All, last.as_ref(), PAGE).await else { return Ok(()) };
            let ours = page.iter().filter(|entry| self.is_ours(entry.key.scope()));
            if let Some((entry, lacks)) =
                ours.filter_map(|entry| Some((entry, self.secrets.lacks(&entry.asked)?))).next()
            {
                let key = &entry.key;
                return Err(ProxyError::OtherKeys(match lacks {
                    Lacks::Key(id) => format!(
                        "the ledger has operations that were encrypted with the key {id}, such as {key}, and [encryption] does not name \
                         that key: add its file to `old_key_files`"
                    ),
                    Lacks::DigestKey(id) => format!(
                        "the ledger has operations that are recognised by digests with the key {id}, such as {key}, and `digest_key_file` \
                         names another one: calls that were made before would be carried out again; name the file of that key"
                    ),
                }));
            }
            match page.into_iter().last() {
                Some(entry) => last = Some(entry),
                None => return Ok(()),
            }
        }
    }

    /// The server behind, if it is behind HTTP.
    pub(crate) fn http(&self) -> Option<&Arc<upstream::Http>> {
        match &self.upstream {
            Upstream::Http(http) => Some(http),
            Upstream::Process { .. } => None,
        }
    }

    /// The scope of the keys of a principal's calls; `None`: of everybody's.
    pub(crate) fn scope_of(&self, principal: Option<&str>) -> String {
        let Some(principal) = principal else { return self.scope.clone() };
        let digest = Digest::of(principal.as_bytes()).to_string();
        format!("{}~{}", self.scope, digest.get(..PRINCIPAL).unwrap_or(&digest))
    }

    /// Whether a scope is one of this server's.
    fn is_ours(&self, scope: &str) -> bool {
        match scope.strip_prefix(&self.scope) {
            Some("") => true,
            Some(rest) => rest
                .strip_prefix('~')
                .is_some_and(|digest| digest.len() == PRINCIPAL && digest.bytes().all(|byte| byte.is_ascii_hexdigit())),
            None => false,
        }
    }

    /// Opens a session of its own with the server. `client` is the way to whoever asked; `closing` is raised when they are
    /// gone.
    ///
    /// # Errors
    /// [`ProxyError::CannotStart`].
    pub(crate) fn open(
        self: &Arc<Self>,
        principal: Option<&str>,
        client: ClientSink,
        closing: Flag,
    ) -> Result<Session, ProxyError> {
        let give_up = Flag::default();
        let book = Arc::new(Book::new(self.engine.epoch()).offering(Offers::of(&self.config)));
        let tools = Arc::new(Tools::new());
        let wiring = Wiring {
            config: self.config.clone(),
            book: book.clone(),
            client: client.clone(),
            tools: tools.clone(),
            closing: closing.clone(),
            give_up: give_up.clone(),
            longest: self.config.limits.frame_bytes,
        };
        match &self.upstream {
            Upstream::Process { program, starts } => {
                let (server, supervisor, process) = Supervisor::start(program.clone(), starts.clone(), wiring)?;
                let proxy = self.proxy(principal, client, closing, book, tools, server);
                Ok(session::begin(proxy, supervisor.run(process), give_up))
            }
            Upstream::Http(http) => {
                let (server, link) = Link::new(http.clone(), wiring);
                let proxy = self.proxy(principal, client, closing, book, tools, server);
                Ok(session::begin(proxy, link.run(), give_up))
            }
        }
    }

    fn proxy(
        &self,
        principal: Option<&str>,
        client: ClientSink,
        closing: Flag,
        book: Arc<Book>,
        tools: Arc<Tools>,
        server: crate::behind::server::ServerHandle,
    ) -> Arc<Proxy> {
        let proxy = Arc::new(Proxy {
            config: self.config.clone(),
            scope: self.scope_of(principal),
            engine: self.engine.clone(),
            server,
            client,
            tools,
            book,
            calls: Default::default(),
            observers: self.observers.clone(),
            places: self.admission.session(),
            admission: self.admission.clone(),
            secrets: self.secrets.clone(),
            watch: self.watch.clone(),
            questions: self.questions.clone(),
            attempts: Attempts::new(),
            merged: self.merged.clone(),
            ready: Flag::default(),
            closing,
        });
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|session| session.strong_count() > 0);
        sessions.push(Arc::downgrade(&proxy));
        proxy
    }

    /// The latest session in which the server takes calls, and in which what is of this scope may be asked about: a server
    /// behind HTTP is not asked about one principal's calls with the authorization of another.
    fn live(&self, scope: &str) -> Option<Arc<Proxy>> {
        let any = matches!(self.upstream, Upstream::Process { .. });
        let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let open = sessions.iter().rev().filter_map(Weak::upgrade).filter(|proxy| !proxy.closing.is_raised());
        let mut live = open.filter(|proxy| any || proxy.scope == scope);
        let latest = live.next()?;
        if latest.ready.is_raised() {
            return Some(latest);
        }
        live.find(|proxy| proxy.ready.is_raised()).or(Some(latest))
    }

    /// How to take up what an earlier process left, what is unknown, or what is over; `None`: it is not this server's, or there
    /// is no session to ask the server in.
    fn resolve(&self, entry: &Entry) -> Option<Recoverable> {
        if !self.is_ours(entry.key.scope()) {
            return None;
        }
        let live = self.live(entry.key.scope());
        let listed = live.as_ref().and_then(|proxy| proxy.tools.known(entry.key.tool()));
        let (terms, origin) = guard::recovery(&self.config, entry, listed)?;
        let settled = matches!(entry.record.state(), State::Settled { .. });
        let tool = match live {
            Some(proxy) => Some(proxy.tool(&entry.key, terms.declared.clone(), Arc::new(Context::default()))),
            // What is over needs no server; the rest waits for one.
            None if settled => None,
            None => return None,
        };
        Some(Recoverable {
            policy: terms.policy(origin),
            tool: tool.map(|tool| Arc::new(tool) as Arc<dyn settled::Tool>),
            limits: terms.limits(origin),
        })
    }
}

/// Looks after what earlier processes left behind, what is unknown, and what is over, of all these servers. Never returns.
pub(crate) async fn maintain(engine: Engine, services: Vec<Arc<Service>>) {
    let resolve = move |entry: &Entry| services.iter().find_map(|service| service.resolve(entry));
    engine.maintain(Arc::new(resolve), MAINTENANCE).await;
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

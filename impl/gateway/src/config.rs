//! `settled.toml` for the gateway: what it stands in front of, what is guarded, and how much may be asked for.
//!
//! Every table refuses members that it does not know; errors name the line and what is allowed.

mod error;
mod limits;
mod observe;
mod route;
mod value;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use http::{HeaderName, Uri};
use serde::Deserialize;
use settled_observers::Secret;

pub use self::error::ConfigError;
pub use self::limits::Limits;
pub use self::observe::Observe;
pub use self::route::{Codes, ForwardKey, Key, Kind, Retries, RouteConfig};
use self::value::{Name, Span};

/// The configuration.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The server behind the gateway.
    pub upstream: Option<Uri>,
    /// A file of certificates (PEM) that are trusted besides those that this machine trusts.
    pub upstream_ca: Option<PathBuf>,
    /// Headers of every request to it: they replace those of the caller.
    pub upstream_headers: Vec<(HeaderName, Secret)>,
    /// Where to listen.
    pub listen: Option<SocketAddr>,
    /// The ledger.
    pub ledger: Option<String>,
    /// Where to serve figures for Prometheus.
    pub metrics: Option<SocketAddr>,
    /// Separates the keys of this gateway from those of others on the same ledger; without one, the upstream's host.
    pub scope: Option<String>,
    /// How requests are answered.
    pub gateway: Answers,
    /// How much may be asked for.
    pub limits: Limits,
    /// Encryption of what is kept.
    pub encryption: Option<Encryption>,
    /// What is declared of requests; the first that fits counts.
    pub routes: Vec<RouteConfig>,
}

/// `[gateway]`: how requests are answered.
#[derive(Clone, Debug)]
pub struct Answers {
    /// What a repeat is told while the first one is being carried out.
    pub in_flight: InFlight,
    /// The status of a conflict: 422 as the draft says, or 409.
    pub conflict_status: ConflictStatus,
    /// The headers that say whose request it is.
    pub principal_headers: Option<Vec<HeaderName>>,
    /// Headers that are never kept, besides the usual ones.
    pub secret_headers: Vec<HeaderName>,
}

impl Default for Answers {
    fn default() -> Self {
        Answers {
            in_flight: InFlight::Conflict,
            conflict_status: ConflictStatus::Unprocessable,
            principal_headers: None,
            secret_headers: Vec::new(),
        }
    }
}

/// What a repeat is told while the first one is being carried out. Read at the start only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InFlight {
    /// 409, with `Retry-After`. A stream that is coming in is joined all the same.
    Conflict,
    /// The first one's answer, once it is there.
    Wait,
}

/// The status of a conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConflictStatus {
    /// 422.
    Unprocessable,
    /// 409, with the type `urn:settled:idempotency_conflict`.
    Conflict,
}

/// `[encryption]`: answers and requests are encrypted where they are kept.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Encryption {
    /// The file of the key: 32 bytes, as they are, or as hexadecimal digits, or in Base64.
    pub key_file: PathBuf,
    /// Files of former keys, to read what they encrypted.
    #[serde(default)]
    pub old_key_files: Vec<PathBuf>,
    /// The file of the key of digests, if it is not `key_file`. It has to stay the same.
    pub digest_key_file: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    upstream: Option<value::Upstream>,
    upstream_ca: Option<PathBuf>,
    #[serde(default)]
    upstream_headers: HashMap<Name, String>,
    listen: Option<SocketAddr>,
    ledger: Option<String>,
    metrics: Option<SocketAddr>,
    scope: Option<value::Scope>,
    #[serde(default)]
    gateway: AnswersTable,
    #[serde(default)]
    limits: Limits,
    encryption: Option<Encryption>,
    #[serde(default)]
    routes: Vec<toml::Spanned<route::RouteTable>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct AnswersTable {
    in_flight: Option<InFlight>,
    conflict_status: Option<value::ConflictCode>,
    principal_headers: Option<Vec<Name>>,
    #[serde(default)]
    secret_headers: Vec<Name>,
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn load(file: &Path) -> Result<Config, ConfigError> {
        let text = std::fs::read_to_string(file)
            .map_err(|source| ConfigError::Unreadable { file: file.to_owned(), source })?;
        Config::parse(file, &text)
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn parse(file: &Path, text: &str) -> Result<Config, ConfigError> {
        let read: File = toml::from_str(text).map_err(|error| ConfigError::syntax(file, text, error))?;
        let gateway = read.gateway;
        let mut routes: Vec<RouteConfig> = Vec::new();
        for table in read.routes {
            let at = table.span();
            let wrong = |problem: String| ConfigError::wrong(file, text, at.start, problem);
            let route = table.into_inner().check().map_err(wrong)?;
            if routes.iter().any(|other| other.name() == route.name()) {
                let problem = format!("another route has the name `{}` too: give one of them a `name`", route.name());
                return Err(wrong(problem));
            }
            routes.push(route);
        }
        Ok(Config {
            upstream: read.upstream.map(|upstream| upstream.0),
            upstream_ca: read.upstream_ca,
            upstream_headers: read
                .upstream_headers
                .into_iter()
                .map(|(name, value)| (name.0, Secret::new(value)))
                .collect(),
            listen: read.listen,
            ledger: read.ledger,
            metrics: read.metrics,
            scope: read.scope.map(|scope| scope.0),
            gateway: Answers {
                in_flight: gateway.in_flight.unwrap_or(InFlight::Conflict),
                conflict_status: gateway.conflict_status.map_or(ConflictStatus::Unprocessable, |code| code.0),
                principal_headers: gateway
                    .principal_headers
                    .map(|names| names.into_iter().map(|name| name.0).collect()),
                secret_headers: gateway.secret_headers.into_iter().map(|name| name.0).collect(),
            },
            limits: read.limits,
            encryption: read.encryption,
            routes,
        })
    }
}

/// An upstream's address, as it is written on a command line.
///
/// # Errors
/// What is wrong with it.
pub fn upstream(text: &str) -> Result<Uri, String> {
    value::Upstream::try_from(text.to_owned()).map(|upstream| upstream.0)
}

fn span(value: Option<Span>, without: std::time::Duration) -> std::time::Duration {
    value.map_or(without, |span| span.0)
}

//! What one configuration comes to. A new one replaces it as a whole; what is under way keeps its own.

use std::path::PathBuf;
use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};
use settled::{Entry, Recoverable};
use settled_http::message;
use settled_http::tls::TlsError;
use settled_observers::Unusable;
use settled_protocol::{Digest, Key, KeyError, State};
use settled_sealing::KeyFileError;

use crate::config::{Answers, Config, Kind, Limits};
use crate::headers::{self, LEFT_OUT};
use crate::kept::Kept;
use crate::routes::{Route, Routes};
use crate::tool::UpstreamTool;
use crate::upstream::Upstream;

/// How many digits of a principal's digest are part of the keys.
const PRINCIPAL: usize = 32;

/// Why a configuration can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// No upstream is named.
    #[error(
        "no upstream is named: use `--upstream https://HOST`, or write `upstream = \"https://HOST\"` in the configuration"
    )]
    NoUpstream,
    /// The upstream's certificates, or TLS at all, can't be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// An observer can't be used.
    #[error("an observer can't be used: {0}")]
    Observer(Unusable),
    /// A header for the upstream can't be used.
    #[error("`upstream_headers.{name}` can't be used: {problem}")]
    Header {
        /// Its name.
        name: HeaderName,
        /// What is wrong.
        problem: String,
    },
    /// The scope can't be part of a key.
    #[error("the scope can't be used: {0}")]
    Scope(#[from] KeyError),
    /// A key of `[encryption]` can't be used.
    #[error(transparent)]
    Keys(#[from] KeyFileError),
    /// What keys are made of would change while requests are under way.
    #[error(
        "{0} can't be changed while the gateway runs: a repeated request would be taken for a new one, and be carried out again. \
         Start it anew when no repeats are to come"
    )]
    Identity(&'static str),
}

/// What one configuration comes to.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) upstream: Upstream,
    pub(crate) routes: Routes,
    pub(crate) limits: Limits,
    pub(crate) answers: Answers,
    /// Headers that are never kept.
    pub(crate) secret_headers: Vec<HeaderName>,
    pub(crate) kept: Kept,
    scope: String,
}

impl Setup {
    pub(crate) fn new(config: &Config) -> Result<Setup, SetupError> {
        let base = config.upstream.clone().ok_or(SetupError::NoUpstream)?;
        let mut fixed = HeaderMap::new();
        for (name, value) in &config.upstream_headers {
            let wrong = |problem: String| SetupError::Header { name: name.clone(), problem };
            let text = value.resolve().map_err(|error| wrong(error.to_string()))?;
            let mut value = HeaderValue::try_from(text).map_err(|_| wrong("its value can't be sent".into()))?;
            value.set_sensitive(true);
            fixed.append(name.clone(), value);
        }
        let usual = headers::PRINCIPAL;
        let principal = config.gateway.principal_headers.as_deref().unwrap_or(&usual);
        let secret_headers = principal.iter().chain(&config.gateway.secret_headers).cloned().collect();
        let shared_account = fixed.keys().any(|name| usual.contains(name) || principal.contains(name));
        let ca: Option<PathBuf> = config.upstream_ca.clone();
        let upstream = Upstream::new(base, ca.as_deref(), fixed, config.limits.connect_timeout)?;
        let scope = config.scope.clone().unwrap_or_else(|| upstream.authority().to_owned());
        Key::new(&*scope, "x", "x")?;
        Ok(Setup {
            routes: Routes::new(&config.routes, shared_account).map_err(SetupError::Observer)?,
            limits: config.limits,
            answers: config.gateway.clone(),
            secret_headers,
            kept: Kept::new(config.encryption.as_ref())?,
            upstream,
            scope,
        })
    }

    /// Whether requests have the same keys as with another one.
    ///
    /// # Errors
    /// [`SetupError::Identity`], with what makes the difference.
    pub(crate) fn same_keys(&self, as_with: &Setup) -> Result<(), SetupError> {
        let differs = [
            ("`scope`, or the upstream's host where there is no `scope`,", self.scope != as_with.scope),
            ("`gateway.principal_headers`", self.answers.principal_headers != as_with.answers.principal_headers),
            ("the key of digests in `[encryption]`", self.kept.digest_id() != as_with.kept.digest_id()),
        ];
        match differs.into_iter().find(|(_, differs)| *differs) {
            Some((what, _)) => Err(SetupError::Identity(what)),
            None => Ok(()),
        }
    }

    /// Whose request it is.
    pub(crate) fn principal(&self, headers: &HeaderMap) -> Option<Digest> {
        headers::principal(headers, self.answers.principal_headers.as_deref())
    }

    /// The scope of a principal's keys.
    pub(crate) fn scope_of(&self, principal: Option<Digest>) -> String {
        let Some(principal) = principal else { return self.scope.clone() };
        let digest = self.kept.digest(principal).to_string();
        format!("{}~{}", self.scope, digest.get(..PRINCIPAL).unwrap_or(&digest))
    }

    fn is_ours(&self, scope: &str) -> bool {
        match scope.strip_prefix(&self.scope) {
            Some("") => true,
            Some(rest) => rest
                .strip_prefix('~')
                .is_some_and(|digest| digest.len() == PRINCIPAL && digest.bytes().all(|byte| byte.is_ascii_hexdigit())),
            None => false,
        }
    }

    /// Whether a recorded request can be sent only when its caller asks again, and brings its credentials.
    fn needs_its_caller(&self, entry: &Entry) -> bool {
        let request = self.kept.read(&entry.key, entry.sent.as_ref().unwrap_or(&entry.asked));
        let left_out = request.and_then(|request| message::read_request(&request).ok()?.headers.remove(LEFT_OUT));
        left_out.is_some_and(|names| !self.upstream.brings(&names))
    }

    /// How to take up what an earlier process left, what is unknown, or what is over; `None`: it is not of this gateway.
    pub(crate) fn resolve(self: &Arc<Self>, entry: &Entry) -> Option<Recoverable> {
        if !self.is_ours(entry.key.scope()) {
            return None;
        }
        let route: &Arc<Route> = self.routes.named(entry.key.tool())?;
        let needs_none = match (&route.config.kind, entry.record.state()) {
            (_, State::Settled { .. }) => true,
            (Kind::Observable { .. }, State::Dispatched(_) | State::Unknown { .. } | State::Escalated { .. }) => false,
            (Kind::Opaque, state) if !matches!(state, State::Created) => true,
            // Without its caller's credentials it would only be refused.
            _ => self.needs_its_caller(entry),
        };
        let tool = UpstreamTool::recovering(self.clone(), route.clone());
        Some(Recoverable {
            policy: route.policy,
            tool: (!needs_none).then(|| Arc::new(tool) as Arc<dyn settled::Tool>),
            limits: route.limits,
        })
    }
}

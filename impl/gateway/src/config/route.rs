//! `[[routes]]`: what is declared of the requests to a path.

use std::time::Duration;

use http::{HeaderName, Method, StatusCode};
use serde::Deserialize;

use super::observe::{Observe, ObserveTable};
use super::span;
use super::value::{Code, Count, Name, Span};
use crate::presets::Preset;

/// What is declared of the requests to a path.
#[derive(Clone, Debug)]
pub struct RouteConfig {
    /// Its name, if it has one of its own: a part of the keys.
    pub named: Option<String>,
    /// The path: `*` stands for one segment, `**` at the end for any number of them.
    pub path: String,
    /// The methods.
    pub methods: Vec<Method>,
    /// Whether requests must have a key.
    pub key: Key,
    /// What the upstream can do.
    pub kind: Kind,
    /// What the upstream is given of the key.
    pub forward_key: Option<ForwardKey>,
    /// The header in which it is given.
    pub key_header: HeaderName,
    /// Headers that are part of what must be the same in every repeat.
    pub fingerprint_headers: Vec<HeaderName>,
    /// The API that it is.
    pub preset: Option<Preset>,
    /// Whether every answer is passed on as it comes in, and not only streams of events.
    pub stream: bool,
    /// How long an answer is replayed.
    pub retention: Duration,
    /// How long after that the key is still known, and answered with 410.
    pub expired: Option<Duration>,
    /// How long an answer may take.
    pub timeout: Duration,
    /// How long a stream is still taken in once nobody listens to it any more; `None`: to its end, within `timeout`.
    pub unheard: Option<Duration>,
    /// How long a caller waits for an unknown outcome to be established.
    pub settle: Duration,
    /// How long a copy of a request can be under way to the upstream: before it is over, the next one on the same resource of
    /// an idempotent route is not sent.
    pub transit: Duration,
    /// How often the gateway sends by itself.
    pub retry: Retries,
    /// What the upstream's statuses mean.
    pub codes: Codes,
    /// What a request must have to itself.
    pub resource: Option<String>,
}

/// Whether requests must have a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Key {
    /// One without is refused.
    Required,
    /// One without is passed on, unguarded.
    Optional,
    /// All are passed on, unguarded.
    Ignore,
}

/// What the upstream can do.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// Nothing can be found out after a lost answer: it is held for a person.
    Opaque,
    /// It may be sent again: a second time changes nothing.
    Idempotent,
    /// It may be sent again: it changes nothing.
    ReadOnly,
    /// The upstream applies a key once, for a limited time.
    Keyed {
        /// How long it remembers a key.
        remembers: Duration,
        /// The longest pause before sending, plus transit, plus clock skew.
        margin: Duration,
    },
    /// Whether it happened can be found out.
    Observable {
        /// How long after the last possible send an effect can still appear.
        settling: Duration,
        /// How to find out.
        observe: Box<Observe>,
    },
}

/// What the upstream is given of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ForwardKey {
    /// The caller's own header.
    AsIs,
    /// A digest of key, principal and route, so that one account at the upstream can serve many principals.
    Digest,
    /// Nothing.
    No,
}

/// How often the gateway sends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    /// The largest number of attempts of one operation.
    pub attempts: u32,
    /// No new one later than this.
    pub total: Duration,
    /// The longest wait before the second one; each doubles it.
    pub first: Duration,
    /// The longest wait between two.
    pub longest: Duration,
}

/// What the upstream's statuses mean, where that is not the usual.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Codes {
    /// It is the answer, which is kept.
    pub done: Vec<StatusCode>,
    /// It did not happen, and won't.
    pub not_run: Vec<StatusCode>,
    /// It did not happen now: ask again.
    pub busy: Vec<StatusCode>,
    /// It proves nothing.
    pub nothing: Vec<StatusCode>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Named {
    Opaque,
    Idempotent,
    ReadOnly,
    Keyed,
    Observable,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RouteTable {
    name: Option<String>,
    path: String,
    methods: Option<Vec<String>>,
    key: Option<Key>,
    kind: Option<Named>,
    remembers: Option<Span>,
    margin: Option<Span>,
    settling: Option<Span>,
    observe: Option<ObserveTable>,
    forward_key: Option<ForwardKey>,
    key_header: Option<Name>,
    #[serde(default)]
    fingerprint_headers: Vec<Name>,
    preset: Option<Preset>,
    #[serde(default)]
    stream: bool,
    retention: Option<Span>,
    expired: Option<Span>,
    timeout: Option<Span>,
    unheard: Option<Span>,
    settle: Option<Span>,
    transit: Option<Span>,
    retry: Option<RetryTable>,
    #[serde(default)]
    statuses: CodesTable,
    resource: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RetryTable {
    attempts: Count,
    total: Option<Span>,
    first: Option<Span>,
    longest: Option<Span>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct CodesTable {
    done: Vec<Code>,
    not_run: Vec<Code>,
    busy: Vec<Code>,
    nothing: Vec<Code>,
}

impl RouteConfig {
    /// How long answers are replayed unless something else is declared.
    pub const RETENTION: Duration = Duration::from_secs(86_400);

    /// An opaque route for these methods, of which nothing else is declared.
    pub fn new(path: &str, methods: Vec<Method>) -> RouteConfig {
        RouteConfig {
            named: None,
            path: path.to_owned(),
            methods,
            key: Key::Optional,
            kind: Kind::Opaque,
            forward_key: None,
            key_header: settled_http::idempotency_key::IDEMPOTENCY_KEY,
            fingerprint_headers: Vec::new(),
            preset: None,
            stream: false,
            retention: RouteConfig::RETENTION,
            expired: None,
            timeout: Duration::from_secs(600),
            unheard: None,
            settle: Duration::from_secs(5),
            transit: Duration::from_secs(60),
            retry: Retries::ONE,
            codes: Codes::default(),
            resource: None,
        }
    }

    /// Its name: a part of the keys of its requests.
    pub fn name(&self) -> String {
        self.named.clone().unwrap_or_else(|| {
            let methods: Vec<&str> = self.methods.iter().map(Method::as_str).collect();
            format!("{} {}", methods.join("|"), self.path)
        })
    }
}

impl Retries {
    /// One attempt.
    pub const ONE: Retries = Retries {
        attempts: 1,
        total: Duration::from_secs(300),
        first: Duration::from_millis(500),
        longest: Duration::from_secs(20),
    };
}

impl RouteTable {
    pub(super) fn check(self) -> Result<RouteConfig, String> {
        check_path(&self.path)?;
        let methods = match self.methods {
            None => vec![Method::POST],
            Some(names) if names.is_empty() => return Err("`methods` is empty: name at least one".into()),
            Some(names) => names.iter().map(|name| method(name)).collect::<Result<_, _>>()?,
        };
        let key = self.key.unwrap_or(Key::Optional);
        let named = self.kind.unwrap_or(Named::Opaque);
        let belongs = |there: bool, member: &str, kind: Named, of: &str| match there && named != kind {
            true => Err(format!("`{member}` belongs to `kind = \"{of}\"`: add that, or leave it out")),
            false => Ok(()),
        };
        belongs(self.remembers.is_some(), "remembers", Named::Keyed, "keyed")?;
        belongs(self.margin.is_some(), "margin", Named::Keyed, "keyed")?;
        belongs(self.settling.is_some(), "settling", Named::Observable, "observable")?;
        belongs(self.observe.is_some(), "observe", Named::Observable, "observable")?;
        let retention = span(self.retention, RouteConfig::RETENTION);
        let kind = match named {
            Named::Opaque => Kind::Opaque,
            Named::Idempotent => Kind::Idempotent,
            Named::ReadOnly => Kind::ReadOnly,
            Named::Keyed => keyed(self.remembers, self.margin, self.forward_key, retention)?,
            Named::Observable => observable(self.settling, self.observe)?,
        };
        let without = match kind {
            Kind::Opaque | Kind::Observable { .. } => Retries::ONE,
            Kind::Idempotent | Kind::ReadOnly | Kind::Keyed { .. } => Retries { attempts: 4, ..Retries::ONE },
        };
        let retry = self.retry.map_or(without, |table| Retries {
            attempts: table.attempts.0,
            total: span(table.total, without.total),
            first: span(table.first, without.first),
            longest: span(table.longest, without.longest),
        });
        let timeout = span(self.timeout, Duration::from_secs(600));
        // Whoever waits for an answer waits for the next attempt's as well.
        let sends_again = matches!(kind, Kind::Keyed { .. } | Kind::Idempotent | Kind::ReadOnly);
        if let Kind::Keyed { remembers, .. } = kind
            && retry.total > remembers
        {
            return Err("`retry.total` must not be longer than `remembers`: the upstream would take a later attempt for a new request".into());
        }
        Ok(RouteConfig {
            named: self.name.map(check_name).transpose()?,
            path: self.path,
            methods,
            key,
            kind,
            forward_key: self.forward_key,
            key_header: self.key_header.map_or(settled_http::idempotency_key::IDEMPOTENCY_KEY, |name| name.0),
            fingerprint_headers: self.fingerprint_headers.into_iter().map(|name| name.0).collect(),
            preset: self.preset,
            stream: self.stream,
            retention,
            expired: self.expired.map(|span| span.0),
            timeout,
            unheard: self.unheard.map(|span| span.0),
            settle: span(self.settle, if sends_again { timeout } else { Duration::from_secs(5) }),
            transit: span(self.transit, Duration::from_secs(60)),
            retry,
            codes: self.statuses.check()?,
            resource: self.resource,
        })
    }
}

fn keyed(
    remembers: Option<Span>,
    margin: Option<Span>,
    forward: Option<ForwardKey>,
    retention: Duration,
) -> Result<Kind, String> {
    let Some(Span(remembers)) = remembers else {
        return Err("`remembers` is missing: say how long the upstream remembers a key, such as `24h`".into());
    };
    let margin = span(margin, Duration::from_secs(60));
    if margin >= remembers {
        return Err("`margin` must be shorter than `remembers`: otherwise nothing could ever be sent again".into());
    }
    if retention < remembers {
        return Err(
            "`retention` must not be shorter than `remembers`: the upstream would take a new request for the old one"
                .into(),
        );
    }
    if forward == Some(ForwardKey::No) {
        return Err("`forward_key` can't be `no` for an upstream that goes by it: leave it out".into());
    }
    Ok(Kind::Keyed { remembers, margin })
}

fn observable(settling: Option<Span>, observe: Option<ObserveTable>) -> Result<Kind, String> {
    let Some(Span(settling)) = settling else {
        return Err(
            "`settling` is missing: say how long after it was sent an effect can still appear, such as `30s`".into()
        );
    };
    let Some(observe) = observe else {
        return Err("`observe` is missing: a table that says how to find out whether it happened".into());
    };
    Ok(Kind::Observable { settling, observe: Box::new(observe.check()?) })
}

impl CodesTable {
    fn check(self) -> Result<Codes, String> {
        let mut seen = Vec::new();
        let mut list = |codes: Vec<Code>| {
            for Code(code) in &codes {
                if seen.contains(code) {
                    return Err(format!("`statuses` names {} twice: it means one thing", code.as_u16()));
                }
                seen.push(*code);
            }
            Ok(codes.into_iter().map(|code| code.0).collect())
        };
        Ok(Codes {
            done: list(self.done)?,
            not_run: list(self.not_run)?,
            busy: list(self.busy)?,
            nothing: list(self.nothing)?,
        })
    }
}

fn check_name(name: String) -> Result<String, String> {
    settled_protocol::Key::new("x", &*name, "x").map(|_| name).map_err(|error| format!("`name` can't be used: {error}"))
}

fn check_path(path: &str) -> Result<(), String> {
    let problem = || {
        format!(
            "`path` can't be `{path}`: write a path such as `/v1/charges`; `*` stands for one segment, `**` at the end for any number"
        )
    };
    let rest = path.strip_prefix('/').ok_or_else(problem)?;
    let last = rest.split('/').count() - 1;
    let good = |(at, segment): (usize, &str)| match segment {
        "*" => true,
        "**" => at == last,
        other => other.chars().all(|c| c.is_ascii_graphic() && !"*?#%".contains(c)) && other != "." && other != "..",
    };
    if rest.split('/').enumerate().all(good) { Ok(()) } else { Err(problem()) }
}

fn method(name: &str) -> Result<Method, String> {
    let upper = name.bytes().all(|byte| byte.is_ascii_uppercase());
    let method = Method::from_bytes(name.as_bytes()).ok().filter(|method| upper && *method != Method::CONNECT);
    method.ok_or_else(|| format!("`{name}` in `methods` is not a method: write one such as `POST`"))
}

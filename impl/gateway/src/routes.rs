//! Which route a request is on, and what follows for its operation.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use settled::Limits;
use settled_http::classify::{Declared, Means};
use settled_observers::{Observer, Unusable};
use settled_protocol::{Backoff, Ends, Millis, Policy, Repeat, Retry, ToolKind};

use crate::config::{ForwardKey, Key, Kind, RouteConfig};
use crate::operations::percent_decoded;
use crate::presets::Preset;

/// A route, ready for use.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) name: String,
    pub(crate) config: RouteConfig,
    pub(crate) policy: Policy,
    pub(crate) limits: Limits,
    pub(crate) declared: Declared,
    pub(crate) forward_key: ForwardKey,
    pub(crate) observer: Option<Observer>,
    segments: Vec<Segment>,
}

#[derive(Debug, PartialEq, Eq)]
enum Segment {
    Is(String),
    One,
    Rest,
}

/// All routes: the first that fits counts.
#[derive(Debug)]
pub(crate) struct Routes(Vec<Arc<Route>>);

/// A path that names nothing for certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ambiguous;

impl Route {
    /// `shared_account`: the gateway brings credentials of its own, so that all principals are one to the upstream.
    fn new(config: RouteConfig, shared_account: bool) -> Result<Route, Unusable> {
        let observer = match &config.kind {
            Kind::Observable { observe, .. } => {
                Some(Observer::open(&observe.way, observe.reading.clone(), observe.timeout)?)
            }
            Kind::Opaque | Kind::Idempotent | Kind::ReadOnly | Kind::Keyed { .. } => None,
        };
        let segments = config.path.split('/').filter(|segment| !segment.is_empty()).map(|segment| match segment {
            "*" => Segment::One,
            "**" => Segment::Rest,
            other => Segment::Is(other.to_owned()),
        });
        Ok(Route {
            name: config.name(),
            segments: segments.collect(),
            policy: policy(&config),
            limits: Limits {
                attempt: config.timeout,
                settle: config.settle,
                tombstone: config.expired,
                transit: config.transit,
                ..Limits::default()
            },
            declared: declared(&config),
            forward_key: config.forward_key.unwrap_or(match shared_account {
                true => ForwardKey::Digest,
                false => ForwardKey::AsIs,
            }),
            observer,
            config,
        })
    }

    /// What says that a stream of it is whole.
    pub(crate) fn preset(&self, path: &str) -> Option<Preset> {
        self.config.preset.or_else(|| Preset::of_path(path))
    }

    fn fits(&self, segments: &[String]) -> bool {
        let mut rest = segments;
        for wanted in &self.segments {
            if *wanted == Segment::Rest {
                return true;
            }
            let Some((segment, after)) = rest.split_first() else { return false };
            if matches!(wanted, Segment::Is(text) if text != segment) {
                return false;
            }
            rest = after;
        }
        rest.is_empty()
    }
}

impl Routes {
    /// The declared routes, and after them that of every other POST and PATCH with a key.
    pub(crate) fn new(configs: &[RouteConfig], shared_account: bool) -> Result<Routes, Unusable> {
        let any =
            RouteConfig { named: Some("any".to_owned()), ..RouteConfig::new("/**", vec![Method::POST, Method::PATCH]) };
        let has_any = configs.iter().any(|config| config.name() == "any");
        let configs = configs.iter().cloned().chain((!has_any).then_some(any));
        let routes = configs.map(|config| Route::new(config, shared_account).map(Arc::new));
        routes.collect::<Result<_, _>>().map(Routes)
    }

    /// The route of a request; `None`: it is on none, and is passed on.
    ///
    /// # Errors
    /// If the path can be read in several ways, and a request could get past its route that way.
    pub(crate) fn find(&self, method: &Method, path: &str) -> Result<Option<&Arc<Route>>, Ambiguous> {
        let segments = segments(path)?;
        Ok(self.0.iter().find(|route| route.config.methods.contains(method) && route.fits(&segments)))
    }

    /// The route of this name.
    pub(crate) fn named(&self, name: &str) -> Option<&Arc<Route>> {
        self.0.iter().find(|route| route.name == name)
    }

    /// Those on which requests have keys.
    pub(crate) fn keyed(&self) -> impl Iterator<Item = &Arc<Route>> {
        self.0.iter().filter(|route| route.config.key != Key::Ignore)
    }
}

/// A path's segments, decoded. Many servers read `/a//b/` as `/a/b`, so that empty ones don't count.
fn segments(path: &str) -> Result<Vec<String>, Ambiguous> {
    path.split('/').filter(|segment| !segment.is_empty()).map(decoded).collect()
}

fn decoded(segment: &str) -> Result<String, Ambiguous> {
    let text = percent_decoded(segment).ok_or(Ambiguous)?;
    // Servers read these as other paths than they spell.
    let other = text == "." || text == ".." || text.contains(['/', '\\']) || text.chars().any(char::is_control);
    if other { Err(Ambiguous) } else { Ok(text) }
}

fn declared(config: &RouteConfig) -> Declared {
    let codes = &config.codes;
    let lists = [
        (&codes.done, Means::Done),
        (&codes.not_run, Means::NotRun),
        (&codes.busy, Means::Busy),
        (&codes.nothing, Means::Nothing),
    ];
    let all = lists.into_iter().flat_map(|(codes, means)| codes.iter().map(move |code| (*code, means)));
    all.fold(Declared::new(), |declared, (code, means)| declared.status(code, means))
}

fn policy(config: &RouteConfig) -> Policy {
    let tool = match &config.kind {
        Kind::Opaque => ToolKind::Opaque,
        Kind::Idempotent => ToolKind::Idempotent,
        Kind::ReadOnly => ToolKind::ReadOnly,
        Kind::Keyed { remembers, margin } => {
            ToolKind::Deduplicates { limit: millis(*remembers), margin: millis(*margin), remembers_rejections: false }
        }
        Kind::Observable { settling, .. } => ToolKind::Observable { settling: millis(*settling) },
    };
    let retry = config.retry;
    let checks = match &config.kind {
        Kind::Observable { observe, .. } => observe.checks,
        _ => Retry::default().checks,
    };
    let first = match &config.kind {
        Kind::Observable { observe, .. } => observe.every,
        _ => retry.first,
    };
    Policy {
        // What is known not to have happened may be asked for again with the same key.
        repeat: Repeat { ends: Ends::OnFailure, window: Some(millis(config.retention)) },
        retry: Retry {
            attempts: retry.attempts,
            total: millis(retry.total),
            checks,
            backoff: Backoff { base: millis(first), cap: millis(retry.longest.max(first)) },
        },
        ..Policy::new(tool)
    }
}

fn millis(time: Duration) -> Millis {
    Millis::try_from(time.as_millis()).unwrap_or(Millis::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(paths: &[&str]) -> Routes {
        let configs: Vec<_> = paths.iter().map(|path| RouteConfig::new(path, vec![Method::POST])).collect();
        Routes::new(&configs, false).unwrap()
    }

    fn found(routes: &Routes, path: &str) -> Option<String> {
        routes.find(&Method::POST, path).unwrap().map(|route| route.config.path.clone())
    }

    #[test]
    fn the_first_that_fits() {
        let routes = routes(&["/v1/charges", "/v1/*/refund", "/v1/files/**"]);
        for (path, route) in [
            ("/v1/charges", "/v1/charges"),
            ("/v1/%63harges", "/v1/charges"),
            ("//v1//charges/", "/v1/charges"),
            ("/v1/ch_1/refund", "/v1/*/refund"),
            ("/v1/a/b/refund", "/**"),
            ("/v1/files/a/b", "/v1/files/**"),
            ("/v1/files", "/v1/files/**"),
            ("/", "/**"),
        ] {
            assert_eq!(found(&routes, path).as_deref(), Some(route), "{path}");
        }
        assert!(routes.find(&Method::GET, "/v1/charges").unwrap().is_none());
    }

    #[test]
    fn no_way_around_a_route() {
        let routes = routes(&["/v1/charges"]);
        for path in
            ["/v1/./charges", "/x/../v1/charges", "/v1%2fcharges", "/v1/%2e/charges", "/v1\\charges", "/%zz", "/%4"]
        {
            assert_eq!(routes.find(&Method::POST, path).err(), Some(Ambiguous), "{path}");
        }
    }
}

//! What a service declares of its requests.

use http::request::Parts;
use http::{HeaderName, HeaderValue};
use settled::{Limits, Resource};
use settled_protocol::{Ends, Policy, Repeat, Retry, ToolKind};

use crate::classify::Declared;
use crate::idempotency_key::Syntax;
use crate::message;

/// Says which requests are guarded, and how. Any function from a request's head will do.
pub trait Describe: Send + Sync + 'static {
    /// What is to be done with this request.
    fn describe(&self, request: &Parts) -> Described;
}

impl<F: Fn(&Parts) -> Described + Send + Sync + 'static> Describe for F {
    fn describe(&self, request: &Parts) -> Described {
        self(request)
    }
}

/// What is to be done with a request.
#[derive(Clone, Debug)]
pub enum Described {
    /// It goes to the service as it is.
    PassOn,
    /// It is carried out at most once per key.
    Guard(Box<Route>),
}

/// Whether a request must have a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyRule {
    /// One without is refused.
    Required,
    /// One without is passed on, unguarded.
    Optional,
}

/// How the requests of one kind are guarded.
#[derive(Clone, Debug)]
pub struct Route {
    /// Whose request it is, from what has authenticated it. Callers with different scopes can't see each other's answers.
    pub scope: String,
    /// The operation's name, such as `POST /charges`.
    pub name: String,
    /// What the service can do, and what a repeat means.
    pub policy: Policy,
    /// How long things may take.
    pub limits: Limits,
    /// What the request must have to itself.
    pub resource: Option<Resource>,
    /// Whether it must have a key.
    pub key: KeyRule,
    /// How the key may be written.
    pub syntax: Syntax,
    /// The largest body of a request, in bytes.
    pub max_request: usize,
    /// The largest body of an answer that is kept, in bytes.
    pub max_response: usize,
    /// Which headers of the answer are kept, for the first caller and for the repeats.
    pub keep: fn(&HeaderName, &HeaderValue) -> bool,
    /// What statuses of the service mean, where that is not what [`GuardLayer`](crate::GuardLayer) says.
    pub declared: Declared,
}

impl Route {
    /// A route that needs a key, for a service of which nothing is known but that each of its requests runs at most once: an
    /// unknown outcome waits for a person. Each answer is kept for ever; a request that is known not to have happened may be
    /// sent again with the same key. Bodies have up to 1 MiB, answers up to 8 MiB; headers are kept that are neither secret
    /// nor about the connection.
    pub fn new(scope: impl Into<String>, name: impl Into<String>) -> Route {
        Route {
            scope: scope.into(),
            name: name.into(),
            policy: Policy {
                repeat: Repeat { ends: Ends::OnFailure, window: None },
                retry: Retry { attempts: 1, ..Retry::default() },
                ..Policy::new(ToolKind::Opaque)
            },
            limits: Limits::default(),
            resource: None,
            key: KeyRule::Required,
            syntax: Syntax::Strict,
            max_request: 1 << 20,
            max_response: 8 << 20,
            keep: message::is_kept,
            declared: Declared::new(),
        }
    }
}

impl From<Route> for Described {
    fn from(route: Route) -> Described {
        Described::Guard(Box::new(route))
    }
}

//! The terms under which a request is guarded, and its stored form.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Request, Url};
use settled::{Limits, Resource};
use settled_protocol::{AttemptId, Ends, Key, Policy, ToolKind};

use crate::classify::Declared;
use crate::idempotency_key::{self, IDEMPOTENCY_KEY};
use crate::message;

/// Makes a request guarded: attach it with `with_extension`.
#[derive(Clone, Debug)]
pub struct GuardedRequest {
    /// The operation's key.
    pub key: Key,
    /// What the server can do, and what a repeat means.
    pub policy: Policy,
    /// How long things may take.
    pub limits: Limits,
    /// What the operation must have to itself.
    pub resource: Option<Resource>,
    /// What statuses of the server mean, where that is not what [`classify`](crate::classify) says.
    pub declared: Declared,
    /// The header in which the server takes a key to deduplicate by. A request that has that header already keeps it.
    pub key_header: Option<HeaderName>,
    /// The largest body of a response that is kept, in bytes.
    pub max_response: usize,
}

impl GuardedRequest {
    /// A request under this key. A server that deduplicates is sent the key as `Idempotency-Key`; responses of up to 8 MiB
    /// are kept.
    pub fn new(key: Key, policy: Policy) -> GuardedRequest {
        GuardedRequest {
            key,
            key_header: matches!(policy.tool, ToolKind::Deduplicates { .. }).then_some(IDEMPOTENCY_KEY),
            policy,
            limits: Limits::default(),
            resource: None,
            declared: Declared::new(),
            max_response: 8 << 20,
        }
    }

    /// The key for the server: a digest, which tells it nothing. A later operation under a key that is free again is another
    /// one for the server as well.
    pub(super) fn key_for_server(&self, key: &Key, attempt: AttemptId) -> Option<(HeaderName, HeaderValue)> {
        let name = self.key_header.clone()?;
        // Not the key of these terms: they may have been given for a whole class of recovered requests.
        let digest = key.digest();
        let key = match self.policy.repeat.ends {
            Ends::WithWindow => digest.to_string(),
            Ends::OnFailure | Ends::OnDelivery => format!("{digest}-{}", attempt.generation),
        };
        Some((name, idempotency_key::value(&key)?))
    }
}

/// Says in a stored request that credentials were left out of it.
const LEFT_OUT: HeaderName = HeaderName::from_static("settled-left-out");

/// A request's stored form.
pub(super) fn write(request: &Request, body: &[u8]) -> Bytes {
    let mut headers = request.headers().clone();
    let secrets: Vec<&str> = request
        .headers()
        .iter()
        .filter(|(name, value)| message::is_secret(name, value))
        .map(|(name, _)| name.as_str())
        .collect();
    if let Ok(secrets) = HeaderValue::from_str(&secrets.join(", "))
        && !secrets.is_empty()
    {
        headers.insert(LEFT_OUT, secrets);
    }
    let mut url = request.url().clone();
    url.set_fragment(None);
    message::write_request(request.method(), url.as_str(), &headers, body)
}

/// A request from its stored form, and whether credentials were left out of it.
pub(super) fn read(stored: &Bytes) -> Option<(Request, bool)> {
    let stored = message::read_request(stored).ok()?;
    let mut request = Request::new(stored.method, Url::parse(&stored.target).ok()?);
    let mut headers: HeaderMap = stored.headers;
    let left_out = headers.remove(LEFT_OUT).is_some();
    *request.headers_mut() = headers;
    if !stored.body.is_empty() {
        *request.body_mut() = Some(stored.body.into());
    }
    Some((request, left_out))
}

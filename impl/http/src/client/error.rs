//! Why a guarded request has no response.

use http::StatusCode;
use settled::EngineError;
use settled_protocol::Key;

/// Why a guarded request has no response. It comes as [`reqwest_middleware::Error::Middleware`]; `downcast_ref` finds it
/// there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// It may have happened.
    #[error("it is not known whether {key} happened; do not repeat it under another key, ask again with the same one")]
    Unknown {
        /// The operation's key.
        key: Key,
        /// The status that left it open, if it was one.
        status: Option<StatusCode>,
    },
    /// It did not happen and won't under this key.
    #[error("{key} did not happen: {}", error.as_deref().unwrap_or("it was given up before it was sent"))]
    Failed {
        /// The operation's key.
        key: Key,
        /// Why.
        error: Option<String>,
    },
    /// It is being carried out for another caller.
    #[error("{0} is being carried out; ask again with the same key")]
    InProgress(Key),
    /// The key was used with another request.
    #[error("the key {0} was used with another request; use a key of its own for each operation")]
    Conflict(Key),
    /// The key's result is no longer kept.
    #[error("the result of {0} is no longer kept; look up what it did before you use a new key")]
    Expired(Key),
    /// The request's body is a stream, which can't be recorded.
    #[error("a guarded request must have its body in memory, not as a stream; nothing was sent")]
    Streaming,
    /// The recorded answer is not a response.
    #[error("it happened, but its recorded answer can't be read: {0}")]
    Response(String),
    /// The engine could not do its part; nothing was sent.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

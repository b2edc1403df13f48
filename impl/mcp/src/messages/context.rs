//! What came with a message besides its text.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use tokio::time::Instant;

/// What came with a message besides its text: over stdio nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Context {
    /// Headers that go on to a server behind HTTP, with this message: the caller's authorization, and the configured ones.
    pub(crate) pass: HeaderMap,
    /// The `Idempotency-Key` header's value, already checked.
    pub(crate) idempotency_key: Option<String>,
    /// The `MCP-Protocol-Version` header.
    pub(crate) revision: Option<String>,
    /// When it came, if that is not when it is read: over HTTP it may wait before that.
    pub(crate) came: Option<Instant>,
    /// Where it is noted if a server behind HTTP answers with another status than 2xx to what was sent for this message.
    pub(crate) refused: Refused,
}

/// An unsuccessful answer of a server behind HTTP, as a client over HTTP gets it.
#[derive(Clone, Debug)]
pub(crate) struct HttpRefusal {
    pub(crate) status: StatusCode,
    /// Those that mean something to a client: `WWW-Authenticate`, `Retry-After`, `Content-Type`.
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// A place for such an answer. Its clones are the same place.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refused(Arc<Mutex<Option<HttpRefusal>>>);

impl Refused {
    /// The last one is kept.
    pub(crate) fn set(&self, refusal: HttpRefusal) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(refusal);
    }

    /// The last one, once.
    pub(crate) fn take(&self) -> Option<HttpRefusal> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// One message of a client, or a batch.
#[derive(Clone, Debug)]
pub(crate) struct Incoming {
    /// Its text, one line over stdio.
    pub(crate) line: Bytes,
    /// What came with it.
    pub(crate) context: Arc<Context>,
    /// When.
    pub(crate) came: Instant,
}

impl Incoming {
    /// A message that came without anything else.
    pub(crate) fn bare(line: Bytes, context: &Arc<Context>) -> Incoming {
        Incoming { line, context: context.clone(), came: context.came.unwrap_or_else(Instant::now) }
    }

    /// A member of a batch.
    pub(crate) fn member(&self, line: Bytes) -> Incoming {
        Incoming { line, context: self.context.clone(), came: self.came }
    }
}

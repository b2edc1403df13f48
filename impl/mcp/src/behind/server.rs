//! The way to the MCP server: one bounded queue, whatever process is behind it.

use std::sync::Arc;

use bytes::Bytes;
use settled::Permit;
use tokio::sync::{mpsc, oneshot};

use crate::book::{Book, OwnReply};
use crate::messages::context::{Context, Incoming};
use crate::messages::frame::IdKey;
use crate::messages::lines::QUEUE;
use crate::messages::splice::quoted;

/// The JSON-RPC error code for what went wrong on the way.
pub(crate) const TRANSPORT_ERROR: i64 = -32000;

/// What the book must know about a line that is passed on.
pub(crate) enum Note {
    /// These requests are in it: each id, and the parameters of an `initialize`.
    Requests(Vec<(String, Option<Option<String>>)>),
    /// It is the client's `notifications/initialized`.
    Initialized,
    /// It cancels that request.
    Cancel(IdKey),
    /// Nothing.
    Nothing,
}

/// A message on its way to the server.
pub(crate) enum ToServer {
    /// One of the client's, as it came.
    Pass { message: Incoming, note: Note },
    /// A request of the proxy's own.
    Own {
        line: Bytes,
        id: String,
        /// Without it, it may not be sent any more.
        permit: Option<Permit>,
        /// What came with the message that this is sent for.
        context: Arc<Context>,
        written: oneshot::Sender<()>,
        reply: oneshot::Sender<OwnReply>,
    },
    /// There are no more.
    Close,
}

/// A request of the proxy's own.
pub(crate) struct Own<'a> {
    pub(crate) method: &'a str,
    /// The parameters' text.
    pub(crate) params: &'a str,
    /// Without it, it may not be sent any more.
    pub(crate) permit: Option<Permit>,
    /// What came with the message that it is sent for.
    pub(crate) context: &'a Arc<Context>,
}

/// The way to the server. All messages go through one bounded queue, in order.
#[derive(Clone)]
pub(crate) struct ServerHandle {
    queue: mpsc::Sender<ToServer>,
    book: Arc<Book>,
}

impl ServerHandle {
    /// A handle, and where its messages come out.
    pub(crate) fn new(book: Arc<Book>) -> (ServerHandle, mpsc::Receiver<ToServer>) {
        let (queue, messages) = mpsc::channel(QUEUE);
        (ServerHandle { queue, book }, messages)
    }

    /// Passes a line on. `false` if the proxy is at its end.
    pub(crate) async fn pass(&self, message: Incoming, note: Note) -> bool {
        self.queue.send(ToServer::Pass { message, note }).await.is_ok()
    }

    /// Sends a request of the proxy's own, on nobody's behalf, and waits for its answer.
    pub(crate) async fn request(&self, method: &str, params: &str) -> OwnReply {
        self.send(Own { method, params, permit: None, context: &Arc::default() }, || {}).await
    }

    /// Sends a request of the proxy's own, once, and waits for its answer. `written` is called when all of it has left
    /// this process. If this is dropped before it was sent, it never is; nor once its permit has ended.
    pub(crate) async fn send(&self, own: Own<'_>, written: impl FnOnce()) -> OwnReply {
        let Own { method, params, permit, context } = own;
        let id = self.book.next_id();
        let line = request_line(&id, method, Some(params));
        let (reply, answer) = oneshot::channel();
        let (on_written, was_written) = oneshot::channel();
        let _forget = ForgetOnDrop(&self.book, id.clone());
        let message = ToServer::Own { line, id, permit, context: context.clone(), written: on_written, reply };
        if self.queue.send(message).await.is_err() {
            return OwnReply::NotSent("the server process has ended".to_owned());
        }
        let sent = was_written.await.is_ok();
        if sent {
            written();
        }
        // Whoever takes the message from the queue either answers it or writes it.
        answer.await.unwrap_or_else(|_| {
            if sent { OwnReply::Lost } else { OwnReply::NotSent("the server process has ended".to_owned()) }
        })
    }

    /// Closes the server's input once everything before it has been written.
    pub(crate) async fn close(&self) {
        let _ = self.queue.send(ToServer::Close).await;
    }
}

/// A request whose answer nobody waits for any more is taken out of the book.
struct ForgetOnDrop<'a>(&'a Book, String);

impl Drop for ForgetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.take_back(&self.1);
    }
}

/// The line of a request of the proxy's own.
pub(crate) fn request_line(id: &str, method: &str, params: Option<&str>) -> Bytes {
    let (id, method) = (quoted(id), quoted(method));
    match params {
        Some(params) => {
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{method},"params":{params}}}"#)
        }
        None => format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{method}}}"#),
    }
    .into()
}

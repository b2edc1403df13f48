//! The messages of a client that writes lines, and what becomes of those that are too large.

use std::sync::Arc;

use bytes::Bytes;
use settled::task;
use tokio::io::AsyncRead;
use tokio::sync::mpsc;

use crate::behind::server::TRANSPORT_ERROR;
use crate::messages::context::{Context, Incoming};
use crate::messages::lines::{ClientSink, Line, Lines};
use crate::messages::oversized::Oversized;
use crate::told::answer::error_line;

/// How many lines of the client are read ahead.
pub(crate) const LINES: usize = 64;

/// JSON-RPC's "invalid request".
const INVALID_REQUEST: i64 = -32600;

/// The messages of a client that writes lines.
/// `longest`: how many bytes a line may have; of one that has more, `client` is told.
pub(crate) fn from_lines<R: AsyncRead + Send + Unpin + 'static>(
    stdin: R,
    client: ClientSink,
    longest: usize,
) -> mpsc::Receiver<Incoming> {
    let (read, messages) = mpsc::channel(LINES);
    task::spawn(async move {
        // Whoever stops listening ends this, also while nothing comes.
        tokio::select! {
            biased;
            () = read.closed() => {}
            () = read_lines(Lines::new(stdin, longest), &read, &client) => {}
        }
    });
    messages
}

async fn read_lines<R: AsyncRead + Unpin>(mut stdin: Lines<R>, messages: &mpsc::Sender<Incoming>, client: &ClientSink) {
    let context = Arc::new(Context::default());
    loop {
        match stdin.next().await {
            Ok(Some(Line::TooLong(about))) => {
                if let Some(line) = refused(&about, stdin.longest(), client).await
                    && messages.send(Incoming::bare(line, &context)).await.is_err()
                {
                    return;
                }
            }
            Ok(Some(Line::Whole(line))) => {
                if messages.send(Incoming::bare(line, &context)).await.is_err() {
                    return;
                }
            }
            Ok(None) => return,
            Err(error) => {
                tracing::error!(%error, "the client's messages can't be read");
                return;
            }
        }
    }
}

/// Tells the client that a message of it was too large. The server may wait for an answer: then it gets one that says so.
async fn refused(about: &Oversized, longest: usize, client: &ClientSink) -> Option<Bytes> {
    let text = format!(
        "nothing was sent: the message has {} bytes, and `frame_bytes` in settled.toml allows {longest}",
        about.bytes
    );
    match &about.id {
        Some(id) if about.is_answer() => {
            Some(error_line(id, TRANSPORT_ERROR, "the client's answer was too large to be passed on", None).into())
        }
        id => {
            client.send(error_line(id.as_deref().unwrap_or("null"), INVALID_REQUEST, &text, None)).await;
            None
        }
    }
}

//! An answer that is longer than what is kept, on its way to the one caller who gets it: at that caller's pace.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use http_body::{Body, Frame};
use tokio::sync::mpsc;

/// How many chunks wait for the caller at most.
const AHEAD: usize = 16;

/// What is given on.
enum Piece {
    Chunk(Bytes),
    /// All of it has come, and that it has is recorded.
    End,
}

/// The answer, as its caller gets it.
pub(crate) struct Overflow {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Outflow,
}

/// Gives the answer on. Dropped before its end, it breaks the answer off.
#[derive(Clone, Debug)]
pub(crate) struct Inflow(mpsc::Sender<Piece>);

/// The body that the caller gets.
pub(crate) struct Outflow {
    pieces: mpsc::Receiver<Piece>,
    ended: bool,
}

/// The answer broke off.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the answer broke off")]
pub(crate) struct BrokeOff;

/// A way for an answer.
pub(crate) fn flow() -> (Inflow, Outflow) {
    let (give, pieces) = mpsc::channel(AHEAD);
    (Inflow(give), Outflow { pieces, ended: false })
}

impl Inflow {
    /// Gives a chunk on, when there is room. Whoever has gone away needs none.
    pub(crate) async fn chunk(&self, bytes: Bytes) {
        let _ = self.0.send(Piece::Chunk(bytes)).await;
    }

    /// Lets the answer end, when there is room.
    pub(crate) async fn end(self) {
        let _ = self.0.send(Piece::End).await;
    }
}

impl Body for Outflow {
    type Data = Bytes;
    type Error = BrokeOff;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokeOff>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let piece = std::task::ready!(self.pieces.poll_recv(cx));
        self.ended = !matches!(piece, Some(Piece::Chunk(_)));
        Poll::Ready(match piece {
            Some(Piece::Chunk(bytes)) => Some(Ok(Frame::data(bytes))),
            Some(Piece::End) => None,
            None => Some(Err(BrokeOff)),
        })
    }
}

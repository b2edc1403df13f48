//! One who listens to a stream, as the body of a response.

use std::collections::HashMap;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::{Body, Frame};

use super::buffer::Read;
use super::{Interest, Live, lock};

/// A listener's stream has no end, so that its connection must be cut: nobody shall take what came for all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Interrupted {
    /// The stream itself broke off.
    #[error("the answer broke off")]
    Broken,
    /// This listener was too slow.
    #[error("what comes next is not kept any more: the answer was read too slowly")]
    TooLate,
}

/// Those who wait for more.
#[derive(Default)]
pub(super) struct Wakers {
    next: u64,
    waiting: HashMap<u64, Waker>,
}

impl Wakers {
    pub(super) fn take(&mut self) -> Vec<Waker> {
        self.waiting.drain().map(|(_, waker)| waker).collect()
    }
}

/// The body of one listener's response.
pub(crate) struct Listener {
    live: Live,
    id: u64,
    has: u64,
    over: bool,
    _interest: Option<Interest>,
}

impl Listener {
    pub(super) fn new(live: Live, has: usize, interest: Option<Interest>) -> Listener {
        let id = {
            let wakers = &mut lock(&live.0.state).wakers;
            wakers.next += 1;
            wakers.next
        };
        Listener { live, id, has: has as u64, over: false, _interest: interest }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        lock(&self.live.0.state).wakers.waiting.remove(&self.id);
    }
}

impl Body for Listener {
    type Data = Bytes;
    type Error = Interrupted;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Interrupted>>> {
        let listener = self.get_mut();
        if listener.over {
            return Poll::Ready(None);
        }
        let read = {
            let mut state = lock(&listener.live.0.state);
            let read = state.buffer.read(listener.has);
            if read == Read::Wait {
                state.wakers.waiting.insert(listener.id, context.waker().clone());
            }
            read
        };
        let ends = match read {
            Read::Wait => return Poll::Pending,
            Read::Bytes(bytes) => {
                listener.has += bytes.len() as u64;
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            Read::End => None,
            Read::Broken => Some(Err(Interrupted::Broken)),
            Read::TooLate => Some(Err(Interrupted::TooLate)),
        };
        listener.over = true;
        Poll::Ready(ends)
    }
}

//! A request's body that leaves at most once, and knows whether it has.
//!
//! A connection may have to be made first, or a stream be free: so the last question whether it may be sent is asked when its
//! first byte is wanted, and whatever happens afterwards, no byte is given out a second time (rule 1).

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use settled::fault;

/// What has become of a request's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Sent {
    /// None of it was given out.
    Nothing = 0,
    /// None of it was given out, and none will be.
    Withheld = 1,
    /// All of it was given out: it may be anywhere.
    Perhaps = 2,
}

/// What is known of a body that was handed over.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    state: Arc<AtomicU8>,
    is_empty: bool,
}

impl Watch {
    /// Closes the gate, if it was not passed. What has become of the body is final then.
    pub(crate) fn close(&self) -> Sent {
        let closed = (Sent::Nothing as u8, Sent::Withheld as u8);
        let state = self.state.compare_exchange(closed.0, closed.1, Ordering::AcqRel, Ordering::Acquire);
        match state {
            // An empty body is never asked for: its head alone may have been the whole request.
            Ok(_) if self.is_empty => Sent::Perhaps,
            Ok(_) => Sent::Nothing,
            Err(1) => Sent::Withheld,
            Err(_) => Sent::Perhaps,
        }
    }
}

/// The body.
pub(crate) struct Gate {
    body: Bytes,
    state: Arc<AtomicU8>,
    may_begin: Box<dyn Fn() -> bool + Send + Sync>,
}

/// Why no body is given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it may not be sent any more")]
pub(crate) struct NotAgain;

impl Gate {
    /// A body. `may_begin` is asked when its first byte is wanted.
    pub(crate) fn new(body: Bytes, may_begin: impl Fn() -> bool + Send + Sync + 'static) -> (Gate, Watch) {
        let state = Arc::new(AtomicU8::new(Sent::Nothing as u8));
        let watch = Watch { state: state.clone(), is_empty: body.is_empty() };
        (Gate { body, state, may_begin: Box::new(may_begin) }, watch)
    }
}

impl Body for Gate {
    type Data = Bytes;
    type Error = NotAgain;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, NotAgain>>> {
        let gate = self.get_mut();
        let next = if (gate.may_begin)() { Sent::Perhaps } else { Sent::Withheld };
        let passed = gate.state.compare_exchange(Sent::Nothing as u8, next as u8, Ordering::AcqRel, Ordering::Acquire);
        match (passed, next) {
            (Ok(_), Sent::Perhaps) => {
                fault::point("before-write-to-server");
                let body = std::mem::take(&mut gate.body);
                Poll::Ready((!body.is_empty()).then(|| Ok(Frame::data(body))))
            }
            (Err(2), _) => Poll::Ready(None),
            _ => Poll::Ready(Some(Err(NotAgain))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.body.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::AtomicBool;

    use super::*;

    async fn next(gate: &mut Gate) -> Option<Result<Bytes, NotAgain>> {
        let frame = poll_fn(|context| Pin::new(&mut *gate).poll_frame(context)).await;
        frame.map(|frame| frame.map(|frame| frame.into_data().unwrap()))
    }

    #[tokio::test]
    async fn a_body_leaves_once() {
        let (mut gate, watch) = Gate::new("text".into(), || true);
        assert_eq!((gate.size_hint().exact(), gate.is_end_stream()), (Some(4), false));
        assert_eq!(next(&mut gate).await, Some(Ok("text".into())));
        assert!(gate.is_end_stream());
        assert!(!matches!(next(&mut gate).await, Some(Ok(_))), "a second time");
        assert_eq!(watch.close(), Sent::Perhaps);
    }

    #[tokio::test]
    async fn what_may_not_be_sent_any_more_never_is() {
        let may = Arc::new(AtomicBool::new(false));
        let asked = may.clone();
        let (mut gate, watch) = Gate::new("text".into(), move || asked.load(Ordering::SeqCst));
        assert_eq!(next(&mut gate).await, Some(Err(NotAgain)));
        may.store(true, Ordering::SeqCst);
        assert_eq!(next(&mut gate).await, Some(Err(NotAgain)));
        assert_eq!(watch.close(), Sent::Withheld);
    }

    #[tokio::test]
    async fn a_closed_gate_stays_closed() {
        let (mut gate, watch) = Gate::new("text".into(), || true);
        assert_eq!(watch.close(), Sent::Nothing);
        assert_eq!(next(&mut gate).await, Some(Err(NotAgain)));
    }

    #[test]
    fn a_head_without_a_body_may_be_the_whole_request() {
        let (_gate, watch) = Gate::new(Bytes::new(), || true);
        assert_eq!(watch.close(), Sent::Perhaps);
    }
}

//! A request's body that leaves at most once, and knows whether it has.
//!
//! Everything below may keep a request waiting (a connection is made, a stream must be free) or give it back. So the last
//! question whether it may be sent is asked when its first byte is wanted, and whatever happens afterwards, no byte is given
//! out a second time: nothing below can send it twice (rule 1).

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use settled::fault;
use tokio::sync::oneshot;

use crate::upstream::flights::Flight;

/// What has become of a request's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Sent {
    /// None of it was given out: the server has certainly not run it.
    Nothing = 0,
    /// None of it was given out, and none will be, because it may not be sent any more.
    Withheld = 1,
    /// All of it was given out: it may be anywhere.
    Perhaps = 2,
}

/// What is known of a body that was handed over.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    state: Arc<AtomicU8>,
}

impl Watch {
    /// What has become of it so far.
    pub(crate) fn sent(&self) -> Sent {
        match self.state.load(Ordering::Acquire) {
            0 => Sent::Nothing,
            1 => Sent::Withheld,
            _ => Sent::Perhaps,
        }
    }

    /// Closes the gate, if it was not passed. What has become of the body is final then.
    pub(crate) fn close(&self) -> Sent {
        let closed = (Sent::Nothing as u8, Sent::Withheld as u8);
        match self.state.compare_exchange(closed.0, closed.1, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Sent::Nothing,
            Err(_) => self.sent(),
        }
    }
}

/// The body.
pub(crate) struct Gate {
    line: Bytes,
    watch: Watch,
    flight: Arc<Flight>,
    may_begin: Box<dyn Fn() -> bool + Send + Sync>,
    left: Option<oneshot::Sender<()>>,
}

/// Why no body is given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it may not be sent any more")]
pub(crate) struct NotAgain;

impl Gate {
    /// A body of this text. `may_begin` is asked when its first byte is wanted; `left` is told when nothing of it is kept in
    /// this process any more; the flight, when it is settled whether it goes out.
    pub(crate) fn new(
        line: Bytes,
        flight: Arc<Flight>,
        left: Option<oneshot::Sender<()>>,
        may_begin: impl Fn() -> bool + Send + Sync + 'static,
    ) -> (Gate, Watch) {
        let watch = Watch { state: Arc::new(AtomicU8::new(Sent::Nothing as u8)) };
        (Gate { line, watch: watch.clone(), flight, may_begin: Box::new(may_begin), left }, watch)
    }
}

impl Body for Gate {
    type Data = Bytes;
    type Error = NotAgain;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, NotAgain>>> {
        let gate = self.get_mut();
        if gate.watch.sent() == Sent::Perhaps {
            return Poll::Ready(None);
        }
        fault::point("before-write-to-server");
        let next = if (gate.may_begin)() { Sent::Perhaps } else { Sent::Withheld };
        let passed =
            gate.watch.state.compare_exchange(Sent::Nothing as u8, next as u8, Ordering::AcqRel, Ordering::Acquire);
        let goes_out = next == Sent::Perhaps && passed.is_ok();
        gate.flight.begins(goes_out);
        if !goes_out {
            return Poll::Ready(Some(Err(NotAgain)));
        }
        let text = Text { line: std::mem::take(&mut gate.line), left: gate.left.take() };
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_owner(text)))))
    }

    fn is_end_stream(&self) -> bool {
        self.watch.sent() == Sent::Perhaps && self.line.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.line.len() as u64)
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        // Whoever has it no longer will not ask for it any more.
        self.flight.begins(self.watch.sent() == Sent::Perhaps);
    }
}

/// The text on its way: it is dropped when it has been written, or never will be.
struct Text {
    line: Bytes,
    left: Option<oneshot::Sender<()>>,
}

impl AsRef<[u8]> for Text {
    fn as_ref(&self) -> &[u8] {
        &self.line
    }
}

impl Drop for Text {
    fn drop(&mut self) {
        fault::point("after-write-to-server");
        if let Some(left) = self.left.take() {
            let _ = left.send(());
        }
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

    fn gate(may: Arc<AtomicBool>) -> (Gate, Watch, oneshot::Receiver<()>) {
        let (left, was) = oneshot::channel();
        let (gate, watch) = Gate::new("text".into(), Arc::default(), Some(left), move || may.load(Ordering::SeqCst));
        (gate, watch, was)
    }

    #[tokio::test]
    async fn it_is_given_out_once_and_has_left_when_it_was_written() {
        let (mut gate, watch, mut left) = gate(Arc::new(AtomicBool::new(true)));
        assert_eq!((watch.sent(), gate.size_hint().exact()), (Sent::Nothing, Some(4)));
        let text = next(&mut gate).await.unwrap().unwrap();
        assert_eq!(text, "text");
        assert!(gate.is_end_stream() && gate.flight.begun.is_raised() && gate.flight.has_left());
        assert_eq!((watch.sent(), watch.close()), (Sent::Perhaps, Sent::Perhaps));
        assert!(left.try_recv().is_err(), "it is still kept");
        drop(text);
        left.try_recv().unwrap();
        assert!(!matches!(next(&mut gate).await, Some(Ok(_))), "a second time");
    }

    #[tokio::test]
    async fn what_may_not_be_sent_any_more_never_is() {
        let may = Arc::new(AtomicBool::new(false));
        let (mut held, watch, mut left) = gate(may.clone());
        assert_eq!(next(&mut held).await, Some(Err(NotAgain)));
        may.store(true, Ordering::SeqCst);
        assert_eq!(next(&mut held).await, Some(Err(NotAgain)));
        assert_eq!(watch.sent(), Sent::Withheld);
        assert!(held.flight.begun.is_raised() && !held.flight.has_left());
        drop(held);
        assert_eq!(left.try_recv(), Err(oneshot::error::TryRecvError::Closed));
    }

    #[tokio::test]
    async fn a_closed_gate_stays_closed() {
        let (mut gate, watch, _left) = gate(Arc::new(AtomicBool::new(true)));
        assert_eq!(watch.close(), Sent::Nothing);
        assert_eq!(next(&mut gate).await, Some(Err(NotAgain)));
        assert_eq!(watch.sent(), Sent::Withheld);
    }
}

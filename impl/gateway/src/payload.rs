//! Bodies on their way.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use tokio::time::{Instant, Sleep, sleep};
use tower::BoxError;

/// Any body.
pub(crate) type Payload = UnsyncBoxBody<Bytes, BoxError>;

/// An answer that is there as a whole.
pub(crate) fn whole(response: Response<Bytes>) -> Response<Payload> {
    response.map(|body| Full::new(body).map_err(|never| match never {}).boxed_unsync())
}

/// A body with something that is let go when it is over.
pub(crate) struct Holding<B, T> {
    pub(crate) body: B,
    pub(crate) _held: T,
}

impl<B: Body + Unpin, T: Unpin> Body for Holding<B, T> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A body from someone who must not stop in the middle for long.
pub(crate) struct Patient<B> {
    body: B,
    idle: Duration,
    until: Pin<Box<Sleep>>,
}

/// Nothing came for too long.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("nothing came for too long")]
pub(crate) struct Stalled;

impl<B> Patient<B> {
    pub(crate) fn new(body: B, idle: Duration) -> Patient<B> {
        Patient { body, idle, until: Box::pin(sleep(idle)) }
    }
}

impl<B: Body + Unpin> Body for Patient<B>
where
    B::Error: Into<BoxError>,
{
    type Data = B::Data;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, BoxError>>> {
        let this = &mut *self;
        match Pin::new(&mut this.body).poll_frame(cx) {
            Poll::Ready(frame) => {
                let idle = this.idle;
                this.until.as_mut().reset(Instant::now() + idle);
                Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
            }
            Poll::Pending if this.until.as_mut().poll(cx).is_ready() => Poll::Ready(Some(Err(Stalled.into()))),
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

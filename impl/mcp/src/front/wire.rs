//! A client's connection: when what was handed to it has left this process, and whether the client was still there
//! then.
//!
//! An answer counts as delivered only then. What is merely buffered, here or in the HTTP library, may still be lost
//! with the connection.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use settled::fault;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

/// How long a client may take none of what is written to it.
const PATIENCE: Duration = Duration::from_secs(30);

/// Called once: with `true` if everything handed over before was written to a connection whose other side was there.
type Then = Box<dyn FnOnce(bool) + Send>;

/// What is waited for on a connection.
#[derive(Default)]
pub(crate) struct Wire(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    then: Vec<Then>,
    closed: bool,
}

impl Wire {
    /// To be called when data are handed to the HTTP library: `then` is called when they have been written, or never
    /// will be.
    pub(crate) fn when_written(&self, then: impl FnOnce(bool) + Send + 'static) {
        fault::point("before-write-to-client");
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.closed {
            drop(waiting);
            return then(false);
        }
        waiting.then.push(Box::new(then));
    }

    fn take(&self, closed: bool) -> Vec<Then> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.closed |= closed;
        std::mem::take(&mut waiting.then)
    }

    fn is_waited_for(&self) -> bool {
        !self.0.lock().unwrap_or_else(PoisonError::into_inner).then.is_empty()
    }
}

/// The connection itself.
pub(crate) struct Connection {
    stream: TcpStream,
    wire: Arc<Wire>,
    /// Runs while the client takes nothing.
    stuck: Option<Pin<Box<Sleep>>>,
}

impl Connection {
    pub(crate) fn new(stream: TcpStream, wire: Arc<Wire>) -> Connection {
        Connection { stream, wire, stuck: None }
    }

    /// Passes a result of writing on, unless the client has taken nothing for too long.
    fn patiently<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stuck = None;
            return written;
        }
        let stuck = self.stuck.get_or_insert_with(|| Box::pin(sleep(PATIENCE)));
        ready!(stuck.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read")))
    }

    /// Whether the other side has closed its part. Looks without taking anything, and asks the system itself, because
    /// the runtime learns of it later.
    fn is_gone(&self) -> bool {
        match SockRef::from(&self.stream).peek(&mut [MaybeUninit::uninit()]) {
            Ok(there) => there == 0,
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, from);
        self.patiently(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, from);
        self.patiently(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// The HTTP library calls this only when nothing is left in its own buffers.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        if self.wire.is_waited_for() {
            fault::point("after-write-to-client");
            let there = !self.is_gone();
            self.wire.take(false).into_iter().for_each(|then| then(there));
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.wire.take(true).into_iter().for_each(|then| then(false));
    }
}

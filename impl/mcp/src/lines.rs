//! Lines in, lines out: one message each, bounded queues, and news of what really reached the client.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use settled::{fault, task};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, BufWriter};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::flag::Flag;

/// The longest line that is read; far beyond what any client accepts.
const LONGEST: u64 = 1 << 30;

/// How many messages wait in a queue before its senders do.
pub(crate) const QUEUE: usize = 16;

/// How long a client that has closed its side may take to read a message.
const PATIENCE: Duration = Duration::from_secs(5);

/// Reads lines of any length.
pub(crate) struct Lines<R> {
    reader: BufReader<R>,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(crate) fn new(reader: R) -> Self {
        Lines { reader: BufReader::with_capacity(64 << 10, reader) }
    }

    /// The next line without its end; the last one may lack it. `None` when there are no more.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Bytes>> {
        let mut line = Vec::new();
        let read = (&mut self.reader).take(LONGEST).read_until(b'\n', &mut line).await?;
        if read == 0 {
            return Ok(None);
        }
        if line.last() == Some(&b'\n') {
            line.pop();
        } else if read as u64 == LONGEST {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a line is longer than 1 GiB"));
        }
        Ok(Some(line.into()))
    }
}

struct ToClient {
    line: Bytes,
    told: Option<oneshot::Sender<bool>>,
}

/// The way to the client. All messages go through one queue, in order.
#[derive(Clone)]
pub(crate) struct ClientSink {
    queue: mpsc::Sender<ToClient>,
}

impl ClientSink {
    /// Queues a line. If the client is gone it is dropped: nobody is left to read it.
    pub(crate) async fn send(&self, line: impl Into<Bytes>) {
        let _ = self.queue.send(ToClient { line: line.into(), told: None }).await;
    }

    /// Writes a line, and says whether it was handed over while the client was still there to ask.
    pub(crate) async fn deliver(&self, line: impl Into<Bytes>) -> bool {
        let (told, written) = oneshot::channel();
        let _ = self.queue.send(ToClient { line: line.into(), told: Some(told) }).await;
        written.await.unwrap_or(false)
    }
}

/// Starts writing to the client. `closing` turns true once its input is over. The task ends when all sinks are dropped.
pub(crate) fn write_to_client<W>(writer: W, closing: Flag) -> (ClientSink, tokio::task::JoinHandle<()>)
where
    W: AsyncWrite + Send + Unpin + 'static,
{
    let (queue, receiver) = mpsc::channel(QUEUE);
    (ClientSink { queue }, task::spawn(drain(writer, receiver, closing)))
}

async fn drain<W: AsyncWrite + Unpin>(writer: W, mut queue: mpsc::Receiver<ToClient>, closing: Flag) {
    let mut writer = BufWriter::with_capacity(64 << 10, writer);
    let mut gone = false;
    while let Some(ToClient { line, told }) = queue.recv().await {
        let leaving = closing.is_raised();
        // From then on the queue is only emptied, so that nothing waits for a reader who isn't there.
        if !gone {
            let flush = told.is_some() || queue.is_empty();
            fault::point("before-write-to-client");
            let written = {
                let writing = write_line(&mut writer, &line, flush);
                tokio::pin!(writing);
                tokio::select! {
                    biased;
                    written = &mut writing => written,
                    () = too_late(&closing) => Err(io::ErrorKind::TimedOut.into()),
                }
            };
            fault::point("after-write-to-client");
            if let Err(error) = written {
                gone = true;
                tracing::debug!(%error, "the client no longer reads");
            }
        }
        if let Some(told) = told {
            let _ = told.send(!gone && !leaving);
        }
    }
    if !gone {
        let _ = timeout(PATIENCE, writer.shutdown()).await;
    }
}

async fn write_line<W: AsyncWrite + Unpin>(writer: &mut BufWriter<W>, line: &[u8], flush: bool) -> io::Result<()> {
    writer.write_all(line).await?;
    writer.write_all(b"\n").await?;
    if flush { writer.flush().await } else { Ok(()) }
}

/// Resolves a while after the client's input ended.
async fn too_late(closing: &Flag) {
    closing.raised().await;
    tokio::time::sleep(PATIENCE).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_keep_every_byte() {
        let mut lines = Lines::new(&b"a\r\n\n b \nlast"[..]);
        for expected in ["a\r", "", " b ", "last"] {
            assert_eq!(lines.next().await.unwrap().unwrap(), expected);
        }
        assert_eq!(lines.next().await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_broken_pipe_is_not_a_delivery() {
        let (near, far) = tokio::io::duplex(64);
        let (client, task) = write_to_client(near, Flag::default());
        let mut far = Lines::new(far);
        let read = tokio::spawn(async move {
            let line = far.next().await.unwrap().unwrap();
            (line, far)
        });
        assert!(client.deliver("one").await);
        let (line, far) = read.await.unwrap();
        assert_eq!(line, "one");
        drop(far);
        assert!(!client.deliver("two").await);
        // And nothing ever waits for that client again.
        for _ in 0..QUEUE * 4 {
            client.send("three").await;
        }
        drop(client);
        task.await.unwrap();
    }

    #[tokio::test]
    async fn an_answer_after_the_end_of_the_input_is_written_but_not_delivered() {
        let seen = Flag::default();
        seen.raise();
        let (near, far) = tokio::io::duplex(64);
        let (client, _task) = write_to_client(near, seen);
        assert!(!client.deliver("late").await);
        assert_eq!(Lines::new(far).next().await.unwrap().unwrap(), "late");
    }
}

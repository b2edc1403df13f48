//! Lines in, lines out: one message each, bounded queues, and news of what really reached the client.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use settled::{fault, task};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, BufWriter};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::flag::Flag;
use crate::messages::oversized::{Oversized, Scan};

/// How many messages wait in a queue before its senders do.
pub(crate) const QUEUE: usize = 16;

/// How long a client that has closed its side may take to read a message.
const PATIENCE: Duration = Duration::from_secs(5);

/// Reads lines, up to a length.
pub(crate) struct Lines<R> {
    reader: BufReader<R>,
    longest: usize,
}

/// A line that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// All of it, without its end.
    Whole(Bytes),
    /// It was longer, and went by.
    TooLong(Oversized),
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// `longest`: how many bytes a line may have.
    pub(crate) fn new(reader: R, longest: usize) -> Self {
        Lines { reader: BufReader::with_capacity(64 << 10, reader), longest }
    }

    /// How many bytes a line may have.
    pub(crate) fn longest(&self) -> usize {
        self.longest
    }

    /// The next line; the last one may lack its end. `None` when there are no more.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Line>> {
        let mut line = Vec::new();
        let with_end = (self.longest as u64).saturating_add(1);
        let read = (&mut self.reader).take(with_end).read_until(b'\n', &mut line).await?;
        if read == 0 {
            return Ok(None);
        }
        if line.last() == Some(&b'\n') {
            line.pop();
        } else if line.len() > self.longest {
            return Ok(Some(Line::TooLong(self.goes_by(line).await?)));
        }
        Ok(Some(Line::Whole(line.into())))
    }

    /// Reads the rest of a line that is too long, and keeps none of it.
    async fn goes_by(&mut self, begun: Vec<u8>) -> io::Result<Oversized> {
        let mut scan = Scan::default();
        scan.feed(&begun);
        drop(begun);
        loop {
            let piece = self.reader.fill_buf().await?;
            let end = piece.iter().position(|byte| *byte == b'\n');
            scan.feed(piece.get(..end.unwrap_or(piece.len())).unwrap_or_default());
            let used = end.map_or(piece.len(), |end| end + 1);
            self.reader.consume(used);
            if end.is_some() || used == 0 {
                return Ok(scan.end());
            }
        }
    }
}

/// A message on its way to the client.
pub(crate) struct ToClient {
    pub(crate) line: Bytes,
    /// To be told whether it was handed over while the client was still there.
    pub(crate) told: Option<oneshot::Sender<bool>>,
}

/// The way to the client. All messages go through one queue, in order.
#[derive(Clone)]
pub(crate) struct ClientSink {
    queue: mpsc::Sender<ToClient>,
}

impl ClientSink {
    /// A way to a client, and where its messages come out.
    pub(crate) fn new() -> (ClientSink, mpsc::Receiver<ToClient>) {
        let (queue, messages) = mpsc::channel(QUEUE);
        (ClientSink { queue }, messages)
    }

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
    let (client, messages) = ClientSink::new();
    (client, task::spawn(drain(writer, messages, closing)))
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
    // A message of a server behind HTTP may span lines: between its tokens a space means the same.
    let mut pieces = line.split(|byte| *byte == b'\n');
    writer.write_all(pieces.next().unwrap_or_default()).await?;
    for piece in pieces {
        writer.write_all(b" ").await?;
        writer.write_all(piece).await?;
    }
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
        let mut lines = Lines::new(&b"a\r\n\n b \nlast"[..], 4);
        for expected in ["a\r", "", " b ", "last"] {
            assert_eq!(lines.next().await.unwrap(), Some(Line::Whole(expected.into())));
        }
        assert_eq!(lines.next().await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_goes_by() {
        let call = |id: u32, filler: usize| {
            let text = "x".repeat(filler);
            format!(r#"{{"method":"tools/call","params":{{"id":0,"x":"{text}"}},"id":{id}}}"#)
        };
        let (small, big) = (call(1, 0), call(2, 300_000));
        let text = format!("{small}\n{big}\n{small}\n{big}");
        let mut lines = Lines::new(text.as_bytes(), small.len());
        for _ in 0..2 {
            assert_eq!(lines.next().await.unwrap(), Some(Line::Whole(small.clone().into())));
            let Some(Line::TooLong(about)) = lines.next().await.unwrap() else { panic!("too long") };
            assert_eq!((about.id.as_deref(), about.method.as_deref()), (Some("2"), Some("tools/call")));
            assert_eq!(about.bytes, big.len() as u64);
        }
        assert_eq!(lines.next().await.unwrap(), None);
    }

    async fn text<R: AsyncRead + Unpin>(lines: &mut Lines<R>) -> Bytes {
        match lines.next().await.unwrap().unwrap() {
            Line::Whole(line) => line,
            Line::TooLong(about) => panic!("{about:?}"),
        }
    }

    #[tokio::test]
    async fn a_broken_pipe_is_not_a_delivery() {
        let (near, far) = tokio::io::duplex(64);
        let (client, task) = write_to_client(near, Flag::default());
        let mut far = Lines::new(far, 1 << 20);
        let read = tokio::spawn(async move {
            let line = text(&mut far).await;
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
        assert_eq!(text(&mut Lines::new(far, 1 << 20)).await, "late");
    }
}

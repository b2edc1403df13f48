//! The harness's end of the control socket.

use std::path::Path;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::tool::{Order, Point, Reached};

/// A process of the tool is at a point, and waits.
#[derive(Debug)]
pub struct Waiting {
    pub reached: Reached,
    answer: oneshot::Sender<Order>,
}

impl Waiting {
    /// Has it go on.
    pub fn order(self, order: Order) {
        // It may have been killed meanwhile.
        let _ = self.answer.send(order);
    }
}

/// The listening end, until it is dropped.
pub struct Listening {
    task: JoinHandle<()>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub fn listen(socket: &Path) -> std::io::Result<(Listening, mpsc::UnboundedReceiver<Waiting>)> {
    let listener = UnixListener::bind(socket)?;
    let (sender, receiver) = mpsc::unbounded_channel();
    let task = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(converse(stream, sender.clone()));
        }
    });
    Ok((Listening { task }, receiver))
}

async fn converse(stream: UnixStream, points: mpsc::UnboundedSender<Waiting>) {
    let (reader, mut writer) = stream.into_split();
    let mut line = String::new();
    if BufReader::new(reader).read_line(&mut line).await.is_err() {
        return;
    }
    let Ok(reached) = serde_json::from_str::<Reached>(&line) else { return };
    let stays = matches!(reached.point, Point::Listening(_));
    let (answer, ordered) = oneshot::channel();
    if points.send(Waiting { reached, answer }).is_err() {
        return;
    }
    let order = ordered.await.unwrap_or(Order::Cut);
    let mut line = serde_json::to_vec(&order).unwrap_or_default();
    line.push(b'\n');
    let _ = writer.write_all(&line).await;
    // A tool that listens holds its connection, and ends with the harness when that does.
    if stays {
        points.closed().await;
    }
}

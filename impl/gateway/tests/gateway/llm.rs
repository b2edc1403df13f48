//! A server whose answers are written byte by byte as a test says, and a client that reads them so.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::support::{Reply, parse};

/// The head of a stream that comes in chunks.
pub const HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\nx-request-id: r-1\r\n\r\n";
/// The end of one that comes in chunks.
pub const EOF: &str = "0\r\n\r\n";

/// Everything here is given this long.
const PATIENCE: Duration = Duration::from_secs(30);

/// Bytes as a chunk.
pub fn chunk(bytes: &str) -> String {
    format!("{:x}\r\n{bytes}\r\n", bytes.len())
}

/// The server.
pub struct Llm {
    pub address: SocketAddr,
    taken: mpsc::UnboundedReceiver<Taken>,
}

/// A request that the server has got, and its connection.
pub struct Taken {
    pub request: String,
    stream: TcpStream,
}

impl Llm {
    pub async fn start() -> Llm {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (take, taken) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let take = take.clone();
                tokio::spawn(async move {
                    if let Some(request) = request(&mut stream).await {
                        let _ = take.send(Taken { request, stream });
                    }
                });
            }
        });
        Llm { address, taken }
    }

    /// The next request.
    pub async fn next(&mut self) -> Taken {
        timeout(PATIENCE, self.taken.recv()).await.expect("no request came").unwrap()
    }

    /// Whether no further request has come.
    pub fn is_quiet(&mut self) -> bool {
        self.taken.try_recv().is_err()
    }
}

impl Taken {
    pub async fn write(&mut self, bytes: &str) {
        self.stream.write_all(bytes.as_bytes()).await.unwrap();
    }

    /// Writes, and resets the connection.
    pub async fn reset_after(mut self, bytes: &str) {
        self.write(bytes).await;
        // So that what was written arrives before the reset does.
        tokio::time::sleep(Duration::from_millis(1)).await;
        self.stream.set_zero_linger().unwrap();
    }

    /// Waits until the other side has closed the connection.
    pub async fn closed(mut self) {
        let mut one = [0];
        let reading = self.stream.read(&mut one);
        assert!(matches!(timeout(PATIENCE, reading).await.expect("it stays open"), Ok(0) | Err(_)));
    }
}

async fn request(stream: &mut TcpStream) -> Option<String> {
    let mut read = Vec::new();
    loop {
        if let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&read[..end]).to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
            if read.len() >= end + 4 + length.parse::<usize>().unwrap() {
                return Some(String::from_utf8_lossy(&read).into_owned());
            }
        }
        if stream.read_buf(&mut read).await.ok()? == 0 {
            return None;
        }
    }
}

/// A client that reads bit by bit.
pub struct Client {
    stream: TcpStream,
    pub heard: Vec<u8>,
}

impl Client {
    pub async fn send(gateway: SocketAddr, request: String) -> Client {
        let mut stream = TcpStream::connect(gateway).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        Client { stream, heard: Vec::new() }
    }

    /// Reads until this has come.
    pub async fn hears(&mut self, text: &str) {
        let reading = async {
            while !self.heard.windows(text.len()).any(|some| some == text.as_bytes()) {
                let read = self.stream.read_buf(&mut self.heard).await.unwrap();
                assert!(read > 0, "it ended with {:?}", String::from_utf8_lossy(&self.heard));
            }
        };
        let waited = timeout(PATIENCE, reading).await.is_ok();
        assert!(waited, "{text:?} did not come: {:?}", String::from_utf8_lossy(&self.heard));
    }

    /// Reads to the end of the connection: the reply, if it is whole.
    pub async fn reply(mut self) -> Option<Reply> {
        // A reset is an end, too.
        let _ = timeout(PATIENCE, self.stream.read_to_end(&mut self.heard)).await.expect("the connection stays open");
        parse(&self.heard)
    }
}

//! A server that counts whole requests, and answers them as a script says.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What the server does once it has read a whole request.
#[derive(Clone, Copy)]
pub enum Play {
    /// Answers, and keeps the connection. The head's first line and further lines, and the body.
    Answer(&'static str, &'static str),
    /// Answers, and closes the connection without having said so.
    AnswerAndClose(&'static str, &'static str),
    /// Sends half an answer and closes.
    Half,
    /// Closes the connection.
    Close,
    /// Says nothing, for ever.
    Hang,
}

pub struct Server {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// When the script is used up, every request is answered 200.
    pub async fn start(plays: impl IntoIterator<Item = Play>) -> Server {
        Server::on(TcpListener::bind("127.0.0.1:0").await.unwrap(), plays)
    }

    pub fn on(listener: TcpListener, plays: impl IntoIterator<Item = Play>) -> Server {
        let requests = Arc::new(Mutex::new(Vec::new()));
        let plays = Arc::new(Mutex::new(plays.into_iter().collect::<VecDeque<_>>()));
        let address = listener.local_addr().unwrap();
        let seen = requests.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, seen.clone(), plays.clone()));
            }
        });
        Server { address, requests }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The requests that were read whole.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

async fn serve(mut stream: TcpStream, seen: Arc<Mutex<Vec<String>>>, plays: Arc<Mutex<VecDeque<Play>>>) {
    while let Some(request) = read(&mut stream).await {
        seen.lock().unwrap().push(request);
        let play = plays.lock().unwrap().pop_front().unwrap_or(Play::Answer("200 OK", "ok"));
        let mut close = false;
        match play {
            Play::Answer(head, body) | Play::AnswerAndClose(head, body) => {
                let answer = format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
                stream.write_all(answer.as_bytes()).await.unwrap();
                close = matches!(play, Play::AnswerAndClose(..));
            }
            Play::Half => {
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf").await.unwrap();
                close = true;
            }
            Play::Close => close = true,
            Play::Hang => std::future::pending().await,
        }
        if close {
            return;
        }
    }
}

/// One whole request; `None` if the connection ends before.
async fn read(stream: &mut TcpStream) -> Option<String> {
    let mut read = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        if let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&read[..end]).to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
            if read.len() >= end + 4 + length.parse::<usize>().unwrap() {
                return Some(String::from_utf8_lossy(&read).into_owned());
            }
        }
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return None,
            Ok(n) => read.extend_from_slice(&buffer[..n]),
        }
    }
}

//! Requests, as they come in.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::TcpStream;
use std::os::fd::AsFd;

use nix::sys::socket::{setsockopt, sockopt::Linger};

/// A request that came whole.
pub struct Request {
    /// Its method.
    pub method: String,
    /// Its target.
    pub target: String,
    /// Its headers, by names in small letters; of several with one name, all, separated by commas.
    pub headers: BTreeMap<String, String>,
    /// Its body.
    pub body: Vec<u8>,
    stream: TcpStream,
}

impl Request {
    /// A header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// Its path, without the query.
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// Whether the connection is to end with it.
    pub fn wants_close(&self) -> bool {
        self.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }

    /// Returns when the client has gone.
    pub fn wait_for_the_client(&self) {
        let mut rest = [0; 1024];
        while let Ok(1..) = (&self.stream).read(&mut rest) {}
    }
}

/// A connection of a client.
pub struct Connection {
    stream: TcpStream,
    read: Vec<u8>,
}

impl Connection {
    pub fn new(stream: TcpStream) -> Connection {
        Connection { stream, read: Vec::new() }
    }

    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Resets it.
    pub fn reset(self) {
        reset(&self.stream);
    }

    /// The next request; `None` when no whole one comes any more.
    pub fn next(&mut self) -> Option<Request> {
        let (length, method, target, headers) = loop {
            if let Some(head) = head(&self.read)? {
                break head;
            }
            self.more()?;
        };
        self.read.drain(..length);
        let body = if headers.get("transfer-encoding").is_some_and(|value| value.contains("chunked")) {
            self.chunks()?
        } else {
            let length = headers.get("content-length").map_or(Some(0), |value| value.parse().ok())?;
            self.take(length)?
        };
        Some(Request { method, target, headers, body, stream: self.stream.try_clone().ok()? })
    }

    fn more(&mut self) -> Option<()> {
        let mut bytes = [0; 16 * 1024];
        let count = self.stream.read(&mut bytes).ok().filter(|count| *count > 0)?;
        self.read.extend_from_slice(bytes.get(..count)?);
        Some(())
    }

    fn take(&mut self, length: usize) -> Option<Vec<u8>> {
        while self.read.len() < length {
            self.more()?;
        }
        Some(self.read.drain(..length).collect())
    }

    fn line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.read.windows(2).position(|two| two == b"\r\n") {
                let line = self.take(end + 2)?;
                return Some(String::from_utf8_lossy(line.get(..end)?).into_owned());
            }
            self.more()?;
        }
    }

    fn chunks(&mut self) -> Option<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.line()?;
            let length = usize::from_str_radix(line.split(';').next()?.trim(), 16).ok()?;
            if length == 0 {
                while !self.line()?.is_empty() {}
                return Some(body);
            }
            body.extend(self.take(length)?);
            self.line()?;
        }
    }
}

/// Closing the socket then resets the connection.
pub fn reset(stream: &TcpStream) {
    let at_once = nix::libc::linger { l_onoff: 1, l_linger: 0 };
    let _ = setsockopt(&stream.as_fd(), Linger, &at_once);
}

type Head = (usize, String, String, BTreeMap<String, String>);

/// The head, if it is there; the outer `None` is no HTTP.
fn head(read: &[u8]) -> Option<Option<Head>> {
    let mut lines = [httparse::EMPTY_HEADER; 128];
    let mut request = httparse::Request::new(&mut lines);
    let httparse::Status::Complete(length) = request.parse(read).ok()? else { return Some(None) };
    let mut headers: BTreeMap<String, String> = BTreeMap::new();
    for header in request.headers.iter() {
        let value = String::from_utf8_lossy(header.value).into_owned();
        let of_name = headers.entry(header.name.to_ascii_lowercase()).or_default();
        *of_name = if of_name.is_empty() { value } else { format!("{of_name}, {value}") };
    }
    Some(Some((length, request.method?.to_owned(), request.path?.to_owned(), headers)))
}

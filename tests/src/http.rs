//! A small HTTP client that hides nothing: what is sent and what comes back, byte for byte.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::Value;

use crate::breaker::address_of;
use crate::wait::PATIENCE;

/// What came back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpReply {
    /// The status; 0 if no head came.
    pub status: u16,
    /// The headers, their names in small letters, in their order.
    pub headers: Vec<(String, String)>,
    /// The body, or what came of it.
    pub body: Vec<u8>,
    /// Whether the body ended as its head said.
    pub whole: bool,
}

impl HttpReply {
    /// A header; of several with its name, the first.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(its, _)| its == name).map(|(_, value)| value.as_str())
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON; null if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The type of problem that it is about, or nothing.
    pub fn problem(&self) -> String {
        self.json()["type"].as_str().unwrap_or_default().to_owned()
    }

    /// It is marked as given before.
    pub fn is_replayed(&self) -> bool {
        self.header("idempotency-replayed") == Some("true")
    }

    /// From all that came on a connection, to its end.
    pub fn read(bytes: &[u8]) -> HttpReply {
        let mut rest = bytes;
        loop {
            let mut lines = [httparse::EMPTY_HEADER; 128];
            let mut response = httparse::Response::new(&mut lines);
            let Ok(httparse::Status::Complete(length)) = response.parse(rest) else { return HttpReply::default() };
            let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
            let headers =
                response.headers.iter().map(|header| (header.name.to_ascii_lowercase(), text(header.value))).collect();
            let status = response.code.unwrap_or_default();
            rest = rest.get(length..).unwrap_or_default();
            // 100 Continue and the like go before the answer.
            if status >= 200 {
                return HttpReply { status, headers, ..HttpReply::default() }.with_body(rest);
            }
        }
    }

    fn with_body(self, rest: &[u8]) -> HttpReply {
        if self.header("transfer-encoding").is_some_and(|value| value.contains("chunked")) {
            let (body, whole) = chunks(rest);
            return HttpReply { body, whole, ..self };
        }
        match self.header("content-length").and_then(|length| length.parse::<usize>().ok()) {
            Some(length) => {
                HttpReply { body: rest.get(..length).unwrap_or(rest).to_vec(), whole: rest.len() >= length, ..self }
            }
            None => HttpReply { body: rest.to_vec(), whole: true, ..self },
        }
    }
}

/// What the chunks hold, and whether the last one came.
fn chunks(mut rest: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    while let Some(end) = rest.windows(2).position(|two| two == b"\r\n") {
        let line = String::from_utf8_lossy(rest.get(..end).unwrap_or_default()).into_owned();
        let Ok(length) = usize::from_str_radix(line.split(';').next().unwrap_or_default().trim(), 16) else { break };
        if length == 0 {
            return (body, true);
        }
        rest = rest.get(end + 2..).unwrap_or_default();
        body.extend_from_slice(rest.get(..length).unwrap_or(rest));
        rest = rest.get(length + 2..).unwrap_or_default();
    }
    (body, false)
}

/// A request that is being answered.
pub struct Exchange {
    stream: TcpStream,
    read: Vec<u8>,
}

impl Exchange {
    /// Sends these bytes on a new connection.
    ///
    /// # Panics
    /// If nothing listens there.
    #[track_caller]
    pub fn raw(url: &str, bytes: &[u8]) -> Exchange {
        let mut stream = TcpStream::connect(address_of(url).0).expect("something listens there");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket takes a timeout");
        let _ = stream.set_nodelay(true);
        // A server may refuse before all has been sent.
        let _ = stream.write_all(bytes);
        Exchange { stream, read: Vec::new() }
    }

    /// Sends a request on a new connection that ends with its answer.
    #[track_caller]
    pub fn send(url: &str, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Exchange {
        let (address, _) = address_of(url);
        let mut request = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
        for (name, value) in headers {
            request += &format!("{name}: {value}\r\n");
        }
        if !body.is_empty() || method == "POST" {
            request += &format!("content-length: {}\r\n", body.len());
        }
        request += "\r\n";
        Exchange::raw(url, &[request.as_bytes(), body].concat())
    }

    /// Waits until this is in what came.
    ///
    /// # Panics
    /// If the connection ends before.
    #[track_caller]
    pub fn wait_for(&mut self, text: &str) {
        while !String::from_utf8_lossy(&self.read).contains(text) {
            assert!(self.more(), "no {text:?} in {}", String::from_utf8_lossy(&self.read));
        }
    }

    fn more(&mut self) -> bool {
        let mut bytes = [0; 16 * 1024];
        match self.stream.read(&mut bytes) {
            Ok(count @ 1..) => {
                self.read.extend_from_slice(bytes.get(..count).unwrap_or_default());
                true
            }
            _ => false,
        }
    }

    /// Reads to the end.
    pub fn reply(mut self) -> HttpReply {
        while self.more() {}
        HttpReply::read(&self.read)
    }
}

/// Sends JSON by POST and reads the answer to its end.
#[track_caller]
pub fn post(url: &str, path: &str, headers: &[(&str, &str)], body: &str) -> HttpReply {
    let headers = [&[("content-type", "application/json")], headers].concat();
    Exchange::send(url, "POST", path, &headers, body.as_bytes()).reply()
}

/// Gets.
#[track_caller]
pub fn get(url: &str, path: &str, headers: &[(&str, &str)]) -> HttpReply {
    Exchange::send(url, "GET", path, headers, b"").reply()
}

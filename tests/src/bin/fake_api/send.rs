//! Sending an answer, or the part of it that a fault leaves.

use std::io::Write;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use settled_tests::Fault;

use crate::answer::Answer;
use crate::die;
use crate::request::reset;

/// How it ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// The connection can be used again.
    Whole,
    /// It is closed in order.
    Closed,
    /// It is reset.
    Reset,
    /// The process kills itself.
    Kill,
}

/// What is written, with a pause after each part, and how it ends.
pub struct Sending {
    parts: Vec<Vec<u8>>,
    pace: Duration,
    ending: Ending,
}

/// How the end of a body is known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Framing {
    Length,
    Chunked,
    Close,
}

impl Sending {
    /// All of an answer, at once.
    pub fn whole(answer: &Answer) -> Sending {
        Sending::new(answer, Fault::None, Duration::ZERO)
    }

    /// What a fault leaves of an answer.
    pub fn new(answer: &Answer, fault: Fault, pace: Duration) -> Sending {
        let framing = match fault {
            Fault::Fin => Framing::Close,
            _ if answer.is_stream() => Framing::Chunked,
            _ => Framing::Length,
        };
        let head = head(answer, framing);
        let events = &answer.parts;
        let middle = events.len() / 2;
        let mut parts = Vec::new();
        match fault {
            Fault::Status => parts.push(head.get(..7).unwrap_or_default().to_vec()),
            Fault::Head => parts.push(head.get(..head.len() - 15).unwrap_or_default().to_vec()),
            Fault::Body => parts.push(head),
            _ => {
                parts.push(head);
                let wholes = match fault {
                    Fault::Between | Fault::Fin => middle,
                    Fault::Event | Fault::KillMidway if events.len() > 1 => middle,
                    Fault::Character => events.iter().position(|event| !event.is_ascii()).unwrap_or(0),
                    Fault::Event | Fault::KillMidway => 0,
                    Fault::Marker => events.len() - 1,
                    _ => events.len(),
                };
                parts.extend(events.iter().take(wholes).map(|event| framed(event, framing)));
                if let Some(broken) = events.get(wholes) {
                    parts.push(begun(broken, fault, framing));
                }
            }
        }
        let ending = match fault {
            Fault::Fin => Ending::Closed,
            Fault::KillMidway => Ending::Kill,
            Fault::None | Fault::Slow => Ending::Whole,
            _ => Ending::Reset,
        };
        if ending == Ending::Whole && framing == Framing::Chunked {
            parts.push(b"0\r\n\r\n".to_vec());
        }
        Sending { parts, pace, ending }
    }

    /// Sends it. Whether the connection can be used again.
    pub fn send(&self, mut stream: &TcpStream) -> bool {
        for part in &self.parts {
            if stream.write_all(part).and_then(|()| stream.flush()).is_err() {
                return false;
            }
            thread::sleep(self.pace);
        }
        match self.ending {
            Ending::Whole => return true,
            Ending::Closed => {}
            Ending::Reset => {
                // What was sent is to arrive before the reset.
                thread::sleep(Duration::from_millis(20));
                reset(stream);
            }
            Ending::Kill => {
                thread::sleep(Duration::from_millis(20));
                die();
            }
        }
        false
    }
}

fn head(answer: &Answer, framing: Framing) -> Vec<u8> {
    let length: usize = answer.parts.iter().map(Vec::len).sum();
    let framing = match framing {
        Framing::Length => format!("content-length: {length}\r\n"),
        Framing::Chunked => "transfer-encoding: chunked\r\n".to_owned(),
        Framing::Close => "connection: close\r\n".to_owned(),
    };
    let reason = if answer.status == 200 { "OK" } else { "No" };
    let (status, content_type) = (answer.status, answer.content_type);
    let fixed = "x-request-id: req_1\r\ncache-control: no-store\r\n";
    format!("HTTP/1.1 {status} {reason}\r\ncontent-type: {content_type}\r\n{fixed}{framing}\r\n").into_bytes()
}

fn framed(part: &[u8], framing: Framing) -> Vec<u8> {
    match framing {
        Framing::Chunked => [format!("{:x}\r\n", part.len()).as_bytes(), part, b"\r\n"].concat(),
        _ => part.to_vec(),
    }
}

/// The beginning of the part in which the answer breaks off.
fn begun(part: &[u8], fault: Fault, framing: Framing) -> Vec<u8> {
    let length = match fault {
        Fault::Event | Fault::KillMidway => part.len() / 2,
        // The first byte of the first character that has several.
        Fault::Character => part.iter().position(|byte| !byte.is_ascii()).map_or(0, |place| place + 1),
        Fault::Marker if framing == Framing::Length => part.len() - 1,
        _ => return Vec::new(),
    };
    let bytes = part.get(..length).unwrap_or_default();
    match framing {
        Framing::Chunked => [format!("{:x}\r\n", part.len()).as_bytes(), bytes].concat(),
        _ => bytes.to_vec(),
    }
}

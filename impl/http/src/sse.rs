//! Server-sent events: a parser that takes bytes as they come, and their text.
//!
//! The format is that of the HTML standard, section 9.2 ("Server-sent events"), but for two things: data stay bytes, so
//! that a message passes as it is, and an event without data is told too, because the Model Context Protocol uses such
//! events to hand out an id to resume from (revision 2025-11-25, "Resumability and Redelivery").

use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};

#[cfg(test)]
mod tests;

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Its type, if it has one that isn't empty; without, it is `message`.
    pub name: Option<String>,
    /// Its data lines, joined by line feeds; `None` if it has no such line, and empty if it has an empty one.
    pub data: Option<Bytes>,
    /// Its id, if it has one. An empty one says that there is nothing to resume from.
    pub id: Option<String>,
    /// How long to wait before the stream is asked for again.
    pub retry: Option<Duration>,
}

impl Event {
    /// The message that it carries, if it carries one.
    pub fn message(&self) -> Option<&Bytes> {
        let is_message = self.name.as_deref().is_none_or(|name| name == "message");
        self.data.as_ref().filter(|data| is_message && !data.is_empty())
    }
}

/// An event is longer than allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a server-sent event is longer than {limit} bytes")]
pub struct TooLong {
    /// How many bytes of data it may have.
    pub limit: usize,
}

/// Reads events from bytes that come in pieces of any size. At the end of the stream, an event that was not ended by an
/// empty line counts for nothing: drop the parser.
#[derive(Debug)]
pub struct Parser {
    limit: usize,
    /// The line so far.
    line: BytesMut,
    /// The event so far.
    event: Event,
    data: Option<BytesMut>,
    /// Whether the last byte was a carriage return: a line feed after it ends no other line.
    returned: bool,
    /// Whether a line has ended yet: before the first one there may be a byte order mark.
    begun: bool,
}

impl Parser {
    /// `limit`: how many bytes of data an event may have.
    pub fn new(limit: usize) -> Self {
        Parser { limit, line: BytesMut::new(), event: Event::default(), data: None, returned: false, begun: false }
    }

    /// Takes the next bytes, and adds every event that they complete.
    ///
    /// # Errors
    /// [`TooLong`]. The stream can't be read on.
    pub fn feed(&mut self, mut bytes: &[u8], events: &mut Vec<Event>) -> Result<(), TooLong> {
        while let Some(event) = self.next(&mut bytes)? {
            events.push(event);
        }
        Ok(())
    }

    /// Takes of the next bytes those up to the end of an event, and returns that; without one, it takes all of them.
    ///
    /// # Errors
    /// [`TooLong`]. The stream can't be read on.
    pub fn next(&mut self, bytes: &mut &[u8]) -> Result<Option<Event>, TooLong> {
        if self.returned && !bytes.is_empty() {
            self.returned = false;
            *bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(at) = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            let (piece, rest) = bytes.split_at(at);
            self.add(piece)?;
            *bytes = match rest {
                [b'\r', b'\n', rest @ ..] => rest,
                [b'\r'] => {
                    self.returned = true;
                    &[]
                }
                [_, rest @ ..] => rest,
                [] => &[],
            };
            if let Some(event) = self.end_line() {
                return Ok(Some(event));
            }
        }
        self.add(std::mem::take(bytes))?;
        Ok(None)
    }

    /// Whether it is between events: nothing that was taken belongs to one that is still to come.
    pub fn is_between(&self) -> bool {
        self.line.is_empty() && self.data.is_none() && self.event == Event::default()
    }

    fn add(&mut self, piece: &[u8]) -> Result<(), TooLong> {
        let held = self.line.len() + self.data.as_ref().map_or(0, BytesMut::len);
        // A field's name and the space after it come on top.
        if held + piece.len() > self.limit.saturating_add(16) {
            return Err(TooLong { limit: self.limit });
        }
        self.line.extend_from_slice(piece);
        Ok(())
    }

    fn end_line(&mut self) -> Option<Event> {
        let mut line = self.line.split();
        if !self.begun {
            self.begun = true;
            if line.starts_with(b"\xef\xbb\xbf") {
                line.advance(3);
            }
        }
        if line.is_empty() {
            let mut event = std::mem::take(&mut self.event);
            event.data = self.data.take().map(BytesMut::freeze);
            return (event != Event::default()).then_some(event);
        }
        let (name, mut value) = match line.iter().position(|byte| *byte == b':') {
            // A comment.
            Some(0) => return None,
            Some(colon) => {
                let name = line.split_to(colon);
                line.advance(1);
                (name, line)
            }
            None => (line, BytesMut::new()),
        };
        if value.first() == Some(&b' ') {
            value.advance(1);
        }
        match &name[..] {
            b"data" => match &mut self.data {
                Some(data) => {
                    data.extend_from_slice(b"\n");
                    data.extend_from_slice(&value);
                }
                none => *none = Some(value),
            },
            b"event" => {
                let name = String::from_utf8_lossy(&value);
                self.event.name = (!name.is_empty()).then(|| name.into_owned());
            }
            b"id" if !value.contains(&0) => self.event.id = Some(String::from_utf8_lossy(&value).into_owned()),
            b"retry" => {
                let digits =
                    std::str::from_utf8(&value).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
                if let Some(millis) = digits.and_then(|text| text.parse().ok()) {
                    self.event.retry = Some(Duration::from_millis(millis));
                }
            }
            _ => {}
        }
        None
    }
}

/// The text of an event that carries a message, in pieces, so that a large message need not be copied. `id` must have
/// no line end in it.
pub fn message(id: Option<&str>, data: &Bytes) -> Vec<Bytes> {
    let mut head = String::with_capacity(48);
    if let Some(id) = id {
        head.push_str("id: ");
        head.push_str(id);
        head.push('\n');
    }
    head.push_str("event: message\ndata: ");
    if !data.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
        return vec![head.into(), data.clone(), Bytes::from_static(b"\n\n")];
    }
    // Line ends between the tokens of a message mean nothing, so that they come out as line feeds changes nothing.
    let mut text = BytesMut::with_capacity(head.len() + data.len() + 64);
    text.extend_from_slice(head.as_bytes());
    let mut rest = &data[..];
    while let Some(at) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
        let (line, after) = rest.split_at(at);
        text.extend_from_slice(line);
        text.extend_from_slice(b"\ndata: ");
        rest = after.strip_prefix(b"\r\n").unwrap_or(after.get(1..).unwrap_or_default());
    }
    text.extend_from_slice(rest);
    text.extend_from_slice(b"\n\n");
    vec![text.freeze()]
}

/// The text of an event that only says where to resume, and how long to wait before (revision 2025-11-25: "an SSE event
/// consisting of an event ID and an empty data field").
pub fn priming(id: &str, retry: Option<Duration>) -> Bytes {
    let retry = retry.map(|retry| format!("retry: {}\n", retry.as_millis())).unwrap_or_default();
    format!("id: {id}\n{retry}data: \n\n").into()
}

/// A comment: it shows that a stream still works, and means nothing.
pub const STILL_THERE: Bytes = Bytes::from_static(b": still there\n\n");

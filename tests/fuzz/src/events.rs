//! Server-sent events: however a stream comes in pieces, and whatever a message holds.

use bytes::Bytes;
use settled_http::sse::{Parser, message};

/// Far more than any input.
const LONGEST: usize = 1 << 20;

type Events = Vec<(Option<String>, Option<Bytes>)>;

/// The events in a stream that comes in pieces of that size: each one's id, and its data. `None`: it can't be read on.
fn events(bytes: &[u8], piece: usize, longest: usize) -> Option<Events> {
    let (mut parser, mut events) = (Parser::new(longest), Vec::new());
    for piece in bytes.chunks(piece.max(1)) {
        parser.feed(piece, &mut events).ok()?;
    }
    Some(events.into_iter().map(|event| (event.id, event.data)).collect())
}

/// Any stream: how it is cut changes nothing, and what is too long is refused rather than held.
pub fn any_events(bytes: &[u8]) {
    let whole = events(bytes, bytes.len(), LONGEST).expect("it is short");
    for piece in [1, 2, 3, 7] {
        assert_eq!(events(bytes, piece, LONGEST).as_ref(), Some(&whole), "in pieces of {piece}");
    }
    for (_, data) in events(bytes, 5, 16).into_iter().flatten() {
        assert!(data.is_none_or(|data| data.len() <= 32));
    }
    as_message(bytes);
}

/// A message of these bytes comes back, but for its line ends.
fn as_message(bytes: &[u8]) {
    let text = message(Some("7-1"), &Bytes::copy_from_slice(bytes)).concat();
    let found = events(&text, 4, LONGEST).expect("it is short");
    let [(Some(id), Some(data))] = &found[..] else { panic!("{found:?}") };
    assert_eq!(id, "7-1");
    let mut wanted = Vec::new();
    let mut rest = bytes.iter().copied().peekable();
    while let Some(byte) = rest.next() {
        if byte == b'\r' {
            rest.next_if_eq(&b'\n');
        }
        wanted.push(if byte == b'\r' { b'\n' } else { byte });
    }
    assert_eq!(data[..], wanted[..]);
}

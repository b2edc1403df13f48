//! Where a stream goes on after the event that a client got last (`Last-Event-ID`).

use settled_http::sse::Parser;

/// The stream has no such event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this answer has no event of that id; ask without Last-Event-ID for all of it")]
pub(crate) struct NoSuchEvent;

/// How many bytes of the stream come before what follows on that event. In a stream whose events have no ids, they are
/// numbered from 1 on; only events with data count, which are those that a client gets to see. An empty id is that of a
/// client that got none.
///
/// # Errors
/// [`NoSuchEvent`].
pub(crate) fn after(stream: &[u8], last: &str) -> Result<usize, NoSuchEvent> {
    if last.is_empty() {
        return Ok(0);
    }
    let mut parser = Parser::new(stream.len());
    let mut rest = stream;
    let mut named = None;
    let mut has_ids = false;
    let mut numbered = vec![0];
    while let Ok(Some(event)) = parser.next(&mut rest) {
        let end = stream.len() - rest.len();
        // The second half of a line end belongs to it.
        let end = if stream.get(..end).is_some_and(|seen| seen.ends_with(b"\r")) && rest.starts_with(b"\n") {
            end + 1
        } else {
            end
        };
        has_ids |= event.id.is_some();
        if named.is_none() && event.id.as_deref() == Some(last) {
            named = Some(end);
        }
        if event.data.is_some() {
            numbered.push(end);
        }
    }
    let place = if has_ids { named } else { number(last).and_then(|number| numbered.get(number).copied()) };
    place.ok_or(NoSuchEvent)
}

fn number(text: &str) -> Option<usize> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_that_of_an_id_or_a_number() {
        let with_ids = b"id: a\ndata: 1\n\ndata: 2\n\nid: b\nevent: x\n\nid: c\ndata: 3\r\n\r\nid: a\ndata: 4\n\n";
        for (last, rest) in
            [("", &with_ids[..]), ("a", &with_ids[15..]), ("b", &with_ids[40..]), ("c", b"id: a\ndata: 4\n\n")]
        {
            let place = after(with_ids, last).unwrap();
            assert_eq!(with_ids[place..].escape_ascii().to_string(), rest.escape_ascii().to_string(), "after {last}");
        }
        for none in ["1", "d", "A"] {
            assert_eq!(after(with_ids, none), Err(NoSuchEvent), "{none}");
        }
        let without = b": hello\n\ndata: 1\n\nevent: x\n\ndata: 2\r\rdata: 3";
        for (last, rest) in [("0", &without[..]), ("1", b"event: x\n\ndata: 2\r\rdata: 3"), ("2", b"data: 3")] {
            assert_eq!(&without[after(without, last).unwrap()..], rest, "after {last}");
        }
        for none in ["3", "-1", "+1", "1 ", "x", "99999999999999999999999"] {
            assert_eq!(after(without, none), Err(NoSuchEvent), "{none}");
        }
    }
}

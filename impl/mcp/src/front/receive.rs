//! Taking a request: what it may be, and its whole body.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::{Instant, timeout, timeout_at};

use crate::front::reply::{BAD_REQUEST, Problem};

/// How long a client may send nothing of a body.
const SILENCE: Duration = Duration::from_secs(15);

/// How long a whole body may take.
const WHOLE: Duration = Duration::from_secs(300);

/// What a client must be able to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reads {
    /// A message or a stream of events, as the server likes (revision 2025-11-25, "Sending Messages to the Server").
    Both,
    /// A stream of events.
    Events,
}

/// Whether the client can read what it may get.
pub(crate) fn check_accept(headers: &HeaderMap, reads: Reads) -> Result<(), Problem> {
    let mut accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).peekable();
    if accepted.peek().is_none() {
        return Ok(());
    }
    let ranges: Vec<String> = accepted
        .flat_map(|value| value.split(','))
        .filter(|range| !is_refused(range))
        .map(|range| range.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
        .collect();
    let takes = |whole: &str| {
        let kind = whole.split('/').next().unwrap_or_default();
        ranges.iter().any(|range| range == whole || range == "*/*" || range.strip_suffix("/*") == Some(kind))
    };
    let (fine, needs) = match reads {
        Reads::Both => {
            (takes("application/json") && takes("text/event-stream"), "application/json and text/event-stream")
        }
        Reads::Events => (takes("text/event-stream"), "text/event-stream"),
    };
    if fine {
        return Ok(());
    }
    let problem = format!("Not Acceptable: the client must accept {needs}");
    Err(Problem::new(StatusCode::NOT_ACCEPTABLE, BAD_REQUEST, problem))
}

/// A range with a weight of nothing.
fn is_refused(range: &str) -> bool {
    range.split(';').skip(1).any(|parameter| {
        let weight = parameter.trim().strip_prefix("q=").or_else(|| parameter.trim().strip_prefix("Q="));
        weight.and_then(|weight| weight.trim().parse::<f32>().ok()) == Some(0.0)
    })
}

/// Whether the body is what it has to be.
pub(crate) fn check_content(headers: &HeaderMap) -> Result<(), Problem> {
    let unsupported = |problem: &str| Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, BAD_REQUEST, problem));
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    if !essence.eq_ignore_ascii_case("application/json") {
        return unsupported("Unsupported Media Type: Content-Type must be application/json");
    }
    match headers.get(CONTENT_ENCODING) {
        Some(encoding) if encoding != "identity" => {
            unsupported("Unsupported Media Type: send the message uncompressed")
        }
        _ => Ok(()),
    }
}

/// The whole body.
pub(crate) async fn whole(headers: &HeaderMap, mut body: Incoming, longest: usize) -> Result<Bytes, Problem> {
    let too_long = || {
        let problem = format!("the message is longer than {longest} bytes: see `frame_bytes` in `[limits]`");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, BAD_REQUEST, problem)
    };
    let announced = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|announced| announced > longest) {
        return Err(too_long());
    }
    let until = Instant::now() + WHOLE;
    let mut whole = BytesMut::new();
    loop {
        let frame = match timeout_at(until, timeout(SILENCE, body.frame())).await {
            Ok(Ok(Some(Ok(frame)))) => frame,
            Ok(Ok(None)) => return Ok(whole.freeze()),
            Ok(Ok(Some(Err(error)))) => return Err(Problem::bad(format!("the message did not arrive whole: {error}"))),
            Ok(Err(_)) | Err(_) => {
                return Err(Problem::new(
                    StatusCode::REQUEST_TIMEOUT,
                    BAD_REQUEST,
                    "the message takes too long to arrive",
                ));
            }
        };
        let Ok(data) = frame.into_data() else { continue };
        if whole.len() + data.len() > longest {
            return Err(too_long());
        }
        whole.extend_from_slice(&data);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(lines: &[&str], reads: Reads) -> bool {
        let headers: HeaderMap = lines.iter().map(|line| (ACCEPT, line.parse().unwrap())).collect();
        check_accept(&headers, reads).is_ok()
    }

    #[test]
    fn what_clients_must_be_able_to_read() {
        for fine in [
            "application/json, text/event-stream",
            "*/*",
            "Application/JSON;q=0.5,text/*",
            "text/event-stream;x=1 , */*",
        ] {
            assert!(accepts(&[fine], Reads::Both), "{fine}");
        }
        assert!(accepts(&["application/json", "text/event-stream"], Reads::Both));
        assert!(accepts(&[], Reads::Both));
        for wrong in
            ["application/json", "text/event-stream", "text/html", "application/json, text/event-stream;q=0", "text"]
        {
            assert!(!accepts(&[wrong], Reads::Both), "{wrong}");
        }
        assert!(accepts(&["text/event-stream"], Reads::Events));
        assert!(!accepts(&["application/json"], Reads::Events));
    }
}

//! What follows from an answer over HTTP, or from the lack of one.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};

use crate::messages::context::HttpRefusal;
use crate::messages::frame::{Body, Frame, parse};
use crate::messages::splice;
use crate::upstream::opened::Opened;

/// A method that the server does not have: a 404 with it is no word about the session (revision 2026-07-28).
const METHOD_NOT_FOUND: i64 = -32601;

/// The headers do not match the message: it is refused before it is run (revision 2026-07-28, "Server Validation").
const HEADER_MISMATCH: i64 = -32020;

/// The longest wait that a server may ask for.
const LONGEST_REST: Duration = Duration::from_secs(24 * 60 * 60);

/// A server's refusal to run a request, in a status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// In words.
    pub(crate) words: String,
    /// It may be sent again, after this long at least.
    pub(crate) again: Option<Duration>,
    /// What is told besides the words.
    pub(crate) data: Value,
    /// The server's own error, if it gave one that names no request.
    pub(crate) error: Option<String>,
}

/// Why a request has no answer.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// Nothing of it was sent.
    NotSent(String),
    /// Nothing of it was sent, because it may not be any more.
    Withheld,
    /// The server did not run it.
    NotRun(Refusal),
    /// The server knows the session no more, and did not run it.
    SessionOver(Arc<Opened>),
    /// It may have been run.
    Lost {
        /// In words.
        words: String,
        /// The server's own error, if it gave one that names no request.
        error: Option<String>,
    },
}

impl Failure {
    pub(crate) fn lost(words: impl Into<String>) -> Failure {
        Failure::Lost { words: words.into(), error: None }
    }
}

/// An answer with a status other than 2xx, whole.
pub(crate) struct Unsuccessful<'a> {
    pub(crate) status: StatusCode,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) body: &'a Bytes,
}

/// What an unsuccessful answer is.
#[derive(Debug)]
pub(crate) enum Means {
    /// The JSON-RPC answer that it holds.
    Answer,
    /// There is none, and this is why.
    Failure(Failure),
    /// So it is here; the reason is what the headers repeat of the message.
    Mismatch(Failure),
}

impl Unsuccessful<'_> {
    /// What it means for a request with one of these ids, which was sent in that session.
    pub(crate) fn means(
        &self,
        is_wanted: impl Fn(&str) -> bool,
        session: Option<&Arc<Opened>>,
        stateless: bool,
        not_run: &[u16],
    ) -> Means {
        let session = session.filter(|session| session.id.is_some() && self.status == StatusCode::NOT_FOUND);
        let (mut own_error, mut mismatch) = (None, false);
        match parse(self.body) {
            Frame::Response { id, body: Body::Error(error) } => {
                let code = splice::get(error, "code").and_then(|code| serde_json::from_str::<i64>(code).ok());
                mismatch = stateless && self.status == StatusCode::BAD_REQUEST && code == Some(HEADER_MISMATCH);
                let of_session = session.is_some() && code != Some(METHOD_NOT_FOUND);
                if is_wanted(id) && !mismatch && !of_session {
                    return Means::Answer;
                }
                own_error = Some(error.to_owned());
            }
            Frame::Response { id, .. } if is_wanted(id) && session.is_none() => return Means::Answer,
            _ => {}
        }
        if let Some(session) = session {
            return Means::Failure(Failure::SessionOver(session.clone()));
        }
        let words = self.words(own_error.as_deref());
        if mismatch {
            return Means::Mismatch(Failure::NotRun(Refusal {
                words,
                again: None,
                data: self.data(),
                error: own_error,
            }));
        }
        Means::Failure(if not_run.contains(&self.status.as_u16()) {
            let again = (self.status == StatusCode::TOO_MANY_REQUESTS).then(|| retry_after(self.headers));
            Failure::NotRun(Refusal { words, again, data: self.data(), error: own_error })
        } else {
            Failure::Lost { words, error: own_error }
        })
    }

    fn words(&self, error: Option<&str>) -> String {
        let mut words = format!("the server answered with HTTP status {}", self.status);
        if self.status.is_redirection()
            && let Some(to) = self.headers.get(LOCATION).and_then(|to| to.to_str().ok())
        {
            words.push_str(&format!(", a redirect to {to}, which is not followed: name that address instead"));
        }
        if let Some(message) = error.and_then(|error| splice::get_string(error, "message")) {
            words.push_str(&format!(": {message}"));
        }
        words
    }

    fn data(&self) -> Value {
        let mut data = json!({ "httpStatus": self.status.as_u16() });
        for (name, member) in [(WWW_AUTHENTICATE, "wwwAuthenticate"), (RETRY_AFTER, "retryAfter")] {
            if let Some(text) = self.headers.get(name).and_then(|value| value.to_str().ok()) {
                data[member] = text.into();
            }
        }
        data
    }

    /// As it is for a client over HTTP.
    pub(crate) fn refusal(&self) -> HttpRefusal {
        let mut headers = HeaderMap::new();
        for name in [WWW_AUTHENTICATE, RETRY_AFTER, CONTENT_TYPE] {
            for value in self.headers.get_all(&name) {
                headers.append(name.clone(), value.clone());
            }
        }
        HttpRefusal { status: self.status, headers, body: self.body.clone() }
    }
}

/// How long a server wants to be left alone.
fn retry_after(headers: &HeaderMap) -> Duration {
    let text = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()).unwrap_or_default().trim();
    let seconds = text.parse::<u64>().map(Duration::from_secs).ok();
    let until = || httpdate::parse_http_date(text).ok()?.duration_since(SystemTime::now()).ok();
    seconds.or_else(until).unwrap_or_default().min(LONGEST_REST)
}

/// Whether the server said that it has not processed a request that had left (RFC 9113, section 8.7).
pub(crate) fn is_refused_stream(error: &reqwest::Error) -> bool {
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<h2::Error>() {
            return error.is_reset() && error.is_remote() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;
    use crate::upstream::HttpOptions;

    fn means(status: u16, body: &str, session: Option<&str>) -> Means {
        let opened = session.map(|id| Arc::new(Opened::new(1, Some(HeaderValue::try_from(id).unwrap()), None)));
        let status = StatusCode::from_u16(status).unwrap();
        let (headers, body) = (HeaderMap::new(), Bytes::from(body.to_owned()));
        let unsuccessful = Unsuccessful { status, headers: &headers, body: &body };
        unsuccessful.means(|id| id == "7", opened.as_ref(), session.is_none(), &HttpOptions::NOT_RUN)
    }

    #[test]
    fn statuses() {
        for status in HttpOptions::NOT_RUN {
            assert!(matches!(means(status, "<html>", None), Means::Failure(Failure::NotRun(_))), "{status}");
        }
        for status in [301, 302, 303, 307, 308, 402, 408, 409, 410, 422, 425, 500, 501, 502, 503, 504] {
            assert!(matches!(means(status, "", None), Means::Failure(Failure::Lost { .. })), "{status}");
        }
        for status in [400, 401, 403, 405, 429] {
            assert!(matches!(means(status, "", Some("s")), Means::Failure(Failure::NotRun(_))), "{status}");
        }
        assert!(matches!(means(404, "", Some("s")), Means::Failure(Failure::SessionOver(_))));
    }

    #[test]
    fn an_answer_counts_under_any_status() {
        let of_7 = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"x"}}"#;
        for status in [400, 404, 500, 503] {
            assert!(matches!(means(status, of_7, None), Means::Answer), "{status}");
        }
        assert!(matches!(means(500, r#"{"jsonrpc":"2.0","id":7,"result":{}}"#, None), Means::Answer));
        for of_nobody in [r#"{"id":null,"error":{"message":"x"}}"#, r#"{"id":"server-error","error":{"message":"x"}}"#]
        {
            let Means::Failure(Failure::NotRun(refusal)) = means(400, of_nobody, None) else { panic!("not run") };
            assert!(refusal.words.ends_with("400 Bad Request: x"), "{}", refusal.words);
            assert_eq!(refusal.error.as_deref(), Some(r#"{"message":"x"}"#));
            assert!(matches!(means(500, of_nobody, None), Means::Failure(Failure::Lost { error: Some(_), .. })));
        }
    }

    #[test]
    fn a_404_ends_the_session_unless_it_is_about_the_method() {
        let no_session = r#"{"id":7,"error":{"code":-32001,"message":"Session not found"}}"#;
        let no_method = r#"{"id":7,"error":{"code":-32601,"message":"Method not found"}}"#;
        assert!(matches!(means(404, no_session, Some("s")), Means::Failure(Failure::SessionOver(_))));
        assert!(matches!(means(404, no_method, Some("s")), Means::Answer));
        assert!(matches!(means(404, no_session, None), Means::Answer));
    }

    #[test]
    fn a_mismatch_of_headers_is_a_refusal() {
        let mismatch = r#"{"id":7,"error":{"code":-32020,"message":"Header mismatch"}}"#;
        assert!(matches!(means(400, mismatch, None), Means::Mismatch(Failure::NotRun(_))));
        assert!(matches!(means(400, mismatch, Some("s")), Means::Answer), "older revisions have no such error");
        assert!(matches!(means(200, mismatch, None), Means::Answer));
    }

    #[test]
    fn how_long_to_wait() {
        let wait =
            |text: &str| retry_after(&HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::try_from(text).unwrap())]));
        assert_eq!(wait("7"), Duration::from_secs(7));
        assert_eq!(wait("soon"), Duration::ZERO);
        assert_eq!(wait("99999999999"), LONGEST_REST);
        assert_eq!(wait("Wed, 21 Oct 2015 07:28:00 GMT"), Duration::ZERO);
    }
}

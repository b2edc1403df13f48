//! The engine's answers as HTTP responses.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderName, HeaderValue, Response};
use settled::Answer;

use crate::message::{self, StoredResponse};
use crate::problem::Problem;

/// Marks an answer that was given before: `Idempotency-Replayed: true`.
pub const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

pub(super) fn response(answer: Answer) -> Response<Bytes> {
    match answer {
        Answer::Done { result, replayed } => {
            marked(message::read_response(&result).map_or_else(|_| plain(result.clone()), stored), replayed)
        }
        Answer::Failed { error: Some(error), replayed } => {
            let failed = message::read_response(&error)
                .map_or_else(|_| Problem::Failed(Some(&String::from_utf8_lossy(&error))).response(), stored);
            marked(failed, replayed)
        }
        Answer::Failed { error: None, replayed } => marked(Problem::Failed(None).response(), replayed),
        Answer::Unknown { .. } => Problem::Unknown.response(),
        Answer::InProgress => Problem::InProgress.response(),
        Answer::Conflict => Problem::Conflict.response(),
        Answer::Expired => Problem::Expired.response(),
    }
}

fn stored(response: StoredResponse) -> Response<Bytes> {
    let mut answer = Response::new(response.body);
    *answer.status_mut() = response.status;
    *answer.headers_mut() = response.headers;
    answer
}

/// A result that is no HTTP message: a person wrote it when deciding that the operation happened.
fn plain(result: Bytes) -> Response<Bytes> {
    let kind = match settled_protocol::canonicalize(&result) {
        Ok(_) => "application/json",
        Err(_) => "text/plain; charset=utf-8",
    };
    let mut answer = Response::new(result);
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}

fn marked(mut response: Response<Bytes>, replayed: bool) -> Response<Bytes> {
    if replayed {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
    response
}

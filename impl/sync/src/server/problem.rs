//! Errors, each with what to do: `application/problem+json` (RFC 9457).

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::store::StoreError;
use crate::wire;

/// An error that is told to whoever asked.
#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    word: &'static str,
    title: &'static str,
    detail: String,
    /// In how many seconds to come again.
    again: Option<u32>,
}

impl Problem {
    pub fn new(status: StatusCode, word: &'static str, title: &'static str, detail: impl Into<String>) -> Problem {
        Problem { status, word, title, detail: detail.into(), again: None }
    }

    pub fn again(self, seconds: u32) -> Problem {
        Problem { again: Some(seconds), ..self }
    }

    pub fn malformed(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, "malformed", "The request can't be understood", detail)
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Problem {
        match error {
            StoreError::Ahead { after, head } => Problem::new(
                StatusCode::CONFLICT,
                "cursor-ahead",
                "The server has not all that you have seen",
                format!(
                    "you have seen {after} operations that are not the first of the server's {head}: it has been restored from an \
                     older backup. Forget what you have pulled, pull again from 0, and upload all operations of your own again that you \
                     still have: what the server knows is not applied twice"
                ),
            ),
            other => Problem::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "unavailable",
                "The store can't be used now",
                format!("{other}. Nothing that was acknowledged is lost. Send the same again later"),
            )
            .again(2),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = wire::Problem {
            kind: format!("urn:settled:sync:{}", self.word),
            title: self.title.to_owned(),
            status: self.status.as_u16(),
            detail: self.detail,
        };
        let mut response = (self.status, axum::Json(body)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(again) = self.again {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(again));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

//! What the gateway's own errors mean, for those who get them: `GET /.settled/errors`.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, LINK};
use http::{HeaderValue, Response};
use settled_http::problem::Own;

use crate::payload::Payload;

/// The page, as each of these errors links to it.
const LINK_TO_IT: &str = "</.settled/errors>; rel=\"describedby\"; type=\"text/plain\"";

/// The page's name.
pub(crate) const PAGE: &str = "errors";

const TEXT: &str = "\
This server is behind a gateway that makes every request with an Idempotency-Key take effect at most once. Its own errors have
the type urn:settled:NAME. \"Nothing was done\" means that nothing of the request was, or will be, carried out.

400 key-missing           Send an Idempotency-Key: a string that names the operation, the same in every repeat of it.
400 key-invalid           The Idempotency-Key can't be read, or there are several.
400 ambiguous-path        Write the path without `.`, `..` and encoded slashes.
400 bad-request           The detail says what is wrong with it.
400 body-incomplete       The body did not come whole. Nothing was done.
404 not-found             There is no operation with this key, or it is not yours.
405 method                This page is only to be read.
408 too-slow              The body did not come in time. Nothing was done.
409 in-progress           The request with this key is being carried out. Ask again with the same key after Retry-After.
410 expired               The answer is no longer kept. Look up what the operation did before you use a new key.
413 too-large             The body is larger than what is taken. Nothing was done.
422 conflict              The key was used with another request (409 idempotency_conflict, by configuration). Use another key.
429 too-many              Too many of your requests are under way. Nothing was done; repeat it with the same key.
500 answer-not-kept       It happened, and its answer was too large to be kept. Do not repeat it.
500 answer-unreadable     It happened, and its answer can't be read here. Do not repeat it.
501 upgrade               Only HTTP is passed on.
502 unknown               It is not known whether it happened. Do not repeat it with another key; ask again with this one.
502 no-answer             As unknown, of a request without a key: nobody will find out.
502 unreachable           The server could not be reached. Nothing was done.
503 not-sent              The server could not be reached. Nothing was done; repeat it with the same key.
503 failed                It did not happen, and won't under this key.
503 unavailable           Nothing was done, as what is needed to do it at most once is missing. Repeat it with the same key.
503 ending                The gateway ends. Nothing was done; repeat it with the same key.
";

/// The page.
pub(crate) fn page() -> Response<Bytes> {
    let mut response = Response::new(Bytes::from_static(TEXT.as_bytes()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// Links an error of the gateway's own to the page. (draft-ietf-httpapi-idempotency-key-header, section 2.7.)
pub(crate) fn link(response: &mut Response<Payload>) {
    if response.extensions().get::<Own>().is_some() {
        response.headers_mut().append(LINK, HeaderValue::from_static(LINK_TO_IT));
    }
}

#[cfg(test)]
mod tests {
    use super::TEXT;

    /// The names that the sources give to errors.
    fn named(source: &str) -> impl Iterator<Item = &str> {
        source.split('"').filter(|text| {
            let is_name = |text: &str| text.chars().all(|letter| letter.is_ascii_lowercase() || "-_".contains(letter));
            text.len() > 3 && is_name(text)
        })
    }

    #[test]
    fn every_error_is_documented() {
        let refusals = named(include_str!("refusal.rs").split("#[cfg(test)]").next().unwrap_or_default());
        for name in
            refusals.chain(["unknown", "conflict", "idempotency_conflict", "in-progress", "expired", "key-missing"])
        {
            assert!(TEXT.contains(&format!(" {name} ")) || TEXT.contains(&format!(" {name},")), "{name}");
        }
    }
}

//! Asking by an HTTP GET.

use std::sync::Arc;

use reqwest::header::{ACCEPT, CACHE_CONTROL, HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use serde_json::Value;
use url::Url;

use crate::error::{AskError, Unusable};
use crate::given::Given;
use crate::secret::Secret;
use crate::template::{Template, TemplateError, Where};
use crate::tls;
use crate::verdict::{Condition, Evidence};

/// How much of a body is read.
const BODY: usize = 1 << 20;

/// An HTTP GET, as declared.
#[derive(Clone, Debug, PartialEq)]
pub struct Http {
    url: Template,
    headers: Vec<(String, Secret)>,
}

impl Http {
    /// A GET of this URL, a template whose values are percent-encoded, with these headers.
    ///
    /// # Errors
    /// [`Unusable`], if the URL or a header can't be used, or a placeholder could change which host is asked.
    pub fn parse(url: &str, headers: impl IntoIterator<Item = (String, Secret)>) -> Result<Http, Unusable> {
        let template =
            Template::parse(url, Where::Observation).map_err(|error: TemplateError| Unusable(error.to_string()))?;
        let (head, has_placeholders) = template.head();
        let rest = head.strip_prefix("https://").or_else(|| head.strip_prefix("http://"));
        let Some(rest) = rest else {
            return Err(Unusable(format!("`{url}` must begin with `https://` or `http://` and a host")));
        };
        let is_closed = rest.find(['/', '?', '#']).is_some_and(|end| end > 0);
        if has_placeholders && !is_closed {
            return Err(Unusable(format!(
                "`{url}` has a placeholder in its host: the arguments of a call must not choose who is asked"
            )));
        }
        checked(&template.sample("x")).map_err(|error| Unusable(format!("`{url}` can't be used: {error}")))?;
        let headers: Vec<(String, Secret)> = headers.into_iter().collect();
        for (name, value) in &headers {
            HeaderName::try_from(name.as_str())
                .map_err(|_| Unusable(format!("`{name}` can't be the name of a header")))?;
            if !value.is_indirect() && HeaderValue::try_from(value.written()).is_err() {
                return Err(Unusable(format!("the header `{name}` has a value that can't be sent")));
            }
        }
        Ok(Http { url: template, headers })
    }

    /// Ready to ask.
    ///
    /// # Errors
    /// [`Unusable`], if a secret is not there, or TLS can't be used.
    pub(crate) fn open(&self) -> Result<OpenHttp, Unusable> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, */*;q=0.5"));
        // An answer from before the call would say that it did not happen.
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        for (name, value) in &self.headers {
            let wrong = |problem: String| Unusable(format!("the header `{name}`: {problem}"));
            let name = HeaderName::try_from(name.as_str()).map_err(|error| wrong(error.to_string()))?;
            let text = value.resolve().map_err(|error| wrong(error.to_string()))?;
            let mut value = HeaderValue::try_from(text).map_err(|_| wrong("its value can't be sent".to_owned()))?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(tls::client()?)
            .default_headers(headers)
            .redirect(Policy::none())
            .retry(reqwest::retry::never())
            .build()
            .map_err(|error| Unusable(format!("HTTP can't be used: {}", chain(&error.without_url()))))?;
        Ok(OpenHttp { http: Arc::new(self.clone()), client })
    }

    pub(crate) fn uses(&self, name: &str) -> bool {
        self.url.uses(name)
    }

    /// What holds if nothing is declared: any 2xx is "applied".
    pub fn applied() -> Vec<Condition> {
        vec![Condition::status(200..300)]
    }

    /// What holds if nothing is declared: 404 alone is "not applied", unless it is a web page: those say of a whole address that it
    /// is wrong.
    pub fn not_applied() -> Vec<Condition> {
        vec![Condition::status([404]).if_clean()]
    }
}

/// Ready to ask.
#[derive(Clone, Debug)]
pub(crate) struct OpenHttp {
    http: Arc<Http>,
    client: reqwest::Client,
}

impl OpenHttp {
    pub(crate) async fn ask(&self, given: &Given<'_>) -> Result<Evidence, AskError> {
        let empty = std::cell::Cell::new(false);
        let text = self.http.url.filled(given, |value, text| {
            empty.set(empty.get() || value.is_empty());
            percent_encode(value, text);
        })?;
        if empty.get() {
            // `/orders/` is another question than `/orders/7`.
            return Err(AskError::Unfit("a value that the URL needs is empty".to_owned()));
        }
        let url = checked(&text).map_err(AskError::Unfit)?;
        let failed = |error: reqwest::Error| AskError::Failed(chain(&error.without_url()));
        let mut response = self.client.get(url).send().await.map_err(failed)?;
        let status = response.status().as_u16();
        if response.status().is_redirection() {
            // A session that is over, an address that has moved: where that leads to says nothing of the call.
            return Err(AskError::Failed(format!("it redirects (HTTP status {status}) instead of answering")));
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(failed)? {
            if body.len() + chunk.len() > BODY {
                return Err(AskError::TooLong("1 MiB"));
            }
            body.extend_from_slice(&chunk);
        }
        let clean = !is_web_page(&body);
        Ok(Evidence { status: Some(status), clean, body: Some(json_or_text(&body)), ..Evidence::default() })
    }
}

/// Whether it is HTML.
fn is_web_page(body: &[u8]) -> bool {
    let start = String::from_utf8_lossy(body.get(..512).unwrap_or(body)).trim_start().to_ascii_lowercase();
    ["<!doctype", "<html", "<head", "<body"].iter().any(|tag| start.starts_with(tag))
}

/// The URL, if parsing it does not turn it into another one (`/orders/..` into `/`).
fn checked(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| error.to_string())?;
    let path = text.split_once("://").and_then(|(_, rest)| {
        let rest = rest.split(['?', '#']).next()?;
        rest.find('/').and_then(|start| rest.get(start..))
    });
    if path.unwrap_or("/") != url.path() {
        return Err(format!("its path is read as `{}`: write it that way", url.path()));
    }
    Ok(url)
}

/// Everything but RFC 3986's unreserved characters is encoded, so that a value is never more than one part of the URL.
fn percent_encode(value: &str, text: &mut String) {
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
}

/// JSON, or else the text without the white space around it.
pub(crate) fn json_or_text(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap_or_else(|_| String::from_utf8_lossy(body).trim().into())
}

/// An error with its causes.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn filled(http: &Http, value: &str) -> Option<Url> {
        let arguments = serde_json::json!({ "id": value }).to_string();
        let given = Given { key: "k", attempt: 1, scope: None, arguments: &arguments };
        checked(&http.url.filled(&given, percent_encode).ok()?).ok()
    }

    proptest! {
        /// Whatever a value is, the same host is asked about one thing in the same place, or nobody is asked at all.
        #[test]
        fn a_value_is_one_part_of_the_url(value in prop_oneof![any::<String>(), "[./%?#@:&=\\\\a-]{1,8}"]) {
            let http = Http::parse("https://bank:8443/v1/{id}/state?q={id}#x", []).unwrap();
            if let Some(url) = filled(&http, &value) {
                prop_assert_eq!((url.host_str(), url.port()), (Some("bank"), Some(8443)));
                let parts: Vec<&str> = url.path_segments().unwrap().collect();
                prop_assert_eq!((parts.len(), parts[0], parts[2]), (3, "v1", "state"));
                let query: Vec<_> = url.query_pairs().collect();
                prop_assert_eq!(query.len(), 1);
                prop_assert_eq!(&*query[0].1, value.as_str());
            } else {
                prop_assert!(value == "." || value == "..", "{:?}", value);
            }
        }
    }
}

//! URLs without what is secret in them.

use url::Url;

/// Query parameters whose values are shown; what else there is may be secret.
const SHOWN: [&str; 12] = [
    "connect_timeout",
    "listen",
    "patience",
    "pgbouncer",
    "prefix",
    "schema",
    "sslmode",
    "sslrootcert",
    "trust",
    "wait",
    "wait_timeout",
    "ca",
];

/// The URL with `***` in the place of what may be secret.
pub(crate) fn redacted(text: &str) -> String {
    let Ok(mut url) = Url::parse(text) else {
        // Where the password is in it can't be told.
        let scheme = text.split(':').next().unwrap_or_default();
        return format!("{scheme}://***");
    };
    if url.password().is_some() {
        // Refused only for URLs that can't have a password.
        let _ = url.set_password(Some("***"));
    }
    let parameters: Vec<(String, String)> = url
        .query_pairs()
        .map(|(name, value)| {
            let value = if SHOWN.contains(&&*name) { value.into_owned() } else { "***".to_owned() };
            (name.into_owned(), value)
        })
        .collect();
    if !parameters.is_empty() {
        url.query_pairs_mut().clear().extend_pairs(parameters);
    }
    url.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        for (url, shown) in [
            ("redis://:secret@h:1/0?prefix=a&wait=1", "redis://:***@h:1/0?prefix=a&wait=1"),
            ("postgres://me:secret@h/d?sslmode=require", "postgres://me:***@h/d?sslmode=require"),
            ("postgres://me@h/d", "postgres://me@h/d"),
            ("postgres://h/d?password=secret&schema=s", "postgres://h/d?password=***&schema=s"),
            ("postgres://h/d?listen_url=postgres://a:secret@b", "postgres://h/d?listen_url=***"),
            ("postgres://u:sec/ret@h:x/d", "postgres://***"),
        ] {
            assert_eq!(redacted(url), shown);
        }
    }
}

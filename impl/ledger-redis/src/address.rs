//! The ledger's URL: `redis://[user:password@]host[:port][/db][?option=value…]`, or `rediss://` for TLS.

use std::path::PathBuf;
use std::time::Duration;

use redis::{Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo, TlsCertificates};
use settled::LedgerError;
use url::Url;

use crate::options::{RedisOptions, Wait};

const DEFAULT_PORT: u16 = 6379;
const DEFAULT_WAIT: Duration = Duration::from_secs(1);
const OPTIONS: &str = "prefix, patience, connect_timeout, wait, wait_timeout, trust, ca, cert, key";

/// Where the server is, and how to use it.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    /// The URL without its password.
    pub(crate) display: String,
    pub(crate) options: RedisOptions,
    url: Url,
}

/// What is wrong with a URL. Never tells the password.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AddressError {
    #[error("the ledger's URL can't be read ({0}): write redis://user:password@host:port/db, with rediss:// for TLS")]
    NotAUrl(url::ParseError),
    #[error("a Redis ledger's URL begins with redis:// or, for TLS, rediss://, this one with `{0}:`")]
    Scheme(String),
    #[error("{display}: no host is named: write redis://user:password@host:port/db")]
    NoHost { display: String },
    #[error("{display}: the part after the host is the number of a database, `{path}` is none")]
    Database { display: String, path: String },
    #[error("{display}: there is no option `{name}`; there are: {OPTIONS}")]
    NoOption { display: String, name: String },
    #[error("{display}: the option {name} can't be `{value}`: {allowed}")]
    Value { display: String, name: String, value: String, allowed: &'static str },
    #[error("{display}: {what}")]
    Misfit { display: String, what: &'static str },
    #[error("{display}: can't read `{path}`: {error}")]
    File { display: String, path: String, error: std::io::Error },
    #[error("{display}: {error}")]
    Client { display: String, error: redis::RedisError },
}

impl From<AddressError> for LedgerError {
    fn from(error: AddressError) -> LedgerError {
        LedgerError::Unavailable(error.to_string())
    }
}

impl Address {
    /// Reads a URL, and what it sets of the options.
    pub(crate) fn parse(text: &str, mut options: RedisOptions) -> Result<Address, AddressError> {
        let url = Url::parse(text).map_err(AddressError::NotAUrl)?;
        if !matches!(url.scheme(), "redis" | "rediss") {
            return Err(AddressError::Scheme(url.scheme().to_owned()));
        }
        let display = redacted(&url);
        if url.host_str().is_none_or(str::is_empty) {
            return Err(AddressError::NoHost { display });
        }
        let mut wait = (options.wait.map(|wait| wait.replicas), options.wait.map(|wait| wait.timeout));
        let (mut cert, mut key) = options.identity.take().unzip();
        for (name, value) in url.query_pairs() {
            let bad = |allowed| AddressError::Value {
                display: display.clone(),
                name: name.to_string(),
                value: value.to_string(),
                allowed,
            };
            match &*name {
                "prefix" => options.prefix = value.to_string(),
                "patience" => options.patience = span(&value).ok_or_else(|| bad(A_SPAN))?,
                "connect_timeout" => options.connect_timeout = span(&value).ok_or_else(|| bad(A_SPAN))?,
                "wait" => wait.0 = Some(value.parse().map_err(|_| bad("a number of replicas"))?),
                "wait_timeout" => wait.1 = Some(span(&value).ok_or_else(|| bad(A_SPAN))?),
                "trust" if value == "durable" => options.trust_durable = true,
                "trust" => return Err(bad("`durable` is all that can be stated")),
                "ca" => options.ca = Some(PathBuf::from(&*value)),
                "cert" => cert = Some(PathBuf::from(&*value)),
                "key" => key = Some(PathBuf::from(&*value)),
                _ => return Err(AddressError::NoOption { display, name: name.to_string() }),
            }
        }
        let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if options.prefix.is_empty() || options.prefix.len() > 100 || !options.prefix.chars().all(good) {
            return Err(AddressError::Value {
                display,
                name: "prefix".to_owned(),
                value: options.prefix,
                allowed: "1 to 100 letters, digits, `-`, `_` and `.`",
            });
        }
        options.wait = match wait {
            (Some(replicas), timeout) if replicas > 0 => {
                Some(Wait { replicas, timeout: timeout.unwrap_or(DEFAULT_WAIT) })
            }
            _ => None,
        };
        options.identity = match (cert, key) {
            (Some(cert), Some(key)) => Some((cert, key)),
            (None, None) => None,
            _ => return Err(AddressError::Misfit { display, what: "the options cert and key go together" }),
        };
        if url.scheme() == "redis" && (options.ca.is_some() || options.identity.is_some()) {
            return Err(AddressError::Misfit { display, what: "ca, cert and key are for TLS: write rediss://" });
        }
        Ok(Address { display, options, url })
    }

    /// The client for it. Reads the certificates' files.
    pub(crate) fn client(&self) -> Result<Client, AddressError> {
        let client = |error| AddressError::Client { display: self.display.clone(), error };
        let info = self.info()?;
        if self.url.scheme() == "redis" {
            return Client::open(info).map_err(client);
        }
        // Only the first call in a process has an effect, and any provider will do.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let read = |path: &PathBuf| {
            std::fs::read(path).map_err(|error| AddressError::File {
                display: self.display.clone(),
                path: path.display().to_string(),
                error,
            })
        };
        let root_cert = self.options.ca.as_ref().map(read).transpose()?;
        let client_tls = match &self.options.identity {
            Some((cert, key)) => Some(redis::ClientTlsConfig { client_cert: read(cert)?, client_key: read(key)? }),
            None => None,
        };
        Client::build_with_tls(info, TlsCertificates { client_tls, root_cert }).map_err(client)
    }

    fn info(&self) -> Result<ConnectionInfo, AddressError> {
        let host = self.url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let port = self.url.port().unwrap_or(DEFAULT_PORT);
        let address = match self.url.scheme() {
            "redis" => ConnectionAddr::Tcp(host, port),
            _ => ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None },
        };
        let path = self.url.path().trim_matches('/');
        let db = match path {
            "" => 0,
            number => number
                .parse::<u32>()
                .map_err(|_| AddressError::Database { display: self.display.clone(), path: path.to_owned() })?,
        };
        let mut login = RedisConnectionInfo::default().set_db(i64::from(db)).set_skip_set_lib_name();
        if !self.url.username().is_empty() {
            login = login.set_username(decoded(self.url.username()));
        }
        if let Some(password) = self.url.password() {
            login = login.set_password(decoded(password));
        }
        let info = address.into_connection_info();
        let info = info.map_err(|error| AddressError::Client { display: self.display.clone(), error })?;
        Ok(info.set_redis_settings(login))
    }
}

const A_SPAN: &str = "a time such as 500ms or 5s";

fn span(text: &str) -> Option<Duration> {
    humantime::parse_duration(text).ok().filter(|span| !span.is_zero())
}

fn redacted(url: &Url) -> String {
    let mut shown = url.clone();
    if shown.password().is_some() {
        // Refused only for URLs that can't have a password.
        let _ = shown.set_password(Some("***"));
    }
    shown.to_string()
}

/// The text that a part of a URL stands for.
fn decoded(part: &str) -> String {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let escaped = tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok()).filter(|_| first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = tail.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Address, AddressError> {
        Address::parse(url, RedisOptions::default())
    }

    fn refused(url: &str) -> String {
        let error = parse(url).and_then(|address| address.client().map(drop)).unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
        error
    }

    #[test]
    fn the_url_says_where_and_how() {
        let address =
            parse("redis://me:s%65cret%2F%40@[::1]:7000/3?prefix=a.b-c_1&patience=2s&wait=2&wait_timeout=50ms")
                .unwrap();
        assert_eq!(address.display, "redis://me:***@[::1]:7000/3?prefix=a.b-c_1&patience=2s&wait=2&wait_timeout=50ms");
        assert_eq!(address.options.prefix, "a.b-c_1");
        assert_eq!(address.options.patience, Duration::from_secs(2));
        assert_eq!(address.options.wait, Some(Wait { replicas: 2, timeout: Duration::from_millis(50) }));
        assert!(!address.options.trust_durable);
        let info = address.info().unwrap();
        assert_eq!(*info.addr(), ConnectionAddr::Tcp("::1".to_owned(), 7000));
        let login = info.redis_settings();
        assert_eq!((login.username(), login.password(), login.db()), (Some("me"), Some("secret/@"), 3));
    }

    #[test]
    fn a_short_url_has_defaults() {
        let address = parse("redis://example.org?trust=durable&wait=0").unwrap();
        assert!(address.options.trust_durable);
        assert_eq!(address.options.wait, None);
        let info = address.info().unwrap();
        assert_eq!(*info.addr(), ConnectionAddr::Tcp("example.org".to_owned(), 6379));
        assert_eq!((info.redis_settings().username(), info.redis_settings().password()), (None, None));
    }

    #[test]
    fn mistakes_are_named_and_passwords_are_not() {
        assert!(refused("nonsense").contains("can't be read"));
        assert!(refused("http://u:secret@h").contains("with `http:`"));
        assert!(refused("redis://u:secret@h/x").contains("`x` is none"));
        assert!(refused("redis://u:secret@h/0?waits=1").contains("no option `waits`"));
        assert!(refused("redis://u:secret@h/0?wait=some").contains("a number of replicas"));
        assert!(refused("redis://u:secret@h/0?patience=0s").contains("such as 500ms"));
        assert!(refused("redis://u:secret@h/0?prefix={x}").contains("letters, digits"));
        assert!(refused("redis://u:secret@h/0?prefix=").contains("letters, digits"));
        assert!(refused("redis://u:secret@h/0?trust=me").contains("`durable` is all"));
        assert!(refused("redis://u:secret@h/0?ca=/x").contains("write rediss://"));
        assert!(refused("rediss://u:secret@h/0?cert=/x").contains("go together"));
        assert!(refused("rediss://u:secret@h/0?ca=/nowhere").contains("can't read `/nowhere`"));
    }
}

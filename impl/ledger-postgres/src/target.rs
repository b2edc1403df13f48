//! Reading a ledger's URL.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use settled::LedgerError;
use tokio_postgres::config::{Config, SslMode, TargetSessionAttrs};
use tokio_postgres_rustls::MakeRustlsConnect;
use url::form_urlencoded;

use crate::options::PostgresOptions;
use crate::tls::{self, Tls, Verify};

const SECOND: Duration = Duration::from_secs(1);

/// Where a ledger is, and how to get there.
#[derive(Clone)]
pub(crate) struct Target {
    pub config: Config,
    pub tls: MakeRustlsConnect,
    pub schema: Arc<str>,
    pub listen: Listen,
    pub options: PostgresOptions,
}

/// How to hear of other processes' changes.
#[derive(Clone)]
pub(crate) enum Listen {
    /// On a connection like the others, if that works.
    Auto,
    /// Not at all: look from time to time.
    Off,
    /// On a connection to another place: to the server itself, past a connection pool.
    At(Box<Target>),
}

/// The URL can't be used. Never holds the URL itself, which may hold a password.
#[derive(Debug, thiserror::Error)]
enum Unusable {
    #[error("it must begin with postgres:// or postgresql://")]
    Scheme,
    #[error("schema must be a lower-case letter or `_`, followed by at most 62 lower-case letters, digits and `_`")]
    Schema,
    #[error("sslmode must be disable, prefer, require, verify-ca or verify-full")]
    SslMode,
    #[error("sslmode={0} needs encryption, and sslmode can't be disabled at the same time")]
    Contradiction(&'static str),
    #[error("listen must be auto or off")]
    Listen,
    #[error("pgbouncer must be true or false")]
    PgBouncer,
    #[error("sslcert and sslkey must be given together")]
    Certificate,
    #[error("it names no database role: postgres://ROLE:PASSWORD@HOST:PORT/DATABASE")]
    NoRole,
    #[error("listen_url: {0}")]
    ListenUrl(Box<LedgerError>),
    #[error(transparent)]
    Tls(#[from] tls::TlsError),
    #[error("{0}")]
    Other(String),
}

impl Target {
    pub fn parse(url: &str, options: &PostgresOptions) -> Result<Target, LedgerError> {
        parse(url, options).map_err(|e| LedgerError::Unavailable(format!("the ledger's URL can't be used: {e}")))
    }
}

fn parse(url: &str, options: &PostgresOptions) -> Result<Target, Unusable> {
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        return Err(Unusable::Scheme);
    }
    let (place, query) = url.split_once('?').unwrap_or((url, ""));
    let mut rest = form_urlencoded::Serializer::new(String::new());
    let mut schema = "settled".to_owned();
    let mut mode = "prefer".to_owned();
    let (mut root, mut certificate, mut key, mut listen_url) = (None, None, None, None);
    let mut listens = true;
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        match &*name {
            "schema" => schema = value.into_owned(),
            "sslmode" => mode = value.into_owned(),
            "sslrootcert" => root = Some(value.into_owned()),
            "sslcert" => certificate = Some(value.into_owned()),
            "sslkey" => key = Some(value.into_owned()),
            "listen" => {
                listens = match &*value {
                    "auto" => true,
                    "off" => false,
                    _ => return Err(Unusable::Listen),
                }
            }
            "pgbouncer" => match &*value {
                "true" => listens = false,
                "false" => {}
                _ => return Err(Unusable::PgBouncer),
            },
            "listen_url" => listen_url = Some(value.into_owned()),
            _ => {
                rest.append_pair(&name, &value);
            }
        }
    }
    check_schema(&schema)?;
    let (ssl, verify) = match (&*mode, &root) {
        ("disable", None) => (SslMode::Disable, Verify::Nothing),
        ("disable", Some(_)) => return Err(Unusable::Contradiction("disable with sslrootcert")),
        ("prefer", _) => (SslMode::Prefer, Verify::Nothing),
        ("require", None) => (SslMode::Require, Verify::Nothing),
        // As libpq does: whoever names an authority wants it to be asked.
        ("require" | "verify-ca", _) => (SslMode::Require, Verify::Authority),
        ("verify-full", _) => (SslMode::Require, Verify::Full),
        _ => return Err(Unusable::SslMode),
    };
    let client = match (certificate, key) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        _ => return Err(Unusable::Certificate),
    };
    // `+` for a space is a form's way, not this URL's.
    let rest = rest.finish().replace('+', "%20");
    let mut config =
        Config::from_str(&format!("{place}?{rest}")).map_err(|e| Unusable::Other(crate::error::text(&e)))?;
    if config.get_user().is_none() {
        return Err(Unusable::NoRole);
    }
    config.ssl_mode(ssl).connect_timeout(options.connect_timeout).tcp_user_timeout(options.timeout);
    // The system counts in seconds.
    let (idle, interval) = (options.timeout.max(SECOND), (options.timeout / 3).max(SECOND));
    config.keepalives_idle(idle).keepalives_interval(interval).keepalives_retries(3);
    if config.get_application_name().is_none() {
        config.application_name("settled");
    }
    if config.get_hosts().len() > 1 {
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
    }
    let listen = match listen_url {
        _ if !listens => Listen::Off,
        Some(url) => {
            let there = Target::parse(&url, options).map_err(|e| Unusable::ListenUrl(Box::new(e)))?;
            Listen::At(Box::new(Target { schema: schema.as_str().into(), ..there }))
        }
        None => Listen::Auto,
    };
    let tls = Tls { verify, root, client }.connector()?;
    Ok(Target { config, tls, schema: schema.into(), listen, options: options.clone() })
}

/// It becomes part of statements, so it must be a plain name.
fn check_schema(name: &str) -> Result<(), Unusable> {
    let plain = |c: char| c.is_ascii_lowercase() || c == '_';
    let ok = name.len() <= 63
        && name.chars().next().is_some_and(plain)
        && name.chars().all(|c| plain(c) || c.is_ascii_digit())
        && !name.starts_with("pg_");
    if ok { Ok(()) } else { Err(Unusable::Schema) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str) -> Result<Target, String> {
        Target::parse(url, &PostgresOptions::default()).map_err(|e| e.to_string())
    }

    #[test]
    fn a_url_says_where_the_ledger_is() {
        let t = target("postgresql://me:p%2Fw@h:6000/db?schema=tenant_1&sslmode=disable&connect_timeout=3&listen=off");
        let t = t.unwrap();
        assert_eq!((t.config.get_user(), t.config.get_dbname()), (Some("me"), Some("db")));
        assert_eq!(t.config.get_password(), Some(&b"p/w"[..]));
        assert_eq!((t.config.get_ports(), &*t.schema), (&[6000][..], "tenant_1"));
        assert!(matches!((t.config.get_ssl_mode(), t.listen), (SslMode::Disable, Listen::Off)));
        let two = target("postgres://me@one:1,two:2/db").unwrap();
        assert_eq!(two.config.get_hosts().len(), 2);
        assert_eq!(two.config.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
        let spaced = target("postgres://me@h/db?application_name=a+b").unwrap();
        assert_eq!(spaced.config.get_application_name(), Some("a b"));
    }

    #[test]
    fn what_cannot_be_used_is_refused_and_the_password_is_not_told() {
        for (url, says) in [
            ("mysql://me:sesame@h/db", "postgres://"),
            ("postgres://me:sesame@h/db?schema=a%22b", "schema must be"),
            ("postgres://me:sesame@h/db?schema=pg_catalog", "schema must be"),
            ("postgres://me:sesame@h/db?sslmode=allow", "sslmode must be"),
            ("postgres://me:sesame@h/db?sslmode=disable&sslrootcert=x", "sslrootcert"),
            ("postgres://me:sesame@h/db?sslcert=x", "sslkey"),
            ("postgres://me:sesame@h:port/db", "port"),
            ("postgres://me:sesame@h/db?nonsense=1", "nonsense"),
            ("postgres://me:sesame@h/db?listen=yes", "listen must be"),
            ("postgres://h/db", "no database role"),
            ("postgres://me:sesame@h/db?sslmode=verify-full&sslrootcert=/nowhere.pem", "/nowhere.pem"),
        ] {
            let error = target(url).err().unwrap_or_else(|| panic!("{url} was accepted"));
            assert!(error.contains(says) && !error.contains("sesame"), "{url}: {error}");
        }
    }
}

//! What a ledger's name means.

use std::path::PathBuf;

use crate::OpenError;
use crate::redacted::redacted;

/// A ledger that is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    File(PathBuf),
    Postgres(String),
    Redis(String),
    Memory,
}

impl Name {
    pub(crate) fn parse(text: &str) -> Result<Name, OpenError> {
        let text = text.trim();
        let Some((scheme, rest)) = text.split_once(':').filter(|(scheme, _)| is_scheme(scheme)) else {
            return path(text);
        };
        match &*scheme.to_ascii_lowercase() {
            "file" => path(of_this_host(rest)?),
            "postgres" | "postgresql" => Ok(Name::Postgres(text.to_owned())),
            "redis" | "rediss" => Ok(Name::Redis(text.to_owned())),
            "memory" if rest.is_empty() => Ok(Name::Memory),
            "memory" => Err(OpenError::Memory { rest: rest.to_owned() }),
            _ => Err(OpenError::Scheme { scheme: scheme.to_owned() }),
        }
    }

    /// How to show it: without secrets.
    pub(crate) fn display(&self) -> String {
        match self {
            Name::File(path) => path.display().to_string(),
            Name::Postgres(url) | Name::Redis(url) => redacted(url),
            Name::Memory => "memory:".to_owned(),
        }
    }
}

/// One letter is none, nor is what has a slash in it: those are paths.
fn is_scheme(text: &str) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    text.len() > 1 && text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(good)
}

/// The path of `file:PATH`, `file://localhost/PATH` and `file:///PATH`.
fn of_this_host(rest: &str) -> Result<&str, OpenError> {
    let Some(after) = rest.strip_prefix("//") else { return Ok(rest) };
    let (host, path) = after.split_at(after.find('/').unwrap_or(after.len()));
    match host {
        "" | "localhost" => Ok(path),
        host => Err(OpenError::Host { host: host.to_owned() }),
    }
}

fn path(text: &str) -> Result<Name, OpenError> {
    let path = PathBuf::from(text);
    if text.is_empty() {
        Err(OpenError::Empty)
    } else if path.starts_with("~") {
        Err(OpenError::Tilde { path: text.to_owned() })
    } else {
        Ok(Name::File(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str) -> Name {
        Name::File(PathBuf::from(path))
    }

    #[test]
    fn paths_and_urls_are_told_apart() {
        for (text, name) in [
            ("/var/lib/settled", file("/var/lib/settled")),
            ("relative/dir", file("relative/dir")),
            (" ./a:b ", file("./a:b")),
            ("a/b:c", file("a/b:c")),
            ("c:dir", file("c:dir")),
            ("file:dir", file("dir")),
            ("file:/abs/a%20b", file("/abs/a%20b")),
            ("file:///abs", file("/abs")),
            ("file://localhost/abs", file("/abs")),
            ("FILE:weird:name", file("weird:name")),
            ("memory:", Name::Memory),
            ("postgres://u:p@h/d", Name::Postgres("postgres://u:p@h/d".into())),
            ("postgresql://h/d", Name::Postgres("postgresql://h/d".into())),
            ("redis://h", Name::Redis("redis://h".into())),
            ("rediss://h", Name::Redis("rediss://h".into())),
        ] {
            assert_eq!(Name::parse(text).unwrap(), name, "{text}");
        }
    }

    #[test]
    fn what_is_no_ledger_is_refused_with_what_there_is() {
        let refused = |text: &str| Name::parse(text).unwrap_err();
        assert!(matches!(refused(""), OpenError::Empty));
        assert!(matches!(refused("file:"), OpenError::Empty));
        assert!(matches!(refused("~/ledger"), OpenError::Tilde { .. }));
        assert!(matches!(refused("file:~/ledger"), OpenError::Tilde { .. }));
        assert!(matches!(refused("file://host/dir"), OpenError::Host { host } if host == "host"));
        assert!(matches!(refused("memory:x"), OpenError::Memory { .. }));
        let error = refused("mysql://u:secret@h/d").to_string();
        for part in ["`mysql:`", "file:PATH", "postgres://", "redis://", "rediss://", "memory:"] {
            assert!(error.contains(part), "{error}");
        }
        assert!(!error.contains("secret"), "{error}");
    }
}

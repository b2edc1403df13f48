//! What the server's errors mean.

use redis::{ErrorKind, RedisError, ServerErrorKind};

/// What is known after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// The server did not do it, and may do it soon.
    NotNow,
    /// The server did not do it, and never will on this connection: another server may have taken over.
    Elsewhere,
    /// The connection is of no use any more. Whether the server did it is not known.
    Lost,
    /// The server did not do it, and asking again is of no use.
    Refused,
}

/// What an error means.
pub(crate) fn meaning(error: &RedisError) -> Meaning {
    match error.kind() {
        ErrorKind::Server(ServerErrorKind::BusyLoading | ServerErrorKind::TryAgain | ServerErrorKind::ClusterDown) => {
            Meaning::NotNow
        }
        ErrorKind::Server(ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown) => Meaning::Elsewhere,
        ErrorKind::Server(_) => Meaning::Refused,
        ErrorKind::Extension => match error.code() {
            // A script of someone else's holds the server up; too few replicas; the disk is full; memory is.
            Some("BUSY" | "NOREPLICAS" | "MISCONF" | "OOM") => Meaning::NotNow,
            Some("UNBLOCKED") => Meaning::Lost,
            _ => Meaning::Refused,
        },
        ErrorKind::AuthenticationFailed | ErrorKind::InvalidClientConfig => Meaning::Refused,
        _ => Meaning::Lost,
    }
}

/// What an error says, and what to do about it.
pub(crate) fn text(error: &RedisError) -> String {
    let what = error.to_string();
    let hint = match error.code() {
        Some("NOAUTH" | "WRONGPASS") => "check the user and the password in the URL",
        Some("NOPERM") => {
            "the user needs the commands of the ledger (scripts, PUBLISH, SUBSCRIBE) on its keys and channels"
        }
        Some("MOVED" | "CROSSSLOT") => "in a cluster, name the node that holds the slot of the ledger's prefix",
        Some("OOM") => "give the server more memory: a ledger must not be evicted",
        Some("WRONGTYPE") => "something else uses keys with the ledger's prefix: choose another prefix",
        Some("READONLY") => "it is a replica: name the primary",
        _ if error.kind() == ErrorKind::AuthenticationFailed => "check the user and the password in the URL",
        _ => return what,
    };
    format!("{what}: {hint}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(code: &str) -> RedisError {
        let line = format!("-{code} text\r\n");
        let value = redis::parse_redis_value(line.as_bytes()).unwrap();
        value.extract_error().unwrap_err()
    }

    #[test]
    fn what_was_not_done_is_told_from_what_may_have_been() {
        for code in ["LOADING", "TRYAGAIN", "CLUSTERDOWN", "BUSY", "NOREPLICAS", "MISCONF", "OOM"] {
            assert_eq!(meaning(&server(code)), Meaning::NotNow, "{code}");
        }
        for code in ["READONLY", "MASTERDOWN"] {
            assert_eq!(meaning(&server(code)), Meaning::Elsewhere, "{code}");
        }
        for code in ["ERR", "WRONGTYPE", "MOVED", "NOAUTH", "NOPERM", "NOSCRIPT"] {
            assert_eq!(meaning(&server(code)), Meaning::Refused, "{code}");
        }
        for kind in [std::io::ErrorKind::BrokenPipe, std::io::ErrorKind::TimedOut, std::io::ErrorKind::UnexpectedEof] {
            assert_eq!(meaning(&RedisError::from(std::io::Error::from(kind))), Meaning::Lost, "{kind}");
        }
    }
}

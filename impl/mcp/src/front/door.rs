//! Who is let in: no web page of a foreign origin, and nobody who was led here by a foreign name (DNS rebinding).

use std::net::SocketAddr;

use http::header::{HOST, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, StatusCode, Uri};
use url::{Host, Url};

use crate::config::{HttpConfig, Principal};
use crate::front::reply::{BAD_REQUEST, Problem};
use crate::front::revision::once;

/// Decides by `Host` and `Origin`.
#[derive(Clone, Debug)]
pub(crate) struct Door {
    origins: Vec<String>,
    hosts: Vec<String>,
    address: SocketAddr,
}

impl Door {
    pub(crate) fn new(config: &HttpConfig, address: SocketAddr) -> Door {
        Door { origins: config.allowed_origins.clone(), hosts: config.allowed_hosts.clone(), address }
    }

    /// Revision 2025-11-25, "Security Warning"; revision 2026-07-28, "Security & Endpoint".
    pub(crate) fn check(&self, headers: &HeaderMap, uri: &Uri) -> Result<(), Problem> {
        let refuse = |problem: String| Err(Problem::new(StatusCode::FORBIDDEN, BAD_REQUEST, problem));
        if let Some(origin) = once(headers, &ORIGIN)?
            && !self.lets_in(origin)
        {
            return refuse(format!("web pages of the origin {origin} may not call: see `allowed_origins` in `[http]`"));
        }
        // A server that is listened at by more than this machine can be called by names that are not known here.
        if !self.address.ip().is_loopback() && self.hosts.is_empty() {
            return Ok(());
        }
        let host = match uri.authority() {
            Some(authority) => Some(authority.as_str()),
            None => once(headers, &HOST)?,
        };
        match host {
            Some(host) if self.is_called(host) => Ok(()),
            Some(host) => refuse(format!("this server is not called {host}: see `allowed_hosts` in `[http]`")),
            None => refuse("the Host header is missing".to_owned()),
        }
    }

    fn lets_in(&self, origin: &str) -> bool {
        // A page that was loaded from this machine has not got here by a foreign name.
        self.origins.iter().any(|allowed| allowed.eq_ignore_ascii_case(origin))
            || self.address.ip().is_loopback() && Url::parse(origin).is_ok_and(|url| url.host().is_some_and(is_local))
    }

    fn is_called(&self, host: &str) -> bool {
        let Ok(authority) = host.parse::<Authority>() else { return false };
        let (name, whole) = (authority.host().to_ascii_lowercase(), authority.as_str().to_ascii_lowercase());
        let is_configured = self.hosts.iter().any(|allowed| *allowed == whole || *allowed == name);
        let is_local =
            || self.address.ip().is_loopback() && Host::parse(&name).is_ok_and(|host| is_local(borrowed(&host)));
        let ip = name.trim_start_matches('[').trim_end_matches(']');
        is_configured || is_local() || ip == self.address.ip().to_string()
    }
}

fn borrowed(host: &Host<String>) -> Host<&str> {
    match host {
        Host::Domain(name) => Host::Domain(name),
        Host::Ipv4(ip) => Host::Ipv4(*ip),
        Host::Ipv6(ip) => Host::Ipv6(*ip),
    }
}

fn is_local(host: Host<&str>) -> bool {
    match host {
        Host::Domain(name) => name == "localhost",
        Host::Ipv4(ip) => ip.is_loopback(),
        Host::Ipv6(ip) => ip.is_loopback(),
    }
}

/// The name of whoever calls; `None`: nobody in particular.
pub(crate) fn principal<'a>(headers: &'a HeaderMap, config: &HttpConfig) -> Result<Option<&'a str>, Problem> {
    match &config.principal {
        Principal::None => Ok(None),
        Principal::Authorization => once(headers, &http::header::AUTHORIZATION),
        Principal::Header(name) => match once(headers, name)? {
            Some(value) => Ok(Some(value)),
            None => {
                let problem = format!("the header {name} is missing, which says who calls: the proxy in front sets it");
                Err(Problem::new(StatusCode::FORBIDDEN, BAD_REQUEST, problem))
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderName;

    fn door(address: &str, text: &str) -> Door {
        let config = crate::Config::parse("settled.toml".as_ref(), text).unwrap();
        Door::new(&config.http, address.parse().unwrap())
    }

    fn lets_in(door: &Door, lines: &[(&str, &str)]) -> bool {
        let headers: HeaderMap =
            lines.iter().map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap())).collect();
        door.check(&headers, &Uri::from_static("/mcp")).is_ok()
    }

    #[test]
    fn on_this_machine_only_local_names_and_pages() {
        let door = door("127.0.0.1:8080", "");
        for host in ["localhost", "localhost:8080", "127.0.0.1:8080", "[::1]:8080", "LOCALHOST:1"] {
            assert!(lets_in(&door, &[("host", host)]), "{host}");
            assert!(lets_in(&door, &[("host", host), ("origin", "http://localhost:6274")]), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:8080", "10.0.0.1", "a b", ""] {
            assert!(!lets_in(&door, &[("host", host)]), "{host}");
        }
        assert!(!lets_in(&door, &[]));
        for origin in ["null", "https://evil.example", "http://localhost.evil.example", "http://127.0.0.1.evil.example"]
        {
            assert!(!lets_in(&door, &[("host", "localhost"), ("origin", origin)]), "{origin}");
        }
        assert!(!lets_in(&door, &[("host", "localhost"), ("host", "evil.example")]), "two hosts");
    }

    #[test]
    fn elsewhere_what_is_configured() {
        let any = door("0.0.0.0:8080", "");
        assert!(lets_in(&any, &[("host", "tools.example")]));
        assert!(!lets_in(&any, &[("host", "tools.example"), ("origin", "http://localhost")]));
        assert!(!lets_in(&any, &[("host", "tools.example"), ("origin", "https://tools.example")]));
        let named = door(
            "0.0.0.0:8080",
            "[http]\nallowed_hosts = ['tools.example']\nallowed_origins = ['https://app.example']",
        );
        assert!(lets_in(&named, &[("host", "tools.example:443"), ("origin", "https://app.example")]));
        assert!(!lets_in(&named, &[("host", "other.example")]));
        assert!(!lets_in(&named, &[("host", "tools.example"), ("origin", "http://app.example")]));
    }
}

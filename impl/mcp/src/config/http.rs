//! `[http]`: who may talk to the proxy over HTTP (`--listen`), and who is who.

use std::net::SocketAddr;
use std::time::Duration;

use http::HeaderName;
use serde::Deserialize;
use serde_json::Value;
use toml::Spanned;
use url::Url;

use super::{Wrong, span};

/// How many sessions there may be at once if nothing else is declared.
const SESSIONS: usize = 1000;

/// The largest number of sessions: each can be a server process of its own.
const MOST_SESSIONS: u64 = 100_000;

/// Headers that belong to one connection, or to the protocol itself: the proxy writes its own.
const OURS: [&str; 19] = [
    "accept",
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "last-event-id",
    "mcp-protocol-version",
    "mcp-session-id",
    "origin",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Whether a header is never passed on, because it is about the connection or the protocol itself.
pub(crate) fn is_the_proxys_own(header: &HeaderName) -> bool {
    OURS.contains(&header.as_str())
}

/// Who may talk to the proxy over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpConfig {
    /// Where to listen; `None`: as the command line says, else stdio.
    pub listen: Option<SocketAddr>,
    /// The origins whose web pages may call, each as a browser writes it (`https://app.example`). Requests without an `Origin`
    /// don't come from a web page.
    pub allowed_origins: Vec<String>,
    /// The hosts that a request may name in `Host`, besides those of the address that is listened at: each a name, with
    /// or without a port, in lower case.
    pub allowed_hosts: Vec<String>,
    /// What tells principals apart.
    pub principal: Principal,
    /// Headers that are passed on to an HTTP upstream, besides `Authorization`.
    pub pass_headers: Vec<HeaderName>,
    /// How long after the upstream has accepted a principal's authorization it may get recorded answers without the upstream being
    /// asked again.
    pub reauthorise: Duration,
    /// How many sessions there may be at once.
    pub sessions: usize,
    /// How many of one principal.
    pub sessions_per_principal: usize,
    /// A session that nothing happens in ends after this.
    pub idle_timeout: Duration,
}

/// What tells principals apart: each has keys, sessions and recorded answers of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Principal {
    /// `principal = "authorization"`: the `Authorization` header; requests without one are one principal.
    #[default]
    Authorization,
    /// `principal = "none"`: nothing does; whoever can reach the proxy is the same.
    None,
    /// `principal = { header = "X-User" }`: a header that a proxy in front of this one sets, and that no client can.
    Header(HeaderName),
}

impl Default for HttpConfig {
    /// No origins, 1,000 sessions that may idle for 30 minutes, a principal by `Authorization`, asked again after a minute.
    fn default() -> Self {
        HttpConfig {
            listen: None,
            allowed_origins: Vec::new(),
            allowed_hosts: Vec::new(),
            principal: Principal::default(),
            pass_headers: Vec::new(),
            reauthorise: Duration::from_secs(60),
            sessions: SESSIONS,
            sessions_per_principal: SESSIONS,
            idle_timeout: Duration::from_secs(30 * 60),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HttpTable {
    listen: Option<Spanned<String>>,
    #[serde(default)]
    allowed_origins: Vec<Spanned<String>>,
    #[serde(default)]
    allowed_hosts: Vec<Spanned<String>>,
    principal: Option<Spanned<Value>>,
    #[serde(default)]
    pass_headers: Vec<Spanned<String>>,
    reauthorise: Option<Spanned<String>>,
    sessions: Option<Spanned<u64>>,
    sessions_per_principal: Option<Spanned<u64>>,
    idle_timeout: Option<Spanned<String>>,
}

impl HttpTable {
    pub(super) fn check(self) -> Result<HttpConfig, Wrong> {
        let without = HttpConfig::default();
        let duration = |name: &str, value: &Option<Spanned<String>>, default| match value {
            Some(value) => span(&format!("http.{name}"), value),
            None => Ok(default),
        };
        let reauthorise = duration("reauthorise", &self.reauthorise, without.reauthorise)?;
        let idle_timeout = duration("idle_timeout", &self.idle_timeout, without.idle_timeout)?;
        let sessions = self.sessions.as_ref().map(|value| sessions("sessions", value)).transpose()?;
        let sessions_in_all = sessions.unwrap_or(without.sessions);
        let of_one = match &self.sessions_per_principal {
            None => sessions_in_all,
            Some(value) => {
                let own = self::sessions("sessions_per_principal", value)?;
                if own > sessions_in_all {
                    let problem =
                        format!("must not be more than `sessions` ({sessions_in_all}), which is for all together");
                    return Err(Wrong::new(value.span(), "http.sessions_per_principal", problem));
                }
                own
            }
        };
        Ok(HttpConfig {
            listen: self.listen.as_ref().map(listen).transpose()?,
            allowed_origins: self.allowed_origins.iter().map(origin).collect::<Result<_, _>>()?,
            allowed_hosts: self.allowed_hosts.iter().map(host).collect::<Result<_, _>>()?,
            principal: self.principal.as_ref().map(principal).transpose()?.unwrap_or_default(),
            pass_headers: self.pass_headers.iter().map(passed).collect::<Result<_, _>>()?,
            reauthorise,
            sessions: sessions_in_all,
            sessions_per_principal: of_one,
            idle_timeout,
        })
    }
}

fn listen(value: &Spanned<String>) -> Result<SocketAddr, Wrong> {
    let text = value.get_ref();
    text.parse().map_err(|_| {
        let problem = format!("`{text}` is not an address and a port: write it such as `127.0.0.1:8080`");
        Wrong::new(value.span(), "http.listen", problem)
    })
}

/// An origin as browsers write it: scheme, host, and the port if it is not the scheme's own; nothing after it.
fn origin(value: &Spanned<String>) -> Result<String, Wrong> {
    let text = value.get_ref();
    let wrong = || {
        let problem = format!("`{text}` is not an origin: write it as a browser does, such as `https://app.example`");
        Wrong::new(value.span(), "http.allowed_origins", problem)
    };
    let url = Url::parse(text).map_err(|_| wrong())?;
    let origin = url.origin();
    if !origin.is_tuple() || !matches!(url.scheme(), "http" | "https") {
        return Err(wrong());
    }
    let written = origin.ascii_serialization();
    if text.trim_end_matches('/').eq_ignore_ascii_case(&written) { Ok(written) } else { Err(wrong()) }
}

/// A name or an address, with or without a port.
fn host(value: &Spanned<String>) -> Result<String, Wrong> {
    let text = value.get_ref();
    let authority = text.parse::<http::uri::Authority>().ok().filter(|authority| !authority.as_str().contains('@'));
    match authority {
        Some(authority) if !authority.host().is_empty() && authority.host() != "*" => {
            Ok(authority.as_str().to_ascii_lowercase())
        }
        _ => {
            let problem =
                format!("`{text}` is not a host: write a name such as `tools.example` or `tools.example:8443`");
            Err(Wrong::new(value.span(), "http.allowed_hosts", problem))
        }
    }
}

fn principal(value: &Spanned<Value>) -> Result<Principal, Wrong> {
    let wrong = |problem: String| Wrong::new(value.span(), "http.principal", problem);
    let unknown = || {
        wrong(format!(
            "{} is not known: write `\"authorization\"` (by that header), `\"none\"` (all are the same) or `{{ header = \"X-User\" }}` \
             (by a header that a proxy in front of this one sets)",
            value.get_ref()
        ))
    };
    match value.get_ref() {
        Value::String(text) if text == "authorization" => Ok(Principal::Authorization),
        Value::String(text) if text == "none" => Ok(Principal::None),
        Value::Object(members) if members.len() == 1 => {
            let name = members.get("header").and_then(Value::as_str).ok_or_else(unknown)?;
            let header =
                name.parse::<HeaderName>().map_err(|_| wrong(format!("`{name}` is not the name of a header")))?;
            Ok(if header == http::header::AUTHORIZATION { Principal::Authorization } else { Principal::Header(header) })
        }
        _ => Err(unknown()),
    }
}

fn passed(value: &Spanned<String>) -> Result<HeaderName, Wrong> {
    let text = value.get_ref();
    let wrong = |problem: String| Wrong::new(value.span(), "http.pass_headers", problem);
    let header = text.parse::<HeaderName>().map_err(|_| wrong(format!("`{text}` is not the name of a header")))?;
    if is_the_proxys_own(&header) {
        return Err(wrong(format!(
            "`{text}` is about the connection or the protocol itself: the proxy writes its own"
        )));
    }
    Ok(header)
}

fn sessions(name: &str, value: &Spanned<u64>) -> Result<usize, Wrong> {
    let count = *value.get_ref();
    if !(1..=MOST_SESSIONS).contains(&count) {
        let problem = format!("must be between 1 and {MOST_SESSIONS}");
        return Err(Wrong::new(value.span(), format!("http.{name}"), problem));
    }
    Ok(usize::try_from(count).unwrap_or(SESSIONS))
}

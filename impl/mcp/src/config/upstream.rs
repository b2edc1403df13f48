//! How a server is reached: `command` and `env`, or `url`, `headers`, `ca` and `http_not_run`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use http::{HeaderMap, HeaderName, HeaderValue};
use settled_observers::Secret;
use toml::Spanned;
use url::Url;

use super::Wrong;
use super::place::{Table, member};
use crate::upstream::HttpOptions;

/// How a server is reached.
#[derive(Clone, PartialEq, Eq)]
pub enum UpstreamConfig {
    /// As a process of its own, over its standard input and output.
    Command {
        /// Program and arguments.
        command: Vec<String>,
        /// Variables that are added to the environment of this process.
        env: BTreeMap<String, String>,
    },
    /// Over Streamable HTTP.
    Url(Box<UrlConfig>),
}

/// A server behind HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlConfig {
    /// Its MCP endpoint.
    pub url: Url,
    /// Headers of every request. What came with a message goes before them.
    pub headers: Vec<(HeaderName, Secret)>,
    /// A file of certificates (PEM) that are trusted besides those that this machine trusts.
    pub ca: Option<PathBuf>,
    /// The statuses that stand for "not run", if there is no JSON-RPC answer; `None`: those that usually do.
    pub not_run: Option<Vec<u16>>,
}

/// A header whose value can't be sent, or whose variable is not set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the header `{name}` can't be sent: {problem}")]
pub struct HeaderError {
    /// The header.
    pub name: String,
    /// Why.
    pub problem: String,
}

impl UrlConfig {
    /// A server at this URL, with nothing else configured.
    pub fn new(url: Url) -> UrlConfig {
        UrlConfig { url, headers: Vec::new(), ca: None, not_run: None }
    }

    /// How to reach it, with what its headers take from the environment.
    ///
    /// # Errors
    /// [`HeaderError`], if a header can't be sent.
    pub fn options(&self) -> Result<HttpOptions, HeaderError> {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            let wrong = |problem: String| HeaderError { name: name.to_string(), problem };
            let text = value.resolve().map_err(|error| wrong(error.to_string()))?;
            let mut value = HeaderValue::from_str(&text)
                .map_err(|_| wrong("its value has characters that no header can have".to_owned()))?;
            value.set_sensitive(true);
            headers.append(name.clone(), value);
        }
        let without = HttpOptions::new(self.url.clone());
        let not_run = self.not_run.clone().unwrap_or(without.not_run);
        Ok(HttpOptions { url: without.url, ca: self.ca.clone(), not_run, headers })
    }
}

impl fmt::Debug for UpstreamConfig {
    /// Without the values of variables.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UpstreamConfig::Command { command, env } => {
                let names: Vec<&String> = env.keys().collect();
                f.debug_struct("Command").field("command", command).field("env", &names).finish()
            }
            UpstreamConfig::Url(url) => f.debug_tuple("Url").field(url).finish(),
        }
    }
}

/// The members of a server's table that say how it is reached.
pub(super) struct Reached {
    pub(super) command: Option<Spanned<Vec<String>>>,
    pub(super) env: Option<Spanned<BTreeMap<String, String>>>,
    pub(super) url: Option<Spanned<String>>,
    pub(super) headers: Option<Spanned<BTreeMap<String, String>>>,
    pub(super) ca: Option<Spanned<String>>,
    pub(super) http_not_run: Option<Spanned<Vec<u16>>>,
}

pub(super) fn check(table: &Table, reached: Reached) -> Result<UpstreamConfig, Wrong> {
    let Reached { command, env, url, headers, ca, http_not_run } = reached;
    match (command, url) {
        (Some(_), Some(url)) => {
            Err(table.wrong(url.span(), "url", "can't be written beside `command`: a server is reached in one way"))
        }
        (None, None) => {
            let problem = "is missing: write the server's program and arguments, as in `command = [\"npx\", \"shop-server\"]`, or \
                           its address, as in `url = \"https://shop.example/mcp\"`";
            Err(table.lacks("command", problem))
        }
        (Some(command), None) => {
            let members = [member("headers", &headers), member("ca", &ca), member("http_not_run", &http_not_run)];
            table.refuse(members, "belongs to `url`: leave it out")?;
            let at = command.span();
            let command = command.into_inner();
            if command.first().is_none_or(String::is_empty) {
                return Err(table.wrong(at, "command", "is empty: name the program, and its arguments after it"));
            }
            if command.iter().any(|part| part.contains('\0')) {
                return Err(table.wrong(at, "command", "has a NUL character, which no command can have"));
            }
            let env = env.map(|env| check_env(table, env)).transpose()?.unwrap_or_default();
            Ok(UpstreamConfig::Command { command, env })
        }
        (None, Some(url)) => {
            table.refuse([member("env", &env)], "belongs to `command`: leave it out")?;
            let url = check_url(table, &url)?;
            let headers = headers.map(|headers| check_headers(table, headers)).transpose()?.unwrap_or_default();
            let ca = table.text("ca", ca, "a file of certificates")?.map(PathBuf::from);
            let not_run = http_not_run.map(|statuses| check_not_run(table, statuses)).transpose()?;
            Ok(UpstreamConfig::Url(Box::new(UrlConfig { url, headers, ca, not_run })))
        }
    }
}

fn check_env(table: &Table, env: Spanned<BTreeMap<String, String>>) -> Result<BTreeMap<String, String>, Wrong> {
    let at = env.span();
    let env = env.into_inner();
    let odd =
        |(name, value): &(&String, &String)| name.is_empty() || name.contains(['=', '\0']) || value.contains('\0');
    match env.iter().find(odd) {
        Some((name, _)) => {
            Err(table.wrong(at, "env", format!("can't set `{name}`: no variable can be called or be that")))
        }
        None => Ok(env),
    }
}

fn check_url(table: &Table, url: &Spanned<String>) -> Result<Url, Wrong> {
    let text = url.get_ref();
    let wrong = |problem: String| table.wrong(url.span(), "url", problem);
    let parsed = Url::parse(text).map_err(|error| {
        wrong(format!("`{text}` is not a URL ({error}): write one such as `https://shop.example/mcp`"))
    })?;
    if !matches!(parsed.scheme(), "http" | "https") || parsed.host_str().is_none_or(str::is_empty) {
        return Err(wrong(format!("`{text}` is not an HTTP address: it must begin with `https://` or `http://`")));
    }
    if !parsed.username().is_empty() || parsed.password().is_some() {
        return Err(wrong(
            "has a user name or a password in it: write `headers = { Authorization = \"…\" }`".to_owned(),
        ));
    }
    if parsed.fragment().is_some() {
        return Err(wrong("has a fragment (`#…`), which is never sent: leave it out".to_owned()));
    }
    Ok(parsed)
}

fn check_headers(
    table: &Table,
    headers: Spanned<BTreeMap<String, String>>,
) -> Result<Vec<(HeaderName, Secret)>, Wrong> {
    let at = headers.span();
    let header = |(name, value): (String, String)| match name.parse::<HeaderName>() {
        Ok(name) => Ok((name, Secret::new(value))),
        Err(_) => Err(table.wrong(at.clone(), "headers", format!("has `{name}`, which is not the name of a header"))),
    };
    headers.into_inner().into_iter().map(header).collect()
}

fn check_not_run(table: &Table, statuses: Spanned<Vec<u16>>) -> Result<Vec<u16>, Wrong> {
    match statuses.get_ref().iter().find(|status| !(300..600).contains(*status)) {
        Some(status) => {
            let problem =
                format!("has {status}: it takes the statuses, from 300 to 599, after which nothing has been run");
            Err(table.wrong(statuses.span(), "http_not_run", problem))
        }
        None => Ok(statuses.into_inner()),
    }
}

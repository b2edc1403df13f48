//! `[servers.NAME]`: one of many servers.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use toml::Spanned;

use super::file::{Around, DefaultsTable, check_scope, check_tools};
use super::place::Table;
use super::tool::{ToolConfig, ToolTable};
use super::upstream::{self, Reached, UpstreamConfig};
use super::{Config, Defaults, Mode, NewTools, Wrong, mode, seen};
use crate::guarded::guard;

/// A server of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerConfig {
    /// How to reach it.
    pub upstream: UpstreamConfig,
    /// The scope of its keys; `None`: from its name and its command or URL.
    pub scope: Option<String>,
    /// Whether its calls are guarded, for tools that don't say otherwise.
    pub mode: Mode,
    /// What becomes of its tools that are not declared.
    pub new_tools: NewTools,
    /// What holds for its tools that don't say otherwise.
    pub defaults: Defaults,
    /// Its declared tools, by name.
    pub tools: BTreeMap<String, Arc<ToolConfig>>,
}

/// Why a server can't be picked from a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PickError {
    /// The file has other servers only.
    #[error("the configuration has no server `{name}`: it has {there}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// The names that are there.
        there: String,
    },
    /// The file has none.
    #[error("the configuration names no servers: add `[servers.{name}]`, or write the server's command after `--`")]
    NoServers {
        /// What was asked for.
        name: String,
    },
    /// One has to be picked.
    #[error(
        "the configuration has several servers: pick one by `--server NAME` ({there}), or serve them all by `--listen`"
    )]
    Several {
        /// The names that are there.
        there: String,
    },
}

impl Config {
    /// The configuration of one server of the file, as if it were the only one: what holds for the process, and its own scope,
    /// defaults and tools.
    ///
    /// # Errors
    /// [`PickError`], if it is not there.
    pub fn for_server(&self, name: &str) -> Result<Config, PickError> {
        let Some(server) = self.servers.get(name) else {
            return Err(match self.servers.is_empty() {
                true => PickError::NoServers { name: name.to_owned() },
                false => PickError::Unknown { name: name.to_owned(), there: self.server_names() },
            });
        };
        let env = match &server.upstream {
            UpstreamConfig::Command { env, .. } => env.clone(),
            UpstreamConfig::Url(_) => BTreeMap::new(),
        };
        Ok(Config {
            env,
            scope: Some(server.scope(name)),
            mode: server.mode,
            new_tools: server.new_tools,
            defaults: server.defaults.clone(),
            tools: server.tools.clone(),
            servers: BTreeMap::new(),
            ..self.clone()
        })
    }

    /// The only server of the file: its name and its configuration. `None`: it names none.
    ///
    /// # Errors
    /// [`PickError`], if there are several.
    pub fn only_server(&self) -> Result<Option<(&str, Config)>, PickError> {
        let mut names = self.servers.keys();
        match (names.next(), names.next()) {
            (None, _) => Ok(None),
            (Some(name), None) => Ok(Some((name, self.for_server(name)?))),
            (Some(_), Some(_)) => Err(PickError::Several { there: self.server_names() }),
        }
    }

    fn server_names(&self) -> String {
        let names: Vec<String> = self.servers.keys().map(|name| format!("`{name}`")).collect();
        names.join(", ")
    }
}

impl ServerConfig {
    /// The scope of its keys. Two files may well use one name for two servers, so the name alone is none.
    pub fn scope(&self, name: &str) -> String {
        self.scope.clone().unwrap_or_else(|| {
            let directory = std::env::current_dir().unwrap_or_default();
            match &self.upstream {
                UpstreamConfig::Command { command, .. } => {
                    guard::scope_of(name, command.iter().map(|part| part.as_bytes()), &directory)
                }
                UpstreamConfig::Url(server) => guard::scope_of(name, [server.url.as_str().as_bytes()], Path::new("")),
            }
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ServerTable {
    command: Option<Spanned<Vec<String>>>,
    env: Option<Spanned<BTreeMap<String, String>>>,
    url: Option<Spanned<String>>,
    headers: Option<Spanned<BTreeMap<String, String>>>,
    ca: Option<Spanned<String>>,
    http_not_run: Option<Spanned<Vec<u16>>>,
    scope: Option<Spanned<String>>,
    mode: Option<Spanned<String>>,
    new_tools: Option<Spanned<String>>,
    #[serde(default)]
    defaults: DefaultsTable,
    #[serde(default)]
    tools: BTreeMap<String, Spanned<ToolTable>>,
}

/// Names that the HTTP front needs for itself.
const TAKEN: [&str; 6] = ["mcp", "metrics", "healthz", "readyz", "health", ".well-known"];

pub(super) fn check(name: &str, spanned: Spanned<ServerTable>, around: &Around<'_>) -> Result<ServerConfig, Wrong> {
    let of = format!("servers.{name}");
    let table = Table::new(of.as_str(), spanned.span());
    check_name(&table, name)?;
    let server = spanned.into_inner();
    let reached = Reached {
        command: server.command,
        env: server.env,
        url: server.url,
        headers: server.headers,
        ca: server.ca,
        http_not_run: server.http_not_run,
    };
    let upstream = upstream::check(&table, reached)?;
    let scope = server.scope.map(|scope| check_scope(&table.field("scope"), scope)).transpose()?;
    let mode = server.mode.map(|value| mode::check(&table.field("mode"), &value)).transpose()?.unwrap_or(around.mode);
    let new_tools = server.new_tools.map(|value| seen::new_tools(&table.field("new_tools"), &value)).transpose()?;
    let new_tools = new_tools.unwrap_or(around.new_tools);
    let defaults = server.defaults.check(&table.field("defaults"), around.defaults)?;
    let within = Around { defaults: &defaults, mode, new_tools, has_keys: around.has_keys };
    let tools = check_tools(&table.field("tools"), server.tools, &within)?;
    Ok(ServerConfig { upstream, scope, mode, new_tools, defaults, tools })
}

/// The name is part of a path, and of the scope of keys.
fn check_name(table: &Table, name: &str) -> Result<(), Wrong> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let fits = !name.is_empty() && name.len() <= 64 && name.chars().all(plain) && !name.starts_with('.');
    if !fits {
        let problem = "is not a name for a server: use up to 64 letters, digits, `-`, `_` and `.`, and begin with none of \
                       the dots; it is part of the path at which the server is served";
        return Err(table.whole(problem));
    }
    if TAKEN.contains(&name) {
        return Err(table.whole("is a name that the HTTP front needs for itself: choose another"));
    }
    Ok(())
}

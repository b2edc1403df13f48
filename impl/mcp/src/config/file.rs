//! The whole file, and what holds for all of its servers and tools.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use serde::Deserialize;
use settled_protocol::{Key, composite_id};
use toml::Spanned;

use super::encryption::EncryptionTable;
use super::http::HttpTable;
use super::limits::LimitsTable;
use super::messages::MessagesTable;
use super::process::{self, RetriesTable};
use super::server::{self, ServerTable};
use super::tool::{self, ToolConfig, ToolTable};
use super::{Config, Defaults, Kind, Mode, NewTools, Wrong, mode, repeats, retention, seen, span};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    scope: Option<Spanned<String>>,
    ledger: Option<Spanned<String>>,
    lease: Option<Spanned<String>>,
    in_progress: Option<Spanned<String>>,
    patience: Option<Spanned<String>>,
    metrics: Option<Spanned<String>>,
    mode: Option<Spanned<String>>,
    new_tools: Option<Spanned<String>>,
    encryption: Option<Spanned<EncryptionTable>>,
    status_tool: Option<bool>,
    tasks: Option<bool>,
    #[serde(default)]
    messages: MessagesTable,
    #[serde(default)]
    retries: RetriesTable,
    #[serde(default)]
    http: HttpTable,
    #[serde(default)]
    limits: LimitsTable,
    #[serde(default)]
    defaults: DefaultsTable,
    #[serde(default)]
    tools: BTreeMap<String, Spanned<ToolTable>>,
    #[serde(default)]
    servers: BTreeMap<String, Spanned<ServerTable>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DefaultsTable {
    window: Option<Spanned<String>>,
    timeout: Option<Spanned<String>>,
    repeat: Option<Spanned<String>>,
    slow_answer: Option<Spanned<String>>,
    retry_doubt: Option<Spanned<String>>,
    client_timeout: Option<Spanned<String>>,
    keep_alive: Option<Spanned<bool>>,
}

impl File {
    /// What the file means, if all of it can be accepted.
    pub(super) fn check(self) -> Result<Config, Wrong> {
        self.check_one_form()?;
        let scope = self.scope.map(|scope| check_scope("scope", scope)).transpose()?;
        let ledger = self.ledger.map(check_ledger).transpose()?;
        let lease = self.lease.map(process::check_lease).transpose()?;
        let patience = process::check_patience(self.in_progress, self.patience)?;
        let metrics = self.metrics.map(process::check_metrics).transpose()?;
        let mode = self.mode.map(|value| mode::check("mode", &value)).transpose()?.unwrap_or_default();
        let retries = self.retries.check()?;
        let http = self.http.check()?;
        let limits = self.limits.check()?;
        let messages = self.messages.check()?;
        let defaults = self.defaults.check("defaults", &Defaults::default())?;
        let new_tools =
            self.new_tools.map(|value| seen::new_tools("new_tools", &value)).transpose()?.unwrap_or_default();
        let encryption = self.encryption.map(EncryptionTable::check).transpose()?;
        let around = Around { defaults: &defaults, mode, new_tools, has_keys: encryption.is_some() };
        let tools = check_tools("tools", self.tools, &around)?;
        let servers = self
            .servers
            .into_iter()
            .map(|(name, table)| {
                let server = server::check(&name, table, &around)?;
                Ok((name, server))
            })
            .collect::<Result<_, Wrong>>()?;
        Ok(Config {
            scope,
            ledger,
            lease,
            patience,
            metrics,
            retries,
            http,
            limits,
            mode,
            new_tools,
            encryption,
            messages: Arc::new(messages),
            status_tool: self.status_tool.unwrap_or_default(),
            tasks: self.tasks.unwrap_or_default(),
            defaults,
            tools,
            env: BTreeMap::new(),
            servers,
        })
    }

    /// What is said of "the server" must not be lost on a file that names its servers.
    fn check_one_form(&self) -> Result<(), Wrong> {
        let Some(server) = self.servers.keys().next() else { return Ok(()) };
        if let Some((name, table)) = self.tools.first_key_value() {
            let problem = format!(
                "belongs to no server, but this file names its servers: write `[servers.{server}.tools.{name}]`, or \
                 whichever server has it"
            );
            return Err(Wrong::new(table.span(), format!("tools.{name}"), problem));
        }
        if let Some(scope) = &self.scope {
            let problem = format!(
                "can't be one for all servers of a file: write it under `[servers.{server}]`, or leave it out: each has \
                 its own"
            );
            return Err(Wrong::new(scope.span(), "scope", problem));
        }
        Ok(())
    }
}

/// What is said further out in the file, and holds for tools that don't say otherwise.
pub(super) struct Around<'a> {
    pub(super) defaults: &'a Defaults,
    pub(super) mode: Mode,
    pub(super) new_tools: NewTools,
    /// There is an `[encryption]`.
    pub(super) has_keys: bool,
}

/// The tools of a server. `of`: the table that they are in.
pub(super) fn check_tools(
    of: &str,
    tables: BTreeMap<String, Spanned<ToolTable>>,
    around: &Around<'_>,
) -> Result<BTreeMap<String, Arc<ToolConfig>>, Wrong> {
    let asked: Vec<(String, String, Range<usize>)> = tables
        .iter()
        .filter_map(|(name, table)| {
            let (observer, at) = table.get_ref().observe.as_ref()?.get_ref().tool()?;
            Some((format!("{of}.{name}.observe.tool"), observer.to_owned(), at))
        })
        .collect();
    let tools: BTreeMap<String, Arc<ToolConfig>> = tables
        .into_iter()
        .map(|(name, table)| {
            let tool = tool::check(of, &name, table, around)?;
            Ok((name, Arc::new(tool)))
        })
        .collect::<Result<_, Wrong>>()?;
    for (field, observer, at) in asked {
        if tools.get(&observer).is_some_and(|tool| tool.kind != Kind::Passed) {
            let problem = format!(
                "names `{observer}`, which is declared as a tool to be guarded: an observer must not change anything"
            );
            return Err(Wrong::new(at, field, problem));
        }
    }
    Ok(tools)
}

impl DefaultsTable {
    /// `of`: the table's name. `base`: what holds where it says nothing.
    pub(super) fn check(self, of: &str, base: &Defaults) -> Result<Defaults, Wrong> {
        let or = |name: &str, value: Option<Spanned<String>>, default| match value {
            Some(value) => span(&format!("{of}.{name}"), &value),
            None => Ok(default),
        };
        let places = [self.window.clone(), self.timeout.clone()];
        let window = or("window", self.window, base.window)?;
        let timeout = or("timeout", self.timeout, base.timeout)?;
        retention::check_defaults(of, window, timeout, places.each_ref())?;
        let repeat = self.repeat.map(|value| repeats(&format!("{of}.repeat"), &value)).transpose()?;
        let client_timeout =
            self.client_timeout.map(|value| span(&format!("{of}.client_timeout"), &value)).transpose()?;
        let client_timeout = client_timeout.or(base.client_timeout);
        if let (Some(keep_alive), None) = (&self.keep_alive, client_timeout) {
            let problem = "belongs to `client_timeout`, which says how often the client must hear something: add that, or leave \
                           this out";
            return Err(Wrong::new(keep_alive.span(), format!("{of}.keep_alive"), problem));
        }
        Ok(Defaults {
            window,
            timeout,
            repeat: repeat.or(base.repeat),
            slow_answer: or("slow_answer", self.slow_answer, base.slow_answer)?,
            retry_doubt: or("retry_doubt", self.retry_doubt, base.retry_doubt)?,
            client_timeout,
            keep_alive: self.keep_alive.map_or(base.keep_alive, Spanned::into_inner),
        })
    }
}

pub(super) fn check_scope(field: &str, scope: Spanned<String>) -> Result<String, Wrong> {
    // The key's own rules decide; the other two parts are known to be good.
    match Key::new(scope.get_ref().as_str(), "tool", composite_id(["id"])) {
        Ok(_) => Ok(scope.into_inner()),
        Err(error) => Err(Wrong::new(scope.span(), field, error.to_string())),
    }
}

fn check_ledger(ledger: Spanned<String>) -> Result<String, Wrong> {
    if ledger.get_ref().is_empty() {
        return Err(Wrong::new(ledger.span(), "ledger", "is empty: name a directory or a URL, or leave the line out"));
    }
    Ok(ledger.into_inner())
}

//! `adapter.toml`: how a framework is installed, started and resumed. `adapters/KIT.md` is its documentation.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::cell::{Cell, Workload};

/// How a tool is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// A POST to `PROFILE_TOOL_URL`.
    #[default]
    Http,
    /// MCP over Streamable HTTP, at `PROFILE_MCP_URL`.
    McpHttp,
    /// MCP over stdio, with the server that `PROFILE_MCP_COMMAND` starts.
    McpStdio,
}

/// One way in which a framework is used, with a profile of its own.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Its name: `sync`.
    pub name: String,
    /// Environment variables for `start` and `resume`, besides those of the kit.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// How its tool is reached, if otherwise than the adapter says.
    pub transport: Option<Transport>,
    /// What it can be asked to do, if otherwise than the adapter says.
    pub workloads: Option<Vec<Workload>>,
    /// Whether it can be resumed with the original input, if otherwise than the adapter says.
    pub resumes_with_input: Option<bool>,
    /// The protocol that predicts its profile: a shipped one's name or a file beside `adapter.toml`.
    pub protocol: Option<String>,
    /// A service that it needs: `postgres` is the only one. Its URL is in `PROFILE_POSTGRES`.
    pub needs: Option<Service>,
    /// Cells that it can't be tried in, with the reason.
    #[serde(default)]
    pub without: BTreeMap<Cell, String>,
}

/// A service that the harness starts for a variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Service {
    /// A PostgreSQL server on a free port, with an empty database for each run.
    Postgres,
}

/// A framework's adapter.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adapter {
    /// Its name: that of its directory.
    pub name: String,
    /// In one line, what is tried.
    pub about: String,
    /// The framework's package.
    pub framework: String,
    /// The version that is installed, if none is asked for (`settled profile install NAME@VERSION`).
    pub version: String,
    /// Files of the kit that are put beside it: `settled_kit.py`, `settled_kit.mjs`.
    #[serde(default)]
    pub kit: Vec<String>,
    /// A command that prints what it runs on.
    pub runtime: Vec<String>,
    /// Commands that install it into its directory, in this order; `PROFILE_VERSION` is the version.
    #[serde(default)]
    pub install: Vec<Vec<String>>,
    /// The command that starts a run.
    pub start: Vec<String>,
    /// The command that goes on with a run that was started.
    pub resume: Vec<String>,
    /// How its tool is reached.
    #[serde(default)]
    pub transport: Transport,
    /// What it can be asked to do.
    pub workloads: Vec<Workload>,
    /// Whether it can be resumed with the original input (`PROFILE_FORM=input`).
    #[serde(default)]
    pub resumes_with_input: bool,
    /// The ways in which it is used; none is one called `default`.
    #[serde(default, rename = "variant")]
    pub variants: Vec<Variant>,
    /// The protocol that predicts its profile.
    pub protocol: Option<String>,
    /// The directory that it was read from.
    #[serde(skip)]
    pub directory: PathBuf,
}

/// Why an adapter can't be used.
#[derive(Debug, thiserror::Error)]
pub enum AdapterError {
    /// There is none.
    #[error("{}: {error}; an adapter is a directory with an `adapter.toml`, see adapters/KIT.md", path.display())]
    Unreadable {
        /// Where it was looked for.
        path: PathBuf,
        /// Why it can't be read.
        error: std::io::Error,
    },
    /// It says something that can't be.
    #[error("{}: {error}", path.display())]
    Invalid {
        /// Its `adapter.toml`.
        path: PathBuf,
        /// What, and where.
        error: String,
    },
}

impl Adapter {
    /// Reads the adapter in this directory.
    ///
    /// # Errors
    /// [`AdapterError`] if there is none, or its `adapter.toml` says what can't be.
    pub fn read(directory: &Path) -> Result<Self, AdapterError> {
        let path = directory.join("adapter.toml");
        let text =
            std::fs::read_to_string(&path).map_err(|error| AdapterError::Unreadable { path: path.clone(), error })?;
        let mut adapter = Self::parse(&path, &text)?;
        directory.clone_into(&mut adapter.directory);
        Ok(adapter)
    }

    /// Reads a description, that in the file of this path.
    ///
    /// # Errors
    /// [`AdapterError`] if it says what can't be.
    pub fn parse(path: &Path, text: &str) -> Result<Self, AdapterError> {
        let invalid = |error: String| AdapterError::Invalid { path: path.to_owned(), error };
        let adapter: Self = toml::from_str(text).map_err(|error| invalid(error.to_string()))?;
        for (field, command) in [("start", &adapter.start), ("resume", &adapter.resume), ("runtime", &adapter.runtime)]
        {
            if command.is_empty() {
                return Err(invalid(format!("`{field}` is empty; it is a list of a program and its arguments")));
            }
        }
        let mut names: Vec<&str> = adapter.variants.iter().map(|variant| variant.name.as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(invalid(format!("there are two variants `{}`; each needs a name of its own", twice[0])));
        }
        let safe = |name: &str| !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '@', ' ']);
        if let Some(name) = std::iter::once(adapter.name.as_str()).chain(names).find(|name| !safe(name)) {
            return Err(invalid(format!("`{name}` is no name: it has neither slashes nor spaces nor `@`")));
        }
        Ok(adapter)
    }

    /// The ways in which it is used, at least one.
    #[must_use]
    pub fn ways(&self) -> Vec<Variant> {
        match self.variants.is_empty() {
            true => vec![Variant::default()],
            false => self.variants.clone(),
        }
    }

    /// How its tool is reached in one of them.
    #[must_use]
    pub fn transport_of(&self, variant: &Variant) -> Transport {
        variant.transport.unwrap_or(self.transport)
    }

    /// Why it can't be tried in a cell, if it can't.
    #[must_use]
    pub fn left_out(&self, variant: &Variant, cell: Cell) -> Option<String> {
        if let Some(reason) = variant.without.get(&cell) {
            return Some(reason.clone());
        }
        if !variant.workloads.as_ref().unwrap_or(&self.workloads).contains(&cell.workload()) {
            return Some(format!("it has no workload `{}`", cell.workload().name()));
        }
        let resumes_with_input = variant.resumes_with_input.unwrap_or(self.resumes_with_input);
        (cell == Cell::ResumedWithInput && !resumes_with_input)
            .then(|| "it can't be resumed with the original input".to_owned())
    }
}

impl Default for Variant {
    fn default() -> Self {
        Self {
            name: "default".to_owned(),
            environment: BTreeMap::new(),
            transport: None,
            workloads: None,
            resumes_with_input: None,
            protocol: None,
            needs: None,
            without: BTreeMap::new(),
        }
    }
}

impl Transport {
    /// Its name in `adapter.toml` and in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::McpHttp => "mcp-http",
            Self::McpStdio => "mcp-stdio",
        }
    }
}

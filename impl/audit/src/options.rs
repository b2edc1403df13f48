//! What is asked for.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use serde_json::{Map, Value};
use url::Url;

use crate::file::ArgumentsFile;
use crate::report::Experiment;

/// The server.
#[derive(Clone, Debug)]
pub enum Target {
    /// A command that speaks MCP over its standard input and output. It is started and killed by the audit, with the audit's own
    /// environment.
    Command(Vec<OsString>),
    /// A server that runs already, over Streamable HTTP.
    Url(Box<Remote>),
}

/// A server behind HTTP.
#[derive(Clone, Debug)]
pub struct Remote {
    /// Where it is.
    pub url: Url,
    /// Headers of every request.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// A file of certificates to trust besides the machine's.
    pub ca: Option<PathBuf>,
    /// A shell command that kills the server and starts it again.
    pub restart: Option<String>,
}

/// Which tools are called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// None: they are listed.
    List,
    /// These.
    Named(Vec<String>),
    /// Those that say that they only read.
    ReadOnly,
    /// All.
    All,
}

/// A tool of the server that tells what state it is in.
#[derive(Clone, Debug, PartialEq)]
pub struct Observer {
    /// Its name.
    pub tool: String,
    /// What it is called with.
    pub arguments: Map<String, Value>,
}

/// An audit.
#[derive(Clone, Debug)]
pub struct Options {
    /// Of which server.
    pub target: Target,
    /// Of which of its tools.
    pub choice: Choice,
    /// What the tools are called with; those that it doesn't name: with what suits their input schema.
    pub arguments: ArgumentsFile,
    /// Where effects show: directories, `sqlite:FILE`, `postgres://…`.
    pub watch: Vec<String>,
    /// A tool in whose answer effects show.
    pub observer: Option<Observer>,
    /// What is watched but doesn't count: names of files, tables (`orders`), columns (`orders.updated_at`) or places of the
    /// observer's answer, or what they begin with.
    pub ignore: Vec<String>,
    /// How often each experiment is made.
    pub repeat: u32,
    /// How many calls are made at once.
    pub at_once: usize,
    /// Which experiments are made, besides a single call.
    pub experiments: Vec<Experiment>,
    /// How long the answer to a call is waited for.
    pub timeout: Duration,
    /// How long the server may take to start and to say what it has.
    pub start: Duration,
    /// For so long nothing may change before a state counts as reached.
    pub settle: Duration,
}

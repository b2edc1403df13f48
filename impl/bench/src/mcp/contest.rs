//! All who take part, measured in turn.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::process::Child;

use crate::disk;
use crate::error::BenchError;
use crate::load::{Measured, closed_loop, median};
use crate::mcp::memory::{self, Memory};
use crate::mcp::{Link, Tool, http, process, stdio};
use crate::suite::CALLERS;
use crate::usage;

/// Another proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beside {
    /// Its name.
    pub name: String,
    /// How clients reach it.
    pub front: Link,
    /// Its command. `{server}` as a word is replaced by the server's command, `{url}` by the URL of a server over HTTP, `{config}`
    /// by a file with the server's command in the form that MCP clients use, `{port}` by the port it is to listen on.
    pub command: Vec<String>,
}

/// What to measure, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `settled` itself: proxy and server.
    pub program: PathBuf,
    /// Below this directory ledgers are written; nothing is left there.
    pub dir: PathBuf,
    /// Each measurement takes this long, and a fifth of it before.
    pub span: Duration,
    /// How often everything is measured; medians count.
    pub rounds: usize,
    /// Other proxies.
    pub beside: Vec<Beside>,
    /// So many calls for the memory; 0: not at all.
    pub calls: u64,
}

/// One contestant with each number of calls in flight.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Who.
    pub name: String,
    /// From the client to it.
    pub front: Link,
    /// From it to the server; `None` if it is the server itself.
    pub back: Option<Link>,
    /// What was called.
    pub tool: Tool,
    /// The median run of each number of calls in flight.
    pub runs: Vec<Measured>,
    /// Why there are none.
    pub problem: Option<String>,
}

/// Everything that came out.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Processors.
    pub processors: usize,
    /// Half of the syncs of a record of the same disk took at most this long, in microseconds.
    pub sync: f64,
    /// All who took part.
    pub rows: Vec<Row>,
    /// Very many calls.
    pub memory: Vec<Memory>,
}

impl Report {
    /// The row of no proxy on such a connection of the client.
    pub fn without_proxy(&self, front: Link) -> Option<&Row> {
        self.rows.iter().find(|row| row.back.is_none() && row.front == front)
    }
}

/// A client's session with a contestant, and what must not end before it.
#[derive(Clone)]
enum Session {
    Stdio(Arc<stdio::Session>),
    Http(Arc<http::Session>),
}

struct Contestant {
    row: Row,
    session: Option<Session>,
    all: Vec<Vec<Measured>>,
    running: Option<Child>,
}

/// Measures everything; `progress` is told what is being measured.
///
/// # Errors
/// If `settled` itself does not work. Other proxies that don't are named in the report.
pub async fn run(settings: &Settings, progress: impl Fn(&str)) -> Result<Report, BenchError> {
    usage::watch(&settings.dir);
    let sync = disk::syncs(&settings.dir, 1, settings.span, Duration::ZERO).await?.p50;
    let mut stage = Stage::new(settings).await?;
    let mut contestants = Vec::new();
    for (name, front, back) in [
        ("no proxy", Link::Stdio, None),
        ("settled", Link::Stdio, Some(Link::Stdio)),
        ("settled", Link::Stdio, Some(Link::Http)),
        ("no proxy", Link::Http, None),
        ("settled", Link::Http, Some(Link::Http)),
        ("settled", Link::Http, Some(Link::Stdio)),
    ] {
        let tools: &[Tool] = if back.is_some() { &[Tool::Read, Tool::Charge] } else { &[Tool::Read] };
        for tool in tools {
            let row = Row { name: name.to_owned(), front, back, tool: *tool, runs: Vec::new(), problem: None };
            let (session, running) = stage.open(&row).await?;
            contestants.push(Contestant::new(row, Some(session), running));
        }
    }
    for beside in &settings.beside {
        progress(&format!("starting {}", beside.name));
        let back = if beside.command.iter().any(|word| word.contains("{url}")) { Link::Http } else { Link::Stdio };
        let mut row = Row {
            name: beside.name.clone(),
            front: beside.front,
            back: Some(back),
            tool: Tool::Read,
            runs: Vec::new(),
            problem: None,
        };
        let contestant = match stage.beside(beside).await {
            Ok((session, running)) => Contestant::new(row, Some(session), running),
            Err(error) => {
                row.problem = Some(error.to_string());
                Contestant::new(row, None, None)
            }
        };
        contestants.push(contestant);
    }
    for round in 0..settings.rounds.max(1) {
        progress(&format!("round {} of {}", round + 1, settings.rounds.max(1)));
        for contestant in &mut contestants {
            contestant.measure(settings.span).await?;
        }
    }
    let mut rows = Vec::new();
    for contestant in contestants {
        rows.push(contestant.end().await);
    }
    let mut all = Vec::new();
    if settings.calls > 0 {
        for tool in [Tool::Read, Tool::Charge] {
            progress(&format!("memory over {} calls", settings.calls));
            let (session, _) = stage.settled(Link::Stdio, Link::Stdio).await?;
            if let Session::Stdio(session) = session {
                all.push(memory::over(&session, tool, settings.calls).await?);
                session.end().await;
            }
        }
    }
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(Report { processors, sync, rows, memory: all })
}

impl Contestant {
    fn new(row: Row, session: Option<Session>, running: Option<Child>) -> Contestant {
        Contestant { row, session, all: vec![Vec::new(); CALLERS.len()], running }
    }

    /// One round. Another proxy that fails is out; that one of ours fails ends the measurement.
    async fn measure(&mut self, span: Duration) -> Result<(), BenchError> {
        let Some(session) = &self.session else { return Ok(()) };
        for (callers, runs) in CALLERS.into_iter().zip(&mut self.all) {
            match session.calls(callers, span, self.row.tool).await {
                Ok(measured) => runs.push(measured),
                Err(error) if matches!(self.row.name.as_str(), "settled" | "no proxy") => return Err(error),
                Err(error) => {
                    self.row.problem = Some(format!("with {callers} calls in flight: {error}"));
                    self.session = None;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Its processes have gone when this returns: what they write to must not go away under them.
    async fn end(mut self) -> Row {
        if let Some(Session::Stdio(session)) = &self.session {
            session.end().await;
        }
        if let Some(running) = &mut self.running {
            let _ = running.kill().await;
        }
        Row { runs: self.all.into_iter().map_while(median).collect(), ..self.row }
    }
}

impl Session {
    async fn calls(&self, callers: usize, span: Duration, tool: Tool) -> Result<Measured, BenchError> {
        let caller = |_| {
            let session = self.clone();
            move |_| {
                let session = session.clone();
                async move { session.call(tool).await }
            }
        };
        closed_loop(callers, span, caller).await
    }

    async fn call(&self, tool: Tool) -> Result<(), BenchError> {
        match self {
            Session::Stdio(session) => session.call(tool).await,
            Session::Http(session) => session.call(tool).await,
        }
    }
}

/// Starts contestants.
struct Stage<'a> {
    settings: &'a Settings,
    server: Vec<String>,
    url: String,
    _server: Child,
    ledgers: usize,
}

impl<'a> Stage<'a> {
    async fn new(settings: &'a Settings) -> Result<Stage<'a>, BenchError> {
        let program = settings.program.display().to_string();
        let server: Vec<String> = [&program, "bench", "mcp-server"].map(str::to_owned).into();
        let mut command = process::command(&[server.as_slice(), &["--http".to_owned()]].concat())?;
        command.stdout(Stdio::piped());
        let mut running = process::start(command)?;
        let output = running.stdout.take().ok_or(BenchError::Ended("a pipe"))?;
        let url = process::url(output).await?;
        Ok(Stage { settings, server, url, _server: running, ledgers: 0 })
    }

    async fn open(&mut self, row: &Row) -> Result<(Session, Option<Child>), BenchError> {
        match (row.front, row.back) {
            (Link::Stdio, None) => Ok((Session::Stdio(stdio::Session::open(&self.server).await?), None)),
            (Link::Http, None) => Ok((Session::Http(Arc::new(http::Session::open(&self.url).await?)), None)),
            (front, Some(back)) => self.settled(front, back).await,
        }
    }

    async fn settled(&mut self, front: Link, back: Link) -> Result<(Session, Option<Child>), BenchError> {
        self.ledgers += 1;
        let ledger = self.settings.dir.join(format!("mcp-{}", self.ledgers)).display().to_string();
        let program = self.settings.program.display().to_string();
        let mut words: Vec<String> = [&program, "mcp", "--ledger", &ledger].map(str::to_owned).into();
        if front == Link::Http {
            words.extend(["--listen", "127.0.0.1:0"].map(str::to_owned));
        }
        match back {
            Link::Http => words.extend(["--upstream".to_owned(), self.url.clone()]),
            Link::Stdio => {
                words.push("--".to_owned());
                words.extend_from_slice(&self.server);
            }
        }
        if front == Link::Stdio {
            return Ok((Session::Stdio(stdio::Session::open(&words).await?), None));
        }
        let mut command = process::command(&words)?;
        command.stderr(Stdio::piped());
        let mut running = process::start(command)?;
        let said = running.stderr.take().ok_or(BenchError::Ended("a pipe"))?;
        let url = process::url(said).await?;
        Ok((Session::Http(Arc::new(http::Session::open(&url).await?)), Some(running)))
    }

    async fn beside(&self, beside: &Beside) -> Result<(Session, Option<Child>), BenchError> {
        let port = process::free_port()?;
        let config = self.settings.dir.join("server.json");
        write_config(&config, &self.server)?;
        let words = words(&beside.command, &self.server, &self.url, &config.display().to_string(), port);
        if beside.front == Link::Stdio {
            return Ok((Session::Stdio(stdio::Session::open(&words).await?), None));
        }
        let running = process::start(process::command(&words)?)?;
        process::listens(port).await?;
        let session = http::Session::open(&format!("http://127.0.0.1:{port}/mcp")).await?;
        Ok((Session::Http(Arc::new(session)), Some(running)))
    }
}

/// A command with everything in its place.
fn words(command: &[String], server: &[String], url: &str, config: &str, port: u16) -> Vec<String> {
    let mut words = Vec::new();
    for word in command {
        if word == "{server}" {
            words.extend_from_slice(server);
        } else {
            words.push(word.replace("{url}", url).replace("{config}", config).replace("{port}", &port.to_string()));
        }
    }
    words
}

fn write_config(path: &Path, server: &[String]) -> Result<(), BenchError> {
    let (command, arguments) = server.split_first().ok_or(BenchError::Ended("a command"))?;
    let servers = serde_json::json!({ "mcpServers": { "nothing": { "command": command, "args": arguments } } });
    std::fs::write(path, servers.to_string()).map_err(BenchError::file(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_in_its_place() {
        let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let command = own(&["proxy", "--port={port}", "{url}", "{config}", "--", "{server}"]);
        let words = words(&command, &own(&["server", "-x"]), "http://u", "c.json", 7);
        assert_eq!(words, own(&["proxy", "--port=7", "http://u", "c.json", "--", "server", "-x"]));
    }
}

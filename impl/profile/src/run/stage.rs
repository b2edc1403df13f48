//! What is set up for a run: its directory, the tool, and what stands between.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nix::sys::signal::Signal;
use tempfile::TempDir;
use tokio::process::Child;
use tokio::sync::mpsc;

use super::control::{self, Listening, Waiting};
use super::front::Front;
use super::setting::{Behind, Setting, resolved};
use super::{RunError, kill};
use crate::adapter::Transport;
use crate::cell::{Cell, Workload};
use crate::database::Database;
use crate::tool::{Effect, Order, Point, read_effects};
use crate::tracer;

/// How long a process of the harness may take to listen.
const PATIENCE: Duration = Duration::from_secs(30);

/// The directories of the runs that are under way: what names them ends with the harness.
static UNDER_WAY: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Kills everything that belongs to a run: for a harness that is about to end.
pub fn abandon_all() {
    let directories = std::mem::take(&mut *UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner));
    for directory in directories {
        for process in kill::of_directory(&directory, &BTreeSet::new()) {
            kill::signal_one(process, Signal::SIGKILL);
        }
        let _ = std::fs::remove_dir_all(directory);
    }
}

/// How long a run's tool is waited for, as the framework is told: where this matters, and where it must not.
pub fn timeout_for(cell: Cell) -> Duration {
    Duration::from_secs(if cell == Cell::LateEffect { 3 } else { 30 })
}

/// The surroundings of one run.
pub struct Stage {
    pub setting: Setting,
    pub workload: Workload,
    pub run: String,
    pub timeout: Duration,
    pub points: mpsc::UnboundedReceiver<Waiting>,
    directory: PathBuf,
    temporary: Option<TempDir>,
    tool: Option<Child>,
    tool_at: SocketAddr,
    relay: Option<(Child, SocketAddr)>,
    front: Option<Front>,
    relayed: bool,
    database: Option<Database>,
    _control: Listening,
}

impl Stage {
    pub async fn set_up(setting: &Setting, cell: Cell) -> Result<Self, RunError> {
        let mut prefix = tempfile::Builder::new();
        prefix.prefix("settled-");
        let temporary = match &setting.keep {
            Some(keep) => {
                std::fs::create_dir_all(keep)?;
                prefix.prefix(&format!("{cell}-")).tempdir_in(std::path::absolute(keep)?)?
            }
            None => prefix.tempdir()?,
        };
        let directory = temporary.path().to_owned();
        UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner).insert(directory.clone());
        for part in ["state", "logs"] {
            std::fs::create_dir(directory.join(part))?;
        }
        let (control, points) = control::listen(&directory.join("control"))?;
        let mut stage = Self {
            setting: setting.clone(),
            workload: cell.workload(),
            run: format!("run-{}", run_name(&directory)),
            timeout: timeout_for(cell),
            points,
            directory,
            temporary: Some(temporary),
            tool: None,
            tool_at: SocketAddr::from(([127, 0, 0, 1], 0)),
            relay: None,
            front: None,
            // Behind a guard the tool does not hear of a caller that has given up and calls again.
            relayed: cell == Cell::DeliveredTwice || (cell == Cell::LateEffect && setting.behind.is_some()),
            database: None,
            _control: control,
        };
        stage.start_tool().await?;
        if setting.behind == Some(Behind::Settled) {
            stage.front = Some(Front::start(&stage, stage.tool_at).await?);
        }
        if stage.relayed && setting.transport != Transport::McpStdio {
            let to = stage.front.as_ref().and_then(Front::address).unwrap_or(stage.tool_at);
            let arguments = ["--relay".to_owned(), to.to_string(), "--listen".to_owned(), "127.0.0.1:0".to_owned()];
            stage.relay = Some(stage.serve(&arguments).await?);
        }
        if let Some(server) = &setting.postgres {
            stage.database = Some(server.database().await.map_err(RunError::Database)?);
        }
        Ok(stage)
    }

    /// Starts the tool, or starts it again at the same address.
    pub async fn start_tool(&mut self) -> Result<(), RunError> {
        let arguments = ["--listen".to_owned(), self.tool_at.to_string()];
        let (child, address) = self.serve(&arguments).await?;
        self.tool = Some(child);
        self.tool_at = address;
        Ok(())
    }

    /// The process of the tool that the harness has started; over stdio the framework has its own.
    pub fn tool_process(&self) -> Option<u32> {
        self.tool.as_ref().and_then(Child::id)
    }

    async fn serve(&mut self, arguments: &[String]) -> Result<(Child, SocketAddr), RunError> {
        let command = self.tool_command();
        let program = command.join(" ".as_ref()).to_string_lossy().into_owned();
        let Some((first, rest)) = command.split_first() else {
            return Err(RunError::Start { program, error: std::io::ErrorKind::NotFound.into() });
        };
        let child = tokio::process::Command::new(first)
            .args(rest)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(self.directory.join("logs/tool.err"))?)
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| RunError::Start { program: program.clone(), error })?;
        let silent = |says: String| RunError::Silent { program: program.clone(), waited: PATIENCE, says };
        let waiting = tokio::time::timeout(PATIENCE, self.listening()).await;
        let Ok(Some((address, waiting))) = waiting else {
            let says = std::fs::read_to_string(self.directory.join("logs/tool.err")).unwrap_or_default();
            return Err(silent(says));
        };
        let address = address.parse().map_err(|_| silent(address.clone()))?;
        waiting.order(Order::Go);
        Ok((child, address))
    }

    async fn listening(&mut self) -> Option<(String, Waiting)> {
        loop {
            let waiting = self.points.recv().await?;
            match waiting.reached.point.clone() {
                Point::Listening(address) => return Some((address, waiting)),
                // Left by a process that is gone.
                _ => waiting.order(Order::Cut),
            }
        }
    }

    /// The tool's command, without saying what it serves.
    pub fn tool_command(&self) -> Vec<OsString> {
        let mut command = self.setting.programs.tool.clone();
        command.extend(["--control".into(), self.directory.join("control").into()]);
        command.extend(["--effects".into(), self.effects_file().into()]);
        command
    }

    fn effects_file(&self) -> PathBuf {
        self.directory.join("effects.jsonl")
    }

    /// The effects so far.
    pub fn effects(&self) -> Result<Vec<Effect>, RunError> {
        Ok(read_effects(&self.effects_file())?)
    }

    /// How often each step has happened.
    pub fn counted(&self) -> Result<BTreeMap<String, u32>, RunError> {
        let steps = self.workload.steps();
        let mut counted: BTreeMap<String, u32> = steps.iter().map(|step| ((*step).to_owned(), 0)).collect();
        for effect in self.effects()? {
            *counted.entry(effect.step).or_default() += 1;
        }
        Ok(counted)
    }

    /// What the framework's state is kept in.
    pub fn state(&self) -> PathBuf {
        self.directory.join("state")
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The processes of the harness, which a fault must spare.
    pub fn own(&self) -> BTreeSet<u32> {
        let relay = self.relay.as_ref().and_then(|(child, _)| child.id());
        let front = self.front.as_ref().and_then(Front::process);
        self.tool_process().into_iter().chain(relay).chain(front).collect()
    }

    /// Whether processes of the framework are left.
    pub fn is_inhabited(&self) -> bool {
        !kill::of_directory(&self.directory, &self.own()).is_empty()
    }

    /// A command of the adapter, with all that the kit promises.
    pub fn command(&self, words: &[String], more: &[(&str, &str)], traced: bool) -> Command {
        let directory = &self.setting.directory;
        let (first, rest) = words.split_first().map_or(("false", words), |(first, rest)| (first.as_str(), rest));
        let program = resolved(directory, first);
        let mut command = if traced { tracer::command(program) } else { Command::new(program) };
        command.args(rest).current_dir(directory);
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"PROFILE_") || name.as_encoded_bytes().starts_with(b"SETTLED_") {
                command.env_remove(name);
            }
        }
        let address = self.relay.as_ref().map(|(_, address)| *address);
        let address = address.or_else(|| self.front.as_ref().and_then(Front::address)).unwrap_or(self.tool_at);
        command
            .env("PROFILE_SETTLED", &self.setting.programs.settled)
            .env("PROFILE_WORKLOAD", self.workload.name())
            .env("PROFILE_RUN", &self.run)
            .env("PROFILE_STATE", self.state())
            .env("PROFILE_TIMEOUT", self.timeout.as_secs().to_string())
            .env("PROFILE_TOOL_URL", format!("http://{address}/step"))
            .env("PROFILE_MCP_URL", format!("http://{address}/mcp"))
            .env("PROFILE_MCP_COMMAND", serde_json::json!(self.mcp_command()).to_string());
        if let Some(database) = &self.database {
            command.env("PROFILE_POSTGRES", database.url());
        }
        command.envs(&self.setting.environment).envs(more.iter().copied());
        command
    }

    fn mcp_command(&self) -> Vec<String> {
        let mut command = self.tool_command();
        command.push("--stdio".into());
        if let Some(front) = &self.front {
            command = front.before(command);
        }
        if self.relayed {
            let behind = std::mem::replace(&mut command, self.tool_command());
            command.extend(["--stdio".into(), "--".into()]);
            command.extend(behind);
        }
        command.into_iter().map(|word| word.to_string_lossy().into_owned()).collect()
    }

    /// Ends everything that belongs to the run, and says how many processes had to be killed that the framework left.
    pub async fn clear(mut self) -> usize {
        let left = kill::of_directory(&self.directory, &self.own()).len();
        let own =
            [self.tool.take(), self.relay.take().map(|(child, _)| child), self.front.take().and_then(Front::child)];
        for mut child in own.into_iter().flatten() {
            let _ = child.kill().await;
        }
        kill::kill_all(None, &self.directory, &BTreeSet::new()).await;
        UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.directory);
        if let Some(database) = self.database.take() {
            database.drop().await;
        }
        if let Some(temporary) = self.temporary.take()
            && self.setting.keep.is_some()
        {
            let _ = temporary.keep();
        }
        left
    }
}

fn run_name(directory: &Path) -> String {
    let name = directory.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    name.rsplit('-').next().unwrap_or_default().trim_start_matches('.').to_owned()
}

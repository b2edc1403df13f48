//! A PostgreSQL server for the variants that need one: started once, with an empty database for each run.

use std::net::TcpListener;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid, User};
use tempfile::TempDir;
use tokio::process::{Child, Command};

/// How long it may take to start.
const PATIENCE: Duration = Duration::from_secs(60);
const USER: &str = "postgres";

/// A running server, which ends with its last user.
#[derive(Clone, Debug)]
pub struct Server {
    running: Arc<Running>,
}

#[derive(Debug)]
struct Running {
    programs: PathBuf,
    port: u16,
    made: AtomicU32,
    postmaster: Mutex<Option<Child>>,
    _directory: TempDir,
}

/// A database of a run's own.
#[derive(Debug)]
pub struct Database {
    server: Server,
    name: String,
    url: String,
}

impl Server {
    /// Starts it.
    ///
    /// # Errors
    /// With words, if it can't be started.
    pub async fn start() -> Result<Self, String> {
        let programs = programs()?;
        let user = user()?;
        let failed = |error: std::io::Error| format!("PostgreSQL: {error}");
        let directory = tempfile::Builder::new().prefix("settled-postgres-").tempdir().map_err(failed)?;
        if let Some(user) = &user {
            chown(directory.path(), Some(user.uid.as_raw()), Some(user.gid.as_raw())).map_err(failed)?;
        }
        let data = directory.path().join("data");
        let mut initdb = as_user(programs.join("initdb"), user.as_ref(), directory.path());
        initdb.arg("-D").arg(&data).args(["--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync"]);
        output(initdb.arg("--username").arg(USER)).await?;
        let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).map_err(failed)?.port();
        let log = directory.path().join("log");
        let mut postgres = as_user(programs.join("postgres"), user.as_ref(), directory.path());
        let postmaster = postgres
            .arg("-D")
            .arg(&data)
            .args(["-p", &port.to_string(), "-k", "", "-c", "listen_addresses=127.0.0.1"])
            .args(["-c", "max_connections=400", "-c", "shared_buffers=32MB"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log).map_err(failed)?)
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let running = Running {
            programs,
            port,
            made: AtomicU32::new(0),
            postmaster: Mutex::new(Some(postmaster)),
            _directory: directory,
        };
        let server = Self { running: Arc::new(running) };
        let begun = Instant::now();
        while let Err(error) = server.sql("select 1").await {
            if begun.elapsed() > PATIENCE {
                let says = std::fs::read_to_string(&log).unwrap_or_default();
                return Err(format!("PostgreSQL does not start: {error}\n{says}"));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(server)
    }

    /// Makes an empty database.
    ///
    /// # Errors
    /// With words, if it can't be made.
    pub async fn database(&self) -> Result<Database, String> {
        let name = format!("run_{}", self.running.made.fetch_add(1, Ordering::Relaxed));
        self.sql(&format!("create database {name}")).await?;
        let url = format!("postgresql://{USER}@127.0.0.1:{}/{name}", self.running.port);
        Ok(Database { server: self.clone(), name, url })
    }

    async fn sql(&self, sql: &str) -> Result<(), String> {
        let mut psql = Command::new(self.running.programs.join("psql"));
        psql.args(["-X", "-q", "-w", "-h", "127.0.0.1", "-U", USER, "-d", "postgres", "-v", "ON_ERROR_STOP=1"]);
        output(psql.args(["-p", &self.running.port.to_string(), "-c", sql])).await
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let postmaster = self.postmaster.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let process = postmaster.as_ref().and_then(Child::id).and_then(|id| i32::try_from(id).ok());
        if let Some(process) = process {
            // It ends its own processes; nothing in it is wanted any more.
            let _ = kill(Pid::from_raw(process), Signal::SIGQUIT);
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

impl Database {
    /// Its URL.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Removes it.
    pub async fn drop(self) {
        // If it can't be removed, it goes with the server.
        let _ = self.server.sql(&format!("drop database {} with (force)", self.name)).await;
    }
}

async fn output(command: &mut Command) -> Result<(), String> {
    let program = command.as_std().get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().await.map_err(|error| format!("{program}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

/// PostgreSQL refuses to run as root.
fn user() -> Result<Option<User>, String> {
    if !Uid::effective().is_root() {
        return Ok(None);
    }
    let found = ["postgres", "nobody"].into_iter().find_map(|name| User::from_name(name).ok().flatten());
    found
        .map(Some)
        .ok_or_else(|| "PostgreSQL can't run as root, and there is no user `postgres` or `nobody`".to_owned())
}

fn as_user(program: PathBuf, user: Option<&User>, directory: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(directory);
    if let Some(user) = user {
        command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
    }
    command
}

/// Where PostgreSQL's programs are: those of the newest version that is installed, else those on the path.
fn programs() -> Result<PathBuf, String> {
    let installed = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions: Vec<(u32, PathBuf)> = installed
        .filter_map(|version| Some((version.file_name().to_str()?.parse().ok()?, version.path().join("bin"))))
        .collect();
    versions.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let all = versions.into_iter().rev().map(|(_, path)| path).chain(on_path);
    all.into_iter().find(|path| path.join("initdb").is_file()).ok_or_else(|| {
        "PostgreSQL is not installed: install its server (Debian, Ubuntu: `apt-get install postgresql`), or leave out the \
         variants that need one"
            .to_owned()
    })
}

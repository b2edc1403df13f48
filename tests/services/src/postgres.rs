//! A PostgreSQL server of one's own: real processes, a data directory of its own, writes that are really synced.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid, User};
use tempfile::TempDir;

use crate::ports;

/// How long a server may take to start; after a crash it recovers first.
const START: Duration = Duration::from_secs(60);
/// The role that owns the database; no superuser.
const ROLE: &str = "settled";
/// Its password, and the superuser's. It needs escaping in a URL.
pub const PASSWORD: &str = "s3cret/of:tests";
const ESCAPED: &str = "s3cret%2Fof%3Atests";

/// How a server is to be set up.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// Settings, as in `postgresql.conf`.
    pub settings: Vec<(String, String)>,
    /// A certificate and its private key, both PEM: connections may be encrypted then.
    pub certificate: Option<(String, String)>,
}

impl Setup {
    /// With one more setting.
    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Setup {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// A running server, stopped and removed when dropped.
#[derive(Debug)]
pub struct Postgres {
    directory: TempDir,
    programs: PathBuf,
    user: Option<User>,
    port: u16,
    setup: Setup,
    postmaster: Option<Child>,
}

impl Postgres {
    /// Starts a server with the default settings.
    ///
    /// # Errors
    /// If PostgreSQL is not installed or doesn't start: the message says what to do.
    pub fn start() -> io::Result<Postgres> {
        Postgres::start_with(Setup::default())
    }

    /// Starts a server.
    ///
    /// # Errors
    /// As [`start`](Postgres::start).
    pub fn start_with(setup: Setup) -> io::Result<Postgres> {
        let programs = programs()?;
        let user = user()?;
        let template = template(&programs, user.as_ref())?;
        let mut postgres = Postgres::empty(programs, user, setup)?;
        let to = postgres.data();
        run(Command::new("cp").arg("-a").arg(&template).arg(&to))?;
        postgres.start_again()?;
        Ok(postgres)
    }

    /// Starts a standby that follows this server, and from which can be read. This server acknowledges nothing from then on before
    /// the standby shows it (`synchronous_commit = remote_apply`).
    ///
    /// # Errors
    /// If it doesn't start, or doesn't follow.
    pub fn standby(&self) -> io::Result<Postgres> {
        let conninfo = format!(
            "host=127.0.0.1 port={} user=postgres password={PASSWORD} application_name=standby sslmode=disable",
            self.port
        );
        let setup = Setup::default().set("primary_conninfo", &conninfo);
        let mut standby = Postgres::empty(self.programs.clone(), self.user.clone(), setup)?;
        let mut copy = as_user(Command::new(self.programs.join("pg_basebackup")), self.user.as_ref());
        copy.args(["-h", "127.0.0.1", "-U", "postgres", "-w", "-p", &self.port.to_string()]);
        copy.args(["-X", "stream", "-c", "fast", "--no-sync", "-D"]).arg(standby.data());
        run(copy.env("PGPASSWORD", PASSWORD).current_dir(standby.directory.path()))?;
        private(&standby.data().join("standby.signal"), "", self.user.as_ref())?;
        standby.start_again()?;
        for setting in ["synchronous_standby_names = 'standby'", "synchronous_commit = 'remote_apply'"] {
            self.sql(&format!("ALTER SYSTEM SET {setting}"))?;
        }
        self.sql("SELECT pg_reload_conf()")?;
        let give_up = Instant::now() + START;
        let follows = "SELECT current_setting('synchronous_commit'), sync_state FROM pg_stat_replication";
        while self.sql(follows)? != "remote_apply|sync" {
            if Instant::now() > give_up {
                return Err(io::Error::other(format!("the standby doesn't follow:\n{}", standby.log())));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(standby)
    }

    /// Makes a standby a server of its own, which can be written to. Returns when it can.
    ///
    /// # Errors
    /// If that doesn't come about.
    pub fn promote(&self) -> io::Result<()> {
        match self.sql("SELECT pg_promote(true, 60)")?.as_str() {
            "t" => Ok(()),
            _ => Err(io::Error::other(format!("it was not promoted:\n{}", self.log()))),
        }
    }

    fn empty(programs: PathBuf, user: Option<User>, setup: Setup) -> io::Result<Postgres> {
        let directory = tempfile::Builder::new().prefix("settled-postgres-").tempdir()?;
        own(directory.path(), user.as_ref())?;
        Ok(Postgres { directory, programs, user, port: ports::free()?, setup, postmaster: None })
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// The URL of a database that this role owns, who is no superuser.
    pub fn url(&self) -> String {
        format!("postgres://{ROLE}:{ESCAPED}@127.0.0.1:{}/{ROLE}?sslmode=disable", self.port)
    }

    /// The same database as the superuser.
    pub fn superuser_url(&self) -> String {
        format!("postgres://postgres:{ESCAPED}@127.0.0.1:{}/{ROLE}?sslmode=disable", self.port)
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What the server has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    /// Carries out SQL as the superuser in the same database, and returns what it prints, one row a line, unaligned.
    ///
    /// # Errors
    /// With the server's message if it refuses.
    pub fn sql(&self, sql: &str) -> io::Result<String> {
        self.sql_in(ROLE, sql)
    }

    fn sql_in(&self, database: &str, sql: &str) -> io::Result<String> {
        let mut psql = Command::new(self.programs.join("psql"));
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-U", "postgres", "-w"]);
        psql.args(["-p", &self.port.to_string(), "-d", database, "-c", sql]).env("PGPASSWORD", PASSWORD);
        psql.env("PGOPTIONS", "--client-min-messages=warning");
        run(&mut psql).map(|printed| printed.trim_end().to_owned())
    }

    /// Starts the server again after [`kill`](Postgres::kill) or [`stop`](Postgres::stop); it first recovers, as after a
    /// crash of the machine. Returns when it accepts connections.
    ///
    /// # Errors
    /// If it doesn't start; with its log.
    pub fn start_again(&mut self) -> io::Result<()> {
        if self.postmaster.is_some() {
            return Err(io::Error::other("it runs already: kill or stop it first"));
        }
        let log = File::options().create(true).append(true).open(self.directory.path().join("log"))?;
        let mut postgres = as_user(Command::new(self.programs.join("postgres")), self.user.as_ref());
        postgres.arg("-D").arg(self.data()).args(["-p", &self.port.to_string(), "-k", ""]);
        postgres.args(["-c", "listen_addresses=127.0.0.1", "-c", "max_connections=200", "-c", "shared_buffers=32MB"]);
        if let Some((certificate, key)) = &self.setup.certificate {
            let (certificate_file, key_file) = (self.data().join("tls.crt"), self.data().join("tls.key"));
            private(&certificate_file, certificate, self.user.as_ref())?;
            private(&key_file, key, self.user.as_ref())?;
            postgres.args(["-c", "ssl=on", "-c", "ssl_cert_file=tls.crt", "-c", "ssl_key_file=tls.key"]);
        }
        for (name, value) in &self.setup.settings {
            postgres.arg("-c").arg(format!("{name}={value}"));
        }
        postgres.current_dir(self.directory.path()).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let mut postmaster = postgres.process_group(0).spawn()?;
        let give_up = Instant::now() + START;
        loop {
            let mut ready = Command::new(self.programs.join("pg_isready"));
            ready.args(["-q", "-h", "127.0.0.1", "-p", &self.port.to_string()]);
            if ready.stdout(Stdio::null()).status()?.success() {
                self.postmaster = Some(postmaster);
                return Ok(());
            }
            let ended = postmaster.try_wait()?.is_some();
            if ended || Instant::now() > give_up {
                kill_all(&mut postmaster);
                return Err(io::Error::other(format!("PostgreSQL did not start:\n{}", self.log())));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Kills the server and all its processes (SIGKILL), as if the machine had lost power, except that what the operating
    /// system has in its cache is not lost.
    pub fn kill(&mut self) {
        if let Some(mut postmaster) = self.postmaster.take() {
            kill_all(&mut postmaster);
        }
    }

    /// Stops the server as an administrator does (`pg_ctl stop -m fast`): connections are ended.
    pub fn stop(&mut self) {
        if let Some(mut postmaster) = self.postmaster.take() {
            signal(postmaster.id(), Signal::SIGINT);
            let _ = postmaster.wait();
        }
    }

    /// Stops all its processes in the middle of whatever they do (SIGSTOP): connections stay open, and nothing answers.
    pub fn freeze(&self) {
        self.signal_all(Signal::SIGSTOP);
    }

    /// Lets a frozen server go on.
    pub fn thaw(&self) {
        self.signal_all(Signal::SIGCONT);
    }

    fn signal_all(&self, which: Signal) {
        if let Some(postmaster) = &self.postmaster {
            // The parent first: it makes no more children then.
            signal(postmaster.id(), which);
            children(postmaster.id()).into_iter().for_each(|child| signal(child, which));
        }
    }

    /// A new, empty database that the role of [`url`](Postgres::url) owns; returns its URL.
    ///
    /// # Errors
    /// If there is one with this name.
    pub fn database(&self, name: &str) -> io::Result<String> {
        self.sql(&format!("CREATE DATABASE {name} OWNER {ROLE}"))?;
        Ok(self.url().replace(&format!("/{ROLE}?"), &format!("/{name}?")))
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A data directory to copy, made once on this machine for each version and user.
fn template(programs: &Path, user: Option<&User>) -> io::Result<PathBuf> {
    let version = run(Command::new(programs.join("postgres")).arg("--version"))?;
    let version: String = version.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let uid = user.map_or(Uid::current(), |user| user.uid);
    let template = std::env::temp_dir().join(format!("settled-test-template-{}-{uid}", version.trim_matches('-')));
    if template.is_dir() {
        return Ok(template);
    }
    let mut making = Postgres::empty(programs.to_owned(), user.cloned(), Setup::default().set("fsync", "off"))?;
    let password = making.directory.path().join("password");
    private(&password, PASSWORD, user)?;
    let mut initdb = as_user(Command::new(programs.join("initdb")), user);
    initdb.arg("-D").arg(making.data()).arg("--pwfile").arg(&password).current_dir(making.directory.path());
    initdb.args(["--username=postgres", "--auth=scram-sha-256", "--encoding=UTF8", "--no-locale", "--no-sync"]);
    run(&mut initdb)?;
    making.start_again()?;
    making.sql_in("postgres", &format!("CREATE ROLE {ROLE} LOGIN PASSWORD '{PASSWORD}'"))?;
    making.sql_in("postgres", &format!("CREATE DATABASE {ROLE} OWNER {ROLE}"))?;
    making.stop();
    // Another process may have been faster: then its directory is as good.
    match fs::rename(making.data(), &template) {
        Err(error) if !template.is_dir() => Err(error),
        _ => Ok(template),
    }
}

/// Where PostgreSQL's programs are: those of the newest version installed.
fn programs() -> io::Result<PathBuf> {
    let mut versions: Vec<(u32, PathBuf)> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|version| Some((version.file_name().to_str()?.parse().ok()?, version.path().join("bin"))))
        .collect();
    versions.sort();
    let on_path =
        std::env::var_os("PATH").into_iter().flat_map(|path| std::env::split_paths(&path).collect::<Vec<_>>());
    versions
        .into_iter()
        .rev()
        .map(|(_, path)| path)
        .chain(on_path)
        .find(|path| path.join("initdb").is_file())
        .ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::NotFound,
                "PostgreSQL is not installed: install its server (Debian, Ubuntu: `apt-get install postgresql`)",
            )
        })
}

/// Whom to run the server as: PostgreSQL refuses to run as root.
fn user() -> io::Result<Option<User>> {
    if !Uid::effective().is_root() {
        return Ok(None);
    }
    for name in ["postgres", "nobody"] {
        if let Some(user) = User::from_name(name)? {
            return Ok(Some(user));
        }
    }
    Err(io::Error::other("PostgreSQL can't run as root, and there is neither a user `postgres` nor a user `nobody`"))
}

fn as_user(mut command: Command, user: Option<&User>) -> Command {
    if let Some(user) = user {
        command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
    }
    command
}

fn own(path: &Path, user: Option<&User>) -> io::Result<()> {
    match user {
        Some(user) => chown(path, Some(user.uid.as_raw()), Some(user.gid.as_raw())),
        None => Ok(()),
    }
}

/// Writes a file that only the server's user can read.
fn private(path: &Path, text: &str, user: Option<&User>) -> io::Result<()> {
    File::create(path)?.write_all(text.as_bytes())?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    own(path, user)
}

/// Runs a program to its end; its output, or an error with what it said.
pub(crate) fn run(command: &mut Command) -> io::Result<String> {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{} failed ({}): {said}", command.get_program().display(), output.status)))
}

pub(crate) fn signal(pid: u32, which: Signal) {
    if let Ok(pid) = i32::try_from(pid) {
        // One that has ended needs no signal.
        let _ = kill(Pid::from_raw(pid), which);
    }
}

fn kill_all(parent: &mut Child) {
    // All stop before the first is killed, as when the power fails; and the parent first, so that it makes no more of them.
    signal(parent.id(), Signal::SIGSTOP);
    let children = children(parent.id());
    for which in [Signal::SIGSTOP, Signal::SIGKILL] {
        children.iter().for_each(|&child| signal(child, which));
    }
    signal(parent.id(), Signal::SIGKILL);
    let _ = parent.wait();
    let give_up = Instant::now() + Duration::from_secs(5);
    while children.iter().any(|&child| is_there(child)) && Instant::now() < give_up {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a process is there; one that has ended and whose parent has not noticed isn't.
fn is_there(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

fn children(parent: u32) -> Vec<u32> {
    let of_parent = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let field = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_ascii_whitespace().nth(1)?.parse().ok());
        field == Some(parent)
    };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(|process| process.file_name().to_str()?.parse().ok()).filter(of_parent).collect()
}

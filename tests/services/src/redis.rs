//! A Redis server of one's own: a real process, a data directory of its own, every write synced unless told otherwise.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::ports;
use crate::postgres::{run, signal};

/// How long a server may take to start; after a crash it reads its log first.
const START: Duration = Duration::from_secs(30);
/// The password of every server here. It needs escaping in a URL.
pub const PASSWORD: &str = "s3cret/of:tests";
const ESCAPED: &str = "s3cret%2Fof%3Atests";

/// How a server is to be set up.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// Settings, as in `redis.conf`; they come after those that every server gets.
    pub settings: Vec<(String, String)>,
    /// A certificate and its private key, both PEM: it listens for TLS, too, then.
    pub certificate: Option<(String, String)>,
    /// The port of its primary: then it is a replica.
    pub primary: Option<u16>,
}

impl Setup {
    /// With one more setting.
    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Setup {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// As a replica of that server.
    #[must_use]
    pub fn replica_of(mut self, primary: &Redis) -> Setup {
        self.primary = Some(primary.port);
        self
    }

    /// With this certificate and private key, both PEM.
    #[must_use]
    pub fn certificate(mut self, certificate: &str, key: &str) -> Setup {
        self.certificate = Some((certificate.to_owned(), key.to_owned()));
        self
    }

    /// Starts it.
    ///
    /// # Errors
    /// If Redis is not installed or doesn't start: the message says what to do.
    pub fn start(&self) -> io::Result<Redis> {
        let directory = tempfile::Builder::new().prefix("settled-redis-").tempdir()?;
        let (port, tls_port) = (ports::free()?, ports::free()?);
        let path = |name: &str| directory.path().join(name);
        let mut configuration = format!(
            "bind 127.0.0.1\nport {port}\ndir {}\nrequirepass {PASSWORD}\nmasterauth {PASSWORD}\nsave \"\"\n\
             appendonly yes\nappendfsync always\nrepl-diskless-sync-delay 0\n",
            directory.path().display()
        );
        if let Some((certificate, key)) = &self.certificate {
            fs::write(path("certificate.pem"), certificate)?;
            fs::write(path("key.pem"), key)?;
            let _ = write!(
                configuration,
                "tls-port {tls_port}\ntls-cert-file {}\ntls-key-file {}\ntls-auth-clients no\n",
                path("certificate.pem").display(),
                path("key.pem").display()
            );
        }
        if let Some(primary) = self.primary {
            let _ = writeln!(configuration, "replicaof 127.0.0.1 {primary}");
        }
        for (name, value) in &self.settings {
            let _ = writeln!(configuration, "{name} {value}");
        }
        fs::write(path("redis.conf"), configuration)?;
        let mut server = Redis { directory, port, tls_port, process: None };
        server.start_again()?;
        Ok(server)
    }
}

/// A Redis server; it is killed when dropped.
#[derive(Debug)]
pub struct Redis {
    directory: TempDir,
    port: u16,
    tls_port: u16,
    process: Option<Child>,
}

impl Redis {
    /// Starts one that loses nothing that it has acknowledged: appendonly, appendfsync always, no replicas.
    ///
    /// # Errors
    /// If Redis is not installed or doesn't start: the message says what to do.
    pub fn start() -> io::Result<Redis> {
        Setup::default().start()
    }

    /// A server that is to be set up in another way.
    pub fn with() -> Setup {
        Setup::default()
    }

    /// Its URL, with the password.
    pub fn url(&self) -> String {
        format!("redis://:{ESCAPED}@127.0.0.1:{}/0", self.port)
    }

    /// Its URL for TLS, with the password.
    pub fn tls_url(&self) -> String {
        format!("rediss://:{ESCAPED}@localhost:{}/0", self.tls_port)
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its data directory.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    /// Starts it again with the same data, after it was killed.
    ///
    /// # Errors
    /// If it doesn't start.
    pub fn start_again(&mut self) -> io::Result<()> {
        self.kill();
        let log = File::options().create(true).append(true).open(self.directory.path().join("log"))?;
        let mut server = Command::new(program("redis-server")?);
        server.arg(self.directory.path().join("redis.conf")).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let mut process = server.spawn()?;
        let give_up = Instant::now() + START;
        loop {
            if self.command(&["PING"]).is_ok_and(|answer| answer.trim() == "PONG") {
                self.process = Some(process);
                return Ok(());
            }
            if process.try_wait()?.is_some() || Instant::now() > give_up {
                let _ = process.kill();
                let _ = process.wait();
                return Err(io::Error::other(format!("Redis did not start:\n{}", self.log())));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Kills it (SIGKILL), as if the machine had lost power, except that what the operating system has in its cache is not
    /// lost.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Stops it in the middle of whatever it does (SIGSTOP): connections stay open, and nothing answers.
    pub fn freeze(&self) {
        self.signal(Signal::SIGSTOP);
    }

    /// Lets a frozen server go on.
    pub fn thaw(&self) {
        self.signal(Signal::SIGCONT);
    }

    fn signal(&self, which: Signal) {
        if let Some(process) = &self.process {
            signal(process.id(), which);
        }
    }

    /// The answer to a command, as `redis-cli` prints it.
    ///
    /// # Errors
    /// If the server doesn't answer, or answers with an error.
    pub fn command(&self, words: &[&str]) -> io::Result<String> {
        let mut client = Command::new(program("redis-cli")?);
        client.args(["-e", "-h", "127.0.0.1", "-p", &self.port.to_string(), "-a", PASSWORD, "--no-auth-warning"]);
        run(client.args(words))
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill();
    }
}

fn program(name: &str) -> io::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/bin".into(), "/usr/local/bin".into()])
        .map(|directory| directory.join(name))
        .find(|path| path.is_file())
        .ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::NotFound,
                format!("`{name}` is not installed: install Redis (Debian, Ubuntu: `apt-get install redis-server`)"),
            )
        })
}

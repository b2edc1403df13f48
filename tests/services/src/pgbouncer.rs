//! PgBouncer in front of a PostgreSQL server, in transaction mode: what most hosted databases put between.

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::ports;
use crate::postgres::{PASSWORD, Postgres};

const START: Duration = Duration::from_secs(10);

/// A running PgBouncer, stopped when dropped.
#[derive(Debug)]
pub struct PgBouncer {
    directory: TempDir,
    port: u16,
    process: Child,
}

impl PgBouncer {
    /// Starts one in transaction mode with this many connections to the server.
    ///
    /// # Errors
    /// If PgBouncer is not installed or doesn't start: the message says what to do.
    pub fn start(server: &Postgres, connections: usize) -> io::Result<PgBouncer> {
        PgBouncer::start_with(server, connections, "")
    }

    /// As [`start`](PgBouncer::start), with more lines of configuration.
    ///
    /// # Errors
    /// As [`start`](PgBouncer::start).
    pub fn start_with(server: &Postgres, connections: usize, more: &str) -> io::Result<PgBouncer> {
        let program = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer", "/usr/local/bin/pgbouncer"]
            .into_iter()
            .map(Path::new)
            .find(|path| path.is_file())
            .ok_or_else(|| {
                io::Error::new(
                    io::ErrorKind::NotFound,
                    "PgBouncer is not installed: install it (Debian, Ubuntu: `apt-get install pgbouncer`)",
                )
            })?;
        let directory = tempfile::Builder::new().prefix("settled-pgbouncer-").tempdir()?;
        // It drops root's rights, and reads its files afterwards.
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755))?;
        let port = ports::free()?;
        let (users, configuration) = (directory.path().join("users"), directory.path().join("configuration"));
        fs::write(&users, format!("\"settled\" \"{PASSWORD}\"\n\"postgres\" \"{PASSWORD}\"\n"))?;
        fs::write(
            &configuration,
            format!(
                "[databases]\n* = host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
                 unix_socket_dir =\nauth_type = scram-sha-256\nauth_file = {}\npool_mode = transaction\n\
                 default_pool_size = {connections}\nmax_client_conn = 1000\nserver_round_robin = 1\n\
                 admin_users = postgres\n{more}\n",
                server.port(),
                users.display(),
            ),
        )?;
        let log = File::create(directory.path().join("log"))?;
        let mut pgbouncer = Command::new(program);
        if nix::unistd::Uid::effective().is_root() {
            pgbouncer.args(["-u", "nobody"]);
        }
        pgbouncer.arg(&configuration).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let mut started = PgBouncer { port, process: pgbouncer.spawn()?, directory };
        let give_up = Instant::now() + START;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if started.process.try_wait()?.is_some() || Instant::now() > give_up {
                return Err(io::Error::other(format!("PgBouncer did not start:\n{}", started.log())));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(started)
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    /// A URL of the server, by way of this.
    pub fn url(&self, server: &Postgres) -> String {
        server.url().replace(&format!(":{}/", server.port()), &format!(":{}/", self.port))
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

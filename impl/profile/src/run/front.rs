//! `settled` between a framework and its tool: the gateway for HTTP, the proxy for MCP. Over HTTP it outlives the framework; over
//! stdio it is the framework's child, and its ledger outlives both.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::process::Child;

use super::RunError;
use super::stage::Stage;
use crate::adapter::Transport;

const PATIENCE: Duration = Duration::from_secs(30);

/// It, and where it is.
pub struct Front {
    settled: PathBuf,
    config: PathBuf,
    process: Option<(Child, SocketAddr)>,
}

impl Front {
    pub async fn start(stage: &Stage, tool: SocketAddr) -> Result<Self, RunError> {
        let directory = stage.directory();
        let config = directory.join("settled.toml");
        let ledger = toml::Value::String(directory.join("ledger").to_string_lossy().into_owned());
        let transport = stage.setting.transport;
        let text = match transport {
            Transport::Http => gateway_config(&ledger, tool),
            Transport::McpHttp | Transport::McpStdio => proxy_config(&ledger, tool),
        };
        std::fs::write(&config, text)?;
        let mut front = Self { settled: stage.setting.programs.settled.clone(), config, process: None };
        let upstream = match transport {
            Transport::Http => format!("http://{tool}"),
            Transport::McpHttp => format!("http://{tool}/mcp"),
            Transport::McpStdio => return Ok(front),
        };
        let command = if transport == Transport::Http { "gateway" } else { "mcp" };
        front.process = Some(front.listen(command, &upstream, directory.join("logs/settled.err")).await?);
        Ok(front)
    }

    async fn listen(&self, command: &str, upstream: &str, log: PathBuf) -> Result<(Child, SocketAddr), RunError> {
        let program = format!("settled {command}");
        let mut child = tokio::process::Command::new(&self.settled)
            .arg(command)
            .arg("--config")
            .arg(&self.config)
            .args(["--listen", "127.0.0.1:0", "--upstream", upstream])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log)?)
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| RunError::Start { program: program.clone(), error })?;
        let begun = Instant::now();
        loop {
            let says = std::fs::read_to_string(&log).unwrap_or_default();
            if let Some(address) = announced(&says) {
                return Ok((child, address));
            }
            if begun.elapsed() > PATIENCE || matches!(child.try_wait(), Ok(Some(_))) {
                return Err(RunError::Silent { program, waited: begun.elapsed(), says });
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Where it listens, if it does.
    pub fn address(&self) -> Option<SocketAddr> {
        self.process.as_ref().map(|(_, address)| *address)
    }

    /// Its process, if it is not the framework's child.
    pub fn process(&self) -> Option<u32> {
        self.process.as_ref().and_then(|(child, _)| child.id())
    }

    pub fn child(self) -> Option<Child> {
        self.process.map(|(child, _)| child)
    }

    /// It, as a command in front of a server's.
    pub fn before(&self, server: Vec<OsString>) -> Vec<OsString> {
        let mut command: Vec<OsString> =
            vec![self.settled.clone().into(), "mcp".into(), "--config".into(), self.config.clone().into(), "--".into()];
        command.extend(server);
        command
    }
}

/// The address in a whole line such as `settled: http://127.0.0.1:8080/mcp`.
fn announced(log: &str) -> Option<SocketAddr> {
    let line = log.split_inclusive('\n').find(|line| line.starts_with("settled: http://") && line.ends_with('\n'))?;
    let rest = line.strip_prefix("settled: http://")?;
    rest.split(['/', ' ', '\n']).next()?.parse().ok()
}

// An effect of the tool can be late by what `late-effect` and `cancelled` hold it back, so `settling` is longer; and a framework
// can come back when the clock has jumped ahead, so answers are kept for longer than that.
fn proxy_config(ledger: &toml::Value, tool: SocketAddr) -> String {
    format!(
        r#"ledger = {ledger}
scope = "profile"
lease = "2s"

[tools.step]
kind = "observable"
key = ["run", "step"]
settling = "5s"
window = "30d"

[tools.step.observe]
http = "http://{tool}/applied/{{run}}/{{step}}"
every = "200ms"
within = "20s"
"#
    )
}

fn gateway_config(ledger: &toml::Value, tool: SocketAddr) -> String {
    format!(
        r#"ledger = {ledger}
scope = "profile"

[gateway]
in_flight = "wait"

[[routes]]
path = "/step"
methods = ["POST"]
key = "required"
kind = "observable"
settling = "5s"
settle = "20s"
retention = "30d"
retry = {{ attempts = 4 }}

[routes.observe]
http = "http://{tool}/applied/{{body.run}}/{{body.step}}"
"#
    )
}

#[cfg(test)]
mod tests {
    use super::announced;

    #[test]
    fn an_address_is_taken_from_a_whole_line_only() {
        assert_eq!(announced("settled: http://127.0.0.1:80"), None);
        assert_eq!(announced("x\nsettled: http://127.0.0.1:80/mcp\n"), "127.0.0.1:80".parse().ok());
        assert_eq!(announced("settled: http://127.0.0.1:81 -> http://127.0.0.1:82/\n"), "127.0.0.1:81".parse().ok());
    }
}

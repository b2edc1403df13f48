//! `settled demo`: a counterexample found by the model, carried out on real processes, and prevented.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use settled_examples::charge_server::{self, ChargeServerOptions};
use settled_examples::retrying_client::{self, RetryingClientOptions};
use settled_model::{PropertyName, Trace, Verdict};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use super::protocol::shipped;
use crate::failure::{Exit, Failure};
use crate::output::line;
use crate::runtime::block_on;

/// How long the client waits for an answer, and how long after its effect the tool gives one.
const PATIENCE: &str = "400ms";
const DELAY: &str = "600ms";

/// Shows a double charge that the model predicts, for real, and then not.
#[derive(Debug, Args)]
pub struct DemoArgs {
    #[command(subcommand)]
    part: Option<Part>,
}

#[derive(Debug, Subcommand)]
enum Part {
    /// The demonstration's tool: an ordinary MCP server that charges customers, and knows nothing of idempotency.
    Server(ChargeServerOptions),
    /// The demonstration's caller: an ordinary MCP client that calls again when no answer comes.
    Client(RetryingClientOptions),
}

/// Runs the command.
pub fn run(args: DemoArgs) -> Result<Exit, Failure> {
    block_on(async move {
        match args.part {
            Some(Part::Server(options)) => {
                charge_server::run(options).await.map_err(|error| Failure::nothing(error.to_string()))?;
                Ok(Exit::Good)
            }
            Some(Part::Client(options)) => {
                let report =
                    retrying_client::run(options).await.map_err(|error| Failure::nothing(error.to_string()))?;
                Ok(if report.succeeded() { Exit::Good } else { Exit::Violated })
            }
            None => demonstrate().await,
        }
    })
}

async fn demonstrate() -> Result<Exit, Failure> {
    let stage = Stage::new()?;

    line("1. The model: does “MCP 2025-11-25 with a client that retries” charge at most once?\n")?;
    let trace = counterexample("mcp-2025-11-25")?;
    line(trace.text())?;
    let retries = retries_of(&trace)?;

    line("\n2. That schedule on real processes: an MCP client, an MCP server, stdio between them.\n")?;
    let direct = stage.server("direct");
    stage.client(&direct, retries).await?;
    let unguarded = stage.charges("direct")?;
    line(format!("   charges in the tool's own file: {unguarded}"))?;

    line("\n3. The model: and behind the guard, with a tool about which nothing can be found out?\n")?;
    let guarded_holds = holds("settled-opaque")?;

    line("\n4. The same schedule, the same processes, `settled mcp --` in front of the server's command.\n")?;
    let behind = stage.behind_proxy("guarded");
    stage.client(&behind, retries).await?;
    let guarded = stage.charges("guarded")?;
    line(format!("   charges in the tool's own file: {guarded}"))?;

    line("\n5. Once more, and `kill -9` for the proxy while the tool is at work.\n")?;
    let killed = stage.behind_killed_proxy("killed").await?;
    line(format!("   charges in the tool's own file: {killed}"))?;
    line("\n   What the ledger says of it:\n")?;
    stage.ledger_list("killed").await?;

    line(format!(
        "\nCharges for one wish: {unguarded} without the guard, {guarded} with it, {killed} with it and its proxy killed."
    ))?;
    let as_predicted = unguarded == trace.effects.iter().sum::<usize>() && guarded_holds && guarded == 1 && killed == 1;
    Ok(if as_predicted { Exit::Good } else { Exit::Violated })
}

fn counterexample(name: &str) -> Result<Trace, Failure> {
    let report = shipped(name)?;
    match report.verdict(PropertyName::AtMostOnce) {
        Verdict::Violated(trace) => {
            line(format!(
                "   No. {} states were explored; the shortest run with two charges:\n",
                report.unique_states
            ))?;
            Ok(*trace.clone())
        }
        other => Err(Failure::internal(format!("{name}: at-most-once was expected to be violated, not {other:?}"))),
    }
}

fn holds(name: &str) -> Result<bool, Failure> {
    let report = shipped(name)?;
    let holds = report.all_hold() && report.exhaustive;
    line(format!(
        "   {} All {} states within its bounds were explored in {:.1} s: crashes, timeouts, takeovers, lost answers.",
        if holds { "Yes: every property holds." } else { "No!" },
        report.unique_states,
        report.elapsed.as_secs_f64()
    ))?;
    for (_, trace) in report.violations() {
        line(trace.text())?;
    }
    Ok(holds)
}

/// The schedule's part that the real client plays: after each effect whose answer has not come in time, it calls again.
fn retries_of(trace: &Trace) -> Result<usize, Failure> {
    let kinds: Vec<_> = trace.steps.iter().map(|step| step.kind.as_str()).collect();
    match kinds.as_slice() {
        ["call", "effect", rest @ ..] if rest.chunks(2).all(|pair| pair == ["call-again", "effect"]) => {
            Ok(rest.len() / 2)
        }
        other => Err(Failure::internal(format!("the demonstration has no processes for this schedule: {other:?}"))),
    }
}

/// The programs and files of one demonstration, in a directory that goes away with it.
struct Stage {
    directory: tempfile::TempDir,
    program: PathBuf,
}

impl Stage {
    fn new() -> Result<Stage, Failure> {
        Ok(Stage { directory: tempfile::tempdir()?, program: std::env::current_exe()? })
    }

    fn effects(&self, name: &str) -> PathBuf {
        self.directory.path().join(format!("{name}.effects"))
    }

    fn ledger(&self, name: &str) -> PathBuf {
        self.directory.path().join(format!("{name}.ledger"))
    }

    fn pid_file(&self, name: &str) -> PathBuf {
        self.directory.path().join(format!("{name}.pid"))
    }

    fn program(&self) -> String {
        self.program.display().to_string()
    }

    fn server(&self, name: &str) -> Vec<String> {
        let effects = self.effects(name).display().to_string();
        [
            self.program().as_str(),
            "demo",
            "server",
            "--effects",
            &effects,
            "--answer-delay",
            DELAY,
            "--delay-first",
            "1",
        ]
        .map(str::to_owned)
        .into()
    }

    fn behind_proxy(&self, name: &str) -> Vec<String> {
        let ledger = self.ledger(name).display().to_string();
        let mut command: Vec<String> =
            [self.program().as_str(), "mcp", "--ledger", &ledger, "--"].map(str::to_owned).into();
        command.extend(self.server(name));
        command
    }

    /// Runs the client against a server's command, and shows what it prints.
    async fn client(&self, server: &[String], retries: usize) -> Result<(), Failure> {
        let mut client = self.start_client(server, retries)?;
        let mut lines = BufReader::new(client.stdout.take().ok_or_else(no_output)?).lines();
        while let Some(text) = lines.next_line().await? {
            line(format!("   client, {text}"))?;
        }
        client.wait().await?;
        Ok(())
    }

    fn start_client(&self, server: &[String], retries: usize) -> Result<tokio::process::Child, Failure> {
        Ok(Command::new(&self.program)
            .args(["demo", "client", "--timeout", PATIENCE, "--retries", &retries.to_string(), "--"])
            .args(server)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            // The proxy's alert for an operator is part of the answer that is shown.
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?)
    }

    /// The same behind a proxy that is killed as soon as the charge is in the tool's file; the client starts another.
    async fn behind_killed_proxy(&self, name: &str) -> Result<usize, Failure> {
        let pid_file = self.pid_file(name).display().to_string();
        let mut server: Vec<String> =
            ["sh", "-c", "echo $$ >> \"$0\"; exec \"$@\"", &pid_file].map(str::to_owned).into();
        server.extend(self.behind_proxy(name));
        let mut client = self.start_client(&server, 1)?;
        let output = BufReader::new(client.stdout.take().ok_or_else(no_output)?);
        let reading = tokio::spawn(async move {
            let mut lines = output.lines();
            while let Ok(Some(text)) = lines.next_line().await {
                line(format!("   client, {text}"))?;
            }
            Ok::<(), std::io::Error>(())
        });
        let deadline = Instant::now() + Duration::from_secs(20);
        while self.charges(name)? == 0 {
            if Instant::now() > deadline {
                return Err(Failure::internal("the tool was not reached within 20 seconds"));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let pid = std::fs::read_to_string(&pid_file)?.lines().next().unwrap_or_default().to_owned();
        let killed = Command::new("kill").args(["-9", &pid]).status().await?.success();
        line(format!("   kill -9 {pid} (the proxy), {}", if killed { "done" } else { "failed" }))?;
        client.wait().await?;
        reading.await.map_err(|error| Failure::internal(error.to_string()))??;
        if !killed {
            return Err(Failure::internal("the proxy could not be killed, so nothing was shown"));
        }
        self.charges(name)
    }

    async fn ledger_list(&self, name: &str) -> Result<(), Failure> {
        let ledger = self.ledger(name);
        let output = Command::new(&self.program).args(["log", "list", "--ledger"]).arg(&ledger).output().await?;
        for text in String::from_utf8_lossy(&output.stdout).lines() {
            line(format!("   {text}"))?;
        }
        Ok(())
    }

    fn charges(&self, name: &str) -> Result<usize, Failure> {
        count_lines(&self.effects(name))
    }
}

fn no_output() -> Failure {
    Failure::internal("the client has no standard output")
}

fn count_lines(file: &Path) -> Result<usize, Failure> {
    match std::fs::read_to_string(file) {
        Ok(text) => Ok(text.lines().count()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(Failure::internal(format!("{}: {error}", file.display()))),
    }
}

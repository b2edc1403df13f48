//! Audits of servers whose defects are known: each must be found, and nothing else.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod arguments;
mod databases;
mod defects;
mod http;
mod trouble;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use settled_audit::{
    ArgumentsFile, AuditError, Choice, Experiment, ExperimentReport, Options, Report, Secrets, Target, ToolReport,
    Verdict,
};
use tempfile::TempDir;

/// A server of known defects, and its directory.
struct Server {
    home: TempDir,
    traits: &'static str,
    more: Vec<(&'static str, String)>,
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/audit/server.py")
}

impl Server {
    fn new(traits: &'static str) -> Server {
        Server { home: tempfile::tempdir().unwrap(), traits, more: Vec::new() }
    }

    fn directory(&self) -> String {
        self.home.path().to_string_lossy().into_owned()
    }

    /// `env` gives the server its own environment: that of the test program is everyone's.
    fn command(&self) -> Vec<OsString> {
        let mut command: Vec<OsString> = vec!["env".into(), format!("SERVER={}", self.traits).into()];
        command.extend(self.more.iter().map(|(name, value)| format!("{name}={value}").into()));
        command.extend(["python3".into(), script().into(), self.directory().into()]);
        command
    }

    /// An audit of these tools that watches the server's directory.
    fn options(&self, tools: &[&str]) -> Options {
        Options {
            target: Target::Command(self.command()),
            choice: match tools.is_empty() {
                true => Choice::List,
                false => Choice::Named(tools.iter().map(|&tool| tool.to_owned()).collect()),
            },
            arguments: ArgumentsFile::default(),
            watch: vec![self.directory()],
            observer: None,
            ignore: Vec::new(),
            repeat: 1,
            at_once: 6,
            experiments: Experiment::ALL.to_vec(),
            timeout: Duration::from_secs(30),
            start: Duration::from_secs(60),
            settle: Duration::from_millis(30),
        }
    }

    /// The report on one tool.
    fn audit(&self, tool: &str) -> ToolReport {
        report(&self.options(&[tool])).tools.remove(0)
    }
}

fn audit(options: &Options) -> Result<Report, AuditError> {
    audit_with(options, &Secrets::default())
}

fn audit_with(options: &Options, secrets: &Secrets) -> Result<Report, AuditError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let report = runtime.block_on(settled_audit::audit(options, secrets, &|_| ()))?;
    for tool in &report.tools {
        // What is printed for `settled.toml` must be taken as it is.
        if let Some(suggestion) = &tool.suggestion
            && let Err(error) = settled_mcp::Config::parse(Path::new("settled.toml"), suggestion)
        {
            panic!("{error}\n{suggestion}");
        }
    }
    Ok(report)
}

fn report(options: &Options) -> Report {
    audit(options).unwrap()
}

/// What one experiment showed.
fn of(tool: &ToolReport, experiment: Experiment) -> &ExperimentReport {
    tool.experiments.iter().find(|one| one.experiment == experiment).unwrap()
}

/// The verdicts on `twice`, `lost-answer`, `restart`, `concurrent` and `different-at-once`.
#[track_caller]
fn expect(tool: &ToolReport, wanted: [Verdict; 5]) {
    use Experiment::{Concurrent, DifferentAtOnce, LostAnswer, Restart, Twice};
    let found =
        [Twice, LostAnswer, Restart, Concurrent, DifferentAtOnce].map(|experiment| of(tool, experiment).verdict);
    assert_eq!(found, wanted, "{}", serde_json::to_string_pretty(tool).unwrap());
}

//! The tracer, against programs that write in the ways in which frameworks do.

mod calls;
mod clock;
mod disk;
mod processes;

use std::fs;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use settled_profile::tracer::{self, DiskFault, Ended, Plan, Traced, Trigger};

/// No process of these tests runs for longer, however loaded the machine is.
const LONG: Duration = Duration::from_secs(60);

/// What a run of a Python program has left.
struct Left {
    directory: PathBuf,
    ended: Ended,
    printed: String,
}

impl Left {
    /// The counted calls: `write state.json`.
    fn calls(&self) -> Vec<String> {
        let name = |path: &Path| path.strip_prefix(&self.directory).unwrap().to_string_lossy().into_owned();
        self.ended.writes.iter().map(|write| format!("{} {}", write.call, name(&write.path))).collect()
    }

    fn struck(&self) -> Option<(u32, &str)> {
        self.ended.struck.as_ref().map(|write| (write.number, write.call.as_str()))
    }

    fn killed(&self) -> bool {
        self.ended.status.signal() == Some(9)
    }
}

fn python(program: &str, directory: &Path) -> Command {
    let mut command = tracer::command("python3");
    command.args(["-Su", "-c", program]).current_dir(directory).process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

fn plan(directory: &Path, strike: impl Into<Option<(Trigger, DiskFault)>>) -> Plan {
    Plan { watch: directory.to_owned(), strike: strike.into(), ahead: None }
}

async fn ended(traced: &mut Traced) -> Ended {
    tokio::time::timeout(LONG, traced.wait()).await.unwrap().unwrap()
}

async fn run(program: &str, directory: &Path, strike: impl Into<Option<(Trigger, DiskFault)>>) -> Left {
    left(Traced::spawn(python(program, directory), plan(directory, strike)).unwrap(), directory).await
}

async fn left(mut traced: Traced, directory: &Path) -> Left {
    drop(traced.take_stdin());
    let mut output = traced.take_stdout().unwrap();
    let printed = tokio::task::spawn_blocking(move || {
        let mut printed = String::new();
        output.read_to_string(&mut printed).unwrap();
        printed
    });
    let directory = directory.canonicalize().unwrap();
    Left { directory, ended: ended(&mut traced).await, printed: printed.await.unwrap() }
}

fn text(directory: &Path, name: &str) -> Option<String> {
    fs::read_to_string(directory.join(name)).ok()
}

//! The processes of a replay. Each is told by the conductor when to go on; what they do then is their own.

mod callers;
mod device;
mod guard;
mod ledger;
mod proxy;
mod server;
mod shim;
mod tool;

use std::io;
use std::path::Path;

use crate::link::Link;
use crate::wire::{Role, Spec, ToPart};

/// Why a process of a replay could not do its part.
#[derive(Debug, thiserror::Error)]
pub enum PartError {
    /// What it was started with can't be used.
    #[error("{0}: this command is for `settled replay`, which starts it")]
    Start(String),
    /// A stream or file failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The ledger failed.
    #[error("the ledger: {0}")]
    Ledger(String),
}

/// The commands of the conductor.
type Commands = tokio::sync::mpsc::UnboundedReceiver<ToPart>;

/// Runs a process of a replay; returns when the conductor has gone.
///
/// # Errors
/// If it can't be started.
pub fn run(spec: &Path, role: &str, incarnation: u32) -> Result<(), PartError> {
    let text = std::fs::read_to_string(spec).map_err(|error| PartError::Start(error.to_string()))?;
    let mut spec: Spec = serde_json::from_str(&text).map_err(|error| PartError::Start(error.to_string()))?;
    spec.incarnation = incarnation;
    // A process that was stopped for good would not notice that its conductor has gone.
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL).map_err(io::Error::from)?;
    // One thread: a guard's timers can be made to run out only there.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match role {
            "callers" => callers::run(spec).await,
            "ledger" => ledger::run(spec).await,
            "tool" => tool::run(spec).await,
            "server" => server::run(spec).await,
            other => match other.split_once('-').and_then(|(what, number)| Some((what, number.parse().ok()?))) {
                Some(("guard", number)) => guard::run(spec, number).await,
                Some(("proxy", number)) => proxy::run(spec, number).await,
                Some(("shim", number)) => shim::run(spec, number).await,
                Some(("device", number)) => device::run(spec, number).await,
                _ => Err(PartError::Start(format!("there is no part “{role}”"))),
            },
        }
    })
}

/// The name of a role on a command line.
pub fn name_of(role: Role) -> String {
    match role {
        Role::Callers => "callers".to_owned(),
        Role::Guard(guard) => format!("guard-{guard}"),
        Role::Ledger => "ledger".to_owned(),
        Role::Tool => "tool".to_owned(),
        Role::Device(device) => format!("device-{device}"),
        Role::Server => "server".to_owned(),
    }
}

async fn join(spec: &Spec, role: Role, port: u16) -> Result<(Link, Commands), PartError> {
    Ok(Link::connect(&spec.socket, role, port, spec.incarnation).await?)
}

pub use tool::{Line, read as read_effects};

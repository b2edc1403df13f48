//! `settled sync act`, `run`, `show` and `dismiss`: a device on the command line.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use settled_protocol::merge::Name;
use settled_sync::device::{Progress, Refused, Remote, RemoteError, RoundError, Rounds, Synced};
use settled_sync::{Device, DeviceError, DeviceOptions, Schema};

use super::change::{Written, parse};
use crate::failure::{Exit, Failure};
use crate::output::{json, line};
use crate::runtime::block_on;

/// Which device.
#[derive(Debug, Args)]
pub struct DeviceArgs {
    /// The device's directory; made if there is none
    directory: PathBuf,
    /// The kinds of targets (TOML) [default: those that the device was made with]
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,
    /// The device's name, when it is made [default: drawn]
    #[arg(long, value_name = "NAME", value_parser = |text: &str| Name::new(text).map_err(|error| error.to_string()))]
    name: Option<Name>,
}

impl DeviceArgs {
    fn open(&self) -> Result<Device, Failure> {
        let schema = self.schema.as_deref().map(Schema::load).transpose();
        let schema = schema.map_err(|error| Failure::input(error.to_string()))?;
        let options = DeviceOptions { name: self.name.clone(), ..DeviceOptions::default() };
        Device::open(&self.directory, schema, options).map_err(|error| match error {
            DeviceError::NoSchema => Failure::input(format!(
                "{}: there is no device here yet; --schema FILE makes one",
                self.directory.display()
            )),
            other => failed(&other),
        })
    }
}

fn failed(error: &DeviceError) -> Failure {
    match error {
        DeviceError::Unfit(_) | DeviceError::Schema(_) | DeviceError::InUse { .. } => Failure::input(error.to_string()),
        _ => Failure::nothing(error.to_string()),
    }
}

/// Does something on a device, now; nobody need be reached.
#[derive(Debug, Args)]
pub struct ActArgs {
    #[command(flatten)]
    device: DeviceArgs,
    /// What it is done to: KIND or KIND/NAME
    #[arg(value_parser = |text: &str| Name::new(text).map_err(|error| error.to_string()))]
    target: Name,
    /// FIELD=VALUE sets, FIELD+=VALUE adds or counts up, FIELD-=VALUE removes or counts down; without FIELD if the target has none
    /// (`-=1` then comes after `--`)
    #[arg(required = true, value_parser = parse)]
    changes: Vec<Written>,
}

/// Runs `settled sync act`.
pub fn act(args: &ActArgs) -> Result<Exit, Failure> {
    let device = args.device.open()?;
    let target = &args.target;
    let rule = device.schema().rule(target).ok_or_else(|| {
        let kinds: Vec<_> = device.schema().kinds.keys().map(Name::as_str).collect();
        Failure::input(format!("`{target}` is of no kind that there is: {}", kinds.join(", ")))
    })?;
    for written in &args.changes {
        let change = written.change(rule).map_err(|error| Failure::input(format!("`{target}`: {error}")))?;
        let op_id = match (change, &written.what) {
            (Some(change), _) => device.act(target.clone(), change),
            (None, super::change::What::Less(value)) => device.remove(target.clone(), &written.fields, value.clone()),
            (None, _) => continue,
        };
        line(op_id.map_err(|error| failed(&error))?)?;
    }
    Ok(Exit::Good)
}

/// Brings a device and the server to the same: what it did goes up, what others did comes down.
#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    device: DeviceArgs,
    /// The server's address
    #[arg(long, value_name = "URL", env = "SETTLED_SYNC_URL")]
    url: String,
    /// A file with the token that the server wants
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// For how long a server that can't be reached, or is busy, is tried again
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = humantime::parse_duration)]
    patience: Duration,
    /// How many operations go up at once
    #[arg(long, value_name = "COUNT", default_value = "500")]
    batch: std::num::NonZeroUsize,
    /// Drop what was pulled before, and pull everything again: for a server that was restored from an older copy. What it has lost is
    /// then gone here, too; what is pending stays
    #[arg(long)]
    start_over: bool,
    /// Print what came of it as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `settled sync run`.
pub fn run(args: &RunArgs) -> Result<Exit, Failure> {
    let token = args.token_file.as_deref().map(std::fs::read_to_string).transpose();
    let token = token.map_err(|error| Failure::input(format!("--token-file: {error}")))?;
    let remote = Remote::new(&args.url, token.as_deref().map(str::trim));
    let remote = remote.map_err(|error| Failure::input(format!("--url: {error}")))?;
    let device = Arc::new(args.device.open()?);
    if args.start_over {
        device.start_over().map_err(|error| failed(&error))?;
    }
    let rounds = Rounds { batch: args.batch.get(), patience: args.patience, ..Rounds::default() };
    block_on(async move {
        let bar = bar(device.pending());
        let synced = rounds.run(&device, &remote, |progress| show_progress(&bar, progress)).await;
        bar.finish_and_clear();
        let synced = synced.map_err(|error| {
            let pending = device.pending();
            let kept = format!("{error}; {pending} operations are kept, and go up with the next `settled sync run`");
            match error {
                RoundError::Remote(RemoteError::CursorAhead(_)) => Failure::nothing(format!(
                    "{error}; if that is meant to be so, `settled sync run --start-over` takes over what it has now"
                )),
                RoundError::Device(_) => Failure::nothing(error.to_string()),
                _ => Failure::nothing(kept),
            }
        })?;
        if args.json {
            json(&Told::from(&synced))?
        } else {
            line(told(&synced))?
        }
        Ok(if synced.refused > 0 { Exit::Violated } else { Exit::Good })
    })
}

fn bar(pending: usize) -> ProgressBar {
    let style =
        ProgressStyle::with_template("{msg} {bar:30} {pos}/{len}").unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(pending as u64).with_style(style).with_message("up")
}

fn show_progress(bar: &ProgressBar, progress: Progress) {
    let (done, all) = match progress.pulled {
        0 => (progress.sent as u64, (progress.sent + progress.pending) as u64),
        pulled => {
            bar.set_message("down");
            (pulled, pulled + progress.behind)
        }
    };
    bar.set_length(all);
    bar.set_position(done);
}

/// What came of a round, as JSON.
#[derive(Serialize)]
struct Told {
    applied: usize,
    repeated: usize,
    redated: usize,
    refused: usize,
    held: usize,
    pulled: u64,
    clock_ahead_ms: Option<i64>,
    clock_believed: Option<bool>,
}

impl From<&Synced> for Told {
    fn from(synced: &Synced) -> Self {
        let Synced { applied, repeated, redated, refused, held, pulled, clock, .. } = *synced;
        let clock_ahead_ms = clock.map(|clock| clock.ahead);
        Told {
            applied,
            repeated,
            redated,
            refused,
            held,
            pulled,
            clock_ahead_ms,
            clock_believed: clock.map(|clock| clock.believed),
        }
    }
}

fn told(synced: &Synced) -> String {
    let mut text = format!("{} applied, {} pulled", synced.applied, synced.pulled);
    for (count, what) in [
        (synced.repeated, "had been applied before"),
        (synced.refused, "refused (`settled sync show` says why, `settled sync dismiss` drops them)"),
        (synced.held, "kept until the server has a later schema"),
    ] {
        if count > 0 {
            text.push_str(&format!(", {count} {what}"));
        }
    }
    if let Some(clock) = synced.clock.filter(|clock| !clock.believed) {
        let off = humantime::format_duration(Duration::from_secs(clock.ahead.unsigned_abs() / 1000));
        let way = if clock.ahead > 0 { "ahead of" } else { "behind" };
        text.push_str(&format!(
            "\nThis device's clock is {off} {way} the server's: {} operations were given other times. Set it.",
            synced.redated
        ));
    }
    text
}

/// Shows what a device knows, what is on its way, and what was refused.
#[derive(Debug, Args)]
pub struct ShowArgs {
    #[command(flatten)]
    device: DeviceArgs,
    /// Only this target
    #[arg(value_parser = |text: &str| Name::new(text).map_err(|error| error.to_string()))]
    target: Option<Name>,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `settled sync show`.
pub fn show(args: &ShowArgs) -> Result<Exit, Failure> {
    let device = args.device.open()?;
    let mut views = device.views();
    if let Some(target) = &args.target {
        views.retain(|name, _| name == target);
    }
    if args.json {
        json(&serde_json::json!({
            "device": device.name(), "cursor": device.cursor(), "pending": device.pending(),
            "targets": views, "refused": device.refused(),
        }))?;
        return Ok(Exit::Good);
    }
    for (target, view) in &views {
        line(format_args!(
            "{target}  {}",
            serde_json::to_string(view).map_err(|error| Failure::internal(error.to_string()))?
        ))?;
    }
    line(format_args!(
        "{}: {} pending, up to {} of the server's operations",
        device.name(),
        device.pending(),
        device.cursor()
    ))?;
    tell_refused(&device.refused())?;
    Ok(Exit::Good)
}

fn tell_refused(refused: &[Refused]) -> Result<(), Failure> {
    for Refused { operation, message, .. } in refused {
        line(format_args!("refused: {} on {}: {message}", operation.op_id, operation.target))?;
    }
    Ok(())
}

/// Shows what the server has refused, and drops it from the device.
#[derive(Debug, Args)]
pub struct DismissArgs {
    #[command(flatten)]
    device: DeviceArgs,
}

/// Runs `settled sync dismiss`.
pub fn dismiss(args: &DismissArgs) -> Result<Exit, Failure> {
    let device = args.device.open()?;
    let refused = device.refused();
    tell_refused(&refused)?;
    if !refused.is_empty() {
        device.forget_refused().map_err(|error| failed(&error))?;
    }
    line(format_args!("{} dismissed", refused.len()))?;
    Ok(Exit::Good)
}

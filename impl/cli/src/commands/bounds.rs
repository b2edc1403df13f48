//! Options that say how far a protocol is explored.

use std::time::Duration;

use clap::Args;
use clap::builder::RangedU64ValueParser;
use settled_model::{Description, Fault, Limits, Reductions};

use crate::failure::Failure;

/// Bounds that override those of the descriptions.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Bounds (override those of the description)")]
pub struct Bounds {
    /// Logical calls (1 to 3).
    #[arg(long, value_name = "N")]
    operations: Option<u8>,
    /// How often each logical call may be made, retries included (1 to 4).
    #[arg(long, value_name = "N")]
    calls: Option<u8>,
    /// Guard processes (0 to 3; 0: none).
    #[arg(long, value_name = "N")]
    processes: Option<u8>,
    /// Attempts of one operation (1 to 4).
    #[arg(long, value_name = "N")]
    attempts: Option<u8>,
    /// Crashes of guard processes (0 to 4): the same as `--fault guard-crashes=N`.
    #[arg(long, value_name = "N")]
    crashes: Option<u8>,
    /// Timeouts of guards, or of direct callers (0 to 4): the same as `--fault timeouts=N`.
    #[arg(long, value_name = "N")]
    timeouts: Option<u8>,
    /// N of each fault that the description allows (0 to 4).
    #[arg(long, value_name = "N")]
    faults: Option<u8>,
    /// The bound of any fault by its name (0 to 4), e.g. `--fault lost-replies=2`; can be given more than once. See
    /// `settled faults`.
    #[arg(long, value_name = "FAULT=N", value_parser = parse_fault)]
    fault: Vec<(Fault, u8)>,
}

fn parse_fault(text: &str) -> Result<(Fault, u8), String> {
    let allowed = || {
        let names: Vec<_> = Fault::ALL.iter().map(|fault| fault.name()).collect();
        format!("the faults are: {}", names.join(", "))
    };
    let (name, bound) = text.split_once('=').ok_or_else(|| format!("FAULT=N is expected; {}", allowed()))?;
    let fault = Fault::ALL.iter().find(|fault| fault.name() == name).ok_or_else(allowed)?;
    let bound = bound.parse().map_err(|_| format!("“{bound}” is not a number from 0 to 4"))?;
    Ok((*fault, bound))
}

impl Bounds {
    /// The description with these bounds, if a world can be built with them.
    pub fn apply(&self, mut description: Description) -> Result<Description, Failure> {
        if let Some(devices) = &mut description.devices {
            let theirs = [
                ("--calls", self.calls),
                ("--processes", self.processes),
                ("--attempts", self.attempts),
                ("--timeouts", self.timeouts),
            ];
            if let Some((option, _)) = theirs.iter().find(|(_, value)| value.is_some()) {
                return Err(Failure::input(format!(
                    "{}: {option} says nothing of a protocol of devices, which has no callers, guards or timeouts",
                    description.name
                )));
            }
            devices.operations = self.operations.unwrap_or(devices.operations);
        }
        let set = |field: &mut u8, value: Option<u8>| *field = value.unwrap_or(*field);
        if description.devices.is_none() {
            set(&mut description.caller.operations, self.operations);
        }
        set(&mut description.caller.calls, self.calls);
        set(&mut description.guard.processes, self.processes);
        set(&mut description.tool.attempts, self.attempts);
        for (fault, bound) in description.faults.list() {
            if bound > 0 {
                set(description.faults.of(fault), self.faults);
            }
        }
        set(&mut description.faults.guard_crashes, self.crashes);
        set(&mut description.faults.timeouts, self.timeouts);
        for (fault, bound) in &self.fault {
            *description.faults.of(*fault) = *bound;
        }
        description.validate().map_err(|error| Failure::input(format!("{}: {error}", description.name)))?;
        Ok(description)
    }
}

/// When to stop, and what to leave out.
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits")]
pub struct LimitArgs {
    /// Stop after about this many states; what is not decided then is “not finished”.
    #[arg(long, value_name = "N", default_value_t = 200_000_000, value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    max_states: usize,
    /// Stop after this time; what is not decided then is “not finished”.
    #[arg(long, value_name = "SPAN", default_value = "10m", value_parser = parse_time)]
    max_time: Duration,
    /// Threads to explore with (1 to 64); as many as there are processors, if not given.
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..=64))]
    threads: Option<usize>,
    /// Explore everything, also what could be left out because something else shows the same: no verdict changes.
    #[arg(long)]
    no_reductions: bool,
}

/// A span of time on the command line.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    const MOST: Duration = Duration::from_secs(365 * 24 * 60 * 60);
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if time <= MOST { Ok(time) } else { Err("at most 365 days".to_owned()) }
}

impl LimitArgs {
    /// As the checker takes them.
    pub fn limits(&self) -> Limits {
        let default = Limits::default();
        Limits {
            states: self.max_states,
            time: self.max_time,
            threads: self.threads.unwrap_or(default.threads),
            reductions: if self.no_reductions { Reductions::NONE } else { Reductions::ALL },
            ..default
        }
    }
}

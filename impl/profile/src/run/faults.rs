//! How faults are done, and whether they struck.

use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::time::Instant;

use super::control::Waiting;
use super::flow::Flow;
use super::process::{End, Trace};
use super::strike::Aim;
use super::{RunError, classify, kill};
use crate::adapter::Transport;
use crate::cell::Cell;
use crate::outcome::Bite;
use crate::profile::Who;
use crate::tool::Order;
use crate::tracer::{DiskFault, Plan, Trigger};

/// How long processes that the framework has left behind may go on when it says that the run is over.
const LEFT_BEHIND: Duration = Duration::from_secs(2);

impl Flow {
    /// What the first process is watched for.
    pub fn watch(&self) -> Option<Plan> {
        let at = |fault| self.moments.write.map(|write| (Trigger::AtWrite(write), fault));
        let strike = match self.cell {
            Cell::KillAfterAnswer => Some((Trigger::WhenArmed, DiskFault::Kill)),
            Cell::DiskFull => Some((Trigger::WhenArmed, DiskFault::Full)),
            Cell::DiskReadOnly => Some((Trigger::WhenArmed, DiskFault::ReadOnly)),
            Cell::KillAtWrites => at(DiskFault::Kill),
            Cell::TornWrite => at(DiskFault::Torn),
            Cell::NoFault if self.moments.watched => None,
            _ => return None,
        };
        Some(Plan { watch: self.stage.state(), strike, ahead: None })
    }

    /// What became of a fault that a write was to be struck by, or of a clock that is ahead.
    pub async fn traced(&mut self, number: usize, end: End, trace: &Trace) -> Result<(), RunError> {
        if self.cell == Cell::ClockJumped {
            if !trace.told_time {
                self.bite = Some(Bite::Missed(format!("its program has not asked for the time ({end})")));
            }
            return Ok(());
        }
        let Some(struck) = &trace.struck else {
            if self.cell != Cell::NoFault {
                let how = format!("there was no such write ({} writes in all, {end})", trace.writes.len());
                self.bite.get_or_insert(Bite::Missed(how));
            }
            return Ok(());
        };
        let path = struck.path.strip_prefix(self.stage.state()).unwrap_or(&struck.path).display().to_string();
        let at = format!("{} of {} (write {})", struck.call, path.replace(&self.stage.run, "RUN"), struck.number);
        let fails = match self.cell {
            Cell::DiskFull => Some("no room left"),
            Cell::DiskReadOnly => Some("read-only"),
            _ => None,
        };
        if let Some(fails) = fails {
            self.note(Who::Harness, format!("{fails}, from {at} on"));
            if end == End::Signal(9) {
                self.note(Who::Harness, "killed, since it waited for the disk");
            }
            self.bite = Some(Bite::Struck);
            return Ok(());
        }
        let torn = if self.cell == Cell::TornWrite { "killed in the middle of" } else { "killed at" };
        self.note(Who::Harness, format!("{torn} {at}"));
        kill::kill_all(
            self.processes.get(number).map(|process| process.pid),
            self.stage.directory(),
            &self.stage.own(),
        )
        .await;
        self.forget_calls();
        self.bite = Some(match end {
            End::Signal(9) if self.cell == Cell::KillAfterAnswer && !self.answered.iter().any(|step| step == "b") => {
                Bite::Missed("that write came before the answer to `b`".to_owned())
            }
            End::Signal(9) if self.moments.called.is_some_and(|called| called != self.called.len()) => {
                Bite::Missed("its writes are not the same in each run: this one came at another step".to_owned())
            }
            End::Signal(9) => classify::promised(self.cell, &self.stage.counted()?),
            end => Bite::Missed(format!("it was not ended by the kill, but by itself ({end})")),
        });
        Ok(())
    }

    /// Kills the framework, and holds that against what the cell promises.
    pub async fn kill(&mut self, number: usize, at: Option<Waiting>) -> Result<(), RunError> {
        let group = self.processes.get(number).map(|process| process.pid);
        let alive = self.is_running(number);
        if let Some(group) = group {
            kill::signal_all(group, self.stage.directory(), &self.stage.own(), Signal::SIGKILL);
        }
        kill::kill_all(group, self.stage.directory(), &self.stage.own()).await;
        self.forget_calls();
        let counted = self.stage.counted()?;
        if let Some(waiting) = at {
            waiting.order(Order::Cut);
        }
        self.aim = Aim::Nothing;
        if alive {
            self.note(Who::Harness, "killed");
            self.killed = Some(number);
            self.bite = Some(classify::promised(self.cell, &counted));
        } else {
            self.bite = Some(Bite::Missed("the process to kill had ended by itself".to_owned()));
        }
        Ok(())
    }

    /// What the framework has left behind may be about to call, too: gives it a while.
    pub async fn until_uninhabited(&mut self) -> Result<(), RunError> {
        let patience = Instant::now() + LEFT_BEHIND;
        while Instant::now() < patience && self.stage.is_inhabited() {
            let soon = Instant::now() + Duration::from_millis(50);
            self.ring_at(soon);
            self.until(|_| Instant::now() >= soon).await?;
        }
        Ok(())
    }

    /// Over stdio the tool is the framework's child: its calls have ended with it.
    fn forget_calls(&mut self) {
        if self.stage.setting.transport == Transport::McpStdio {
            self.under_way = 0;
        }
    }

    /// Kills the tool, and starts it again where it was; over stdio that is its client's to do.
    pub async fn restart_tool(&mut self, waiting: Waiting) -> Result<(), RunError> {
        let process = waiting.reached.process;
        let killed = kill::signal_one(process, Signal::SIGKILL);
        while kill::is_alive(process) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        self.bite = Some(match killed {
            true => Bite::Struck,
            false => Bite::Missed("the tool had ended by itself".to_owned()),
        });
        drop(waiting);
        self.note(Who::Harness, "the tool is killed");
        if self.stage.tool_process() == Some(process) {
            self.stage.start_tool().await?;
            self.note(Who::Harness, "the tool is started again");
        }
        Ok(())
    }

    /// Stops the framework, all of it.
    pub async fn stop(&mut self, number: usize) {
        let Some(process) = self.processes.get(number).map(|process| process.pid) else { return };
        if !self.is_running(number) {
            self.bite = Some(Bite::Missed("the process to stop had ended by itself".to_owned()));
            return;
        }
        kill::signal_all(process, self.stage.directory(), &self.stage.own(), Signal::SIGSTOP);
        let begun = Instant::now();
        while !kill::is_stopped(process) && begun.elapsed() < Duration::from_secs(5) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        self.bite = Some(match kill::is_stopped(process) {
            true => Bite::Struck,
            false => Bite::Missed("it could not be stopped".to_owned()),
        });
        self.note(Who::Harness, "stopped (SIGSTOP)");
    }

    /// Wakes up a process that was stopped.
    pub fn wake(&mut self, number: usize) {
        if let Some(process) = self.processes.get(number).map(|process| process.pid) {
            kill::signal_all(process, self.stage.directory(), &self.stage.own(), Signal::SIGCONT);
            self.note(Who::Harness, "woken up (SIGCONT)");
        }
    }
}

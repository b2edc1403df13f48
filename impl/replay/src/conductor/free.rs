//! Letting a run end: no more faults, every wait runs out, and everything that is held goes on.

use settled::protocol::State;
use settled_model::description::{Claim, InProgress};

use super::{Parted, Stage};
use crate::wire::{How, RUN_OUT_MS, Role, ToPart};

/// How often everything may stand still, and time be let go on, before that counts as the end.
const ROUNDS: u32 = 8;

/// How many steps the rest of a run may take.
const STEPS: u32 = 300;

impl Stage {
    /// Lets the run end.
    ///
    /// # Errors
    /// If a process can't be reached.
    pub async fn let_end(&mut self) -> Result<(), Parted> {
        self.lenient = true;
        let roles: Vec<Role> = self.parts.keys().copied().collect();
        for role in roles {
            self.pause(role, false);
        }
        self.lapsed.clear();
        let (mut standing, mut steps) = (0, 0);
        while standing < ROUNDS {
            while self.one_goes_on().await? {
                (standing, steps) = (0, steps + 1);
                if steps > STEPS {
                    let expected = format!("the run comes to its end within {STEPS} steps");
                    return Err(Parted { expected, seen: self.pending() });
                }
            }
            if !self.any_open().await? && standing > 0 {
                break;
            }
            standing += 1;
            self.time_goes_on(standing).await?;
        }
        self.look_at_effects();
        let open = self.any_open().await?;
        self.evidence.left_open = Some(open);
        Ok(())
    }

    /// Lets time go on until every record may be forgotten, and looks whether one is left.
    ///
    /// # Errors
    /// If a process can't be reached.
    pub async fn let_be_forgotten(&mut self) -> Result<(), Parted> {
        let rules = &self.rules.description;
        let span = rules.budget.memory.max(rules.guard.window) + 2;
        for _ in 0..span {
            self.tick().await?;
        }
        for guard in 0..self.rules.description.guard.processes {
            self.command(Role::Guard(guard), |id| ToPart::Expire { id }).await?;
        }
        while self.one_goes_on().await? {}
        self.evidence.record_left = Some(!self.records().await?.is_empty());
        Ok(())
    }

    /// Whether an operation is neither settled nor escalated.
    async fn any_open(&mut self) -> Result<bool, Parted> {
        if self.direct() {
            return Ok(false);
        }
        let open = |state: &State<_>| !matches!(state, State::Settled { .. } | State::Escalated { .. });
        Ok(self.records().await?.iter().any(|entry| open(entry.record.state())))
    }

    /// What no message is awaited for: waits run out, and what was left is taken further.
    async fn time_goes_on(&mut self, standing: u32) -> Result<(), Parted> {
        if standing > 1 && self.rules.description.time_passes() {
            self.tick().await?;
        }
        for guard in 0..self.rules.description.guard.processes {
            self.command(Role::Guard(guard), |id| ToPart::RunOut { id, which: None, ms: RUN_OUT_MS + 1_000 }).await?;
            self.command(Role::Guard(guard), |id| ToPart::Recover { id }).await?;
        }
        self.wake(None);
        Ok(())
    }

    /// Lets one thing go on that waits for leave; `false` if nothing does, and nothing moves.
    async fn one_goes_on(&mut self) -> Result<bool, Parted> {
        let found = self
            .until_quiet(&mut |stage| {
                let answered = stage.calls.values().any(|calling| calling.answer.is_some() || calling.guard.is_none());
                (!stage.storing.is_empty()
                    || !stage.forgetting.is_empty()
                    || stage.open_gate().is_some()
                    || !stage.in_transit.is_empty()
                    || !stage.back.is_empty()
                    || stage.at_tool.values().any(|at| at.working)
                    || answered)
                    .then_some(())
            })
            .await;
        if found.is_none() {
            return Ok(false);
        }
        if !self.in_transit.is_empty() {
            let what = self.in_transit.remove(0);
            self.deliver(what, How::Answered).await?;
        } else if let Some(number) = self.at_tool.iter().filter(|(_, at)| at.working).map(|(number, _)| *number).min() {
            self.end_work(number, How::Answered).await?;
        } else if !self.back.is_empty() {
            let back = self.back.remove(0);
            match back.from {
                0 => self.direct_caller_hears(back).await?,
                _ => self.send_back(back.connection, back.reply),
            }
        } else if !self.forgetting.is_empty() {
            let forget = self.forgetting.remove(0);
            self.let_forget(forget).await?;
        } else if !self.storing.is_empty() || self.open_gate().is_some() {
            self.guards_go_on().await?;
        } else {
            self.caller_goes_on().await?;
        }
        Ok(true)
    }

    async fn direct_caller_hears(&mut self, back: super::Back) -> Result<(), Parted> {
        let call = back.which.key;
        if self.calls_made.get(&call) == Some(&back.which.attempt) && self.connections.contains_key(&back.connection) {
            self.let_hear(call, back.connection, back.reply).await?;
        }
        Ok(())
    }

    async fn caller_goes_on(&mut self) -> Result<(), Parted> {
        let fresh = self.calls.values().find(|calling| calling.guard.is_none()).map(|calling| calling.call.call);
        if let Some(call) = fresh {
            let guard = self.any_guard();
            return self.hand_on(call, guard).await;
        }
        let Some(call) = self.calls.values().find(|calling| calling.answer.is_some()).map(|c| c.call.call) else {
            return Ok(());
        };
        if let Some(calling) = self.calls.remove(&call)
            && self.connections.contains_key(&calling.connection)
        {
            self.let_hear(call, calling.connection, calling.answer).await?;
        }
        Ok(())
    }
}

impl Stage {
    /// Whether its guards serve their callers' questions before their own timers.
    pub fn is_starved(&self) -> bool {
        let guard = &self.rules.description.guard;
        self.options.mistakes && guard.in_progress == InProgress::Told && guard.claim == Claim::ReadThenWrite
    }

    /// Looks whether an operation is open now.
    ///
    /// # Errors
    /// If the ledger can't be reached.
    pub async fn look_what_is_open(&mut self) -> Result<(), Parted> {
        let open = self.any_open().await?;
        self.evidence.left_open = Some(open);
        Ok(())
    }

    /// Writes a step into the log.
    pub fn log_step(&mut self, number: usize, text: &str) {
        self.note(format!("--- {number}. {text}"));
    }

    /// Whether there are as many effects as in the model after a step.
    ///
    /// # Errors
    /// If there are not.
    pub fn compare_effects(&mut self, taken: &crate::run::Taken) -> Result<(), Parted> {
        self.look_at_effects();
        let (expected, seen) = (taken.after.effects.to_vec(), self.evidence.made_for());
        if expected == seen {
            return Ok(());
        }
        let say = |all: &[u8]| all.iter().map(|call| settled_model::call_name(*call)).collect::<Vec<_>>().join(", ");
        Err(Parted { expected: format!("effects for {}", say(&expected)), seen: format!("effects for {}", say(&seen)) })
    }
}

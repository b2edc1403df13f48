//! The course of one run: whatever its processes and its tool do is noted, and answered by what the cell is aimed at.

use std::collections::BTreeMap;
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::control::Waiting;
use super::moments::{Moments, Seen};
use super::process::{End, Ended, Process, StartError, Trace};
use super::setting::Setting;
use super::stage::Stage;
use super::strike::{Aim, Alarm, Gathering, Held, HeldFor};
use super::tidy::tidy;
use super::{RunError, classify, kill};
use crate::cell::Cell;
use crate::outcome::Bite;
use crate::profile::{Event, Run, Who};
use crate::tool::{Order, Point};
use crate::tracer::Plan;

/// A run under way.
pub struct Flow {
    pub stage: Stage,
    pub cell: Cell,
    pub moments: Moments,
    pub aim: Aim,
    /// Whether the fault has struck, once that is known.
    pub bite: Option<Bite>,
    pub processes: Vec<Process>,
    events: Vec<Event>,
    begun: Instant,
    deadline: Instant,
    ends: mpsc::UnboundedReceiver<Ended>,
    ending: mpsc::UnboundedSender<Ended>,
    alarm: Option<(Instant, Alarm)>,
    held: Option<Held>,
    pub gathering: Option<Gathering>,
    /// The process that has been killed, until it is seen how it ended.
    pub killed: Option<usize>,
    /// Calls that have been let through and have not had their effect yet.
    pub under_way: usize,
    /// When each step was first called.
    pub called: BTreeMap<String, Instant>,
    /// How many calls of the tool there were.
    pub calls: u32,
    pub answered: Vec<String>,
    trace: Option<Trace>,
}

impl Flow {
    pub async fn begin(setting: &Setting, cell: Cell, moments: Moments) -> Result<Self, RunError> {
        let stage = Stage::set_up(setting, cell).await?;
        let (ending, ends) = mpsc::unbounded_channel();
        let begun = Instant::now();
        Ok(Self {
            deadline: begun + setting.deadline,
            stage,
            cell,
            moments,
            aim: Aim::Nothing,
            bite: None,
            processes: Vec::new(),
            events: Vec::new(),
            begun,
            ends,
            ending,
            alarm: None,
            held: None,
            gathering: None,
            killed: None,
            under_way: 0,
            called: BTreeMap::new(),
            calls: 0,
            answered: Vec::new(),
            trace: None,
        })
    }

    pub fn note(&mut self, who: Who, what: impl Into<String>) {
        let at = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.events.push(Event { at, who, what: what.into() });
    }

    /// Starts a process of the framework, with a wall clock that is ahead if that is said, and says which it is.
    pub fn start(
        &mut self,
        words: &[String],
        ahead: Option<Duration>,
        more: &[(&str, &str)],
    ) -> Result<usize, RunError> {
        // Each process has its time: a slow start of one is not the slowness of another.
        self.deadline = Instant::now() + self.stage.setting.deadline;
        let number = self.processes.len();
        let watch = match ahead {
            Some(_) => Some(Plan { watch: self.stage.state(), strike: None, ahead }),
            None => (number == 0).then(|| self.watch()).flatten(),
        };
        let directory = self.stage.directory();
        let command = self.stage.command(words, more, watch.is_some());
        let process = match Process::start(command, watch, number, directory, self.ending.clone()) {
            Err(StartError::Trace(error)) => {
                self.bite = Some(Bite::Missed(error.to_string()));
                let command = self.stage.command(words, more, false);
                Process::start(command, None, number, directory, self.ending.clone())
            }
            other => other,
        };
        self.processes.push(process.map_err(|error| match error {
            StartError::Run(error) => error,
            StartError::Trace(error) => RunError::Directory(std::io::Error::other(error)),
        })?);
        Ok(number)
    }

    pub fn end_of(&self, number: usize) -> Option<End> {
        self.processes.get(number).and_then(|process| process.end)
    }

    /// Whether a call is held back, whose fault is still to strike.
    pub fn is_holding(&self) -> bool {
        self.held.is_some()
    }

    pub fn is_running(&self, number: usize) -> bool {
        self.processes.get(number).is_some_and(|process| process.end.is_none() && kill::is_alive(process.pid))
    }

    /// Has everything go on until these processes have ended.
    pub async fn until_ended(&mut self, numbers: &[usize]) -> Result<(), RunError> {
        self.until(|flow| numbers.iter().all(|number| flow.end_of(*number).is_some())).await
    }

    /// Has everything go on until something is so, or the time is over: then all processes are ended.
    pub async fn until(&mut self, so: impl Fn(&Self) -> bool) -> Result<(), RunError> {
        while !so(self) {
            let (at, alarm) = self.alarm.unwrap_or((self.deadline, Alarm::Release));
            tokio::select! {
                Some(waiting) = self.stage.points.recv() => self.reached(waiting).await?,
                Some(ended) = self.ends.recv() => self.ended(ended).await?,
                () = sleep_until(at.min(self.deadline)) => match Instant::now() >= self.deadline {
                    true => self.overdue().await,
                    false => { self.alarm = None; self.rings(alarm).await?; }
                },
            }
        }
        Ok(())
    }

    /// Has `until` look at its condition again at this time.
    pub fn ring_at(&mut self, at: Instant) {
        self.alarm = Some((at, Alarm::Release));
    }

    async fn overdue(&mut self) {
        self.note(Who::Harness, "the time is over");
        kill::kill_all(None, self.stage.directory(), &self.stage.own()).await;
        for process in &mut self.processes {
            process.end.get_or_insert(End::Overdue);
        }
        // What is still to be done is done at once.
        self.deadline = Instant::now();
    }

    async fn ended(&mut self, ended: Ended) -> Result<(), RunError> {
        let Ended { number, end, trace } = ended;
        let Some(process) = self.processes.get_mut(number) else { return Ok(()) };
        if process.end.is_some() {
            return Ok(());
        }
        process.end = Some(end);
        self.note(Who::Framework, self.named(number, &end.to_string()));
        if !end.is_over() && !end.waits() && !end.knows_none() && end != End::Signal(9) {
            for line in self.words(number, 5) {
                self.note(Who::Framework, format!("says: {line}"));
            }
        }
        if self.killed.take_if(|killed| *killed == number).is_some() && end != End::Signal(9) {
            self.bite = Some(Bite::Missed(format!("it was not ended by the kill, but by itself ({end})")));
        }
        match trace {
            Some(Ok(trace)) => {
                self.traced(number, end, &trace).await?;
                self.trace = Some(trace);
            }
            Some(Err(error)) => self.bite = Some(Bite::Missed(error.to_string())),
            None => {}
        }
        self.look_for_all();
        if let Some(held) = &mut self.held {
            held.given_up = true;
            let wait = if held.why == HeldFor::Late { Duration::from_secs(1) } else { Duration::ZERO };
            self.alarm = Some((Instant::now() + wait, Alarm::Release));
        }
        Ok(())
    }

    /// The last lines that a process wrote, without what is different in every run.
    pub fn words(&self, number: usize, most: usize) -> Vec<String> {
        let names = [
            (self.stage.state().display().to_string(), "STATE"),
            (self.stage.directory().display().to_string(), "DIR"),
            (self.stage.setting.directory.display().to_string(), "."),
            (self.stage.run.clone(), "RUN"),
            // Reports are given to others, whom its owner's name does not concern.
            (format!("{}/", std::env::home_dir().unwrap_or_default().display()), "~/"),
        ];
        let lines = self.processes.get(number).map(|process| process.last_words(most)).unwrap_or_default();
        lines.iter().map(|line| tidy(line, &names)).collect()
    }

    fn named(&self, number: usize, what: &str) -> String {
        match self.processes.len() {
            0 | 1 => what.to_owned(),
            _ => format!("{what} (process {})", number + 1),
        }
    }

    async fn rings(&mut self, alarm: Alarm) -> Result<(), RunError> {
        match alarm {
            Alarm::Kill(number) => self.kill(number, None).await,
            Alarm::Gathered => {
                self.let_go();
                Ok(())
            }
            Alarm::Release => {
                if let Some(held) = self.held.take() {
                    self.note(Who::Harness, "lets it go on");
                    if self.bite.is_none() {
                        self.bite = Some(match held.given_up {
                            true => Bite::Struck,
                            false => Bite::Missed("its caller was still waiting for the answer".to_owned()),
                        });
                    }
                    self.under_way += 1;
                    held.waiting.order(Order::Go);
                }
                Ok(())
            }
        }
    }

    async fn reached(&mut self, waiting: Waiting) -> Result<(), RunError> {
        let step = waiting.reached.step.clone();
        let last = self.processes.len().saturating_sub(1);
        match &waiting.reached.point {
            Point::Listening(_) => {}
            Point::Called => {
                self.note(Who::Framework, format!("called {step}"));
                self.calls += 1;
                self.called.entry(step.clone()).or_insert_with(Instant::now);
            }
            Point::Effected => {
                self.under_way = self.under_way.saturating_sub(1);
                self.note(Who::Tool, format!("effect {step}"));
            }
            Point::Answered => {
                self.note(Who::Tool, format!("answered {step}"));
                self.answered.push(step.clone());
            }
            Point::Abandoned => self.note(Who::Framework, format!("gave up on {step}")),
            Point::Relayed => {
                if self.held.as_ref().is_some_and(|held| held.waiting.reached.step == step) {
                    self.note(Who::Framework, format!("called {step} once more"));
                }
            }
        }
        if let Some(held) = &mut self.held
            && held.waiting.reached.step == step
            && matches!(waiting.reached.point, Point::Called | Point::Relayed | Point::Abandoned)
            && !held.given_up
        {
            held.given_up = true;
            self.alarm = Some((Instant::now() + Duration::from_secs(1), Alarm::Release));
        }
        match (std::mem::take(&mut self.aim), &waiting.reached.point) {
            (Aim::Kill(at, point), reached) if at == step && point == *reached => {
                self.kill(last, Some(waiting)).await?;
                return Ok(());
            }
            (Aim::KillAfter(wait), Point::Called) => {
                self.alarm = Some((Instant::now() + wait, Alarm::Kill(last)));
            }
            (Aim::CutAnswer(at, times), Point::Effected) if at == step => {
                self.note(Who::Harness, "the answer is lost");
                self.bite = Some(Bite::Struck);
                if times > 1 {
                    self.aim = Aim::CutAnswer(at, times - 1);
                }
                waiting.order(Order::Cut);
                return Ok(());
            }
            (Aim::Late(at), Point::Called) if at == step => {
                self.note(Who::Harness, "holds it back");
                let most = self.stage.timeout * 4;
                self.alarm = Some((Instant::now() + most, Alarm::Release));
                self.held = Some(Held { waiting, why: HeldFor::Late, given_up: false });
                return Ok(());
            }
            (Aim::Cancel(at), Point::Called) if at == step => {
                let alive = self.is_running(last);
                let process = self.processes.get(last).map_or(0, |process| process.pid);
                if alive && kill::signal_one(process, Signal::SIGINT) {
                    self.note(Who::Harness, "cancelled (SIGINT)");
                    self.bite = Some(Bite::Struck);
                } else {
                    self.bite = Some(Bite::Missed("there was nothing left to cancel".to_owned()));
                }
                self.alarm = Some((Instant::now() + Duration::from_secs(2), Alarm::Release));
                self.held = Some(Held { waiting, why: HeldFor::Cancel, given_up: false });
                return Ok(());
            }
            (Aim::RestartTool(at), Point::Effected) if at == step => {
                self.restart_tool(waiting).await?;
                return Ok(());
            }
            (Aim::Twice(at), Point::Relayed) if at == step => {
                self.note(Who::Harness, "delivered twice");
                self.bite = Some(Bite::Struck);
                waiting.order(Order::Twice);
                return Ok(());
            }
            (Aim::Arm(at), Point::Effected) if at == step => {
                if let Some(process) = self.processes.get(last) {
                    process.arm().await;
                }
            }
            (Aim::Stop(at), Point::Effected) if at == step => self.stop(last).await,
            (aim, _) => self.aim = aim,
        }
        if waiting.reached.point == Point::Called {
            self.under_way += 1;
            if let Some(gathering) = &mut self.gathering {
                if gathering.waiting.is_empty() {
                    self.alarm = Some((Instant::now() + gathering.patience, Alarm::Gathered));
                }
                gathering.waiting.push(waiting);
                self.look_for_all();
                return Ok(());
            }
        }
        waiting.order(Order::Go);
        Ok(())
    }

    /// Has the processes from this one on wait for each other at their first calls, for a while.
    pub fn gather(&mut self, from: usize, patience: Duration) {
        self.gathering = Some(Gathering { waiting: Vec::new(), from, patience });
    }

    /// Lets those go on that wait for each other, if nobody else is to come.
    fn look_for_all(&mut self) {
        let Some(gathering) = &self.gathering else { return };
        let running = self.processes.iter().skip(gathering.from).filter(|process| process.end.is_none()).count();
        if gathering.waiting.len() >= running {
            self.let_go();
        }
    }

    fn let_go(&mut self) {
        for waiting in self.gathering.take().into_iter().flat_map(|gathering| gathering.waiting) {
            waiting.order(Order::Go);
        }
    }

    /// Waits for effects that are still to come, counts, and clears up. These processes say how the run has ended.
    pub async fn finish(mut self, last: &[usize]) -> Result<(Run, Seen), RunError> {
        self.deadline = Instant::now() + Duration::from_secs(10);
        if self.held.is_some() {
            self.alarm.get_or_insert((Instant::now(), Alarm::Release));
        }
        self.until(|flow| (flow.held.is_none() && flow.under_way == 0) || flow.begun_to_wait_too_long()).await?;
        if matches!(self.cell, Cell::LateEffect | Cell::Cancelled) && self.under_way > 0 {
            self.bite = Some(Bite::Missed("the tool was ended with its caller, before the effect".to_owned()));
        }
        self.until_uninhabited().await?;
        let seen = self.seen();
        let effects = self.stage.counted()?;
        let ends: Vec<(End, String)> = last
            .iter()
            .filter_map(|number| Some((self.end_of(*number)?, self.words(*number, 1).pop().unwrap_or_default())))
            .collect();
        let outcome = classify::outcome(self.cell, &effects, &ends);
        let bite = self.bite.take().unwrap_or_else(|| classify::without_strike(self.cell, &ends));
        let seconds = (self.begun.elapsed().as_secs_f64() * 1000.0).round() / 1000.0;
        let left = self.stage.clear().await;
        if left > 0 {
            let at = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
            let what = format!("ended {left} process{} that the framework had left", if left == 1 { "" } else { "es" });
            self.events.push(Event { at, who: Who::Harness, what });
        }
        Ok((Run { outcome, bite, effects, events: self.events, seconds }, seen))
    }

    fn seen(&self) -> Seen {
        let first = self.called.get("a").copied().unwrap_or(self.begun);
        let Some(trace) = &self.trace else {
            return Seen { span: first.elapsed(), ..Seen::default() };
        };
        let c = self.called.get("c").map(|at| at.into_std());
        let data = trace.writes.iter().filter(|write| write.bytes.is_some() && c.is_none_or(|c| write.at < c));
        let last = data.max_by_key(|write| write.number);
        let called = |at: std::time::Instant| self.called.values().filter(|called| called.into_std() < at).count();
        Seen {
            span: first.elapsed(),
            writes: u32::try_from(trace.writes.len()).unwrap_or(u32::MAX),
            before_c: last.map(|write| write.number),
            called: last.map(|write| called(write.at)),
        }
    }

    fn begun_to_wait_too_long(&self) -> bool {
        Instant::now() >= self.deadline
    }
}

//! Starting, killing and stopping the processes of a replay.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use settled_model::Rules;
use tokio::io::BufReader;
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::process::Command;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{Event, Options, Part, Parted, Stage};
use crate::link;
use crate::part::name_of;
use crate::wire::{FromPart, Keys, Op, Role, Spec, ToPart};

/// How a process of a replay is started: a program, and what comes before the path of its instructions and its role.
#[derive(Clone, Debug)]
pub struct Program {
    /// The program.
    pub path: PathBuf,
    /// Its first arguments.
    pub arguments: Vec<String>,
}

/// How often it is looked whether a process that is to start has ended instead.
const LOOK: Duration = Duration::from_millis(100);

fn broken(what: &str, error: &std::io::Error) -> Parted {
    Parted { expected: what.to_owned(), seen: error.to_string() }
}

impl Stage {
    /// Starts all processes of a world.
    ///
    /// # Errors
    /// If one can't be started.
    pub async fn start(rules: Rules, hasty: Vec<u8>, directory: PathBuf, options: Options) -> Result<Stage, Parted> {
        let description = serde_json::to_value(&rules.description).unwrap_or_default();
        let mut roles = vec![Role::Callers, Role::Tool];
        if !rules.description.is_direct() {
            roles.push(Role::Ledger);
            roles.extend((0..rules.description.guard.processes).map(Role::Guard));
        }
        Stage::start_with(rules, description, &roles, hasty, directory, options).await
    }

    /// Starts these processes.
    ///
    /// # Errors
    /// If one can't be started.
    pub async fn start_with(
        rules: Rules,
        description: serde_json::Value,
        roles: &[Role],
        hasty: Vec<u8>,
        directory: PathBuf,
        options: Options,
    ) -> Result<Stage, Parted> {
        let io = |error: std::io::Error| broken("the stage is set", &error);
        let (sender, events) = mpsc::unbounded_channel();
        let socket = directory.join("conductor.sock");
        let control = UnixListener::bind(&socket).map_err(io)?;
        let network = TcpListener::bind(("127.0.0.1", 0)).await.map_err(io)?;
        let port = network.local_addr().map_err(io)?.port();
        let ledger = match &options.ledger {
            Some(url) => url.clone(),
            None => format!("file:{}", directory.join("ledger").display()),
        };
        // The directory's name is no other replay's.
        let scope = directory.display().to_string();
        let keys = match &options.proxy {
            None => Keys { scope, tool: "tool".to_owned(), prefix: String::new() },
            Some(_) => Keys { scope, tool: "act".to_owned(), prefix: "key:".to_owned() },
        };
        let spec = Spec {
            keys: keys.clone(),
            description,
            ledger,
            network: port,
            socket,
            directory: directory.clone(),
            hasty,
            mistakes: options.mistakes,
            incarnation: 0,
            proxy: options.proxy.clone(),
            program: Some((options.program.path.clone(), options.program.arguments.clone())),
        };
        let path = directory.join("spec.json");
        std::fs::write(&path, serde_json::to_vec(&spec).unwrap_or_default()).map_err(io)?;
        let log = std::fs::File::create(directory.join("conductor.log")).ok();
        tokio::spawn(super::network::accept_all(network, sender.clone()));
        tokio::spawn(welcome(control, sender.clone()));
        let mut stage = Stage {
            options,
            rules,
            keys,
            directory,
            spec: path,
            parts: HashMap::new(),
            incarnations: 0,
            sender,
            events,
            next: 0,
            acks: HashSet::new(),
            activity: 0,
            lenient: false,
            log,
            connections: HashMap::new(),
            calls: HashMap::new(),
            calls_made: HashMap::new(),
            in_transit: Vec::new(),
            back: Vec::new(),
            at_tool: HashMap::new(),
            storing: Vec::new(),
            forgetting: Vec::new(),
            gates: Vec::new(),
            watching: Vec::new(),
            asked: HashMap::new(),
            answers: HashMap::new(),
            versions: HashMap::new(),
            epochs: HashMap::new(),
            lapsed: HashSet::new(),
            blind: HashSet::new(),
            looks: HashMap::new(),
            generations: HashMap::new(),
            shown: HashMap::new(),
            heard: 0,
            proxies: HashMap::new(),
            last_asked: HashMap::new(),
            told: HashMap::new(),
            units: 0,
            offsets: HashMap::new(),
            evidence: crate::judge::Evidence::default(),
        };
        // Guards register at the ledger as soon as they are there.
        let (guards, others): (Vec<Role>, Vec<Role>) = roles.iter().partition(|role| matches!(role, Role::Guard(_)));
        for roles in [others, guards] {
            for role in &roles {
                stage.spawn(*role)?;
            }
            for role in roles {
                stage.await_ready(role).await?;
            }
        }
        Ok(stage)
    }

    pub(super) fn spawn(&mut self, role: Role) -> Result<(), Parted> {
        self.incarnations += 1;
        let incarnation = self.incarnations;
        let name = self.name_of(role);
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.log_of(role));
        let errors = log.map_or_else(|_| Stdio::null(), Stdio::from);
        let child = Command::new(&self.options.program.path)
            .args(&self.options.program.arguments)
            .arg(&self.spec)
            .arg(&name)
            .arg(incarnation.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(errors)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| broken(&format!("{role} starts"), &error))?;
        self.note(format!("{role}: started, process {}", child.id().unwrap_or_default()));
        self.parts.insert(role, Part { incarnation, child, to: None, port: 0, ready: false, stopped: false });
        Ok(())
    }

    pub(super) fn set_ready(&mut self, role: Role) {
        if let Some(part) = self.parts.get_mut(&role) {
            part.ready = true;
        }
    }

    pub(super) async fn await_ready(&mut self, role: Role) -> Result<(), Parted> {
        let deadline = Instant::now() + self.options.patience;
        while self.parts.get(&role).is_some_and(|part| !part.ready) {
            let look = deadline.min(Instant::now() + LOOK);
            match tokio::time::timeout_at(look, self.events.recv()).await {
                Ok(Some(event)) => self.take(event),
                Ok(None) => return Err(self.not_started(role)),
                Err(_) if self.has_ended(role) || Instant::now() >= deadline => return Err(self.not_started(role)),
                Err(_) => {}
            }
        }
        if let Role::Guard(guard) = role {
            self.set_clock(guard);
        }
        Ok(())
    }

    fn has_ended(&mut self, role: Role) -> bool {
        self.parts.get_mut(&role).is_some_and(|part| matches!(part.child.try_wait(), Ok(Some(_))))
    }

    /// What a process that does not start says itself about that.
    fn not_started(&self, role: Role) -> Parted {
        let log = std::fs::read_to_string(self.log_of(role)).unwrap_or_default();
        let said = log.lines().map(str::trim).rfind(|line| !line.is_empty());
        let seen = said.map_or_else(|| self.pending(), str::to_owned);
        Parted { expected: format!("{role} starts"), seen }
    }

    fn log_of(&self, role: Role) -> PathBuf {
        self.directory.join(format!("{}.log", self.name_of(role)))
    }

    fn name_of(&self, role: Role) -> String {
        match (role, &self.options.proxy) {
            (Role::Guard(guard), Some(_)) => format!("proxy-{guard}"),
            _ => name_of(role),
        }
    }

    /// A process that has started says who it is.
    pub(super) fn greet(&mut self, role: Role, port: u16, to: mpsc::UnboundedSender<ToPart>) {
        if let Some(part) = self.parts.get_mut(&role) {
            part.to = Some(to);
            part.port = port;
            // A guard says so itself, once it has registered at the ledger.
            part.ready = !matches!(role, Role::Guard(_));
        }
    }

    pub(super) fn say(&self, role: Role, message: ToPart) {
        if let Some(to) = self.parts.get(&role).and_then(|part| part.to.as_ref()) {
            // Who has gone hears nothing.
            let _ = to.send(message);
        }
    }

    /// Says something, and waits until it was heard.
    pub(super) async fn command(&mut self, role: Role, message: impl FnOnce(u64) -> ToPart) -> Result<(), Parted> {
        let id = self.number();
        self.say(role, message(id));
        let lenient = std::mem::replace(&mut self.lenient, false);
        let heard =
            self.until(|| format!("{role} does as it is told"), |stage| stage.acks.remove(&id).then_some(())).await;
        self.lenient = lenient;
        heard
    }

    /// Ends all processes.
    pub async fn end(&mut self) {
        for (role, mut part) in std::mem::take(&mut self.parts) {
            if let Role::Guard(guard) = role {
                self.signal_proxy(guard, Signal::SIGKILL);
            }
            // One that can't be killed has ended.
            let _ = part.child.kill().await;
        }
    }

    /// `kill -9`, and a new process in its place.
    pub(super) async fn kill_and_restart(&mut self, role: Role) -> Result<(), Parted> {
        self.kill(role).await?;
        self.spawn(role)?;
        self.await_ready(role).await
    }

    /// `kill -9`.
    pub(super) async fn kill(&mut self, role: Role) -> Result<(), Parted> {
        let Some(mut part) = self.parts.remove(&role) else { return Ok(()) };
        if let Role::Guard(guard) = role {
            self.signal_proxy(guard, Signal::SIGKILL);
        }
        part.child.kill().await.map_err(|error| broken(&format!("{role} is killed"), &error))?;
        self.note(format!("{role}: killed"));
        match role {
            Role::Guard(guard) => self.guard_died(guard, part.incarnation).await?,
            Role::Ledger => {
                for (_, purpose) in std::mem::take(&mut self.asked) {
                    self.refuse(purpose);
                }
                self.versions.clear();
            }
            Role::Tool | Role::Server => self.tool_died(),
            Role::Device(_) => {}
            Role::Callers => {
                self.calls.clear();
            }
        }
        Ok(())
    }

    async fn guard_died(&mut self, guard: u8, incarnation: u32) -> Result<(), Parted> {
        self.storing.retain(|store| store.guard != guard);
        self.forgetting.retain(|forget| forget.guard != guard);
        self.gates.retain(|gate| gate.guard != guard);
        self.watching.retain(|watch| watch.guard != guard);
        self.back.retain(|back| back.from != guard + 1);
        self.calls.retain(|_, calling| calling.guard != Some(guard));
        self.blind.remove(&guard);
        self.last_asked.retain(|(of, _), _| *of != guard);
        for message in &mut self.in_transit {
            if message.from == guard + 1 {
                self.connections.remove(&message.connection);
                message.connection = 0;
            }
        }
        let its: Vec<_> =
            self.epochs.iter().filter(|(_, of)| **of == (guard, incarnation)).map(|(epoch, _)| *epoch).collect();
        for epoch in its {
            self.epochs.remove(&epoch);
            if self.parts.contains_key(&Role::Ledger) {
                self.ledger(Op::Retire { epoch }).await?;
            }
        }
        Ok(())
    }

    /// Signals a guard's proxy, if it has one. Returns whether it has.
    fn signal_proxy(&mut self, guard: u8, signal: Signal) -> bool {
        let Some(pid) = self.proxies.get(&guard).and_then(|pid| i32::try_from(*pid).ok()) else { return false };
        if signal == Signal::SIGKILL {
            self.proxies.remove(&guard);
        }
        self.note(format!("guard {}’s proxy: {signal}", guard + 1));
        // One that has ended by itself can't be signalled.
        kill(Pid::from_raw(pid), signal).is_ok()
    }

    /// SIGSTOP or SIGCONT.
    pub(super) fn pause(&mut self, role: Role, stop: bool) {
        let Some(part) = self.parts.get_mut(&role) else { return };
        if part.stopped == stop {
            return;
        }
        let Some(pid) = part.child.id().and_then(|pid| i32::try_from(pid).ok()) else { return };
        let signal = if stop { Signal::SIGSTOP } else { Signal::SIGCONT };
        part.stopped = stop;
        if let Role::Guard(guard) = role
            && self.signal_proxy(guard, signal)
        {
            return;
        }
        if kill(Pid::from_raw(pid), signal).is_ok() {
            self.note(format!("{role}: {signal}"));
        }
    }
}

/// Takes in the processes that start.
async fn welcome(listener: UnixListener, sender: mpsc::UnboundedSender<Event>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(listen(stream, sender.clone()));
    }
}

async fn listen(stream: UnixStream, sender: mpsc::UnboundedSender<Event>) {
    let (from, mut to) = stream.into_split();
    let mut from = BufReader::new(from);
    let Ok(Some(FromPart::Hello { role, port, incarnation })) = link::read::<FromPart>(&mut from).await else { return };
    let (outgoing, mut messages) = mpsc::unbounded_channel::<ToPart>();
    let _ = sender.send(Event::Greeted(role, incarnation, port, outgoing));
    tokio::spawn(async move {
        while let Some(message) = messages.recv().await {
            if link::write(&mut to, &message).await.is_err() {
                break;
            }
        }
    });
    while let Ok(Some(message)) = link::read::<FromPart>(&mut from).await {
        if sender.send(Event::From(role, incarnation, message)).is_err() {
            return;
        }
    }
}

//! The moves of devices and their server, made for real.

use settled_devices_model::description::{Dating, OpId, Target};
use settled_devices_model::{DeviceWorld, Devices, Move};
use settled_model::{Description, Faults, PropertyName, Readable, Rules, Trace};

use super::{Operation, Replica};
use crate::conductor::{Options, Parted, Stage, Walls};
use crate::outcome::{Files, Outcome, Verdict, not_begun};
use crate::run::{TraceError, walk};
use crate::safe::Survival;
use crate::wire::{How, Role};

/// The wall clocks at the beginning.
const NOON: u64 = 1_000;

/// The devices' own clocks, and the true time.
struct Times {
    tick: u64,
    made: bool,
    offsets: Vec<i64>,
}

struct Play<'a> {
    stage: &'a mut Stage,
    devices: Devices,
    times: Times,
}

/// Replays a trace of devices.
///
/// # Errors
/// If its description can't be used, or it is no run of it.
pub async fn replay(trace: &Trace, options: &Options) -> Result<Outcome, TraceError> {
    let Schedule { devices, world, steps } = Schedule::of(trace)?;
    let mut outcome = Outcome::of(trace, trace.property, steps.len(), trace.effects.clone());
    let files = match Files::of(options, trace, trace.property) {
        Ok(files) => files,
        Err(parted) => return Ok(not_begun(outcome, parted)),
    };
    match begin(devices, &files, options).await? {
        Err(parted) => outcome = not_begun(outcome, parted),
        Ok(mut stage) => {
            let times = Times { tick: NOON, made: false, offsets: vec![0; usize::from(devices.devices)] };
            let mut play = Play { stage: &mut stage, devices, times };
            let verdict = play.all(&world, &steps, trace, &mut outcome.reality).await;
            match verdict {
                Ok(violated) => {
                    outcome.violated = violated;
                    if violated && outcome.reality == outcome.model {
                        outcome.verdict = Verdict::Agrees;
                    }
                }
                Err((step, parted)) => {
                    let text =
                        step.checked_sub(1).and_then(|at| steps.get(at)).map_or(String::new(), |step| step.3.clone());
                    outcome.verdict = Verdict::Parted { step, text, parted };
                }
            }
        }
    }
    outcome.kept = files.end();
    Ok(outcome)
}

/// Lets devices that keep to the rules go through an unsound protocol's schedule, and then to its end.
///
/// # Errors
/// If the trace's description can't be used, or it is no run of it.
pub async fn survive(trace: &Trace, options: &Options) -> Result<Survival, TraceError> {
    let Schedule { devices: theirs, steps, .. } = Schedule::of(trace)?;
    let Devices { devices, operations, target, dating, .. } = theirs;
    let devices = Devices { devices, operations, target, dating, ..Devices::default() };
    let sound = match dating {
        Dating::Device => "devices-sound",
        Dating::Server => "devices-clocks-off",
    };
    let mut survival = Survival::of(trace, sound);
    let name = format!("{sound}.{}.{}", trace.protocol, trace.property.name().replace(' ', "-"));
    let files = match Files::new(options, &name) {
        Ok(files) => files,
        Err(broken) => return Ok(Survival { broken: Some(broken), ..survival }),
    };
    match begin(devices, &files, options).await? {
        Err(parted) => survival.broken = Some(parted),
        Ok(mut stage) => {
            let times = Times { tick: NOON, made: false, offsets: vec![0; usize::from(devices.devices)] };
            let mut play = Play { stage: &mut stage, devices, times };
            survival.broken = play.go_through(&steps, &mut survival).await.err();
        }
    }
    files.end();
    Ok(survival)
}

/// Starts a server and its devices.
async fn begin(devices: Devices, files: &Files, options: &Options) -> Result<Result<Stage, Parted>, TraceError> {
    // There are neither guards nor callers here.
    let rules = settled_model::parse("devices", "name = \"devices\"\nabout = \"devices\"\n[guard]\nprocesses = 0\n")
        .map(|description: Description| Rules::new(description))
        .map_err(|error| TraceError::Description(error.to_string()))?;
    let mut roles = vec![Role::Server];
    roles.extend((0..devices.devices).map(Role::Device));
    let said = serde_json::to_value(devices).unwrap_or_default();
    Ok(Stage::start_with(rules, said, &roles, Vec::new(), files.path(), options.clone()).await)
}

/// What a trace says that devices do.
struct Schedule {
    devices: Devices,
    world: DeviceWorld,
    steps: Vec<Step>,
}

impl Schedule {
    fn of(trace: &Trace) -> Result<Schedule, TraceError> {
        let broken = |error: &dyn std::fmt::Display| TraceError::Description(error.to_string());
        let part = |name: &str| trace.description.get(name).cloned().unwrap_or_default();
        let devices: Devices = serde_json::from_value(part("devices")).map_err(|error| broken(&error))?;
        let faults: Faults = serde_json::from_value(part("faults")).map_err(|error| broken(&error))?;
        let world = DeviceWorld::new(&trace.protocol, &devices, faults).map_err(|error| broken(&error))?;
        let steps = walk(&world, trace)?;
        Ok(Schedule { devices, world, steps })
    }
}

type Step = (settled_devices_model::State, Move, settled_devices_model::State, String);

impl Play<'_> {
    /// Makes every step; returns whether the property is then seen to be violated.
    async fn all(
        &mut self,
        world: &DeviceWorld,
        steps: &[Step],
        trace: &Trace,
        effects: &mut Vec<usize>,
    ) -> Result<bool, (usize, Parted)> {
        for (number, (_, what, after, text)) in (1..).zip(steps) {
            self.stage.log_step(number, text);
            let made = self.make_move(*what).await;
            let made = match made {
                Ok(()) => self.compare(world, after).await,
                parted => parted,
            };
            made.map_err(|parted| (number, parted))?;
        }
        let at_end = |parted| (steps.len(), parted);
        *effects = self.effects().await.map_err(at_end)?;
        if matches!(trace.property, PropertyName::Settles | PropertyName::CanSettle) {
            return self.is_left_open().await.map_err(at_end);
        }
        self.violates(trace.property).await.map_err(at_end)
    }

    async fn go_through(&mut self, steps: &[Step], survival: &mut Survival) -> Result<(), Parted> {
        for (number, (_, what, _, text)) in (1..).zip(steps) {
            self.stage.log_step(number, text);
            survival.made += usize::from(self.make_loosely(*what).await?);
        }
        if self.is_left_open().await? {
            survival.violated.push(PropertyName::Settles);
        }
        for property in [PropertyName::AtMostOnce, PropertyName::Convergence, PropertyName::CausalRespect] {
            // Additions commute: which was seen before which makes no difference.
            let said = property != PropertyName::CausalRespect || self.devices.target == Target::Register;
            if said && self.violates(property).await? {
                survival.violated.push(property);
            }
        }
        survival.effects = self.effects().await?;
        Ok(())
    }

    async fn make_move(&mut self, what: Move) -> Result<(), Parted> {
        let device_of = |op: u8, devices: &Devices| op / devices.operations;
        match what {
            Move::Skew { device, ahead } | Move::Jump { device, ahead } => {
                if let Some(offset) = self.times.offsets.get_mut(usize::from(device)) {
                    *offset += if ahead { 1 } else { -1 };
                }
                Ok(())
            }
            Move::Make { device, later } => {
                if later {
                    self.times.tick += 1;
                }
                self.times.made = true;
                let (replica, _) = self.stage.show(Role::Device(device)).await?;
                let own = replica.held.iter().filter(|held| held.device == device).map(|held| held.number + 1).max();
                let operation = own.unwrap_or(device * self.devices.operations);
                let wall = self.walls(device).theirs;
                self.stage.device_makes(device, operation, wall).await
            }
            Move::Send(op) => self.stage.device_sends(device_of(op, &self.devices), op).await,
            Move::Arrive(op) => self.arrives(op, How::Answered, true).await,
            Move::LoseReply(op) => self.arrives(op, How::Answered, false).await,
            Move::Crash(op) => self.arrives(op, How::StopAfter, false).await,
            Move::LoseRequest(op) => self.stage.operation_lost(op).await,
            Move::Duplicate(op) => self.stage.operation_doubled(op).await,
            Move::Restart(device) => self.stage.device_restarts(device).await,
            Move::Pull { device, operation } => {
                if std::mem::take(&mut self.times.made) {
                    self.times.tick += 1;
                }
                self.stage.device_pulls(device, operation).await
            }
        }
    }

    /// Makes a foreign schedule's step if there is anything to do about it; returns whether there was.
    async fn make_loosely(&mut self, what: Move) -> Result<bool, Parted> {
        let device_of = |op: u8| op / self.devices.operations;
        let there = match what {
            Move::Skew { .. } | Move::Jump { .. } | Move::Restart(_) => true,
            Move::Make { device, .. } => {
                let (replica, _) = self.stage.show(Role::Device(device)).await?;
                replica.held.iter().filter(|held| held.device == device).count() < usize::from(self.devices.operations)
            }
            Move::Send(op) => {
                let (_, queued) = self.stage.show(Role::Device(device_of(op))).await?;
                queued.contains(&op) && !self.stage.is_on_its_way(op)
            }
            Move::Pull { device, operation } => {
                let server = self.server().await?;
                let (replica, queued) = self.stage.show(Role::Device(device)).await?;
                let hears = self.devices.dating == Dating::Server && queued.contains(&operation);
                server.held.iter().any(|held| held.number == operation && (hears || !replica.has(held.name)))
            }
            // A server that has it recorded does not come to where it was to be killed.
            Move::Crash(op) => {
                let known = self.server().await?.held.iter().any(|held| held.number == op);
                self.stage.is_on_its_way(op) && !known
            }
            Move::Arrive(op) | Move::LoseReply(op) | Move::LoseRequest(op) | Move::Duplicate(op) => {
                self.stage.is_on_its_way(op)
            }
        };
        if there {
            self.make_move(what).await?;
        }
        Ok(there)
    }

    /// What wall clocks say when a device's request arrives.
    fn walls(&self, device: u8) -> Walls {
        let offset = self.times.offsets.get(usize::from(device)).copied().unwrap_or(0);
        Walls { ours: self.times.tick, theirs: self.times.tick.saturating_add_signed(offset) }
    }

    async fn arrives(&mut self, op: u8, how: How, acknowledged: bool) -> Result<(), Parted> {
        let walls = self.walls(op / self.devices.operations);
        self.stage.operation_arrives(op, how, acknowledged, walls).await
    }

    /// Of each replica, whether it is a device that has not heard what became of all that it made, which makes a difference if the server
    /// corrects event times.
    async fn waiting(&mut self) -> Result<Vec<bool>, Parted> {
        let mut waiting = Vec::new();
        for device in 0..self.devices.devices {
            let (_, queued) = self.stage.show(Role::Device(device)).await?;
            waiting.push(self.devices.dating == Dating::Server && !queued.is_empty());
        }
        waiting.push(false);
        Ok(waiting)
    }

    async fn server(&mut self) -> Result<Replica, Parted> {
        Ok(self.stage.show(Role::Server).await?.0)
    }

    async fn replicas(&mut self) -> Result<Vec<Replica>, Parted> {
        let mut all = Vec::new();
        for device in 0..self.devices.devices {
            all.push(self.stage.show(Role::Device(device)).await?.0);
        }
        all.push(self.server().await?);
        Ok(all)
    }

    /// How often each operation took effect at the server.
    async fn effects(&mut self) -> Result<Vec<usize>, Parted> {
        let server = self.server().await?;
        let of = |op: u8| server.held.iter().filter(|held| held.number == op).count();
        Ok((0..self.devices.devices * self.devices.operations).map(of).collect())
    }

    /// Compares what every replica holds and shows with the model.
    async fn compare(&mut self, world: &DeviceWorld, after: &settled_devices_model::State) -> Result<(), Parted> {
        let snapshot = world.snapshot(after);
        let lines = snapshot.callers.iter().chain(&snapshot.guards);
        for (line, replica) in lines.zip(self.replicas().await?) {
            let seen = self.say(&replica);
            if !line.contains(&seen) {
                return Err(Parted { expected: line.clone(), seen });
            }
        }
        Ok(())
    }

    fn say(&self, replica: &Replica) -> String {
        let letter = |op: u8| if op.is_multiple_of(self.devices.operations) { 'a' } else { 'b' };
        let name = |op: u8| format!("{}{}", op / self.devices.operations + 1, letter(op));
        let mut held: Vec<u8> = replica.held.iter().map(|held| held.number).collect();
        held.sort_unstable();
        held.dedup();
        let names: Vec<_> = held.into_iter().map(name).collect();
        let held = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
        let shows = match (self.devices.target, replica.shown(&self.devices)) {
            (Target::Counter, _) => replica.held.len().to_string(),
            (Target::Register, None) => "nothing".to_owned(),
            (Target::Register, Some(op)) => name(op),
        };
        format!("holds {held}; shows {shows}")
    }

    async fn violates(&mut self, property: PropertyName) -> Result<bool, Parted> {
        let replicas = self.replicas().await?;
        Ok(match property {
            PropertyName::AtMostOnce => self.effects().await?.into_iter().any(|effects| effects > 1),
            PropertyName::Convergence => {
                // What a device has not heard of has no event time there yet.
                let waiting = self.waiting().await?;
                let settled: Vec<_> =
                    replicas.iter().zip(waiting).filter(|(_, waits)| !waits).map(|(replica, _)| replica).collect();
                settled.iter().any(|one| {
                    settled.iter().any(|other| {
                        self.same(one) == self.same(other) && one.value(&self.devices) != other.value(&self.devices)
                    })
                })
            }
            PropertyName::CausalRespect => replicas.iter().any(|replica| {
                let shown = replica.shown(&self.devices);
                let later = |held: &Operation| shown.is_some_and(|shown| held.seen.contains(&shown));
                replica.held.iter().any(later)
            }),
            _ => false,
        })
    }

    /// The operations that a replica holds. If the server names them, copies with two names are two operations.
    fn same(&self, replica: &Replica) -> Vec<u32> {
        let mut names: Vec<u32> = replica
            .held
            .iter()
            .map(|held| match self.devices.op_id {
                OpId::Device => u32::from(held.number),
                OpId::Server => held.name,
            })
            .collect();
        names.sort_unstable();
        if self.devices.op_id == OpId::Device {
            names.dedup();
        }
        names
    }

    /// Lets everything go on without a fault, and looks whether every operation has come everywhere.
    async fn is_left_open(&mut self) -> Result<bool, Parted> {
        let total = self.devices.devices * self.devices.operations;
        for op in 0..total {
            let device = op / self.devices.operations;
            let (replica, _) = self.stage.show(Role::Device(device)).await?;
            if !replica.held.iter().any(|held| held.number == op) {
                self.make_move(Move::Make { device, later: true }).await?;
            }
        }
        for op in 0..total {
            let device = op / self.devices.operations;
            let (_, queued) = self.stage.show(Role::Device(device)).await?;
            if queued.contains(&op) && !self.stage.is_on_its_way(op) {
                self.stage.device_sends(device, op).await?;
            }
            while self.stage.is_on_its_way(op) {
                self.arrives(op, How::Answered, true).await?;
            }
        }
        let server = self.server().await?;
        for held in &server.held {
            for device in 0..self.devices.devices {
                let (replica, _) = self.stage.show(Role::Device(device)).await?;
                if !replica.has(held.name) {
                    self.stage.device_pulls(device, held.number).await?;
                }
            }
        }
        let all = self.replicas().await?;
        let everywhere = |op: u8| all.iter().all(|replica| replica.held.iter().any(|held| held.number == op));
        Ok(!(0..total).all(everywhere))
    }
}

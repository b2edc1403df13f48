//! A device: it acts offline, and what it made and holds is in a file.

use serde::{Deserialize, Serialize};
use settled_devices_model::Devices;
use settled_devices_model::description::{Clock, Dating, Queue, Redated, Target};
use tokio::io::BufReader;
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use super::{PartError, join};
use crate::devices::{Operation, Replica, pack, unpack};
use crate::link::{self, Link};
use crate::wire::{Frame, FromPart, Reply, Role, Spec, ToPart};

/// What a device keeps.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Kept {
    replica: Replica,
    /// Its own operations that it may have to send: their numbers, and whether they have been sent.
    queue: Vec<(u8, bool)>,
}

struct Device {
    number: u8,
    devices: Devices,
    kept: Kept,
    file: std::path::PathBuf,
    network: u16,
    link: Link,
    news: mpsc::UnboundedSender<News>,
}

pub async fn run(spec: Spec, number: u8) -> Result<(), PartError> {
    let devices: Devices =
        serde_json::from_value(spec.description.clone()).map_err(|error| PartError::Start(error.to_string()))?;
    let (link, mut commands) = join(&spec, Role::Device(number), 0).await?;
    let file = spec.directory.join(format!("device-{}.json", number + 1));
    let kept = std::fs::read(&file).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
    let (news, mut heard) = mpsc::unbounded_channel();
    let mut device = Device { number, devices, kept, file, network: spec.network, link, news };
    let under_way: Vec<u8> = device.kept.queue.iter().filter(|(_, sent)| *sent).map(|(op, _)| *op).collect();
    for operation in under_way {
        device.send(operation)?;
    }
    let link = device.link.clone();
    loop {
        tokio::select! {
            command = commands.recv() => match command {
                Some(ToPart::Make { id, operation, wall }) => {
                    device.make(operation, wall)?;
                    link.say(FromPart::Ack { id });
                }
                Some(ToPart::SendOperation { id, operation }) => {
                    device.send(operation)?;
                    link.say(FromPart::Ack { id });
                }
                Some(ToPart::Pull { operation }) => device.pull(operation),
                Some(ToPart::Show { id }) => {
                    let (replica, queue) = (device.shown(), &device.kept.queue);
                    link.say(FromPart::Shown { id, replica, queued: queue.iter().map(|(op, _)| *op).collect() });
                }
                Some(ToPart::Ping { id }) => link.say(FromPart::Ack { id }),
                Some(_) => {}
                None => return Ok(()),
            },
            Some(news) = heard.recv() => {
                match news {
                    News::Acknowledged(operation, name, times) => device.acknowledged(operation, name, &times)?,
                    News::Pulled(operation) => device.pulled(operation)?,
                    News::Nothing => {}
                }
                link.say(FromPart::Heard);
            }
        }
    }
}

/// What came over the network.
enum News {
    Acknowledged(u8, u32, Vec<(u8, u64)>),
    Pulled(Operation),
    Nothing,
}

impl Device {
    fn keep(&self) -> std::io::Result<()> {
        let next = self.file.with_extension("next");
        std::fs::write(&next, serde_json::to_vec(&self.kept)?)?;
        std::fs::rename(&next, &self.file)
    }

    fn make(&mut self, number: u8, wall: u64) -> std::io::Result<()> {
        let held = &self.kept.replica.held;
        let mut seen: Vec<u8> = Vec::new();
        let register = self.devices.target == Target::Register;
        for operation in held.iter().filter(|_| register) {
            seen.push(operation.number);
            seen.extend(&operation.seen);
        }
        seen.sort_unstable();
        seen.dedup();
        let after = self.kept.replica.latest().map_or(0, |time| time + 1);
        let time = match (self.devices.target, self.devices.clock) {
            (Target::Counter, _) => 0,
            (_, Clock::HybridLogical) => (wall << 4).max(after),
            (_, Clock::Logical) => after,
            (_, Clock::Wall) => wall << 4,
        };
        let confirmed = self.kept.replica.held.iter().filter(|held| !self.waits_for(held));
        let after = confirmed.map(|held| held.time).max().unwrap_or(0);
        let name = u32::from(number);
        let operation = Operation { number, device: self.number, time, made: time, after, seen, name };
        self.kept.replica.held.push(operation);
        self.kept.queue.push((number, false));
        self.keep()
    }

    fn send(&mut self, number: u8) -> std::io::Result<()> {
        let Some(operation) = self.kept.replica.held.iter().find(|held| held.name == u32::from(number)).cloned() else {
            return Ok(());
        };
        match self.devices.queue {
            Queue::UntilSent => self.kept.queue.retain(|(op, _)| *op != number),
            Queue::UntilAcknowledged => {
                self.kept.queue.iter_mut().filter(|(op, _)| *op == number).for_each(|(_, sent)| *sent = true);
            }
        }
        self.keep()?;
        let (network, news) = (self.network, self.news.clone());
        tokio::spawn(async move {
            if let Ok(Some(Reply::Acknowledged { name, times })) = ask(network, &Frame::Operation(operation)).await {
                let _ = news.send(News::Acknowledged(number, name, times));
            }
        });
        Ok(())
    }

    fn pull(&self, operation: u8) {
        // Of its own it hears at which event time the server has it.
        let hears = |held: &&Operation| self.devices.dating == Dating::Server && self.waits_for(held);
        let held = self.kept.replica.held.iter().filter(|held| !hears(held)).map(|held| held.name).collect();
        let frame = Frame::Pull { operation, held };
        let (network, news) = (self.network, self.news.clone());
        tokio::spawn(async move {
            let pulled = match ask(network, &frame).await {
                Ok(Some(Reply::Pulled(Some(operation)))) => News::Pulled(*operation),
                _ => News::Nothing,
            };
            let _ = news.send(pulled);
        });
    }

    /// Whether it has not heard what became of an operation that it made.
    fn waits_for(&self, held: &Operation) -> bool {
        held.device == self.number && self.kept.queue.iter().any(|(op, _)| *op == held.number)
    }

    /// What it holds, with the event times by which it shows it: what it made last stays so while the server moves what it made before.
    fn shown(&self) -> Replica {
        let mut replica = self.kept.replica.clone();
        if self.devices.dating == Dating::Server {
            let times = replica.times_of(self.number, |held| !self.waits_for(held));
            for held in replica.held.iter_mut().filter(|held| self.waits_for(held)) {
                held.time = pack(times.shown(unpack(held.time)));
            }
        }
        replica
    }

    fn heard(&mut self, number: u8, time: u64) {
        self.kept.queue.retain(|(op, _)| *op != number);
        let own = self.kept.replica.held.iter_mut().find(|held| held.device == self.number && held.number == number);
        if let Some(own) = own.filter(|_| self.devices.redated == Redated::TakenOver) {
            own.time = time;
        }
    }

    fn pulled(&mut self, operation: Operation) -> std::io::Result<()> {
        if self.waits_for(&operation) {
            self.heard(operation.number, operation.time);
        } else {
            self.kept.replica.held.push(operation);
        }
        self.keep()
    }

    fn acknowledged(&mut self, number: u8, name: u32, times: &[(u8, u64)]) -> std::io::Result<()> {
        self.kept.queue.retain(|(op, _)| *op != number);
        for (number, time) in times {
            self.heard(*number, *time);
        }
        if let Some(own) = self.kept.replica.held.iter_mut().find(|held| held.name == u32::from(number)) {
            own.name = name;
        }
        self.keep()
    }
}

async fn ask(network: u16, frame: &Frame) -> std::io::Result<Option<Reply>> {
    let mut stream = TcpStream::connect(("127.0.0.1", network)).await?;
    link::write(&mut stream, frame).await?;
    link::read(&mut BufReader::new(stream)).await
}

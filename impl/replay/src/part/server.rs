//! The devices' server: what it has applied, and what it has recorded of that, are lines of a file.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};
use settled_devices_model::Devices;
use settled_devices_model::description::{Apply, Dating, OpId};
use settled_protocol::merge::Clocks;
use tokio::io::BufReader;
use tokio::net::{TcpListener, TcpStream};

use super::{PartError, join};
use crate::devices::{Operation, Replica, pack, unpack};
use crate::link::{self, Link};
use crate::wire::{Delivery, Frame, FromPart, How, Reply, Role, Spec, ToPart};

/// The first name that the server gives: devices' own are smaller.
const FIRST_NAME: u32 = 100;

/// A line of the server's file. A line is there as a whole, or not at all.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Line {
    /// An operation took effect, and (with `recorded`) is known to have.
    Applied { operation: Operation, recorded: bool },
    /// It is recorded that an operation took effect.
    Recorded { name: u32 },
}

struct Server {
    devices: Devices,
    replica: Replica,
    recorded: Vec<u32>,
    file: File,
}

fn replay(path: &Path) -> (Replica, Vec<u32>) {
    let (mut replica, mut names) = (Replica::default(), Vec::new());
    let text = std::fs::read_to_string(path).unwrap_or_default();
    for line in text.lines().filter_map(|line| serde_json::from_str(line).ok()) {
        match line {
            Line::Applied { operation, recorded } => {
                names.extend(recorded.then_some(operation.name));
                replica.held.push(operation);
            }
            Line::Recorded { name } => names.push(name),
        }
    }
    (replica, names)
}

pub async fn run(spec: Spec) -> Result<(), PartError> {
    let devices: Devices =
        serde_json::from_value(spec.description.clone()).map_err(|error| PartError::Start(error.to_string()))?;
    let path = spec.directory.join("server.jsonl");
    let (replica, recorded) = replay(&path);
    let file = OpenOptions::new().create(true).append(true).open(&path)?;
    let mut server = Server { devices, replica, recorded, file };
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let (link, mut commands) = join(&spec, Role::Server, listener.local_addr()?.port()).await?;
    loop {
        tokio::select! {
            // One request after the other.
            accepted = listener.accept() => {
                let (stream, _) = accepted?;
                // Whoever has hung up gets no answer.
                let _ = server.serve(&link, stream).await;
            }
            command = commands.recv() => match command {
                Some(ToPart::Show { id }) => {
                    link.say(FromPart::Shown { id, replica: server.replica.clone(), queued: Vec::new() });
                }
                Some(ToPart::Ping { id }) => link.say(FromPart::Ack { id }),
                Some(_) => {}
                None => return Ok(()),
            },
        }
    }
}

impl Server {
    async fn serve(&mut self, link: &Link, stream: TcpStream) -> std::io::Result<()> {
        let (from, mut to) = stream.into_split();
        let Some(delivery) = link::read::<Delivery>(&mut BufReader::new(from)).await? else { return Ok(()) };
        let stop = delivery.how == How::StopAfter;
        let stops = async |link: &Link| {
            link.say(FromPart::Stopped { delivery: delivery.number });
            std::future::pending::<()>().await;
        };
        let reply = match delivery.frame {
            Frame::Operation(mut operation) => {
                if self.devices.op_id == OpId::Server {
                    operation.name = FIRST_NAME + self.replica.held.len() as u32;
                }
                let name = operation.name;
                let device = operation.device;
                if !self.recorded.contains(&name) {
                    if self.devices.dating == Dating::Server {
                        self.date(&mut operation, Clocks { theirs: delivery.theirs, ours: delivery.now, bound: 0 });
                    }
                    let at_once = self.devices.apply == Apply::Atomic;
                    self.write(&Line::Applied { operation: operation.clone(), recorded: at_once })?;
                    self.replica.held.push(operation);
                    if stop {
                        stops(link).await;
                    }
                    if !at_once {
                        self.write(&Line::Recorded { name })?;
                    }
                    self.recorded.push(name);
                }
                let own = self.replica.held.iter().filter(|held| held.device == device);
                let corrects = self.devices.dating == Dating::Server;
                let times = own.filter(|_| corrects).map(|held| (held.number, held.time)).collect();
                Reply::Acknowledged { name, times }
            }
            Frame::Pull { operation, held } => {
                let new = |op: &&Operation| op.number == operation && !held.contains(&op.name);
                Reply::Pulled(self.replica.held.iter().find(new).cloned().map(Box::new))
            }
            _ => Reply::Error,
        };
        link::write(&mut to, &reply).await
    }

    fn date(&self, operation: &mut Operation, clocks: Clocks) {
        let times = self.replica.times_of(operation.device, |_| true);
        let latest = self.replica.latest().unwrap_or(0);
        let given = clocks.redate(unpack(operation.made), unpack(operation.after), &times, unpack(latest));
        operation.time = given.map_or(operation.made, pack);
    }

    fn write(&mut self, line: &Line) -> std::io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        self.file.write_all(&text)
    }
}

//! The callers: one process for all logical calls. What they were told and have saved is in a file.

use std::collections::HashMap;
use std::io::Write;

use tokio::io::BufReader;
use tokio::net::TcpStream;

use super::{PartError, join};
use crate::link::{self, Link};
use crate::wire::{Call, Frame, FromPart, Reply, Role, Spec, ToPart, Told, Which};

pub async fn run(spec: Spec) -> Result<(), PartError> {
    let (link, mut commands) = join(&spec, Role::Callers, 0).await?;
    let mut under_way: HashMap<u8, tokio::task::AbortHandle> = HashMap::new();
    while let Some(command) = commands.recv().await {
        match command {
            ToPart::Call { call, to_guard } => {
                // Who calls again has stopped listening to the call before.
                if let Some(before) = under_way.remove(&call.call) {
                    before.abort();
                }
                let number = call.call;
                let task = tokio::spawn(make(link.clone(), spec.network, call, to_guard));
                under_way.insert(number, task.abort_handle());
            }
            ToPart::Hang { id, call } => {
                if let Some(before) = under_way.remove(&call) {
                    before.abort();
                }
                link.say(FromPart::Ack { id });
            }
            ToPart::Save { id, call } => {
                let path = spec.directory.join("callers.saved");
                let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
                writeln!(file, "{call}")?;
                file.sync_all()?;
                link.say(FromPart::Ack { id });
            }
            ToPart::Ping { id } => link.say(FromPart::Ack { id }),
            _ => {}
        }
    }
    Ok(())
}

async fn make(link: Link, network: u16, call: Call, to_guard: bool) {
    let (of, number) = (call.call, call.number);
    let frame = match to_guard {
        true => Frame::Call(call),
        false => Frame::Request {
            which: Which { key: call.call, generation: 1, attempt: call.number },
            call: call.call,
            from: 0,
        },
    };
    let told = match ask(network, &frame).await {
        Ok(Some(Reply::Told(told))) => told,
        Ok(Some(Reply::Done(effect))) => Told::Done(effect),
        Ok(Some(_)) => Told::Failed,
        Ok(None) | Err(_) => Told::ConnectionLost,
    };
    link.say(FromPart::Told { call: of, number, told });
}

async fn ask(network: u16, frame: &Frame) -> std::io::Result<Option<Reply>> {
    let mut stream = TcpStream::connect(("127.0.0.1", network)).await?;
    link::write(&mut stream, frame).await?;
    link::read(&mut BufReader::new(stream)).await
}

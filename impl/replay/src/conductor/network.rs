//! The network between callers, guards and tool: TCP connections that end here. What goes over them is held until its time comes.

use tokio::io::{AsyncReadExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::{Calling, Event, InTransit, Parted, Stage};
use crate::link;
use crate::wire::{Frame, Reply, Role, Told};

/// Takes in connections.
pub async fn accept_all(listener: TcpListener, sender: mpsc::UnboundedSender<Event>) {
    let mut number = 0u64;
    while let Ok((stream, _)) = listener.accept().await {
        number += 1;
        tokio::spawn(take_in(number, stream, sender.clone()));
    }
}

async fn take_in(number: u64, stream: TcpStream, sender: mpsc::UnboundedSender<Event>) {
    let (from, mut to) = stream.into_split();
    let mut from = BufReader::new(from);
    let Ok(Some(frame)) = link::read::<Frame>(&mut from).await else { return };
    let (replies, mut outgoing) = mpsc::unbounded_channel::<Option<Reply>>();
    if sender.send(Event::Accepted(number, frame, replies)).is_err() {
        return;
    }
    let mut rest = [0u8; 1];
    loop {
        tokio::select! {
            reply = outgoing.recv() => match reply {
                Some(Some(reply)) => {
                    let _ = link::write(&mut to, &reply).await;
                    return;
                }
                // The connection is cut; or nobody has it any more, and it stays silent.
                Some(None) => return,
                None => {
                    let _ = from.read(&mut rest).await;
                    return;
                }
            },
            read = from.read(&mut rest) => {
                if matches!(read, Ok(0) | Err(_)) {
                    let _ = sender.send(Event::Closed(number));
                    return;
                }
            }
        }
    }
}

/// Asks a process that listens on a port.
async fn ask<T: serde::Serialize>(port: u16, message: T) -> Option<Reply> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
    link::write(&mut stream, &message).await.ok()?;
    link::read::<Reply>(&mut BufReader::new(stream)).await.ok().flatten()
}

impl Stage {
    pub(super) fn accept(&mut self, connection: u64, frame: Frame, sender: mpsc::UnboundedSender<Option<Reply>>) {
        self.note(format!("network: {frame:?}"));
        self.connections.insert(connection, sender);
        match frame {
            Frame::Call(call) => {
                self.calls.insert(call.call, Calling { connection, call, guard: None, answer: None });
            }
            Frame::Request { ref which, from, call, .. } => {
                let mut which = which.clone();
                if self.options.proxy.is_some() {
                    // A proxy's server is told nothing of attempts.
                    which.attempt = 1 + self.evidence.sends.iter().filter(|of| **of == call).count() as u32;
                    self.generations.insert(which.key, which.generation);
                    self.evidence.recorded.insert((which.key, which.generation, which.attempt));
                }
                let frame = Frame::Request { which: which.clone(), call, from };
                self.evidence.sends.push(call);
                self.in_transit.push(InTransit { connection, frame, which, from, cut: false });
            }
            Frame::Operation(_) | Frame::Pull { .. } => self.accept_operation(connection, frame),
            Frame::Question { ref which, from, .. } => {
                let which = which.clone();
                self.in_transit.push(InTransit { connection, frame, which, from, cut: false });
            }
        }
    }

    /// Hands a caller's call on to a guard.
    pub(super) async fn hand_on(&mut self, call: u8, guard: u8) -> Result<(), Parted> {
        self.pause(Role::Guard(guard), false);
        let port = self.parts.get(&Role::Guard(guard)).map_or(0, |part| part.port);
        let sender = self.sender.clone();
        let Some(calling) = self.calls.get_mut(&call) else {
            return Err(Parted { expected: "a call is on its way to a guard".to_owned(), seen: self.pending() });
        };
        calling.guard = Some(guard);
        let (connection, frame) = (calling.connection, Frame::Call(calling.call.clone()));
        tokio::spawn(async move {
            let reply = ask(port, frame).await;
            let _ = sender.send(Event::Answered(connection, reply));
        });
        Ok(())
    }

    /// Delivers to the tool.
    pub(super) fn hand_to(&mut self, role: Role, delivery: crate::wire::Delivery) {
        let port = self.parts.get(&role).map_or(0, |part| part.port);
        let (sender, number) = (self.sender.clone(), delivery.number);
        tokio::spawn(async move {
            let reply = ask(port, delivery).await;
            let _ = sender.send(Event::Delivered(number, reply));
        });
    }

    /// Sends something back over a connection; `None` ends it.
    pub(super) fn send_back(&mut self, connection: u64, reply: Option<Reply>) {
        if let Some(sender) = self.connections.remove(&connection) {
            // Who has hung up hears nothing.
            let _ = sender.send(reply);
        }
    }

    /// Lets a caller hear what is on its way to it, and waits until it has.
    pub(super) async fn let_hear(&mut self, call: u8, connection: u64, reply: Option<Reply>) -> Result<Told, Parted> {
        let number = self.calls_made.get(&call).copied().unwrap_or(0);
        self.send_back(connection, reply);
        let name = settled_model::call_name(call);
        let lenient = std::mem::replace(&mut self.lenient, false);
        let told =
            self.until(|| format!("caller {name} hears it"), |stage| stage.told.get(&(call, number)).copied()).await;
        self.lenient = lenient;
        let told = told?;
        self.take_down_told(call, told);
        Ok(told)
    }

    /// The callers make a call.
    pub(super) async fn make_call(&mut self, call: crate::wire::Call, to_guard: bool) -> Result<(), Parted> {
        let (of, number) = (call.call, call.number);
        self.calls.remove(&of);
        self.calls_made.insert(of, number);
        self.evidence.keys.insert((of, number), call.key);
        self.say(Role::Callers, crate::wire::ToPart::Call { call, to_guard });
        let name = settled_model::call_name(of);
        let lenient = std::mem::replace(&mut self.lenient, false);
        let made = self
            .until(
                || format!("caller {name} calls"),
                |stage| match to_guard {
                    true => stage.calls.get(&of).filter(|calling| calling.call.number == number).map(|_| ()),
                    false => stage
                        .in_transit
                        .iter()
                        .any(|sent| sent.from == 0 && sent.which.key == of && sent.which.attempt == number)
                        .then_some(()),
                },
            )
            .await;
        self.lenient = lenient;
        made
    }
}

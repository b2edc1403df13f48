//! The tool: a process whose effects are lines of a file, so that they outlive it.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use settled_model::Description;
use settled_model::description::{Kind, Rejects};
use tokio::io::BufReader;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use super::{PartError, join};
use crate::link::{self, Link};
use crate::wire::{Delivery, Frame, FromPart, How, Reply, Role, Seal, Spec, ToPart, Which};

/// A line of the tool's file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Line {
    /// An effect.
    Effect {
        /// Which attempt it was.
        which: Which,
        /// For which logical call.
        call: u8,
        /// When, in units of time.
        now: u64,
    },
    /// The work of an effect that lasts has ended.
    Ended {
        /// The effect's number.
        effect: u32,
    },
    /// Attempts of a key up to this one are sealed.
    Sealed {
        /// The key.
        key: u8,
        /// The operation under it.
        generation: u32,
        /// Up to this attempt.
        up_to: u32,
    },
    /// What was remembered of a key is forgotten.
    Forgot {
        /// The key.
        key: u8,
    },
}

/// Reads the file.
pub fn read(path: &Path) -> Vec<Line> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

struct Tool {
    kind: Kind,
    rejects: Rejects,
    remembers: u64,
    lasting: bool,
    same_resource: bool,
    lines: Vec<Line>,
    file: File,
}

/// What is to be waited for before an answer is given.
struct Shared {
    tool: Mutex<Tool>,
    ends: Mutex<HashMap<u64, oneshot::Sender<How>>>,
}

pub async fn run(spec: Spec) -> Result<(), PartError> {
    let description: Description =
        serde_json::from_value(spec.description.clone()).map_err(|error| PartError::Start(error.to_string()))?;
    let path = spec.directory.join("effects.jsonl");
    let file = OpenOptions::new().create(true).append(true).open(&path)?;
    let tool = Tool {
        kind: description.tool.kind,
        rejects: description.tool.rejects,
        remembers: description.tool.remembers.into(),
        lasting: description.tool.lasting,
        same_resource: description.caller.same_resource,
        lines: read(&path),
        file,
    };
    let shared = Arc::new(Shared { tool: Mutex::new(tool), ends: Mutex::default() });
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let (link, mut commands) = join(&spec, Role::Tool, listener.local_addr()?.port()).await?;
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (stream, _) = accepted?;
                tokio::spawn(serve(shared.clone(), link.clone(), stream));
            }
            command = commands.recv() => match command {
                Some(ToPart::Forget { id, key }) => {
                    shared.lock().write(Line::Forgot { key })?;
                    link.say(FromPart::Ack { id });
                }
                Some(ToPart::Finish { delivery, how }) => {
                    let end = shared.ends.lock().unwrap_or_else(PoisonError::into_inner).remove(&delivery);
                    // One whose connection has broken has ended already.
                    let _ = end.map(|end| end.send(how));
                }
                Some(ToPart::Ping { id }) => link.say(FromPart::Ack { id }),
                Some(_) => {}
                None => return Ok(()),
            },
        }
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, Tool> {
        self.tool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn serve(shared: Arc<Shared>, link: Link, stream: TcpStream) -> std::io::Result<()> {
    let (from, mut to) = stream.into_split();
    let Some(delivery) = link::read::<Delivery>(&mut BufReader::new(from)).await? else { return Ok(()) };
    let reply = match &delivery.frame {
        Frame::Question { which, seal, .. } => shared.lock().answer(which, *seal)?,
        Frame::Request { which, call, .. } => request(&shared, &link, &delivery, which, *call).await?,
        Frame::Call(_) | Frame::Operation(_) | Frame::Pull { .. } => Reply::Error,
    };
    link::write(&mut to, &reply).await
}

async fn request(shared: &Shared, link: &Link, delivery: &Delivery, which: &Which, call: u8) -> std::io::Result<Reply> {
    let stops = async |link: &Link| {
        link.say(FromPart::Stopped { delivery: delivery.number });
        std::future::pending::<()>().await;
    };
    match delivery.how {
        How::StopBefore => stops(link).await,
        How::ErrorBefore => return Ok(Reply::Error),
        How::Rejected => {
            return Ok(match shared.lock().rejects {
                Rejects::ForGood => Reply::Rejected,
                Rejects::Busy => Reply::Busy,
            });
        }
        How::Answered | How::StopAfter | How::ErrorAfter => {}
    }
    let before = shared.lock().effects();
    let reply = shared.lock().carry_out(which, call, delivery.now)?;
    let (effect, lasting) = {
        let tool = shared.lock();
        (tool.effects(), tool.lasting)
    };
    let mut how = delivery.how;
    if lasting && effect > before {
        let (end, ended) = oneshot::channel();
        shared.ends.lock().unwrap_or_else(PoisonError::into_inner).insert(delivery.number, end);
        link.say(FromPart::Working { delivery: delivery.number });
        how = ended.await.unwrap_or(How::Answered);
        shared.lock().write(Line::Ended { effect })?;
    }
    match how {
        How::StopAfter => {
            stops(link).await;
            Ok(reply)
        }
        How::ErrorAfter => Ok(Reply::Error),
        _ => Ok(reply),
    }
}

impl Tool {
    fn write(&mut self, line: Line) -> std::io::Result<()> {
        let mut text = serde_json::to_vec(&line)?;
        text.push(b'\n');
        self.file.write_all(&text)?;
        self.lines.push(line);
        Ok(())
    }

    fn effects(&self) -> u32 {
        self.lines.iter().filter(|line| matches!(line, Line::Effect { .. })).count() as u32
    }

    /// The first effect of a key that is remembered: its number, and when it was made. An idempotent tool has the last one.
    fn remembered(&self, key: u8) -> Option<(u32, u64)> {
        let mut number = 0;
        let mut found = None;
        for line in &self.lines {
            match line {
                Line::Effect { which, now, .. } => {
                    number += 1;
                    if which.key == key && (found.is_none() || self.kind == Kind::Idempotent) {
                        found = Some((number, *now));
                    }
                }
                Line::Forgot { key: forgotten } if *forgotten == key => found = None,
                _ => {}
            }
        }
        found
    }

    fn sealed(&self, which: &Which) -> u32 {
        let up_to = |line: &Line| match line {
            Line::Sealed { key, generation, up_to } if *key == which.key && *generation == which.generation => {
                Some(*up_to)
            }
            _ => None,
        };
        self.lines.iter().filter_map(up_to).max().unwrap_or(0)
    }

    fn last_on_resource(&self, call: u8) -> Option<u8> {
        let made_for = |line: &Line| match line {
            Line::Effect { call: of, .. } if *of == call || self.same_resource => Some(*of),
            _ => None,
        };
        self.lines.iter().rev().find_map(made_for)
    }

    fn carry_out(&mut self, which: &Which, call: u8, now: u64) -> std::io::Result<Reply> {
        let forgets = |since: u64| self.remembers > 0 && now - since >= self.remembers;
        let earlier = self.remembered(which.key).filter(|(_, since)| !forgets(*since)).map(|(effect, _)| effect);
        match (self.kind, earlier) {
            (Kind::Deduplicates | Kind::Sealable, Some(effect)) => return Ok(Reply::Done(effect)),
            (Kind::Sealable, None) if self.sealed(which) >= which.attempt => return Ok(Reply::Error),
            (Kind::Idempotent, Some(effect)) if self.last_on_resource(call).is_none_or(|last| last == call) => {
                return Ok(Reply::Done(effect));
            }
            _ => {}
        }
        self.write(Line::Effect { which: which.clone(), call, now })?;
        Ok(Reply::Done(self.effects()))
    }

    fn answer(&mut self, which: &Which, seal: Option<Seal>) -> std::io::Result<Reply> {
        Ok(match (self.remembered(which.key), seal) {
            (Some((effect, _)), _) => Reply::Applied(effect),
            (None, None) => Reply::NotApplied,
            (None, Some(scope)) => {
                let up_to = match scope {
                    Seal::Attempts => which.attempt,
                    Seal::Operation => u32::MAX,
                };
                self.write(Line::Sealed { key: which.key, generation: which.generation, up_to })?;
                Reply::Sealed
            }
        })
    }
}

//! The way to the tool: over TCP, after leave has been given.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use settled::protocol::{AttemptId, ErrorClass, Key, SealScope};
use settled::{Outgoing, Question, Seen, Tool, ToolReply};
use tokio::io::BufReader;
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};

use crate::link::{self, Link};
use crate::wire::{Frame, Gate, Reply, Seal, Which, number_of};

pub struct GatedTool {
    pub link: Link,
    pub network: u16,
    /// This guard's number, from 1.
    pub from: u8,
    /// It takes what proves nothing for a tool that was busy (`in-doubt`): then its own transport keeps the time.
    pub takes_doubt_for_busy: bool,
    /// How many requests it has put on the wire, for each key.
    pub sent: Mutex<HashMap<u8, watch::Sender<u32>>>,
    /// Its transport's time is over, for each key.
    pub over: Mutex<HashMap<u8, Arc<Notify>>>,
}

fn which(key: &Key, of: AttemptId) -> Which {
    Which { key: number_of(key), generation: of.generation, attempt: of.attempt.get() }
}

fn body(effect: u32) -> Bytes {
    Bytes::from(effect.to_string())
}

impl GatedTool {
    async fn connect(&self, frame: &Frame) -> std::io::Result<TcpStream> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.network)).await?;
        link::write(&mut stream, frame).await?;
        Ok(stream)
    }

    /// Told each time a request of this key has been put on the wire.
    pub fn sends_of(&self, key: u8) -> watch::Sender<u32> {
        self.sent
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(key)
            .or_insert_with(|| watch::channel(0).0)
            .clone()
    }

    pub fn out_of_time(&self, key: u8) -> Arc<Notify> {
        self.over.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default().clone()
    }

    async fn answer(&self, which: Which, frame: Frame, outgoing: &Outgoing) -> ToolReply {
        let key = which.key;
        let Ok(stream) = self.connect(&frame).await else {
            return ToolReply::Error(ErrorClass::NotRun, Bytes::from_static(b"no connection"));
        };
        outgoing.sent();
        self.sends_of(key).send_modify(|sends| *sends += 1);
        match link::read::<Reply>(&mut BufReader::new(stream)).await {
            Ok(Some(Reply::Done(effect))) => ToolReply::Result(body(effect)),
            Ok(Some(Reply::Rejected)) => {
                ToolReply::Error(ErrorClass::NotRun, Bytes::from_static(b"it was refused before it ran"))
            }
            Ok(Some(Reply::Busy)) => ToolReply::Busy { retry_after: None, body: Bytes::from_static(b"busy") },
            Ok(Some(_)) => ToolReply::Error(ErrorClass::Unproven, Bytes::from_static(b"an error")),
            Ok(None) | Err(_) => ToolReply::ConnectionLost,
        }
    }

    async fn ask(&self, question: &Question, seal: Option<Seal>) -> Seen {
        let which = which(&question.key, question.attempt);
        if self.link.gate(Gate::Ask(which.clone(), seal)).await {
            return Seen::Unclear;
        }
        let frame = Frame::Question { which, seal, from: self.from };
        let Ok(stream) = self.connect(&frame).await else { return Seen::Unclear };
        match link::read::<Reply>(&mut BufReader::new(stream)).await {
            Ok(Some(Reply::Applied(effect))) => Seen::Applied(body(effect)),
            Ok(Some(Reply::NotApplied)) => Seen::NotApplied,
            Ok(Some(Reply::Sealed)) => Seen::Sealed,
            _ => Seen::Unclear,
        }
    }
}

#[async_trait]
impl Tool for GatedTool {
    async fn dispatch(&self, outgoing: &Outgoing) -> ToolReply {
        let which = which(&outgoing.key, outgoing.attempt);
        let call = outgoing.arguments.first().map_or(0, |first| first.saturating_sub(b'A'));
        self.link.gate(Gate::Send(which.clone())).await;
        let frame = Frame::Request { which: which.clone(), call, from: self.from };
        if !self.takes_doubt_for_busy {
            return self.answer(which, frame, outgoing).await;
        }
        // A transport that repeats whatever got no good answer, as if that proved that nothing ran.
        let over = self.out_of_time(which.key);
        let reply = tokio::select! {
            reply = self.answer(which, frame, outgoing) => reply,
            () = over.notified() => ToolReply::ConnectionLost,
        };
        match reply {
            ToolReply::Error(ErrorClass::Unproven, body) => ToolReply::Busy { retry_after: None, body },
            ToolReply::ConnectionLost => ToolReply::Busy { retry_after: None, body: Bytes::from_static(b"no answer") },
            other => other,
        }
    }

    async fn observe(&self, question: &Question) -> Seen {
        self.ask(question, None).await
    }

    async fn seal(&self, question: &Question, scope: SealScope) -> Seen {
        self.ask(
            question,
            Some(match scope {
                SealScope::Attempts => Seal::Attempts,
                SealScope::Operation => Seal::Operation,
            }),
        )
        .await
    }
}

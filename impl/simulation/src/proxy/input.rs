//! A server's standard input: which attempt a line belongs to is decided when its first byte is written.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use settled::protocol::{AttemptId, Digest, Epoch, Key};
use tokio::io::AsyncWrite;
use tokio::sync::mpsc;
use tokio::time::{Sleep, sleep};

use super::server::Life;
use crate::caller::arguments;
use crate::process::Process;
use crate::tool::{Possible, Request};
use crate::violation::Property;
use crate::world::{SCOPE, World};

/// A line that has arrived.
pub(crate) struct Line {
    pub(crate) message: Value,
    pub(crate) call: Option<Call>,
}

/// A call in it.
pub(crate) struct Call {
    pub(crate) tool: usize,
    pub(crate) request: Request,
}

/// The input.
pub(crate) struct Input {
    pub(crate) world: Arc<World>,
    pub(crate) process: Arc<Process>,
    pub(crate) life: Arc<Life>,
    /// None once the proxy has closed it.
    pub(crate) lines: Option<mpsc::UnboundedSender<Line>>,
    pub(crate) partly: Vec<u8>,
    pub(crate) call: Option<Call>,
    pub(crate) waits: Option<Pin<Box<Sleep>>>,
    /// It has waited before the first byte.
    pub(crate) waited: bool,
}

impl Input {
    fn wait(&mut self, longest: u64) {
        let wait = self.world.draw(|random| random.u64(1..=longest));
        self.waits = Some(Box::pin(sleep(Duration::from_millis(wait))));
    }

    /// Whose attempt a line is.
    fn call_in(&self, line: &[u8]) -> Option<Call> {
        let world = &self.world;
        let message: Value = serde_json::from_slice(line).ok()?;
        if message.get("method")?.as_str()? != "tools/call" {
            return None;
        }
        let params = message.get("params")?;
        let name = params.get("name")?.as_str()?;
        let tool: usize = name.strip_prefix("tool-")?.parse().ok()?;
        let given = params.get("arguments")?;
        let wish = u32::try_from(given.get("wish")?.as_u64()?).ok()?;
        let key = match params.get("idempotencyKey").and_then(Value::as_str) {
            Some(own) => Key::new(SCOPE, name, format!("key:{own}")).ok()?,
            None => world.key(tool, wish),
        };
        let owned: Vec<(Epoch, AttemptId)> = world.truth(|truth| {
            let all = truth.owned.range((key.clone(), Epoch(0), 0)..);
            all.take_while(|((other, ..), _)| *other == key).map(|((_, owner, _), of)| (*owner, *of)).collect()
        });
        // A process that lost its lease goes on as another owner.
        let is_own = |owner: Epoch| world.owner(owner).is_some_and(|process| Arc::ptr_eq(&process, &self.process));
        let passed = given.get("key").and_then(Value::as_str);
        // A line can wait in a full pipe until its operation is over and the next one has begun.
        let names = |of: &AttemptId| passed.is_none_or(|passed| passed == key_at_the_tool(&key, of.generation));
        let latest = owned.into_iter().filter(|(owner, of)| is_own(*owner) && names(of)).max_by_key(|(_, of)| *of);
        let Some((epoch, of)) = latest else {
            world.violated(Property::IntentFirst, format!("{key} is sent, and is not recorded"));
            return None;
        };
        if let Some(passed) = passed {
            let first = world.truth(|truth| {
                let first = truth.passed.entry(passed.to_owned()).or_insert_with(|| (key.clone(), of.generation));
                *first == (key.clone(), of.generation)
            });
            if !first {
                let what =
                    format!("the tool is given one key for operation {} of {key} and another one", of.generation);
                world.violated(Property::AtMostOnce, what);
            }
        }
        let possible = Arc::new(Possible::begin(world, tool, &key, of));
        let other = given.get("other").and_then(Value::as_bool).unwrap_or_default();
        let arguments: Bytes = arguments(wish, other);
        Some(Call { tool, request: Request { key, of, epoch, arguments, possible } })
    }
}

/// The key by which a tool is to know an operation: another one for each, unless it is the caller's own.
fn key_at_the_tool(key: &Key, generation: u32) -> String {
    let digest = key.digest();
    let digest = match key.id().starts_with("key:") {
        true => digest,
        false => Digest::of_parts(&[digest.as_bytes(), &generation.to_be_bytes()]),
    };
    digest.to_string()
}

impl AsyncWrite for Input {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        if this.life.is_dead() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let first = this.partly.is_empty();
        if first && !this.waited && this.world.happens(|rates| rates.gap, "MCP server's pipe is full") {
            this.waited = true;
            this.wait(3_000);
        }
        if let Some(waits) = &mut this.waits {
            ready!(waits.as_mut().poll(context));
            this.waits = None;
        }
        let mut taken = bytes.len();
        if first {
            this.waited = false;
            this.call = this.call_in(bytes);
            if taken > 1 && this.world.happens(|rates| rates.gap, "line to the MCP server is torn") {
                taken /= 2;
                this.wait(200);
            }
        }
        this.partly.extend_from_slice(bytes.get(..taken).unwrap_or_default());
        if this.partly.last() == Some(&b'\n') {
            let line = std::mem::take(&mut this.partly);
            if let (Ok(message), Some(lines)) = (serde_json::from_slice(&line), &this.lines) {
                // The server may just have died.
                let _ = lines.send(Line { message, call: this.call.take() });
            }
        }
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.lines = None;
        Poll::Ready(Ok(()))
    }
}

//! `mode = "observe"`: what the guard would have done with calls that pass unguarded. It protects nothing, and it must never hold
//! anything up: whatever comes too fast to be judged is only counted as such.

mod table;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use settled::task;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::book::OwnReply;
use crate::config::{Answers, Config, Kind, Mode};
use crate::guarded::guard::{Annotations, Decision, enforced};
use crate::guarded::keys::derive;
use crate::guarded::tool::reply;
use crate::labels;
use crate::messages::frame::Body;
use crate::told::answer::asks_for_input;

use table::{After, Table, Would};

/// How many calls and answers wait to be judged; more are not judged.
const QUEUE: usize = 256;

/// The shadow of the guard, for one server.
#[derive(Clone)]
pub(crate) struct Watch {
    queue: mpsc::Sender<Note>,
    numbers: Arc<AtomicU64>,
}

/// What is told to the shadow.
enum Note {
    Call { number: u64, call: Seen },
    Answer { number: u64, body: Option<Answered>, at: Instant },
}

/// A call as it was passed on.
pub(crate) struct Seen {
    pub(crate) scope: String,
    pub(crate) tool: String,
    /// The parameters' text.
    pub(crate) params: Bytes,
    /// The `Idempotency-Key` header.
    pub(crate) header: Option<String>,
    /// What the server says of the tool, if it has said so yet.
    pub(crate) annotations: Option<Annotations>,
    pub(crate) came: Instant,
}

enum Answered {
    Result(Bytes),
    Error(Bytes),
}

/// A call whose answer is waited for. Dropped without one, its answer never came.
pub(crate) struct Awaited {
    number: u64,
    queue: mpsc::Sender<Note>,
    answered: bool,
}

impl Awaited {
    /// The server has answered, with this line.
    pub(crate) fn answered(mut self, line: &Bytes, body: Body<'_>) {
        self.answered = true;
        let body = match body {
            Body::Result(text) => Answered::Result(line.slice_ref(text.as_bytes())),
            Body::Error(text) => Answered::Error(line.slice_ref(text.as_bytes())),
        };
        let _ = self.queue.try_send(Note::Answer { number: self.number, body: Some(body), at: Instant::now() });
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        if !self.answered {
            let _ = self.queue.try_send(Note::Answer { number: self.number, body: None, at: Instant::now() });
        }
    }
}

impl Watch {
    /// Begins to watch, if there is anything to be watched.
    pub(crate) fn begin(config: &Arc<Config>) -> Option<Watch> {
        let mut tools: Vec<&str> = config
            .tools
            .iter()
            .filter(|(_, tool)| tool.mode == Mode::Observe && tool.kind != Kind::Passed)
            .map(|(name, _)| name.as_str())
            .collect();
        if config.mode == Mode::Observe {
            tools.push("all that are not declared");
        }
        if tools.is_empty() {
            return None;
        }
        tracing::warn!(
            tools = tools.join(", "),
            "mode = \"observe\": NOTHING IS PROTECTED for these tools. Their calls pass, and what the guard would have done is counted"
        );
        labels::describe();
        let (queue, notes) = mpsc::channel(QUEUE);
        task::spawn(judge(config.clone(), notes));
        Some(Watch { queue, numbers: Arc::default() })
    }

    /// A call is about to be passed on.
    pub(crate) fn call(&self, call: Seen) -> Option<Awaited> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let tool = call.tool.clone();
        match self.queue.try_send(Note::Call { number, call }) {
            Ok(()) => Some(Awaited { number, queue: self.queue.clone(), answered: false }),
            Err(_) => {
                labels::observed(&tool, "not judged");
                None
            }
        }
    }
}

/// Judges what comes, until nobody watches any more.
async fn judge(config: Arc<Config>, mut notes: mpsc::Receiver<Note>) {
    let mut table = Table::default();
    while let Some(note) = notes.recv().await {
        match note {
            Note::Call { number, call } => {
                let would = judged(&config, &mut table, number, &call);
                tell(&call.tool, would);
            }
            Note::Answer { number, body, at } => table.answered(number, at, |answers| after(body, answers)),
        }
        // Whatever is judged, others have their turn.
        tokio::task::yield_now().await;
    }
}

fn judged(config: &Config, table: &mut Table, number: u64, call: &Seen) -> Would {
    let Ok(params) = str::from_utf8(&call.params) else { return Would::Refuse };
    let terms = match enforced(config, &call.tool, call.annotations.as_ref()) {
        Decision::Guard(terms) => terms,
        Decision::Pass | Decision::Watch => return Would::Pass,
    };
    let Ok(found) = derive(&call.scope, &call.tool, params, call.header.as_deref(), terms.rule()) else {
        return Would::Refuse;
    };
    if terms.resource(&call.scope, params).is_err() {
        return Would::Refuse;
    }
    table.called(number, found, &terms, &config.defaults, call.came)
}

/// What an answer leaves behind.
fn after(body: Option<Answered>, answers: &Answers) -> After {
    let text = |bytes: Bytes| String::from_utf8_lossy(&bytes).into_owned();
    let own = match body {
        Some(Answered::Result(result)) => OwnReply::Result(text(result)),
        Some(Answered::Error(error)) => OwnReply::Error(text(error)),
        None => OwnReply::Lost,
    };
    let asks = matches!(&own, OwnReply::Result(result) if asks_for_input(result));
    After::of(reply(own, answers), asks)
}

fn tell(tool: &str, would: Would) {
    let word = would.word();
    labels::observed(tool, word);
    match would {
        Would::Send | Would::Pass => tracing::info!(tool, would = word, "observed, not guarded"),
        Would::Join | Would::Replay | Would::Conflict | Would::Expire | Would::Hold | Would::Refuse => {
            tracing::warn!(
                tool,
                would = word,
                "observed, not guarded: this call was sent, and the guard would not have sent it"
            );
        }
    }
}

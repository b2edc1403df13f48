//! The tool, which plays a script, and can be made to answer late.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use settled::protocol::{ErrorClass, SealScope};
use settled::{Outgoing, Question, Seen, Tool, ToolReply};
use tokio::sync::{Notify, oneshot};

use crate::moves::{Play, Point, SEEN, Script, Sight, body};

/// The tool of one key, as the process in charge reaches it.
#[derive(Default)]
pub struct Scripted {
    state: Mutex<State>,
    /// An attempt has come at which its process is to stop.
    reached: Arc<Notify>,
}

#[derive(Default)]
struct State {
    plays: VecDeque<Play>,
    sight: Option<Sight>,
    /// How many attempts of the present call may come before it stops.
    left: Option<usize>,
    sent: usize,
    hung: VecDeque<oneshot::Sender<Play>>,
}

impl Scripted {
    /// A tool of which the process is told by this.
    pub fn new(reached: &Arc<Notify>) -> Scripted {
        Scripted { reached: Arc::clone(reached), ..Scripted::default() }
    }

    /// From now on it does this.
    pub fn plays(&self, script: &Script, point: Option<Point>) {
        let mut state = self.state.lock().unwrap();
        state.plays = script.plays.iter().copied().collect();
        state.sight = Some(script.sight);
        state.left = match point {
            Some(Point::Sent(count)) => Some(count),
            _ => None,
        };
    }

    /// The script is over.
    pub fn rests(&self) {
        let mut state = self.state.lock().unwrap();
        state.plays.clear();
        state.sight = None;
        state.left = None;
    }

    /// How many attempts have come.
    pub fn sent(&self) -> usize {
        self.state.lock().unwrap().sent
    }

    /// The first attempt that hangs is answered.
    pub fn answers(&self, play: Play) {
        let hung = self.state.lock().unwrap().hung.pop_front().expect("one hangs");
        // Whoever was frozen may have been killed since.
        let _ = hung.send(play);
    }

    fn sight(&self) -> Sight {
        self.state.lock().unwrap().sight.unwrap_or(Sight::Unclear)
    }
}

fn reply(play: Play) -> ToolReply {
    let body = Bytes::from_static(body(play));
    match play {
        Play::Result => ToolReply::Result(body),
        Play::Error => ToolReply::Error(ErrorClass::Unproven, body),
        Play::NotRun => ToolReply::Error(ErrorClass::NotRun, body),
        Play::Busy => ToolReply::Busy { retry_after: None, body },
        Play::ConnectionLost | Play::Hang => ToolReply::ConnectionLost,
    }
}

#[async_trait]
impl Tool for Scripted {
    async fn dispatch(&self, outgoing: &Outgoing) -> ToolReply {
        outgoing.sent();
        let (play, waits) = {
            let mut state = self.state.lock().unwrap();
            state.sent += 1;
            let play = state.plays.pop_front().unwrap_or(Play::Result);
            let stops = state.left.as_mut().is_some_and(|left| {
                *left = left.saturating_sub(1);
                *left == 0
            });
            if stops {
                self.reached.notify_one();
            }
            let (answer, waits) = oneshot::channel();
            let hangs = stops || play == Play::Hang;
            if hangs {
                state.hung.push_back(answer);
            }
            (play, hangs.then_some(waits))
        };
        match waits {
            None => reply(play),
            Some(waits) => match waits.await {
                Ok(play) => reply(play),
                Err(_) => std::future::pending().await,
            },
        }
    }

    async fn observe(&self, _question: &Question) -> Seen {
        match self.sight() {
            Sight::Applied => Seen::Applied(Bytes::from_static(SEEN)),
            Sight::NotApplied => Seen::NotApplied,
            Sight::Sealed => Seen::Sealed,
            Sight::Unclear => Seen::Unclear,
        }
    }

    async fn seal(&self, question: &Question, _scope: SealScope) -> Seen {
        self.observe(question).await
    }
}

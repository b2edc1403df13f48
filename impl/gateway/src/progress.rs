//! How far a request's own call has come, as its answer needs to know it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use settled::{Answer, Answered, EngineError, task};
use tokio::sync::oneshot;

use crate::live::{Carrier, Live};
use crate::overflow::{Inflow, Overflow, flow};

/// The upstream's answer as it came, for the caller whose request it answered: what is kept of it has fewer headers.
#[derive(Clone, Debug)]
pub(crate) struct First {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// How far a call has come.
pub(crate) struct Progress {
    carrier: Carrier,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Its caller has been answered: nothing is streamed for it any more.
    over: bool,
    live: Option<Live>,
    caller: Option<oneshot::Sender<Overflow>>,
    inflow: Option<Inflow>,
    /// The last reply as it is kept, and as it came.
    reply: Option<(Bytes, Option<First>)>,
}

impl std::fmt::Debug for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Progress").finish_non_exhaustive()
    }
}

impl Progress {
    /// And where its caller gets an answer that is longer than what is kept.
    pub(crate) fn new(carrier: Carrier) -> (Progress, oneshot::Receiver<Overflow>) {
        let (caller, overflow) = oneshot::channel();
        let state = State { caller: Some(caller), ..State::default() };
        (Progress { carrier, state: Mutex::new(state) }, overflow)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An answer that is streamed begins; `None`: nobody listens for it any more.
    pub(crate) fn begin(&self, status: StatusCode, headers: &HeaderMap, limit: usize) -> Option<Live> {
        let mut state = self.state();
        if state.over {
            return None;
        }
        let live = self.carrier.begin(status, headers.clone(), limit);
        state.live = Some(live.clone());
        Some(live)
    }

    /// An answer that is longer than what is kept begins, for this call's caller alone; `None`: it does not wait any more.
    pub(crate) fn overflow(&self, status: StatusCode, headers: &HeaderMap) -> Option<Inflow> {
        let mut state = self.state();
        let caller = state.caller.take().filter(|_| !state.over)?;
        let (inflow, body) = flow();
        caller.send(Overflow { status, headers: headers.clone(), body }).ok()?;
        state.inflow = Some(inflow.clone());
        Some(inflow)
    }

    /// The stream broke off.
    pub(crate) fn broke_off(&self) {
        let mut state = self.state();
        state.inflow = None;
        if let Some(live) = state.live.take() {
            live.broken();
        }
    }

    /// An attempt has its reply, which is not recorded yet.
    pub(crate) fn replied(&self, kept: Bytes, first: Option<First>) {
        self.state().reply = Some((kept, first));
    }

    /// The call is answered: what is told now is recorded. Gives back the upstream's answer as it came, if that is it.
    pub(crate) fn over(&self, answered: &Result<Answered, EngineError>) -> Option<First> {
        let mut state = self.state();
        state.over = true;
        let recorded = match answered {
            Ok(Answered { answer: Answer::Done { result, .. }, .. }) => Some(result),
            Ok(Answered { answer: Answer::Failed { error: Some(error), .. }, .. }) => Some(error),
            _ => None,
        };
        let reply = state.reply.take().filter(|(kept, _)| Some(kept) == recorded);
        if let Some(live) = state.live.take() {
            match reply.is_some() {
                true => self.carrier.recorded(),
                // Another answer than this stream counts, or none yet.
                false => live.broken(),
            }
        }
        if let Some(inflow) = state.inflow.take().filter(|_| reply.is_some()) {
            task::spawn(inflow.end());
        }
        reply.and_then(|(_, first)| first)
    }
}

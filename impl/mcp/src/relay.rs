//! Both directions: what is relayed as it is, and what is taken aside.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use settled::{Engine, task};
use settled_observers::Observer;
use tokio::io::AsyncRead;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::answer::error_line;
use crate::book::{Book, Goes, ToWhom};
use crate::call::{Call, Calls};
use crate::config::Config;
use crate::flag::Flag;
use crate::frame::{Frame, IdKey, cancelled_id, parse, parse_valid};
use crate::guard::{Decision, Terms, decide, decide_by_configuration};
use crate::lines::{ClientSink, Lines};
use crate::process::OnLine;
use crate::server::{Note, ServerHandle, TRANSPORT_ERROR};
use crate::splice;
use crate::tools::Tools;

/// How many guarded calls may be under way at once; more are refused, so that memory stays bounded.
pub(crate) const CALLS: usize = 4096;

/// How many lines of the client are read ahead.
const LINES: usize = 64;

/// How many lines wait while the server lists its tools; beyond that, the client's messages are not read.
const HELD: usize = 4096;

/// How many bytes of them.
const HELD_BYTES: usize = 64 << 20;

/// Everything that the calls of one client share.
pub(crate) struct Proxy {
    pub(crate) config: Arc<Config>,
    pub(crate) scope: String,
    pub(crate) engine: Engine,
    pub(crate) server: ServerHandle,
    pub(crate) client: ClientSink,
    pub(crate) tools: Arc<Tools>,
    pub(crate) book: Arc<Book>,
    pub(crate) calls: Calls,
    /// Who is asked what became of a tool's calls, by the tool's name.
    pub(crate) observers: HashMap<String, Observer>,
    pub(crate) permits: Arc<Semaphore>,
    /// To ask the server's tools what became of calls.
    pub(crate) questions: Arc<Semaphore>,
    /// The server takes calls.
    pub(crate) ready: Flag,
    /// The client is gone.
    pub(crate) closing: Flag,
}

/// What becomes of a message of the client.
enum Plan {
    Pass(Note),
    Replace(Bytes),
    Opened,
    Call(Call, Terms),
    Withhold,
    Answer(String),
}

impl Proxy {
    /// Takes the client's messages, in their order, until there are no more. A call that can't be judged before the server
    /// has listed its tools holds up what comes after it; only the client's answers go past it, since the server may need
    /// one before it lists anything.
    pub(crate) async fn read_client<R: AsyncRead + Send + Unpin + 'static>(self: Arc<Self>, stdin: R) {
        let (read, mut lines) = mpsc::channel(LINES);
        let reading = AbortOnDrop(task::spawn(read_lines(stdin, read)));
        let mut held: VecDeque<Bytes> = VecDeque::new();
        let mut more = true;
        while more || !held.is_empty() {
            if held.is_empty() {
                match lines.recv().await {
                    Some(line) if self.must_wait(&line) => held.push_back(line),
                    Some(line) => self.from_client(line).await,
                    None => more = false,
                }
                continue;
            }
            tokio::select! {
                biased;
                () = self.tools.listed() => {
                    while let Some(line) = held.pop_front() {
                        if self.must_wait(&line) {
                            held.push_front(line);
                            break;
                        }
                        self.from_client(line).await;
                    }
                }
                line = lines.recv(), if more && held.len() < HELD && bytes(&held) < HELD_BYTES => match line {
                    Some(line) if matches!(parse(&line), Frame::Response { .. }) => self.from_client(line).await,
                    Some(line) if withdraws(&line, &mut held) => {}
                    Some(line) => held.push_back(line),
                    None => more = false,
                },
            }
        }
        drop(reading);
    }

    /// Whether a line holds a call that can't be judged before the server has listed its tools.
    fn must_wait(&self, line: &Bytes) -> bool {
        match parse(line) {
            Frame::Batch(members) => members.iter().any(|member| self.is_undecided(&parse_valid(member))),
            frame => self.is_undecided(&frame),
        }
    }

    fn is_undecided(&self, frame: &Frame<'_>) -> bool {
        let Frame::Request { method, params: Some(params), .. } = frame else { return false };
        if method != "tools/call" {
            return false;
        }
        let Some(tool) = splice::get_string(params, "name") else { return false };
        self.tools.call_came(params);
        decide_by_configuration(&self.config, &tool).is_none() && self.tools.known(&tool).is_none()
    }

    async fn from_client(self: &Arc<Self>, line: Bytes) {
        let frame = parse(&line);
        let Frame::Batch(members) = frame else {
            let plan = self.plan(&frame, &line);
            return self.carry_out(plan, line).await;
        };
        let plain = members.iter().map(|member| plain(self, &parse_valid(member))).collect::<Option<Vec<_>>>();
        match plain {
            Some(notes) => {
                let requests = notes.into_iter().flatten().collect();
                self.pass(line.clone(), Note::Requests(requests)).await;
            }
            // One by one, in order: each is what it would be on a line of its own.
            None => {
                for member in members {
                    let line = line.slice_ref(member.as_bytes());
                    let plan = self.plan(&parse_valid(member), &line);
                    self.carry_out(plan, line.clone()).await;
                }
            }
        }
    }

    fn plan(&self, frame: &Frame<'_>, line: &Bytes) -> Plan {
        match frame {
            Frame::Request { id, method, params } if method == "tools/call" => self.plan_call(id, *params),
            Frame::Request { id, method, params } => {
                let initialize = (method == "initialize").then(|| params.map(str::to_owned));
                Plan::Pass(Note::Requests(vec![((*id).to_owned(), initialize)]))
            }
            Frame::Notification { method, params } => match &**method {
                "tools/call" => {
                    tracing::warn!("a tool call without an id was withheld: nobody could be told what came of it");
                    Plan::Withhold
                }
                "notifications/initialized" => Plan::Opened,
                "notifications/cancelled" => match cancelled_id(*params) {
                    // A server that is told of it may never answer, although the tool goes on.
                    Some(id) if self.calls.cancel(&id) => Plan::Withhold,
                    Some(id) => Plan::Pass(Note::Cancel(id)),
                    None => Plan::Pass(Note::Nothing),
                },
                _ => Plan::Pass(Note::Nothing),
            },
            Frame::Response { id, .. } => match self.book.client_answers(id) {
                ToWhom::Server => Plan::Pass(Note::Nothing),
                ToWhom::Nobody => Plan::Withhold,
                ToWhom::Renamed(id) => match str::from_utf8(line).ok().and_then(|text| splice::set(text, "id", &id)) {
                    Some(line) => Plan::Replace(line.into()),
                    None => Plan::Withhold,
                },
            },
            Frame::Broken { may_call: true, id } => {
                let text = "nothing was sent: the line names a tool call but is not valid JSON in UTF-8";
                Plan::Answer(error_line(id.as_deref().unwrap_or("null"), -32700, text, None))
            }
            Frame::Batch(_) | Frame::Other | Frame::Broken { may_call: false, .. } => Plan::Pass(Note::Nothing),
        }
    }

    fn plan_call(&self, id: &str, params: Option<&str>) -> Plan {
        let name = params.and_then(|params| splice::get_string(params, "name"));
        let (Some(params), Some(tool)) = (params, name) else {
            // Nothing that any server could run; it says so itself.
            return Plan::Pass(Note::Requests(vec![(id.to_owned(), None)]));
        };
        self.ready.raise();
        // A tool that the server does not list counts as not annotated.
        let annotations = self.tools.known(&tool).flatten();
        let terms = match decide(&self.config, &tool, annotations.as_ref()) {
            Decision::Pass => return Plan::Pass(Note::Requests(vec![(id.to_owned(), None)])),
            Decision::Guard(terms) => terms,
        };
        let call = Call { id: id.to_owned(), tool, params: params.to_owned(), came: Instant::now() };
        Plan::Call(call, terms)
    }

    async fn carry_out(self: &Arc<Self>, plan: Plan, line: Bytes) {
        match plan {
            Plan::Pass(note) => self.pass(line, note).await,
            Plan::Replace(line) => self.pass(line, Note::Nothing).await,
            Plan::Opened => {
                self.pass(line, Note::Initialized).await;
                self.tools.session_opened();
                self.ready.raise();
            }
            Plan::Call(call, terms) => match self.permits.clone().try_acquire_owned() {
                Ok(permit) => {
                    let opened = self.calls.open(&call.id);
                    task::spawn(self.clone().call(call, terms, opened, permit));
                }
                Err(_) => {
                    let text = format!("nothing was sent: {CALLS} calls are under way; try again later");
                    self.client.send(error_line(&call.id, TRANSPORT_ERROR, &text, None)).await;
                }
            },
            Plan::Withhold => {}
            Plan::Answer(line) => self.client.send(line).await,
        }
    }

    async fn pass(&self, line: Bytes, note: Note) {
        let ids: Vec<String> = match &note {
            Note::Requests(requests) => requests.iter().map(|(id, _)| id.clone()).collect(),
            _ => Vec::new(),
        };
        if !self.server.pass(line, note).await {
            for id in ids {
                let text = "nothing was sent: the server process has ended";
                self.client.send(error_line(&id, TRANSPORT_ERROR, text, None)).await;
            }
        }
    }
}

fn bytes(held: &VecDeque<Bytes>) -> usize {
    held.iter().map(Bytes::len).sum()
}

/// Whether a line cancels a call that is still held: then neither goes any further.
fn withdraws(line: &[u8], held: &mut VecDeque<Bytes>) -> bool {
    let Frame::Notification { method, params } = parse(line) else { return false };
    let Some(cancelled) = (method == "notifications/cancelled").then(|| cancelled_id(params)).flatten() else {
        return false;
    };
    let found = held.iter().position(|line| match parse(line) {
        Frame::Request { id, method, .. } => method == "tools/call" && IdKey::new(id) == cancelled,
        _ => false,
    });
    found.and_then(|at| held.remove(at)).is_some()
}

/// A task that ends with its owner.
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn read_lines<R: AsyncRead + Unpin>(stdin: R, lines: mpsc::Sender<Bytes>) {
    let mut stdin = Lines::new(stdin);
    loop {
        match stdin.next().await {
            Ok(Some(line)) => {
                if lines.send(line).await.is_err() {
                    return;
                }
            }
            Ok(None) => return,
            Err(error) => {
                tracing::error!(%error, "the client's messages can't be read");
                return;
            }
        }
    }
}

/// The requests in a member of a batch that needs nothing but to be passed on; `None` for every other member.
fn plain(proxy: &Proxy, frame: &Frame<'_>) -> Option<Option<(String, Option<Option<String>>)>> {
    match frame {
        Frame::Request { id, method, params } if method == "tools/call" => {
            let tool = splice::get_string((*params)?, "name")?;
            let annotations = proxy.tools.known(&tool);
            let decision = decide_by_configuration(&proxy.config, &tool)
                .or_else(|| annotations.map(|annotations| decide(&proxy.config, &tool, annotations.as_ref())));
            (decision == Some(Decision::Pass)).then(|| Some(((*id).to_owned(), None)))
        }
        Frame::Request { method, .. } if method == "initialize" => None,
        Frame::Request { id, .. } => Some(Some(((*id).to_owned(), None))),
        Frame::Notification { method, .. } => {
            let aside = ["tools/call", "notifications/initialized", "notifications/cancelled"];
            (!aside.contains(&&**method)).then_some(None)
        }
        // Answers are looked up one by one.
        Frame::Response { .. } => None,
        Frame::Batch(_) | Frame::Other | Frame::Broken { .. } => Some(None),
    }
}

/// Takes the server's messages to where they belong.
#[derive(Clone)]
pub(crate) struct FromServer {
    pub(crate) book: Arc<Book>,
    pub(crate) client: ClientSink,
    pub(crate) tools: Arc<Tools>,
}

/// What becomes of a message of the server.
enum Inward {
    Relay,
    Replace(Bytes),
    Keep,
}

impl OnLine for FromServer {
    async fn line(&self, line: Bytes) {
        let frame = parse(&line);
        let Frame::Batch(members) = frame else {
            match self.sort(&frame, &line) {
                Inward::Relay => self.client.send(line).await,
                Inward::Replace(line) => self.client.send(line).await,
                Inward::Keep => {}
            }
            return;
        };
        let sorted: Vec<(&str, Inward)> = members
            .into_iter()
            .map(|member| (member, self.sort(&parse_valid(member), &line.slice_ref(member.as_bytes()))))
            .collect();
        if sorted.iter().all(|(_, inward)| matches!(inward, Inward::Relay)) {
            return self.client.send(line.clone()).await;
        }
        for (member, inward) in sorted {
            match inward {
                Inward::Relay => self.client.send(line.slice_ref(member.as_bytes())).await,
                Inward::Replace(line) => self.client.send(line).await,
                Inward::Keep => {}
            }
        }
    }
}

impl FromServer {
    fn sort(&self, frame: &Frame<'_>, line: &Bytes) -> Inward {
        match frame {
            Frame::Response { id, body } => match self.book.server_answers(id, *body) {
                Goes::On => Inward::Relay,
                Goes::Nowhere => Inward::Keep,
            },
            Frame::Request { id, .. } => {
                let Some(new) = self.book.server_asks(id) else {
                    return Inward::Relay;
                };
                match str::from_utf8(line).ok().and_then(|text| splice::set(text, "id", &new)) {
                    Some(line) => Inward::Replace(line.into()),
                    None => Inward::Relay,
                }
            }
            Frame::Notification { method, .. } if method == "notifications/tools/list_changed" => {
                self.tools.list_changed();
                Inward::Relay
            }
            _ => Inward::Relay,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_call_can_be_withdrawn() {
        let call =
            |id: &str| Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{}}}}"#));
        let cancel = |id: &str| {
            format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#)
        };
        let mut held =
            VecDeque::from([call("1"), call("\"1\""), Bytes::from_static(b"{\"id\":2,\"method\":\"ping\"}")]);
        assert!(!withdraws(cancel("3").as_bytes(), &mut held));
        assert!(
            !withdraws(cancel("2").as_bytes(), &mut held),
            "only calls are withdrawn; the server hears of the rest"
        );
        assert!(!withdraws(&call("1"), &mut held));
        assert!(withdraws(cancel("1").as_bytes(), &mut held));
        assert_eq!(held.len(), 2);
        assert_eq!(held[0], call("\"1\""));
    }
}

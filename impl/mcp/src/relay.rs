//! Both directions: what is relayed as it is, and what is taken aside.

mod held;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use serde_json::json;
use settled::{Engine, task};
use settled_observers::Observer;
use tokio::sync::{Semaphore, mpsc};

use crate::at_rest::Secrets;
use crate::behind::server::{Note, ServerHandle, TRANSPORT_ERROR};
use crate::book::{Book, ToWhom};
use crate::config::Config;
use crate::flag::Flag;
use crate::guarded::admission::{Admission, Places, TooMuch};
use crate::guarded::call::{Call, Calls};
use crate::guarded::guard::{Decision, Terms, decide, decide_by_configuration};
use crate::guarded::keys::Merged;
use crate::listed::tools::Tools;
use crate::messages::context::Incoming;
use crate::messages::frame::{Frame, cancelled_id, parse, parse_valid};
use crate::messages::lines::ClientSink;
use crate::messages::splice;
use crate::session::Attempts;
use crate::told::answer::error_line;
use crate::told::offers::Adds;
use crate::told::patience::at;
use crate::told::tasks::{TaskMethod, TaskRequest};
use crate::watch::{Seen, Watch};

use held::{bytes, withdraws};

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
    pub(crate) observers: Arc<HashMap<String, Observer>>,
    /// Room for calls.
    pub(crate) places: Places,
    pub(crate) admission: Arc<Admission>,
    /// How confidential calls are kept.
    pub(crate) secrets: Secrets,
    /// What is only observed.
    pub(crate) watch: Option<Watch>,
    /// To ask the server's tools what became of calls.
    pub(crate) questions: Arc<Semaphore>,
    /// What is out at the server.
    pub(crate) attempts: Attempts,
    /// Which tools' declared keys have made one operation of different calls.
    pub(crate) merged: Arc<Merged>,
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
    Status(Call),
    Task(TaskRequest),
    Withhold,
    Answer(String),
}

impl Proxy {
    /// Takes the client's messages, in their order, until there are no more. A call that can't be judged before the server
    /// has listed its tools holds up what comes after it; only the client's answers go past it, since the server may need
    /// one before it lists anything.
    pub(crate) async fn read_client(self: Arc<Self>, mut messages: mpsc::Receiver<Incoming>) {
        let mut held: VecDeque<Incoming> = VecDeque::new();
        let mut more = true;
        while more || !held.is_empty() {
            if held.is_empty() {
                match messages.recv().await {
                    Some(message) if self.must_wait(&message.line) => held.push_back(message),
                    Some(message) => self.from_client(message).await,
                    None => more = false,
                }
                continue;
            }
            tokio::select! {
                biased;
                () = self.tools.listed() => {
                    while let Some(message) = held.pop_front() {
                        if self.must_wait(&message.line) {
                            held.push_front(message);
                            break;
                        }
                        self.from_client(message).await;
                    }
                }
                () = at(self.held_until(&held)) => self.give_up_held(&mut held).await,
                message = messages.recv(), if more && held.len() < HELD && bytes(&held) < HELD_BYTES => match message {
                    Some(message) if matches!(parse(&message.line), Frame::Response { .. }) => self.from_client(message).await,
                    Some(message) if withdraws(&message.line, &mut held) => {}
                    Some(message) => held.push_back(message),
                    None => more = false,
                },
            }
        }
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

    async fn from_client(self: &Arc<Self>, message: Incoming) {
        let frame = parse(&message.line);
        let Frame::Batch(members) = frame else {
            let plan = self.plan(&frame, &message);
            return self.carry_out(plan, message.clone()).await;
        };
        let line = &message.line;
        let plain = members.iter().map(|member| plain(self, &parse_valid(member))).collect::<Option<Vec<_>>>();
        match plain {
            Some(notes) => {
                let requests = notes.into_iter().flatten().collect();
                members.iter().for_each(|member| self.watch_if_observed(member, &message));
                self.pass(message.clone(), Note::Requests(requests)).await;
            }
            // One by one, in order: each is what it would be on a line of its own.
            None => {
                for member in members {
                    let alone = message.member(line.slice_ref(member.as_bytes()));
                    let plan = self.plan(&parse_valid(member), &alone);
                    self.carry_out(plan, alone).await;
                }
            }
        }
    }

    fn plan(&self, frame: &Frame<'_>, message: &Incoming) -> Plan {
        match frame {
            Frame::Request { id, method, params } if method == "tools/call" => self.plan_call(id, *params, message),
            Frame::Request { id, method, params } => {
                let of_task = self.config.tasks.then(|| TaskMethod::of(method, *params, self.book.session_tasks()));
                if let Some(method) = of_task.flatten() {
                    let params = params.unwrap_or("{}").to_owned();
                    return Plan::Task(TaskRequest { id: (*id).to_owned(), method, params, came: message.came });
                }
                if let Some(adds) = Adds::to(method) {
                    self.book.adds(id, adds);
                }
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
                ToWhom::Renamed(id) => {
                    match str::from_utf8(&message.line).ok().and_then(|text| splice::set(text, "id", &id)) {
                        Some(line) => Plan::Replace(line.into()),
                        None => Plan::Withhold,
                    }
                }
            },
            Frame::Broken { may_call: true, id } => {
                let text = "nothing was sent: the line names a tool call but is not valid JSON in UTF-8";
                Plan::Answer(error_line(id.as_deref().unwrap_or("null"), -32700, text, None))
            }
            Frame::Batch(_) | Frame::Other | Frame::Broken { may_call: false, .. } => Plan::Pass(Note::Nothing),
        }
    }

    fn plan_call(&self, id: &str, params: Option<&str>, message: &Incoming) -> Plan {
        let name = params.and_then(|params| splice::get_string(params, "name"));
        let (Some(params), Some(tool)) = (params, name) else {
            // Nothing that any server could run; it says so itself.
            return Plan::Pass(Note::Requests(vec![(id.to_owned(), None)]));
        };
        self.ready.raise();
        let call = |tool| Call {
            id: id.to_owned(),
            tool,
            params: params.to_owned(),
            came: message.came,
            context: message.context.clone(),
        };
        if self.is_status(&tool) {
            return Plan::Status(call(tool));
        }
        // A tool that the server does not list counts as not annotated.
        let annotations = self.tools.known(&tool).flatten();
        let terms = match decide(&self.config, &tool, annotations.as_ref()) {
            Decision::Pass => return Plan::Pass(Note::Requests(vec![(id.to_owned(), None)])),
            Decision::Watch => {
                self.watch(id, &tool, params, message);
                return Plan::Pass(Note::Requests(vec![(id.to_owned(), None)]));
            }
            Decision::Guard(terms) => terms,
        };
        Plan::Call(call(tool), terms)
    }

    /// A member of a batch passes; it may be a call that is only observed.
    fn watch_if_observed(&self, member: &str, message: &Incoming) {
        if self.watch.is_none() {
            return;
        }
        if let Frame::Request { id, method, params: Some(params) } = parse_valid(member)
            && method == "tools/call"
            && let Some(tool) = splice::get_string(params, "name")
            && decide_by_configuration(&self.config, &tool) == Some(Decision::Watch)
        {
            self.watch(id, &tool, params, message);
        }
    }

    /// A call passes that is only observed.
    fn watch(&self, id: &str, tool: &str, params: &str, message: &Incoming) {
        let Some(watch) = &self.watch else { return };
        let awaited = watch.call(Seen {
            scope: self.scope.clone(),
            tool: tool.to_owned(),
            params: message.line.slice_ref(params.as_bytes()),
            header: message.context.idempotency_key.clone(),
            annotations: self.tools.known(tool).flatten(),
            came: message.came,
        });
        if let Some(awaited) = awaited {
            self.book.watch(id, awaited);
        }
    }

    async fn carry_out(self: &Arc<Self>, plan: Plan, message: Incoming) {
        match plan {
            Plan::Pass(note) => self.pass(message, note).await,
            Plan::Replace(line) => self.pass(Incoming { line, ..message }, Note::Nothing).await,
            Plan::Opened => {
                self.pass(message, Note::Initialized).await;
                self.tools.session_opened();
                self.ready.raise();
            }
            Plan::Call(call, terms) => match self.places.take(|| self.key_of(&call, &terms)) {
                Ok(place) => {
                    let opened = self.calls.open(&call.id);
                    task::spawn(self.clone().call(call, terms, opened, place));
                }
                Err(problem) => self.too_much(&call.id, &problem).await,
            },
            Plan::Status(call) => match self.places.take(|| None) {
                Ok(permit) => {
                    let proxy = self.clone();
                    drop(task::spawn(async move {
                        proxy.answer_status(&call).await;
                        drop(permit);
                    }));
                }
                Err(problem) => self.too_much(&call.id, &problem).await,
            },
            Plan::Task(request) => match self.places.take(|| self.operation_of(&request)) {
                Ok(permit) => {
                    let (proxy, opened) = (self.clone(), self.calls.open(&request.id));
                    drop(task::spawn(async move {
                        proxy.answer_task(&request, &opened).await;
                        proxy.calls.close(&request.id, &opened);
                        drop(permit);
                    }));
                }
                Err(problem) => self.too_much(&request.id, &problem).await,
            },
            Plan::Withhold => {}
            Plan::Answer(line) => self.client.send(line).await,
        }
    }

    async fn too_much(&self, id: &str, problem: &TooMuch) {
        let text = format!("nothing was sent: {problem}");
        let data = json!({ "type": problem.kind() });
        self.client.send(error_line(id, TRANSPORT_ERROR, &text, Some(&data))).await;
    }

    async fn pass(&self, message: Incoming, note: Note) {
        let ids: Vec<String> = match &note {
            Note::Requests(requests) => requests.iter().map(|(id, _)| id.clone()).collect(),
            _ => Vec::new(),
        };
        if !self.server.pass(message, note).await {
            for id in ids {
                let text = "nothing was sent: the server process has ended";
                self.client.send(error_line(&id, TRANSPORT_ERROR, text, None)).await;
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
            matches!(decision, Some(Decision::Pass | Decision::Watch)).then(|| Some(((*id).to_owned(), None)))
        }
        Frame::Request { method, .. } if Adds::to(method).is_some() || method.starts_with("tasks/") => None,
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

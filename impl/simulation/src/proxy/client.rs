//! The client of a proxy: it opens a session, calls tools, cancels, and goes away without a word.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use settled::Answered;
use settled::protocol::Ends;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::answers::read;
use crate::caller::arguments;
use crate::plan::CallPlan;
use crate::truth::Told;
use crate::world::World;

/// How long a client waits for its session.
const OPENING: Duration = Duration::from_secs(120);

/// A client's way to its proxy.
pub(crate) struct Connection {
    state: Mutex<State>,
    hung_up: Notify,
}

struct State {
    /// None once the client is gone, or the proxy.
    lines: Option<mpsc::UnboundedSender<String>>,
    next: u64,
    open: bool,
    waiting: BTreeMap<u64, oneshot::Sender<Value>>,
}

impl Connection {
    /// Connects, and opens a session.
    pub(crate) fn open(world: &Arc<World>, to_proxy: DuplexStream, from_proxy: DuplexStream) -> Arc<Connection> {
        let (lines, queue) = mpsc::unbounded_channel();
        let state = State { lines: Some(lines), next: 0, open: false, waiting: BTreeMap::new() };
        let connection = Arc::new(Connection { state: Mutex::new(state), hung_up: Notify::new() });
        tokio::spawn(write(queue, to_proxy));
        tokio::spawn(connection.clone().listen(world.clone(), from_proxy));
        tokio::spawn(connection.clone().begin());
        connection
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether tools can be called.
    pub(crate) fn is_open(&self) -> bool {
        let state = self.state();
        state.open && state.lines.is_some()
    }

    /// The client is gone; `false` if it was already.
    pub(crate) fn hang_up(&self) -> bool {
        let was_there = self.close();
        self.hung_up.notify_one();
        was_there
    }

    fn close(&self) -> bool {
        let mut state = self.state();
        state.waiting.clear();
        state.lines.take().is_some()
    }

    fn say(&self, message: &Value) {
        if let Some(lines) = &self.state().lines {
            // Nobody reads what comes too late.
            let _ = lines.send(format!("{message}\n"));
        }
    }

    fn ask(&self, method: &str, params: &Value) -> (u64, oneshot::Receiver<Value>) {
        let (reply, answer) = oneshot::channel();
        let id = {
            let mut state = self.state();
            state.next += 1;
            let id = state.next;
            if state.lines.is_some() {
                state.waiting.insert(id, reply);
            }
            id
        };
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        (id, answer)
    }

    fn cancel(&self, id: u64) {
        self.state().waiting.remove(&id);
        let params = json!({ "requestId": id });
        self.say(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }));
    }

    async fn begin(self: Arc<Self>) {
        let client = json!({ "name": "simulated", "version": "1" });
        let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
        while self.state().lines.is_some() {
            let (_, answer) = self.ask("initialize", &params);
            match timeout(OPENING, answer).await {
                Ok(Ok(answer)) if answer.get("result").is_some() => {
                    self.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
                    self.state().open = true;
                    return;
                }
                _ => sleep(Duration::from_millis(300)).await,
            }
        }
    }

    async fn listen(self: Arc<Self>, world: Arc<World>, from_proxy: DuplexStream) {
        let mut lines = BufReader::new(from_proxy).lines();
        loop {
            let line = tokio::select! {
                biased;
                line = lines.next_line() => line,
                () = self.hung_up.notified() => break,
            };
            let Ok(Some(line)) = line else { break };
            let Ok(message) = serde_json::from_str::<Value>(&line) else {
                world.note(format_args!("a client can't read {line}"));
                continue;
            };
            let id = message.get("id").and_then(Value::as_u64);
            let reply = id.and_then(|id| self.state().waiting.remove(&id));
            if let Some(reply) = reply {
                // Whoever asked may have given up.
                let _ = reply.send(message);
            }
        }
        self.close();
    }
}

async fn write(mut queue: mpsc::UnboundedReceiver<String>, mut to_proxy: DuplexStream) {
    while let Some(line) = queue.recv().await {
        if to_proxy.write_all(line.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Asks one guard's proxy once; none: no answer came, or one that says that nothing was sent.
pub(crate) async fn once(
    world: &Arc<World>,
    guard: usize,
    call: &CallPlan,
    patience: Duration,
    audit: bool,
) -> Option<Answered> {
    let tries = if audit { 20 } else { 1 };
    for _ in 0..tries {
        if let Some(answered) = ask(world, guard, call, patience, audit).await {
            return Some(answered);
        }
        if audit {
            sleep(Duration::from_secs(20)).await;
        }
    }
    None
}

async fn ask(world: &Arc<World>, guard: usize, call: &CallPlan, patience: Duration, audit: bool) -> Option<Answered> {
    world.delay(0..=20).await;
    let deadline = Instant::now() + patience;
    let connection = loop {
        match world.guard(guard).client.filter(|client| client.is_open()) {
            Some(connection) => break connection,
            None if Instant::now() >= deadline => return None,
            None => sleep(Duration::from_millis(50)).await,
        }
    };
    let asked = arguments(call.wish, call.other);
    let given: Value = serde_json::from_slice(&asked).ok()?;
    let mut params = json!({ "name": format!("tool-{}", call.tool), "arguments": given });
    let own_key = world.plan.tools.get(call.tool)?.ends == Ends::WithWindow;
    if own_key && let Some(members) = params.as_object_mut() {
        members.insert("idempotencyKey".to_owned(), format!("wish-{}", call.wish).into());
    }
    world.truth(|truth| truth.calls += 1);
    let (id, answer) = connection.ask("tools/call", &params);
    let cancels = call.cancels.filter(|_| !audit).map(|after| Instant::now() + Duration::from_millis(after));
    let until = cancels.map_or(deadline, |cancels| cancels.min(deadline));
    let message = match timeout_at(until, answer).await {
        Ok(answer) => answer.ok()?,
        Err(_) => {
            if cancels.is_some() || world.draw(|random| random.bool()) {
                world.note(format_args!("the client of guard {guard} cancels wish {}", call.wish));
                connection.cancel(id);
            }
            return None;
        }
    };
    let key = world.key(call.tool, call.wish);
    world.note(format_args!("the client of guard {guard} is told of {key}: {message}"));
    let Some(told) = read(&message) else {
        world.coverage(|coverage| coverage.step("answered: not sent"));
        return None;
    };
    let created = told.created.map(|created| (key.clone(), created));
    let generation = created.and_then(|created| world.truth(|truth| truth.created.get(&created).copied()));
    world.coverage(|coverage| coverage.answer(&told.answer));
    let (answer, at, tool) = (told.answer, world.now(), call.tool);
    let answered =
        Answered { key: key.clone(), generation: generation.unwrap_or(0), created: 0, answer: answer.clone() };
    // What began when is only told of operations that began.
    if generation.is_some() || own_key {
        let generation = generation.unwrap_or(0);
        world.truth(|truth| truth.told.push(Told { key, tool, asked, generation, at, audit, answer }));
    }
    Some(answered)
}

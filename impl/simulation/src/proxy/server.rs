//! The MCP server behind a proxy: its processes, one after the other.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use settled::ToolReply;
use settled_mcp::{EndBy, StartServer, Started};
use tokio::io::{AsyncWriteExt, DuplexStream};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{sleep, timeout};

use super::BUSY;
use super::input::{Call, Input, Line};
use crate::process::Process;
use crate::tool::deliver;
use crate::world::World;

/// How the wait status of a process says that SIGKILL has ended it.
const KILLED: i32 = 9;

/// Starts the server of one proxy.
pub(crate) struct SimulatedServer {
    pub(crate) world: Arc<World>,
    pub(crate) process: Arc<Process>,
}

impl StartServer for SimulatedServer {
    fn start(&self) -> io::Result<Started> {
        let (world, guard) = (&self.world, self.process.guard);
        if world.happens(|rates| rates.refused, "MCP server can't be started") {
            return Err(io::Error::other("it can't be started now"));
        }
        world.note(format_args!("the server of guard {} starts", guard));
        let (output, to_proxy) = tokio::io::duplex(4 << 10);
        let (lines, arrived) = mpsc::unbounded_channel();
        let (say, said) = mpsc::unbounded_channel();
        let (exit, exited) = oneshot::channel();
        let state = State { exit: Some(exit), calls: 0 };
        let life = Arc::new(Life { world: world.clone(), guard, state: Mutex::new(state), news: Notify::new() });
        tokio::spawn(life.clone().read(arrived, say));
        tokio::spawn(life.clone().write(said, to_proxy));
        world.with_guard(guard, |place| place.server = Some(life.clone()));
        let input = Input {
            world: world.clone(),
            process: self.process.clone(),
            life: life.clone(),
            lines: Some(lines),
            partly: Vec::new(),
            call: None,
            waits: None,
            waited: false,
        };
        Ok(Started {
            input: Box::new(input),
            output: Box::new(output),
            ended: Box::pin(async move { exited.await.map_err(io::Error::other) }),
            end: Box::new(move |by| match by {
                EndBy::Term => life.ends(15),
                EndBy::Kill => life.ends(KILLED),
            }),
        })
    }
}

/// One process of the server.
pub(crate) struct Life {
    world: Arc<World>,
    guard: usize,
    state: Mutex<State>,
    news: Notify,
}

struct State {
    /// None once it has ended.
    exit: Option<oneshot::Sender<ExitStatus>>,
    calls: usize,
}

impl Life {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.state().exit.is_none()
    }

    /// It dies, unless it has; returns whether it hadn't.
    pub(crate) fn dies(&self) -> bool {
        let lived = !self.is_dead();
        if lived {
            self.world.fault("MCP server died");
            self.ends(KILLED);
        }
        lived
    }

    fn ends(&self, status: i32) {
        if let Some(exit) = self.state().exit.take() {
            self.world.note(format_args!("the server of guard {} ends ({status})", self.guard));
            // The proxy may be gone.
            let _ = exit.send(ExitStatus::from_raw(status));
            self.news.notify_waiters();
        }
    }

    async fn ended(&self) {
        let news = self.news.notified();
        if !self.is_dead() {
            news.await;
        }
    }

    async fn read(self: Arc<Self>, mut arrived: mpsc::UnboundedReceiver<Line>, say: mpsc::UnboundedSender<String>) {
        let world = self.world.clone();
        loop {
            let line = tokio::select! {
                biased;
                () = self.ended() => return,
                line = arrived.recv() => line,
            };
            let Some(Line { message, call }) = line else { break };
            let Some(id) = message.get("id").cloned() else { continue };
            let (life, say) = (self.clone(), say.clone());
            if let Some(call) = call {
                self.state().calls += 1;
                tokio::spawn(life.carry_out(id, call, say));
                continue;
            }
            let result = match message.get("method").and_then(Value::as_str) {
                Some("initialize") => json!({
                    "protocolVersion": "2025-06-18",
                    "capabilities": { "tools": {} },
                    "serverInfo": { "name": "simulated", "version": "1" },
                }),
                Some("tools/list") => {
                    let schema = json!({ "type": "object" });
                    let tool = |n| json!({ "name": format!("tool-{n}"), "inputSchema": schema });
                    json!({ "tools": (0..world.plan.tools.len()).map(tool).collect::<Vec<_>>() })
                }
                _ => json!({}),
            };
            tokio::spawn(async move {
                life.world.delay(1..=30).await;
                let _ = say.send(json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string());
            });
        }
        // Its input was closed.
        if world.happens(|rates| rates.slow, "MCP server does not end by itself") {
            let _ = timeout(Duration::from_secs(30), self.ended()).await;
        } else if world.draw(|random| random.bool()) {
            for _ in 0..100 {
                if self.is_dead() || self.state().calls == 0 {
                    break;
                }
                sleep(Duration::from_millis(50)).await;
            }
        }
        world.delay(0..=30).await;
        self.ends(0);
    }

    async fn write(self: Arc<Self>, mut said: mpsc::UnboundedReceiver<String>, mut to_proxy: DuplexStream) {
        loop {
            let writing = async {
                let line = said.recv().await?;
                to_proxy.write_all(format!("{line}\n").as_bytes()).await.ok()
            };
            tokio::select! {
                biased;
                () = self.ended() => return,
                written = writing => if written.is_none() {
                    return;
                },
            }
        }
    }

    async fn carry_out(self: Arc<Self>, id: Value, call: Call, say: mpsc::UnboundedSender<String>) {
        let world = &self.world;
        // What it has begun elsewhere goes on without it.
        let outlives = world.draw(|random| random.bool());
        let (done, reply) = oneshot::channel();
        let done = Arc::new(Mutex::new(Some(done)));
        let carried_out = tokio::spawn(deliver(world.clone(), call.tool, call.request, done));
        let reply = tokio::select! {
            biased;
            reply = reply => reply,
            () = self.ended() => {
                if !outlives {
                    carried_out.abort();
                }
                return;
            }
        };
        self.state().calls -= 1;
        let Ok(reply) = reply else {
            self.dies();
            return;
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let content = |bytes: &[u8]| json!([{ "type": "text", "text": text(bytes) }]);
        let (member, body) = match reply {
            ToolReply::Result(receipt) => ("result", json!({ "content": content(&receipt) })),
            ToolReply::Busy { body, .. } => ("error", json!({ "code": BUSY, "message": text(&body) })),
            ToolReply::Error(_, body) if world.draw(|random| random.bool()) => {
                ("error", json!({ "code": -32603, "message": text(&body) }))
            }
            ToolReply::Error(_, body) => ("result", json!({ "content": content(&body), "isError": true })),
            _ => return,
        };
        let _ = say.send(json!({ "jsonrpc": "2.0", "id": id, member: body }).to_string());
    }
}

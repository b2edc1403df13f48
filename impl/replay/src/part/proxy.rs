//! A guard that is the real proxy: `settled mcp` as a process of its own, and its client and its server's side here.

use std::collections::HashMap;
use std::io;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use settled_model::Description;
use settled_model::description::Kind;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{ChildStdin, Command};
use tokio::sync::oneshot;

use super::{PartError, join};
use crate::link;
use crate::wire::{Call, Frame, FromPart, Reply, Role, Spec, ToPart, Told, UNIT_MS};

/// How long the proxy waits for its tool's answer, and a little longer.
const TIMEOUT: &str = "1s";
const OUT_OF_TIME: Duration = Duration::from_millis(1_300);

/// The proxy's client.
struct Client {
    input: tokio::sync::Mutex<ChildStdin>,
    awaited: Mutex<HashMap<u64, oneshot::Sender<Value>>>,
    next: std::sync::atomic::AtomicU64,
}

fn configuration(kind: Kind) -> String {
    let kind = match kind {
        Kind::Deduplicates => {
            "kind = \"deduplicates\"\npass_key_as = \"idempotency_key\"\nlimit = \"24h\"\nmargin = \"1m\"\n"
        }
        _ => "kind = \"opaque\"\n",
    };
    format!("[tools.act]\n{kind}timeout = \"{TIMEOUT}\"\n")
}

pub async fn run(spec: Spec, number: u8) -> Result<(), PartError> {
    let description: Description =
        serde_json::from_value(spec.description.clone()).map_err(|error| PartError::Start(error.to_string()))?;
    let (Some(settled), Some((program, arguments))) = (&spec.proxy, &spec.program) else {
        return Err(PartError::Start("no proxy is named".to_owned()));
    };
    let config = spec.directory.join(format!("settled-{}.toml", number + 1));
    std::fs::write(&config, configuration(description.tool.kind))?;
    let history = spec.directory.join(format!("guard-{}.history.jsonl", number + 1));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let (link, mut commands) = join(&spec, Role::Guard(number), listener.local_addr()?.port()).await?;
    let mut proxy = Command::new(settled)
        .arg("mcp")
        .args(["--scope", &spec.keys.scope, "--ledger", &spec.ledger])
        .arg("--config")
        .arg(&config)
        .arg("--history")
        .arg(&history)
        .arg("--")
        .arg(program)
        .args(arguments)
        .arg(spec.directory.join("spec.json"))
        .args([format!("shim-{number}"), spec.incarnation.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let nothing = || io::Error::other("the proxy has no standard input and output");
    let input = proxy.stdin.take().ok_or_else(nothing)?;
    let output = proxy.stdout.take().ok_or_else(nothing)?;
    link.say(FromPart::Child { pid: proxy.id().unwrap_or_default() });
    let client =
        Arc::new(Client { input: tokio::sync::Mutex::new(input), awaited: Mutex::default(), next: Default::default() });
    let listening = client.clone();
    tokio::spawn(async move {
        let mut output = BufReader::new(output);
        while let Ok(Some(message)) = link::read::<Value>(&mut output).await {
            listening.hear(message);
        }
    });
    let hello = json!({
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "replay", "version": "1" },
    });
    client.ask("initialize", hello).await?;
    client.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await?;
    link.say(FromPart::Ack { id: u64::MAX });
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (stream, _) = accepted?;
                tokio::spawn(serve(client.clone(), stream));
            }
            command = commands.recv() => {
                let Some(command) = command else { return Ok(()) };
                let link = link.clone();
                tokio::spawn(async move {
                    match command {
                        // Its timers are its own: they are waited for.
                        ToPart::RunOut { id, ms, .. } => {
                            if ms < UNIT_MS {
                                tokio::time::sleep(OUT_OF_TIME).await;
                            }
                            link.say(FromPart::Ack { id });
                        }
                        // It looks after what was left by itself.
                        ToPart::Recover { id }
                        | ToPart::Expire { id }
                        | ToPart::Cancel { id, .. }
                        | ToPart::Decide { id, .. }
                        | ToPart::LookAgain { id, .. }
                        | ToPart::Ping { id } => link.say(FromPart::Ack { id }),
                        _ => {}
                    }
                });
            }
        }
    }
}

impl Client {
    async fn say(&self, message: &Value) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        let mut input = self.input.lock().await;
        input.write_all(&line).await?;
        input.flush().await
    }

    async fn ask(&self, method: &str, params: Value) -> io::Result<Value> {
        let id = self.next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let (waiter, answer) = oneshot::channel();
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner).insert(id, waiter);
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await?;
        answer.await.map_err(|_| io::Error::other("the proxy has ended"))
    }

    fn hear(&self, message: Value) {
        let id = message.get("id").and_then(Value::as_u64);
        let waiter = id.and_then(|id| self.awaited.lock().unwrap_or_else(PoisonError::into_inner).remove(&id));
        // Who has gone away needs no answer.
        let _ = waiter.map(|waiter| waiter.send(message));
    }
}

async fn serve(client: Arc<Client>, stream: TcpStream) -> io::Result<()> {
    let (from, mut to) = stream.into_split();
    let Some(Frame::Call(call)) = link::read::<Frame>(&mut BufReader::new(from)).await? else { return Ok(()) };
    let Call { call, key, arguments, .. } = call;
    let params = json!({
        "name": "act",
        "arguments": { "arguments": arguments, "call": call, "operation": key },
        "_meta": { "io.settled/idempotency-key": format!("k{key}") },
    });
    let message = client.ask("tools/call", params).await?;
    link::write(&mut to, &Reply::Told(told(&message))).await
}

/// What the proxy's mark says.
fn told(message: &Value) -> Told {
    let (result, error) = (message.get("result"), message.get("error"));
    let place = result.and_then(|result| result.get("_meta")).or_else(|| error.and_then(|error| error.get("data")));
    let status = place.and_then(|place| place.get("io.settled/status")?.get("status")?.as_str());
    let effect = result.and_then(|result| result.get("structuredContent")?.get("effect")?.as_u64());
    match status {
        Some("done") => Told::Done(effect.and_then(|effect| u32::try_from(effect).ok()).unwrap_or(u32::MAX)),
        Some("failed") => Told::Failed,
        Some("in_progress") => Told::InProgress,
        Some("conflict") => Told::Conflict,
        // Whatever it can't say for certain is not known.
        _ => Told::Unknown,
    }
}

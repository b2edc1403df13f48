//! An MCP server over stdio that does nothing itself: each call goes over the conductor's network to the tool.

use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use super::PartError;
use crate::link;
use crate::wire::{Frame, Reply, Spec, Which};

pub async fn run(spec: Spec, number: u8) -> Result<(), PartError> {
    let mut input = BufReader::new(tokio::io::stdin());
    let (lines, mut outgoing) = mpsc::unbounded_channel::<Value>();
    tokio::spawn(async move {
        let mut output = tokio::io::stdout();
        while let Some(message) = outgoing.recv().await {
            let mut line = message.to_string();
            line.push('\n');
            if output.write_all(line.as_bytes()).await.is_err() || output.flush().await.is_err() {
                break;
            }
        }
    });
    while let Some(message) = link::read::<Value>(&mut input).await? {
        let Some(id) = message.get("id").cloned() else { continue };
        let answer = |result: Value| json!({ "jsonrpc": "2.0", "id": id, "result": result });
        match message.get("method").and_then(Value::as_str) {
            Some("initialize") => {
                let result = json!({
                    "protocolVersion": "2025-06-18",
                    "capabilities": { "tools": {} },
                    "serverInfo": { "name": "replay", "version": "1" },
                });
                let _ = lines.send(answer(result));
            }
            Some("tools/list") => {
                let tool = json!({ "name": "act", "inputSchema": { "type": "object" } });
                let _ = lines.send(answer(json!({ "tools": [tool] })));
            }
            Some("tools/call") => {
                let arguments = message.get("params").and_then(|params| params.get("arguments"));
                let of = |name: &str| arguments.and_then(|all| all.get(name)?.as_u64()).unwrap_or(0) as u8;
                let which = Which { key: of("operation"), generation: 1, attempt: 0 };
                let frame = Frame::Request { which, call: of("call"), from: number + 1 };
                let (network, lines) = (spec.network, lines.clone());
                tokio::spawn(async move {
                    match ask(network, &frame).await {
                        Ok(Some(reply)) => drop(lines.send(answered(&id, &reply))),
                        // A server whose connection is cut is gone.
                        Ok(None) | Err(_) => std::process::exit(1),
                    }
                });
            }
            _ => drop(lines.send(answer(json!({})))),
        }
    }
    Ok(())
}

fn answered(id: &Value, reply: &Reply) -> Value {
    let result = match reply {
        Reply::Done(effect) => json!({
            "content": [{ "type": "text", "text": format!("effect {effect}") }],
            "structuredContent": { "effect": effect },
        }),
        _ => json!({ "content": [{ "type": "text", "text": "an error" }], "isError": true }),
    };
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

async fn ask(network: u16, frame: &Frame) -> std::io::Result<Option<Reply>> {
    let mut stream = TcpStream::connect(("127.0.0.1", network)).await?;
    link::write(&mut stream, frame).await?;
    link::read(&mut BufReader::new(stream)).await
}

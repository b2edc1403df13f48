//! The tool over MCP on standard input and output.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::task::JoinSet;

use super::control::Point;
use super::mcp;
use super::step::{Tool, Wish};

/// The calls under way, by the ids of their requests.
type Calls = Arc<Mutex<HashMap<String, Wish>>>;

pub async fn serve(tool: Tool) -> std::io::Result<()> {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let out = Arc::new(tokio::sync::Mutex::new(tokio::io::stdout()));
    let calls = Calls::default();
    let mut under_way = JoinSet::new();
    while let Some(line) = lines.next_line().await? {
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        if message["method"] == "notifications/cancelled" {
            cancelled(&tool, &calls, &message["params"]["requestId"]);
        }
        let id = message["id"].to_string();
        if let Some(wish) = mcp::wish(&message) {
            calls.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), wish);
        }
        let (tool, out, calls) = (tool.clone(), Arc::clone(&out), Arc::clone(&calls));
        under_way.spawn(async move {
            let answer = mcp::answer(&tool, message).await;
            calls.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
            match answer {
                // The end of a connection over stdio is that of the server.
                Err(_) => std::process::exit(0),
                Ok(None) => {}
                Ok(Some(reply)) => {
                    let line = format!("{reply}\n");
                    let mut out = out.lock().await;
                    let _ = out.write_all(line.as_bytes()).await;
                    let _ = out.flush().await;
                }
            }
        });
    }
    let left: Vec<Wish> = calls.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
    for wish in left {
        tool.control.reach(Point::Abandoned, &wish.run, &wish.step).await;
    }
    while under_way.join_next().await.is_some() {}
    Ok(())
}

fn cancelled(tool: &Tool, calls: &Calls, id: &Value) {
    let wish = calls.lock().unwrap_or_else(PoisonError::into_inner).get(&id.to_string()).cloned();
    if let Some(wish) = wish {
        let control = tool.control.clone();
        tokio::spawn(async move { control.reach(Point::Abandoned, &wish.run, &wish.step).await });
    }
}

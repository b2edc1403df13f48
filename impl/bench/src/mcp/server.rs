//! An MCP server that does nothing, as fast as it can: `read` is annotated as a read, `charge` as destructive.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::post;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::BenchError;
use crate::mcp::messages::REVISION;

#[derive(Deserialize)]
struct Asked<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: Option<&'a str>,
}

const TOOLS: &str = r#"{"tools":[{"name":"read","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},{"name":"charge","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":false,"destructiveHint":true,"idempotentHint":false}}]}"#;

/// The answer to a message; `None` if it needs none.
pub fn answer(message: &[u8]) -> Option<String> {
    let asked: Asked<'_> = serde_json::from_slice(message).ok()?;
    let (id, method) = (asked.id?.get(), asked.method?);
    let result = match method {
        "initialize" => format!(
            r#"{{"protocolVersion":"{REVISION}","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"nothing","version":"1"}}}}"#
        ),
        "tools/list" => TOOLS.to_owned(),
        "tools/call" => r#"{"content":[{"type":"text","text":"done"}]}"#.to_owned(),
        "ping" => "{}".to_owned(),
        _ => {
            return Some(format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"Method not found"}}}}"#
            ));
        }
    };
    Some(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#))
}

/// Serves standard input and output until the input ends.
///
/// # Errors
/// If they can't be read or written.
pub fn over_stdio() -> std::io::Result<()> {
    let mut input = BufReader::with_capacity(1 << 16, std::io::stdin().lock());
    let mut output = std::io::stdout().lock();
    let (mut line, mut answers) = (Vec::new(), Vec::new());
    while input.read_until(b'\n', &mut line)? > 0 {
        if let Some(answer) = answer(&line) {
            answers.extend_from_slice(answer.as_bytes());
            answers.push(b'\n');
        }
        line.clear();
        // One write for all that came in one read.
        if input.buffer().is_empty() {
            output.write_all(&answers)?;
            output.flush()?;
            answers.clear();
        }
    }
    Ok(())
}

/// Serves HTTP on a free port of this machine until the process ends; `said` is told its URL.
///
/// # Errors
/// If there is no port.
pub async fn over_http(said: impl FnOnce(&str)) -> Result<(), BenchError> {
    let port = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = tokio::net::TcpListener::bind(port).await.map_err(BenchError::file("a free port"))?;
    let address = listener.local_addr().map_err(BenchError::file("a free port"))?;
    said(&format!("http://{address}/mcp"));
    let router = Router::new().route("/mcp", post(posted));
    axum::serve(listener, router).await.map_err(BenchError::file("the server"))
}

async fn posted(body: Bytes) -> impl IntoResponse {
    match answer(&body) {
        Some(answer) => (StatusCode::OK, [(header::CONTENT_TYPE, "application/json")], answer),
        None => (StatusCode::ACCEPTED, [(header::CONTENT_TYPE, "application/json")], String::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::Tool;
    use crate::mcp::messages::{INITIALIZED, LIST, answered, call, initialize};

    #[test]
    fn everything_that_a_client_asks_is_answered() {
        let id = |message: &str| answered(&answer(message.as_bytes()).unwrap()).unwrap();
        assert_eq!(id(&initialize()), Some(0));
        assert_eq!(id(LIST), Some(1));
        assert_eq!(id(&call(5, Tool::Read, 1)), Some(5));
        assert_eq!(answer(INITIALIZED.as_bytes()), None);
        assert_eq!(answer(b"not JSON"), None);
        assert!(answer(br#"{"id":"a","method":"x"}"#).unwrap().contains(r#""id":"a","error""#));
    }
}

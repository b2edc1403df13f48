//! Clients over HTTP that are slow: a clock that only waits move says for how long they are borne with.

use std::time::Duration;

use crate::support::front::{Front, call_text, front};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

/// A connection on which this much of a request was sent, and everything that comes back until it is closed.
async fn begun(front: &Front, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(front.address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    stream
}

async fn rest(mut stream: TcpStream) -> String {
    let mut text = Vec::new();
    // A reset says as much as an end.
    let _ = stream.read_to_end(&mut text).await;
    String::from_utf8_lossy(&text).into_owned()
}

/// A request that announces a body, of which the client sends this much.
fn head(front: &Front, length: usize) -> String {
    format!(
        "POST /mcp HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\n\
         mcp-protocol-version: 2025-11-25\r\ncontent-length: {length}\r\n\r\n",
        front.address
    )
}

#[tokio::test(start_paused = true)]
async fn headers_may_take_half_a_minute_however_they_trickle() {
    let front = front("").await;
    let from = Instant::now();
    let mut stream = begun(&front, "POST /mcp HTTP/1.1\r\n").await;
    for byte in format!("host: {}\r\ncontent-type: application/json\r\n", front.address).bytes() {
        if stream.write_all(&[byte]).await.is_err() || from.elapsed() > Duration::from_secs(60) {
            break;
        }
        sleep(Duration::from_secs(1)).await;
    }
    rest(stream).await;
    let took = from.elapsed();
    assert!((Duration::from_secs(30)..Duration::from_secs(40)).contains(&took), "{took:?}");
    assert_eq!(front.server.log().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_stalls_is_given_up_and_nothing_is_sent() {
    let front = front("").await;
    let body = call_text(1, "charge", json!({}));
    let from = Instant::now();
    // All but its last byte.
    let text = head(&front, body.len()) + &body[..body.len() - 1];
    let answer = rest(begun(&front, &text).await).await;
    let took = from.elapsed();
    assert!(answer.starts_with("HTTP/1.1 408 ") && answer.contains("takes too long to arrive"), "{answer}");
    assert!((Duration::from_secs(15)..Duration::from_secs(25)).contains(&took), "{took:?}");
    assert_eq!((front.server.got(&["tools/call"]), front.server.effects()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_trickles_has_five_minutes() {
    let front = front("").await;
    let from = Instant::now();
    let mut stream = begun(&front, &head(&front, 1000)).await;
    while from.elapsed() < Duration::from_secs(400) {
        if stream.write_all(b" ").await.is_err() {
            break;
        }
        sleep(Duration::from_secs(10)).await;
        // It has answered.
        let mut one = [0];
        if stream.try_read(&mut one).is_ok() {
            break;
        }
    }
    let took = from.elapsed();
    assert!((Duration::from_secs(300)..Duration::from_secs(330)).contains(&took), "{took:?}");
    assert_eq!(front.server.log().len(), 0);
}

//! Something on the way that delivers a request twice when it is told to.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Either, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1 as client;
use hyper::http::request::Parts;
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::control::{Control, Order, Point};
use super::mcp;
use super::step::{Cut, Wish};

type Body = Either<Full<Bytes>, Incoming>;

pub async fn http(listener: TcpListener, to: SocketAddr, control: Control) -> std::io::Result<()> {
    control.reach(Point::Listening(listener.local_addr()?.to_string()), "", "").await;
    loop {
        let (stream, _) = listener.accept().await?;
        let control = control.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| hand_on(control.clone(), to, request));
            let _ = server::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn hand_on(control: Control, to: SocketAddr, request: Request<Incoming>) -> Result<Response<Body>, Cut> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| Cut)?.to_bytes();
    let wish = match parts.method {
        Method::POST => wished(&body),
        _ => None,
    };
    let twice = match &wish {
        Some(wish) => control.reach(Point::Relayed, &wish.run, &wish.step).await == Order::Twice,
        None => false,
    };
    if twice {
        let first = send(to, &parts, body.clone()).await?;
        let (head, answer) = first.into_parts();
        let answer = answer.collect().await.map_err(|_| Cut)?.to_bytes();
        // Its sender does not know of the second one, so its answer is nobody's.
        if let Ok(second) = send(to, &parts, body).await {
            let _ = second.into_body().collect().await;
        }
        return Ok(Response::from_parts(head, Either::Left(Full::new(answer))));
    }
    Ok(send(to, &parts, body).await?.map(Either::Right))
}

fn wished(body: &[u8]) -> Option<Wish> {
    let message: Value = serde_json::from_slice(body).ok()?;
    mcp::wish(&message).or_else(|| serde_json::from_value(message).ok())
}

async fn send(to: SocketAddr, parts: &Parts, body: Bytes) -> Result<Response<Incoming>, Cut> {
    let stream = TcpStream::connect(to).await.map_err(|_| Cut)?;
    let (mut sender, connection) = client::handshake(TokioIo::new(stream)).await.map_err(|_| Cut)?;
    tokio::spawn(connection);
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = parts.method.clone();
    *request.uri_mut() = parts.uri.clone();
    *request.headers_mut() = parts.headers.clone();
    request.headers_mut().remove(hyper::header::TRANSFER_ENCODING);
    sender.send_request(request).await.map_err(|_| Cut)
}

pub async fn stdio(command: &[OsString], control: Control) -> std::io::Result<()> {
    let Some((program, arguments)) = command.split_first() else { return Ok(()) };
    let mut child = tokio::process::Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let (Some(mut inward), Some(outward)) = (child.stdin.take(), child.stdout.take()) else { return Ok(()) };
    let doubled = Arc::new(tokio::sync::Mutex::new(Vec::<String>::new()));
    let seen = Arc::clone(&doubled);
    let back = tokio::spawn(async move {
        let mut lines = BufReader::new(outward).lines();
        let mut out = tokio::io::stdout();
        while let Ok(Some(line)) = lines.next_line().await {
            if is_second_answer(&line, &mut *seen.lock().await) {
                continue;
            }
            if out.write_all(format!("{line}\n").as_bytes()).await.is_err() || out.flush().await.is_err() {
                return;
            }
        }
    });
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let mut times = 1;
        if let Ok(message) = serde_json::from_str::<Value>(&line)
            && let Some(wish) = mcp::wish(&message)
            && control.reach(Point::Relayed, &wish.run, &wish.step).await == Order::Twice
        {
            times = 2;
            doubled.lock().await.extend([message["id"].to_string(), message["id"].to_string()]);
        }
        for _ in 0..times {
            inward.write_all(format!("{line}\n").as_bytes()).await?;
        }
        inward.flush().await?;
    }
    drop(inward);
    let _ = back.await;
    child.wait().await.map(drop)
}

/// Whether a line is the second answer to a request that was handed on twice: its sender expects one.
fn is_second_answer(line: &str, doubled: &mut Vec<String>) -> bool {
    let Ok(message) = serde_json::from_str::<Value>(line) else { return false };
    if message.get("method").is_some() {
        return false;
    }
    let id = message["id"].to_string();
    let left = doubled.iter().filter(|doubled| **doubled == id).count();
    if let Some(at) = doubled.iter().position(|doubled| *doubled == id) {
        doubled.remove(at);
    }
    left == 1
}

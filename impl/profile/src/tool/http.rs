//! The tool over HTTP: `POST /step`, `POST /mcp`, and for observers `GET /applied/RUN/STEP`.

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::control::Point;
use super::mcp;
use super::step::{Cut, Tool, Wish};

/// Much more than any call of the tool has.
const LONGEST: usize = 1 << 20;

type Answer = Response<Full<Bytes>>;

pub async fn serve(listener: TcpListener, tool: Tool) -> std::io::Result<()> {
    tool.control.reach(Point::Listening(listener.local_addr()?.to_string()), "", "").await;
    loop {
        let (stream, _) = listener.accept().await?;
        let tool = tool.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| answer(tool.clone(), request));
            // An error of the service ends the connection without an answer, as it is meant to.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(tool: Tool, request: Request<Incoming>) -> Result<Answer, Cut> {
    let path = request.uri().path().to_owned();
    match (request.method(), path.as_str()) {
        (&Method::POST, "/step") => match read::<Wish>(request).await {
            Some(wish) => {
                let done = json!({ "step": wish.step, "ok": true });
                tool.step(wish).await?;
                Ok(json_answer(StatusCode::OK, &done))
            }
            None => Ok(json_answer(StatusCode::BAD_REQUEST, &json!({ "error": "expected {\"run\": …, \"step\": …}" }))),
        },
        (&Method::POST, "/mcp") => match read::<Value>(request).await {
            Some(message) => match mcp::answer(&tool, message).await? {
                Some(reply) => Ok(json_answer(StatusCode::OK, &reply)),
                None => Ok(empty(StatusCode::ACCEPTED)),
            },
            None => Ok(json_answer(StatusCode::BAD_REQUEST, &mcp::unreadable())),
        },
        (_, "/mcp") => Ok(empty(StatusCode::METHOD_NOT_ALLOWED)),
        (&Method::GET, path) => Ok(applied(&tool, path)),
        _ => Ok(empty(StatusCode::NOT_FOUND)),
    }
}

fn applied(tool: &Tool, path: &str) -> Answer {
    let named = path.strip_prefix("/applied/").and_then(|rest| rest.split_once('/'));
    let Some((run, step)) = named else { return empty(StatusCode::NOT_FOUND) };
    match tool.applied(run, step) {
        Ok(0) => empty(StatusCode::NOT_FOUND),
        Ok(times) => json_answer(StatusCode::OK, &json!({ "times": times })),
        Err(_) => empty(StatusCode::INTERNAL_SERVER_ERROR),
    }
}

async fn read<T: serde::de::DeserializeOwned>(request: Request<Incoming>) -> Option<T> {
    let body = Limited::new(request.into_body(), LONGEST).collect().await.ok()?;
    serde_json::from_slice(&body.to_bytes()).ok()
}

fn json_answer(status: StatusCode, body: &Value) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(body.to_string())));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static("application/json"));
    answer
}

fn empty(status: StatusCode) -> Answer {
    let mut answer = Response::new(Full::default());
    *answer.status_mut() = status;
    answer
}

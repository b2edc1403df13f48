//! One connection of a client, and the requests that come on it.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::header::ORIGIN;
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;

use crate::front::payload::Payload;
use crate::front::reply::{BAD_REQUEST, Problem, empty, preflight, share};
use crate::front::well_known::{METADATA, metadata};
use crate::front::wire::{Connection, Wire};
use crate::front::{Front, listen, post};

/// How long a client may take to send the headers of a request.
const HEADERS: Duration = Duration::from_secs(30);

/// How much of a request's headers, and of a response, is held at once.
const BUFFER: usize = 64 << 10;

/// How many headers a request may have.
const HEADER_LINES: usize = 100;

/// Serves a connection to its end. At the end of this process, what was asked is answered first.
pub(crate) async fn serve(front: Arc<Front>, stream: TcpStream) {
    // Small messages are to go out at once.
    let _ = stream.set_nodelay(true);
    let wire = Arc::new(Wire::default());
    let io = TokioIo::new(Connection::new(stream, wire.clone()));
    let answering = front.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let (front, wire) = (answering.clone(), wire.clone());
        async move { Ok::<_, Infallible>(respond(&front, request, &wire).await) }
    });
    let mut connection = std::pin::pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADERS)
            .max_buf_size(BUFFER)
            .max_headers(HEADER_LINES)
            .serve_connection(io, service)
    );
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = front.draining.raised() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(%error, "a client's connection ended");
    }
}

async fn respond(front: &Arc<Front>, request: Request<Incoming>, wire: &Arc<Wire>) -> Response<Payload> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path();
    if parts.method == Method::GET && path == "/healthz" {
        return empty(StatusCode::OK);
    }
    if parts.method == Method::GET && path == "/readyz" {
        return if front.draining.is_raised() { empty(StatusCode::SERVICE_UNAVAILABLE) } else { empty(StatusCode::OK) };
    }
    let origin = parts.headers.get(ORIGIN).cloned();
    if let Err(problem) = front.door.check(&parts.headers, &parts.uri) {
        return problem.response();
    }
    let mut response = answer(front, parts, body, wire).await.unwrap_or_else(Problem::response);
    if let Some(origin) = origin {
        share(&mut response, &origin);
    }
    response
}

async fn answer(
    front: &Arc<Front>,
    parts: Parts,
    body: Incoming,
    wire: &Arc<Wire>,
) -> Result<Response<Payload>, Problem> {
    let path = parts.uri.path();
    if path == METADATA || path.strip_prefix(METADATA).is_some_and(|rest| rest.starts_with('/')) {
        return metadata(front, &parts).await;
    }
    let Some(service) = front.service_at(path) else {
        let problem = format!("nothing is served at this path: try {}", front.paths().join(", "));
        return Err(Problem::new(StatusCode::NOT_FOUND, BAD_REQUEST, problem));
    };
    if parts.method == Method::OPTIONS {
        return Ok(preflight());
    }
    if front.draining.is_raised() {
        return Err(Problem::busy("this server is about to end: nothing was sent"));
    }
    match parts.method {
        Method::POST => post::post(front, service, parts, body, wire).await,
        Method::GET => listen::get(front, service, &parts, wire),
        Method::DELETE => listen::delete(front, service, &parts),
        _ => Err(Problem::method("POST, GET, DELETE")),
    }
}

//! An API that does nothing, as fast as it can.

use std::net::SocketAddr;

use axum::Router;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::post;
use bytes::Bytes;

use crate::error::BenchError;

/// The path that is called.
pub const PATH: &str = "/v1/charges";

/// What is answered.
pub const ANSWER: &str = r#"{"id":"ch_1","object":"charge","amount":4200,"status":"succeeded"}"#;

/// Serves on a free port of this machine until the process ends; `said` is told its URL.
///
/// # Errors
/// If there is no port.
pub async fn serve(said: impl FnOnce(&str)) -> Result<(), BenchError> {
    let port = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = tokio::net::TcpListener::bind(port).await.map_err(BenchError::file("a free port"))?;
    let address = listener.local_addr().map_err(BenchError::file("a free port"))?;
    said(&format!("http://{address}"));
    let router = Router::new().route(PATH, post(charged));
    axum::serve(listener, router).await.map_err(BenchError::file("the server"))
}

async fn charged(_: Bytes) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], ANSWER)
}

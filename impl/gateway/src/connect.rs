//! Connecting to the upstream, within a time.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tower::BoxError;
use tower_service::Service;

/// Connects, the TLS handshake included, within a time.
#[derive(Clone, Debug)]
pub(crate) struct Within {
    pub(crate) connector: HttpsConnector<HttpConnector>,
    pub(crate) time: Duration,
}

/// Connecting took too long.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("connecting took longer than {0:?}")]
struct TooLong(Duration);

type Connecting = Pin<Box<dyn Future<Output = Result<MaybeHttpsStream<TokioIo<TcpStream>>, BoxError>> + Send>>;

impl Service<Uri> for Within {
    type Response = MaybeHttpsStream<TokioIo<TcpStream>>;
    type Error = BoxError;
    type Future = Connecting;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.connector.poll_ready(cx)
    }

    fn call(&mut self, uri: Uri) -> Connecting {
        let (connecting, time) = (self.connector.call(uri), self.time);
        Box::pin(async move { timeout(time, connecting).await.unwrap_or_else(|_| Err(TooLong(time).into())) })
    }
}

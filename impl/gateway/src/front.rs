//! Connections: taking them, serving them, and letting them end.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::config::Limits;
use crate::flag::Flag;
use crate::gateway::Gateway;
use crate::respond::respond;

/// How long to wait when no connection can be taken: what it lacks (file descriptors) others may give back.
const BREATH: Duration = Duration::from_millis(50);

/// After how long of silence it is asked whether the other side of HTTP/2 is still there.
const STILL_THERE: Duration = Duration::from_secs(20);

/// How many requests may be under way on one connection of HTTP/2.
const STREAMS: u32 = 256;

/// Takes connections. Never returns.
pub(crate) async fn accept(gateway: &Arc<Gateway>, listener: &TcpListener, connections: &mut JoinSet<()>) {
    let room = Arc::new(Semaphore::new(gateway.setup().limits.connections.min(Semaphore::MAX_PERMITS)));
    loop {
        let Ok(permit) = room.clone().acquire_owned().await else { return };
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, from)) => {
                let serving = serve(gateway.clone(), stream, from);
                connections.spawn(async move {
                    serving.await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "no connection can be taken: is the limit of open files too low?");
                sleep(BREATH).await;
            }
        }
    }
}

/// Serves a connection to its end. At the end of this process, what was asked is answered first.
async fn serve(gateway: Arc<Gateway>, stream: TcpStream, from: SocketAddr) {
    // Small answers are to go out at once.
    let _ = stream.set_nodelay(true);
    let limits = gateway.setup().limits;
    let asked = Flag::default();
    let (answering, asks) = (gateway.clone(), asked.clone());
    let service = service_fn(move |request: Request<Incoming>| {
        let gateway = answering.clone();
        asks.raise();
        async move { Ok::<_, Infallible>(respond(&gateway, request, Some(from.ip())).await) }
    });
    let builder = builder(&limits);
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    // Which version is spoken is read first, for which the server itself has no limit.
    let too_slow = async {
        sleep(limits.header_timeout).await;
        if asked.is_raised() {
            std::future::pending::<()>().await;
        }
    };
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = too_slow => return,
        () = gateway.draining.raised() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(error, "a client's connection ended");
    }
}

fn builder(limits: &Limits) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_buf_size(limits.header_bytes)
        .max_headers(limits.header_lines);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX))
        .max_concurrent_streams(STREAMS)
        .keep_alive_interval(STILL_THERE)
        .keep_alive_timeout(STILL_THERE);
    builder
}

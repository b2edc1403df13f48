//! The server: what devices speak to, over HTTP.
//!
//! `openapi.yaml` describes it; the server gives it out at `/v1/openapi`.

mod auth;
mod figures;
mod problem;
mod read;
mod routes;
mod upload;
mod wake;

use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use settled_protocol::record::Millis;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

pub use self::auth::{Token, TokenError};
pub use self::figures::{UPLOAD_SECONDS, describe};
pub use self::routes::Origins;
use crate::store::Store;

/// The most bytes of an upload, when it is unpacked.
pub const LARGEST_UPLOAD: usize = 4 << 20;
/// The longest that a pull waits for something new.
pub const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// How long requests may take to end when the server is to stop.
const LAST: Duration = Duration::from_secs(10);

/// The description of what the server says, in the OpenAPI format.
pub const OPENAPI: &str = include_str!("../openapi.yaml");

/// How a server behaves.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// What devices have to show, if anything.
    pub token: Option<Token>,
    /// Whose web pages may speak to it.
    pub origins: Origins,
    /// How many operations it takes, and gives, at once.
    pub most: NonZeroUsize,
    /// How many uploads it works on at a time; who comes then is asked to come again.
    pub uploads: usize,
    /// How long an upload may take to arrive.
    pub patience: Duration,
}

impl Default for ServerOptions {
    /// No token, no web pages, 1,000 operations, 64 uploads at a time, 30 s to arrive.
    fn default() -> Self {
        ServerOptions {
            token: None,
            origins: Origins::default(),
            most: NonZeroUsize::new(1_000).unwrap_or(NonZeroUsize::MIN),
            uploads: 64,
            patience: Duration::from_secs(30),
        }
    }
}

/// What all requests share.
struct Server {
    store: Arc<dyn Store>,
    options: ServerOptions,
    uploads: Semaphore,
    /// How many pulls wait.
    waiting: AtomicUsize,
    /// Whether the server is to stop.
    closing: watch::Receiver<bool>,
}

/// Serves until `stop` comes; then requests may end that are under way.
///
/// # Errors
/// If connections can't be accepted.
pub async fn serve(
    listener: TcpListener,
    store: Arc<dyn Store>,
    options: ServerOptions,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let (close, closing) = watch::channel(false);
    let uploads = Semaphore::new(options.uploads);
    let server = Arc::new(Server { store, options, uploads, waiting: AtomicUsize::new(0), closing: closing.clone() });
    let waker = tokio::spawn(wake::look(Arc::clone(&server)));
    let stopping = async move {
        stop.await;
        close.send_replace(true);
    };
    let mut late = closing;
    let late = async move {
        // An error says that the server has ended.
        if late.wait_for(|closing| *closing).await.is_ok() {
            tokio::time::sleep(LAST).await;
        }
    };
    let serving = axum::serve(listener, routes::router(server)).with_graceful_shutdown(stopping);
    let ended = tokio::select! {
        ended = serving => ended,
        () = late => Ok(()),
    };
    waker.abort();
    ended
}

/// The wall clock.
fn now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
}

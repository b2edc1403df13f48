//! Hearing of what other servers on the same store have applied.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Server;

/// How often to look. What this server applies itself is heard of at once.
const EVERY: Duration = Duration::from_millis(500);

/// Looks as long as somebody waits.
pub(super) async fn look(server: Arc<Server>) {
    loop {
        tokio::time::sleep(EVERY).await;
        if server.waiting.load(Ordering::Relaxed) > 0
            && let Err(error) = server.store.head().await
        {
            tracing::debug!(%error, "can't look for what other servers have applied");
        }
    }
}

//! A flag that is raised once.

use tokio::sync::watch;

/// A flag that is raised once, and stays up. Its clones are the same flag.
#[derive(Clone, Debug)]
pub(crate) struct Flag(watch::Sender<bool>);

impl Default for Flag {
    fn default() -> Self {
        Flag(watch::Sender::new(false))
    }
}

impl Flag {
    /// Raises it.
    pub(crate) fn raise(&self) {
        self.0.send_replace(true);
    }

    /// Whether it is up.
    pub(crate) fn is_raised(&self) -> bool {
        *self.0.borrow()
    }

    /// Resolves once it is up.
    pub(crate) async fn raised(&self) {
        // The sender lives as long as this.
        let _ = self.0.subscribe().wait_for(|raised| *raised).await;
    }
}

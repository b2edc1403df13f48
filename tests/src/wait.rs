//! Waiting with a deadline.

use std::time::{Duration, Instant};

/// How long anything that must happen may take. Generous: it only delays the failure of a test that fails anyway.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// Looks until there is something to return.
///
/// # Panics
/// After [`PATIENCE`], naming `what`.
#[track_caller]
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "waited {PATIENCE:?} in vain: {what}");
        std::thread::sleep(PAUSE);
    }
}

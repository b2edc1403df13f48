//! Notifications of progress that keep a client waiting: as seldom as possible, and always more than the last one, also than
//! the server's own (their values must increase).

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::messages::frame::IdKey;
use crate::messages::splice;

/// The progress of calls that are kept alive, by their tokens.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// How many there are: the server's notifications are looked into only if there are any.
    count: AtomicUsize,
    last: Mutex<HashMap<IdKey, Last>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Last {
    value: f64,
    /// The server has said something since it was asked.
    heard: bool,
}

/// A call that is kept alive until this is dropped.
#[derive(Debug)]
pub(crate) struct Watched<'a> {
    progress: &'a Progress,
    /// The token's own text.
    token: &'a str,
}

impl Progress {
    /// Begins to keep a call alive.
    pub(crate) fn watch<'a>(&'a self, token: &'a str) -> Watched<'a> {
        if self.lock().insert(IdKey::new(token), Last::default()).is_none() {
            self.count.fetch_add(1, Ordering::AcqRel);
        }
        Watched { progress: self, token }
    }

    /// The server tells of progress.
    pub(crate) fn heard(&self, params: Option<&str>) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let Some(params) = params else { return };
        let Some(token) = splice::get(params, "progressToken") else { return };
        let mut last = self.lock();
        let Some(known) = last.get_mut(&IdKey::new(token)) else { return };
        known.heard = true;
        let value = splice::get(params, "progress").and_then(|value| value.parse::<f64>().ok());
        known.value = value.filter(|value| value.is_finite()).map_or(known.value, |value| value.max(known.value));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<IdKey, Last>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watched<'_> {
    /// The line to send now; `None`: the server has said something itself since the last time, or nothing more can be said.
    pub(crate) fn line(&self) -> Option<String> {
        let mut last = self.progress.lock();
        let known = last.get_mut(&IdKey::new(self.token))?;
        if std::mem::take(&mut known.heard) {
            return None;
        }
        // So little more that whatever the server says next is more still.
        let next = known.value + known.value.abs().max(1.0) * 1e-6;
        if !next.is_finite() {
            return None;
        }
        known.value = next;
        Some(format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{},"progress":{}}}}}"#,
            self.token,
            serde_json::json!(next)
        ))
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        if self.progress.lock().remove(&IdKey::new(self.token)).is_some() {
            self.progress.count.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(line: Option<String>) -> Option<f64> {
        let line: serde_json::Value = serde_json::from_str(&line?).unwrap();
        assert_eq!(line["params"]["progressToken"], "a");
        line["params"]["progress"].as_f64()
    }

    #[test]
    fn values_only_increase_and_leave_room_for_the_servers() {
        let progress = Progress::default();
        let watched = progress.watch("\"a\"");
        let first = value(watched.line()).unwrap();
        let second = value(watched.line()).unwrap();
        assert!(0.0 < first && first < second && second < 0.001);
        progress.heard(Some(r#"{"progressToken":"\u0061","progress":10}"#));
        assert_eq!(value(watched.line()), None, "the server has said something itself");
        let third = value(watched.line()).unwrap();
        assert!(10.0 < third && third < 10.01);
        progress.heard(Some(r#"{"progressToken":"b","progress":20}"#));
        progress.heard(Some("7"));
        assert!(value(watched.line()).unwrap() < 10.01);
        drop(watched);
        assert_eq!(progress.count.load(Ordering::Acquire), 0);
        progress.heard(Some(r#"{"progressToken":"a","progress":20}"#));
    }
}

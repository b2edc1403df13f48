//! Telling that nothing moves any more: where a schedule need not be followed, that is the end of waiting.

use std::time::Duration;

use super::Stage;
use crate::wire::{Role, ToPart};

/// How long nothing must have moved, twice.
const CALM: Duration = Duration::from_millis(12);

impl Stage {
    /// Waits for something to be so, until nothing moves any more.
    pub(super) async fn until_quiet<T>(&mut self, found: &mut impl FnMut(&mut Stage) -> Option<T>) -> Option<T> {
        let deadline = tokio::time::Instant::now() + self.options.patience;
        let mut calm = 0;
        while calm < 2 && tokio::time::Instant::now() < deadline {
            while let Ok(event) = self.events.try_recv() {
                self.take(event);
            }
            if let Some(found) = found(self) {
                return Some(found);
            }
            let before = self.activity;
            self.ping_all().await;
            let pause = tokio::time::Instant::now() + CALM;
            while let Ok(Some(event)) = tokio::time::timeout_at(pause, self.events.recv()).await {
                self.take(event);
                if let Some(found) = found(self) {
                    return Some(found);
                }
            }
            let at_work = self.at_tool.values().any(|at| !at.stopped && !at.working);
            calm = if self.activity == before && self.asked.is_empty() && !at_work { calm + 1 } else { 0 };
        }
        None
    }

    /// Hears from every process that can answer.
    async fn ping_all(&mut self) {
        let roles: Vec<Role> =
            self.parts.iter().filter(|(_, part)| part.ready && !part.stopped).map(|(role, _)| *role).collect();
        let mut open = Vec::new();
        for role in roles {
            let id = self.number();
            self.say(role, ToPart::Ping { id });
            open.push(id);
        }
        let deadline = tokio::time::Instant::now() + self.options.patience;
        while !open.is_empty() {
            match tokio::time::timeout_at(deadline, self.events.recv()).await {
                Ok(Some(event)) => self.take(event),
                Ok(None) | Err(_) => return,
            }
            open.retain(|id| !self.acks.remove(id));
        }
    }
}

//! What several tests here make.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use settled_protocol::merge::{Change, Name, Value};
use settled_sync::device::WallClock;
use settled_sync::{DeviceOptions, Schema};

/// A wall clock that is set by hand.
#[derive(Clone, Default)]
pub struct Clock(Arc<AtomicU64>);

impl Clock {
    pub fn set(&self, millis: u64) {
        self.0.store(millis, Ordering::Relaxed);
    }

    pub fn wall(&self) -> WallClock {
        let clock = self.clone();
        Arc::new(move || clock.0.load(Ordering::Relaxed))
    }
}

pub const SCHEMA: &str = r#"
version = 1
[kinds]
votes = "counter"
[kinds.task]
title = "latest"
finished = "earliest"
best = "max"
least = "min"
seen = "union"
tags = "add-wins"
"#;

pub fn schema() -> Schema {
    Schema::parse(SCHEMA).unwrap()
}

pub fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

pub fn field(field: &str, change: Change) -> Change {
    Change::Field(name(field), Box::new(change))
}

pub fn set(to: impl Into<Value>) -> Change {
    Change::Set(to.into())
}

pub fn options(device: &str, clock: &Clock) -> DeviceOptions {
    DeviceOptions { name: Some(name(device)), patience: Duration::ZERO, clock: clock.wall(), compact_at: 4 << 10 }
}

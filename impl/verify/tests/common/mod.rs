//! Good runs of a real engine, with their histories.
#![allow(dead_code, unused_imports, clippy::unwrap_used, clippy::expect_used)]

#[path = "../../../engine/tests/engine/support/mod.rs"]
pub mod support;

use std::sync::Arc;
use std::time::Duration;

use settled::protocol::{Ends, ErrorClass, Policy, Repeat, Retry, ToolKind};
use settled::{Engine, EngineOptions, HistoryLine, Ledger, Operation, Resource, Seen, ToolReply};
use settled_verify::{Lines, Options, Report, verify_lines};
pub use support::*;

/// What the evidence of a run is judged by.
pub const ENDED: Options = Options { ended: true, effects_known: false, margin: 3_600_000 };

/// A run that has ended: its history, and its ledger.
pub struct Run {
    pub lines: Vec<HistoryLine>,
    pub world: World,
}

impl Run {
    pub async fn of(script: impl AsyncFnOnce(&World)) -> Run {
        let lines = Lines::default();
        let (options, alerts) = options();
        let world = World::with(EngineOptions { history: Arc::new(lines.clone()), ..options }, alerts).await;
        script(&world).await;
        world.engine.idle().await;
        world.engine.retire().await.unwrap();
        Run { lines: lines.lines(), world }
    }

    pub async fn judged(&self, options: Options) -> Report {
        verify_lines(self.lines.clone(), None, options).await.unwrap()
    }

    pub async fn judged_with_ledger(&self, options: Options) -> Report {
        verify_lines(self.lines.clone(), Some(&*self.world.ledger), options).await.unwrap()
    }
}

pub fn lost() -> ToolReply {
    ToolReply::ConnectionLost
}

/// A run in which each thing that can happen to a tool of this kind happens.
pub async fn run_of(kind: ToolKind) -> Run {
    Run::of(async |world: &World| {
        let retry = Retry { attempts: 3, ..Retry::default() };
        let policy = Policy { retry, ..ends(kind, Ends::OnFailure) };
        let call = async |id: &str, tool: &Arc<Script>| {
            let key = settled::protocol::Key::new("test", "charge", id).unwrap();
            let operation = Operation { key, ..operation(policy) };
            world.engine.call(operation, tool.clone()).await.unwrap()
        };
        let quick = Script::new([]);
        call("quick", &quick).await;
        call("quick", &quick).await;
        call("refused", &Script::new([Play::NoEffect(Duration::ZERO, not_run("no"))])).await;
        let second = Duration::from_secs(1);
        let busy = ToolReply::Busy { retry_after: None, body: "busy".into() };
        call("busy", &Script::new([Play::NoEffect(second, busy)])).await;
        call("error", &Script::new([Play::Effect(second, error("500"))])).await;
        if kind != ToolKind::Transactional {
            // There, what is late finds its record moved on, and is undone.
            call("late", &Script::new([Play::Effect(TIMEOUT + second, result("late"))])).await;
        }
        let sights = [Seen::Unclear, Seen::Applied("seen".into())];
        call("lost, seen", &Script::seeing([Play::Effect(second, lost())], sights)).await;
        let sights = [Seen::NotApplied, Seen::Sealed, Seen::Sealed, Seen::NotApplied];
        call("lost, not seen", &Script::seeing([Play::NoEffect(second, lost())], sights)).await;
        let sights = std::iter::repeat_n(Seen::Sealed, 20).chain(std::iter::repeat_n(Seen::NotApplied, 20));
        let never = std::iter::repeat_n(Play::NoEffect(second, lost()), 20);
        call("lost, for good", &Script::seeing(never, sights)).await;
    })
    .await
}

/// The kinds of tools.
pub fn kinds() -> [ToolKind; 7] {
    [
        ToolKind::Opaque,
        ToolKind::ReadOnly,
        ToolKind::Idempotent,
        ToolKind::Observable { settling: 100 },
        ToolKind::Sealable,
        ToolKind::Deduplicates { limit: 3_600_000, margin: 1_000, remembers_rejections: true },
        ToolKind::Transactional,
    ]
}

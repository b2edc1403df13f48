//! What a transport has in its own queue is still on its way (rule 6).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::{World, operation, result};
use async_trait::async_trait;
use settled::protocol::{Policy, ToolKind};
use settled::{Outgoing, Question, Seen, Tool, ToolReply};
use tokio::sync::Notify;

/// Keeps its first message in its queue until it is told to let it go. Until then nothing is to be seen of it.
#[derive(Default)]
struct Queue {
    go: Notify,
    dispatches: AtomicUsize,
    effects: AtomicUsize,
    looks: AtomicUsize,
}

#[async_trait]
impl Tool for Queue {
    async fn dispatch(&self, outgoing: &Outgoing) -> ToolReply {
        if self.dispatches.fetch_add(1, Ordering::SeqCst) == 0 {
            self.go.notified().await;
        }
        outgoing.sent();
        self.effects.fetch_add(1, Ordering::SeqCst);
        result("ok")
    }

    async fn observe(&self, _question: &Question) -> Seen {
        self.looks.fetch_add(1, Ordering::SeqCst);
        Seen::NotApplied
    }
}

#[tokio::test(start_paused = true)]
async fn not_applied_concludes_nothing_while_the_message_is_queued_here() {
    let world = World::new().await;
    let tool = Arc::new(Queue::default());
    let policy = Policy::new(ToolKind::Observable { settling: 1_000 });
    let calling = {
        let (engine, tool) = (world.engine.clone(), tool.clone());
        tokio::spawn(async move { engine.call(operation(policy), tool).await })
    };
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert!(tool.looks.load(Ordering::SeqCst) > 0, "it is asked for");
    assert_eq!(tool.dispatches.load(Ordering::SeqCst), 1, "another attempt was made while the first can still arrive");
    tool.go.notify_one();
    world.until("settled").await;
    assert_eq!(tool.effects.load(Ordering::SeqCst), 1);
    calling.await.unwrap().unwrap();
}

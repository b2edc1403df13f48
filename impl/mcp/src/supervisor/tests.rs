use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use settled::protocol::{Key, Policy, ToolKind};
use settled::{Engine, EngineOptions, MemoryLedger, Operation, Outgoing, Permit, Tool, ToolReply};
use tokio::sync::watch;

use super::{FENCED, Supervisor, Wiring};
use crate::book::{Book, OwnReply};
use crate::lines::write_to_client;
use crate::tools::Tools;

/// Keeps the permit of the attempt that it is to send.
#[derive(Default)]
struct Keeps(Mutex<Option<Permit>>);

#[async_trait]
impl Tool for Keeps {
    async fn dispatch(&self, outgoing: &Outgoing) -> ToolReply {
        *self.0.lock().unwrap() = Some(outgoing.permit());
        ToolReply::Result("ok".into())
    }
}

/// An engine, and the permit of one of its attempts.
async fn permitted() -> (Engine, Permit) {
    let engine = Engine::start(Arc::new(MemoryLedger::new()), EngineOptions::default()).await.unwrap();
    let tool = Arc::new(Keeps::default());
    let key = Key::new("test", "charge", "order 7").unwrap();
    engine.call(Operation::new(key, "{}", Policy::new(ToolKind::Opaque)), tool.clone()).await.unwrap();
    let permit = tool.0.lock().unwrap().take().unwrap();
    (engine, permit)
}

#[tokio::test]
async fn a_queued_call_is_not_written_once_its_permit_has_ended() {
    let (engine, permit) = permitted().await;
    let book = Arc::new(Book::new(1));
    let (_closing, closing) = watch::channel(false);
    let (_give_up, give_up) = watch::channel(false);
    let (client, _writing) = write_to_client(tokio::io::sink(), closing.clone());
    let wiring = Wiring { book, client, tools: Arc::new(Tools::new()), closing, give_up };
    // A server that answers whatever it reads, each with the next id of the proxy's own.
    let server = r#"n=0; while read line; do n=$((n+1)); echo "{\"jsonrpc\":\"2.0\",\"id\":\"settled-1-$n\",\"result\":{}}"; done"#;
    let command = ["sh", "-c", server].map(Into::into).to_vec();
    let (handle, supervisor, process) = Supervisor::start(command, wiring).unwrap();
    let serving = tokio::spawn(supervisor.run(process));

    let written = AtomicBool::new(false);
    let send = async || {
        let sent = handle.permitted("tools/call", "{}", Some(permit.clone()), || written.store(true, Ordering::SeqCst));
        tokio::time::timeout(Duration::from_secs(60), sent).await.expect("an answer")
    };
    assert_eq!(send().await, OwnReply::Result("{}".to_owned()));
    assert!(written.swap(false, Ordering::SeqCst));
    engine.retire().await.unwrap();
    assert_eq!(send().await, OwnReply::NotSent(FENCED.to_owned()));
    assert!(!written.load(Ordering::SeqCst), "it reached the server");
    handle.close().await;
    serving.await.unwrap().unwrap();
}

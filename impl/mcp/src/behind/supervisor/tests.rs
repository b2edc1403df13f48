use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use settled::protocol::{Key, Policy, ToolKind};
use settled::{Engine, EngineOptions, MemoryLedger, Operation, Outgoing, Permit, Tool, ToolReply};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader, ReadBuf};

use super::{FENCED, Supervisor, Wiring};
use crate::behind::server::{Note, Own};
use crate::behind::start::{Program, StartServer, Started};
use crate::book::{Book, OwnReply};
use crate::config::Config;
use crate::flag::Flag;
use crate::listed::tools::Tools;
use crate::messages::context::Incoming;
use crate::messages::lines::write_to_client;

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
    let (closing, give_up) = (Flag::default(), Flag::default());
    let (client, _writing) = write_to_client(tokio::io::sink(), closing.clone());
    let config = Arc::new(Config::parse("settled.toml".as_ref(), "").unwrap());
    let tools = Arc::new(Tools::new());
    let wiring = Wiring { config, book, client, tools, closing, give_up, longest: 1 << 20 };
    // A server that answers whatever it reads, each with the next id of the proxy's own.
    let server = r#"n=0; while read line; do n=$((n+1)); echo "{\"jsonrpc\":\"2.0\",\"id\":\"settled-1-$n\",\"result\":{}}"; done"#;
    let starts = Arc::new(Program {
        program: "sh".into(),
        arguments: ["-c", server].map(Into::into).to_vec(),
        env: Default::default(),
    });
    let (handle, supervisor, process) = Supervisor::start("sh".into(), starts, wiring).unwrap();
    let serving = tokio::spawn(supervisor.run(process));

    let written = AtomicBool::new(false);
    let send = async || {
        let context = Arc::default();
        let own = Own { method: "tools/call", params: "{}", permit: Some(permit.clone()), context: &context };
        let sent = handle.send(own, || written.store(true, Ordering::SeqCst));
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

fn message(line: &'static str) -> Incoming {
    Incoming::bare(line.into(), &Arc::default())
}

/// A server whose input is a small pipe that the test reads.
struct Stuck(Mutex<Option<tokio::io::DuplexStream>>);

impl StartServer for Stuck {
    fn start(&self) -> std::io::Result<Started> {
        let input = self.0.lock().unwrap().take().ok_or(std::io::ErrorKind::NotFound)?;
        Ok(Started {
            input: Box::new(input),
            output: Box::new(tokio::io::empty().chain(Never)),
            ended: Box::pin(std::future::pending()),
            end: Box::new(|_| {}),
        })
    }
}

/// Output that never comes.
struct Never;

impl AsyncRead for Never {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        Poll::Pending
    }
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_any_more_is_not_written_when_a_full_pipe_drains() {
    let (closing, give_up) = (Flag::default(), Flag::default());
    let book = Arc::new(Book::new(1));
    let (client, _writing) = write_to_client(tokio::io::sink(), closing.clone());
    let config = Arc::new(Config::parse("settled.toml".as_ref(), "").unwrap());
    let tools = Arc::new(Tools::new());
    let wiring = Wiring { config, book, client, tools, closing, give_up, longest: 1 << 20 };
    let (input, mut far) = tokio::io::duplex(16);
    let starts = Arc::new(Stuck(Mutex::new(Some(input))));
    let (handle, supervisor, process) = Supervisor::start("stuck".into(), starts, wiring).unwrap();
    let serving = tokio::spawn(supervisor.run(process));

    let fill = handle.pass(message("0123456789abcde"), Note::Nothing);
    assert!(fill.await);
    let given_up = tokio::time::timeout(Duration::from_millis(300), handle.request("tools/call", "{}")).await;
    assert!(given_up.is_err(), "{given_up:?}");
    assert!(handle.pass(message("next"), Note::Nothing).await);
    let mut lines = BufReader::new(&mut far).lines();
    assert_eq!(lines.next_line().await.unwrap().unwrap(), "0123456789abcde");
    assert_eq!(lines.next_line().await.unwrap().unwrap(), "next");
    serving.abort();
}

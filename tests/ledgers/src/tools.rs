//! The ways from a guard to its tools.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use settled::protocol::{ErrorClass, Key, SealScope};
use settled::{Outgoing, Question, Seen, Tool, ToolReply, fault};
use settled_ledger_postgres::{PostgresLedger, transactional};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::stage::tool::result;
use crate::stage::wire::{Ask, Reply, Request, Seal};

/// A tool whose effect is a row `(id, attempt)` of the table `effects` in the ledger's database.
pub(crate) fn in_a_transaction(ledger: Arc<PostgresLedger>) -> Arc<dyn Tool> {
    Arc::new(transactional(ledger, |transaction, outgoing| {
        Box::pin(async move {
            let (id, attempt) = (outgoing.key.id(), i64::from(outgoing.attempt.attempt.get()));
            transaction.execute("INSERT INTO effects (id, attempt) VALUES ($1, $2)", &[&id, &attempt]).await?;
            Ok(result(id).into())
        })
    }))
}

/// The tool that listens at this socket.
pub(crate) fn at_a_socket(socket: PathBuf) -> Arc<dyn Tool> {
    Arc::new(Connection { socket })
}

/// A connection for each request.
struct Connection {
    socket: PathBuf,
}

/// What a request is for.
enum For<'a> {
    Sending(&'a Outgoing),
    Observing,
    Sealing(Seal),
}

impl Connection {
    async fn ask(&self, key: &Key, attempt: u32, arguments: &[u8], to: For<'_>) -> std::io::Result<Reply> {
        let request: Request = serde_json::from_slice(arguments)?;
        let ask = Ask {
            tool: key.tool().to_owned(),
            id: key.id().to_owned(),
            attempt,
            resource: request.resource,
            observe: matches!(to, For::Observing),
            seal: match to {
                For::Sealing(seal) => Some(seal),
                _ => None,
            },
        };
        let mut connection = UnixStream::connect(&self.socket).await?;
        fault::point("before-send");
        connection.write_all((serde_json::to_string(&ask)? + "\n").as_bytes()).await?;
        fault::point("after-send");
        if let For::Sending(outgoing) = to {
            outgoing.sent();
        }
        let mut reply = String::new();
        connection.read_to_string(&mut reply).await?;
        Ok(serde_json::from_str(&reply)?)
    }

    async fn question(&self, question: &Question, to: For<'_>) -> Seen {
        let attempt = question.attempt.attempt.get();
        match self.ask(&question.key, attempt, &question.arguments, to).await {
            Ok(Reply::Done(result)) => Seen::Applied(result.into()),
            Ok(Reply::NotApplied) => Seen::NotApplied,
            Ok(Reply::Sealed) => Seen::Sealed,
            Ok(Reply::Unclear | Reply::Refused) | Err(_) => Seen::Unclear,
        }
    }
}

#[async_trait]
impl Tool for Connection {
    async fn dispatch(&self, outgoing: &Outgoing) -> ToolReply {
        let attempt = outgoing.attempt.attempt.get();
        match self.ask(&outgoing.key, attempt, &outgoing.arguments, For::Sending(outgoing)).await {
            Ok(Reply::Done(result)) => ToolReply::Result(result.into()),
            Ok(_) => ToolReply::Error(ErrorClass::Unproven, Bytes::new()),
            Err(_) => ToolReply::ConnectionLost,
        }
    }

    async fn observe(&self, question: &Question) -> Seen {
        self.question(question, For::Observing).await
    }

    async fn seal(&self, question: &Question, scope: SealScope) -> Seen {
        let seal = match scope {
            SealScope::Attempts => Seal::Attempts,
            SealScope::Operation => Seal::Operation,
        };
        self.question(question, For::Sealing(seal)).await
    }
}

//! Opening a session again that the server has ended, the way the client had opened it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::behind::server::request_line;
use crate::book::OwnReply;
use crate::messages::context::Context;
use crate::upstream::flights::Flight;
use crate::upstream::headers::Said;
use crate::upstream::link::Shared;
use crate::upstream::opened::{Opened, Standing};
use crate::upstream::post::{Job, Whose};

/// How long opening a session again may take.
const OPENING: Duration = Duration::from_secs(30);

/// How often opening it has failed, and why.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    count: u64,
    last: String,
}

impl Shared {
    /// The session to send a message in; `None` if the client has opened none.
    ///
    /// # Errors
    /// Why there is none although the client had opened one.
    pub(crate) async fn session(self: &Arc<Self>) -> Result<Option<Arc<Opened>>, String> {
        match self.current.standing() {
            Standing::Unopened => Ok(None),
            Standing::Open(opened) => Ok(Some(opened)),
            Standing::Over(before) => self.reopen(&before).await.map(Some),
        }
    }

    /// The session after this one, which has ended: it is opened unless somebody else has done so meanwhile (revision
    /// 2025-11-25, "Session Management": "it MUST start a new session").
    ///
    /// # Errors
    /// Why it can't be opened.
    pub(crate) async fn reopen(self: &Arc<Self>, before: &Arc<Opened>) -> Result<Arc<Opened>, String> {
        let failed = self.failures().count;
        let _one_at_a_time = self.reopening.lock().await;
        if let Some(opened) = self.current.open().filter(|opened| opened.number > before.number) {
            return Ok(opened);
        }
        {
            let failures = self.failures();
            // Somebody else has tried while this waited.
            if failures.count > failed {
                return Err(failures.last.clone());
            }
        }
        let opening = timeout(OPENING, self.open_again());
        let opened = tokio::select! {
            biased;
            opened = opening => opened.unwrap_or_else(|_| Err("the server does not answer `initialize`".to_owned())),
            () = self.give_up.raised() => Err("this process ends".to_owned()),
        };
        if let Err(why) = &opened {
            let mut failures = self.failures();
            failures.count += 1;
            failures.last.clone_from(why);
            tracing::error!("the server has ended the session, and another one can't be opened: {why}");
        }
        opened
    }

    async fn open_again(self: &Arc<Self>) -> Result<Arc<Opened>, String> {
        let session = self.book.session();
        let params = session.initialize.ok_or("the client has not opened a session")?;
        self.book.session_ended();
        let id = self.book.next_id();
        let (reply, answer) = oneshot::channel();
        self.book.own_request(&id, reply);
        let mut initialize = Job {
            line: request_line(&id, "initialize", params.as_deref()),
            said: Said::default(),
            whose: Whose::Own { id: id.clone(), permit: None },
            context: Arc::new(Context::default()),
            flight: Arc::new(Flight::default()),
            opens: true,
            left: None,
        };
        if let Err(failure) = self.exchange(&mut initialize, None).await {
            self.book.take_back(&id);
            return Err(failure.reason());
        }
        match answer.await {
            Ok(OwnReply::Result(_)) => {}
            Ok(OwnReply::Error(error)) => return Err(format!("`initialize` was answered with the error {error}")),
            _ => return Err("`initialize` was not answered".to_owned()),
        }
        let opened = self.current.open().ok_or("the session ended at once")?;
        if let Some(line) = session.initialized {
            self.initialized(line, Arc::new(Context::default()), Some(opened.clone())).await?;
        }
        tracing::info!("the server had ended the session: another one was opened");
        self.tools.server_restarted();
        Ok(opened)
    }

    /// Sends the client's `notifications/initialized`, and begins to listen.
    ///
    /// # Errors
    /// Why the server did not take it.
    pub(crate) async fn initialized(
        self: &Arc<Self>,
        line: bytes::Bytes,
        context: Arc<Context>,
        session: Option<Arc<Opened>>,
    ) -> Result<(), String> {
        let mut job = Job {
            said: Said::of(&line),
            line,
            whose: Whose::Nobody,
            context,
            flight: Arc::new(Flight::default()),
            opens: false,
            left: None,
        };
        let sent = self.exchange(&mut job, session.clone()).await;
        sent.map_err(|failure| failure.reason())?;
        if let Some(session) = session {
            self.listen(session);
        }
        Ok(())
    }
}

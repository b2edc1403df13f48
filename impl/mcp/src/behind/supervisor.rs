//! The processes of the MCP server, one after the other: started, served, started again when they die.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, sleep_until};

use crate::ProxyError;
use crate::behind::process::{Process, Written};
use crate::behind::server::{Note, ServerHandle, TRANSPORT_ERROR, ToServer, request_line};
use crate::behind::start::StartServer;
use crate::book::{Book, OwnReply};
use crate::config::Config;
use crate::flag::Flag;
use crate::inward::FromServer;
use crate::listed::tools::Tools;
use crate::messages::frame::IdKey;
use crate::messages::lines::ClientSink;
use crate::told::answer::error_line;

/// What is said of a call that was still queued when this process had lost the right to send it.
pub(crate) const FENCED: &str = "this process was stopped, or cut off from the ledger, for longer than its lease and has been fenced, or the call's time was over before it could be sent";

/// At most this many restarts …
const RESTARTS: usize = 5;
/// … within this time.
const WITHIN: Duration = Duration::from_secs(60);
/// The wait before the first restart; each one within the minute doubles it.
const BACKOFF: Duration = Duration::from_millis(100);
/// How long a restarted server may take to answer `initialize`.
const OPENING: Duration = Duration::from_secs(30);

/// Everything that the supervising task needs.
pub(crate) struct Supervisor {
    program: OsString,
    starts: Arc<dyn StartServer>,
    queue: mpsc::Receiver<ToServer>,
    book: Arc<Book>,
    client: ClientSink,
    tools: Arc<Tools>,
    from_server: FromServer,
    /// The client is gone, or the proxy was told to end: nothing is started again.
    closing: Flag,
    /// The time for an orderly end is over.
    give_up: Flag,
    longest: usize,
}

/// What [`Supervisor::start`] needs.
pub(crate) struct Wiring {
    pub(crate) config: Arc<Config>,
    pub(crate) book: Arc<Book>,
    pub(crate) client: ClientSink,
    pub(crate) tools: Arc<Tools>,
    pub(crate) closing: Flag,
    pub(crate) give_up: Flag,
    /// How many bytes a message of the server may have.
    pub(crate) longest: usize,
}

/// Why a process is served no longer.
enum End {
    Died,
    Closed,
}

impl Supervisor {
    /// Starts the server for the first time. `program` is how errors name it.
    ///
    /// # Errors
    /// [`ProxyError::CannotStart`].
    pub(crate) fn start(
        program: OsString,
        starts: Arc<dyn StartServer>,
        wiring: Wiring,
    ) -> Result<(ServerHandle, Supervisor, Process), ProxyError> {
        let Wiring { config, book, client, tools, closing, give_up, longest } = wiring;
        let (handle, queue) = ServerHandle::new(book.clone());
        let from_server = FromServer { config, book: book.clone(), client: client.clone(), tools: tools.clone() };
        let supervisor =
            Supervisor { program, starts, queue, book, client, tools, from_server, closing, give_up, longest };
        let process = supervisor
            .spawn()
            .map_err(|source| ProxyError::CannotStart { program: supervisor.program.clone(), source })?;
        Ok((handle, supervisor, process))
    }

    fn spawn(&self) -> std::io::Result<Process> {
        Process::start(&*self.starts, self.longest, self.from_server.clone())
    }

    /// Serves one process after the other until the client is gone. Returns the last one's status.
    pub(crate) async fn run(mut self, first: Process) -> Result<Option<ExitStatus>, ProxyError> {
        let mut restarts = VecDeque::new();
        let mut process = first;
        let mut held = None;
        let mut is_first = true;
        let (status, reason) = loop {
            let end = self.serve(&mut process, is_first, &mut held).await;
            let status = process.stop().await;
            let reason = format!("the server process ended ({})", describe(status));
            // A server that was told to end owes the client nothing any more.
            self.answer_open(&reason, matches!(end, End::Died)).await;
            if matches!(end, End::Closed) || self.closing.is_raised() {
                break (Ok(status), reason);
            }
            if is_first && !process.spoke() {
                break (Err(ProxyError::EndedAtStart { program: self.program.clone(), status }), reason);
            }
            is_first = false;
            tracing::warn!(status = describe(status), "the server process ended: starting it again");
            match self.restart(&mut restarts, &reason, &mut held).await {
                Some(next) => process = next,
                None => break (Ok(status), reason),
            }
        };
        if let Some(message) = held {
            self.refuse(message, &reason).await;
        }
        self.queue.close();
        while let Some(message) = self.queue.recv().await {
            self.refuse(message, &reason).await;
        }
        status
    }

    /// Hands messages to a process until it has died or there are no more.
    async fn serve(&mut self, process: &mut Process, first: bool, held: &mut Option<ToServer>) -> End {
        if !first && !self.open_again(process).await {
            if let Some(message) = held.take() {
                self.refuse(message, "the server process could not be started again").await;
            }
            return End::Died;
        }
        loop {
            let message = match held.take() {
                Some(message) => Some(message),
                None => tokio::select! {
                    biased;
                    () = self.give_up.raised() => return End::Closed,
                    () = process.silent() => return End::Died,
                    message = self.queue.recv() => message,
                },
            };
            match message {
                Some(message @ (ToServer::Pass { .. } | ToServer::Own { .. })) => {
                    if let Some(end) = self.hand_over(process, message, held).await {
                        return end;
                    }
                }
                Some(ToServer::Close) | None => return End::Closed,
            }
        }
    }

    /// Notes a message in the book and writes it. Once part of it is written it counts as sent: if the process dies
    /// then, its answer is lost. A message of which nothing was written is held for the next process.
    async fn hand_over(
        &mut self,
        process: &mut Process,
        message: ToServer,
        held: &mut Option<ToServer>,
    ) -> Option<End> {
        let line = match &message {
            ToServer::Pass { message, note } => {
                if !self.note(&message.line, note).await {
                    return None;
                }
                message.line.clone()
            }
            // Nobody waits for its answer any more.
            ToServer::Own { reply, .. } if reply.is_closed() => return None,
            ToServer::Own { line, .. } => line.clone(),
            ToServer::Close => return Some(End::Closed),
        };
        let mut own = None;
        let mut permit = None;
        let mut waited_for = None;
        let message = match message {
            ToServer::Own { line, id, permit: permitted, context, written, reply } => {
                self.book.own_request(&id, reply);
                permit.clone_from(&permitted);
                waited_for = Some(id.clone());
                own = Some((line, id, permitted, context, written));
                None
            }
            other => Some(other),
        };
        let silence = process.silence();
        let book = self.book.clone();
        // Whoever gave up counts on it that nothing is sent any more.
        let may_begin = || {
            permit.as_ref().is_none_or(|permit| permit.holds())
                && waited_for.as_ref().is_none_or(|id| book.waits_for(id))
        };
        let written = tokio::select! {
            biased;
            written = process.write(&line, may_begin) => written,
            () = silence => Written::Perhaps,
            () = self.give_up.raised() => return Some(End::Closed),
        };
        match written {
            Written::All => {
                if let Some((.., written)) = own {
                    let _ = written.send(());
                }
                None
            }
            Written::Perhaps => Some(End::Died),
            Written::NotPermitted => {
                let reply = own.and_then(|(_, id, ..)| self.book.take_back(&id));
                if let Some(reply) = reply {
                    let _ = reply.send(OwnReply::NotSent(FENCED.to_owned()));
                }
                None
            }
            Written::Nothing => {
                *held = match (message, own) {
                    (Some(ToServer::Pass { message, note }), _) => {
                        if let Note::Requests(requests) = &note {
                            requests.iter().for_each(|(id, _)| self.book.cancels(&IdKey::new(id)));
                        }
                        Some(ToServer::Pass { message, note })
                    }
                    (_, Some((line, id, permit, context, written))) => {
                        let reply = self.book.take_back(&id);
                        reply.map(|reply| ToServer::Own { line, id, permit, context, written, reply })
                    }
                    _ => None,
                };
                Some(End::Died)
            }
        }
    }

    async fn note(&self, line: &Bytes, note: &Note) -> bool {
        match note {
            Note::Requests(requests) => {
                for (id, initialize) in requests {
                    if !self.book.passes(id, initialize.clone()) {
                        let problem = "nothing was sent: this request id is in use by the proxy; use another one";
                        self.client.send(error_line(id, -32600, problem, None)).await;
                        return false;
                    }
                }
            }
            Note::Initialized => self.book.initialized(line.clone()),
            Note::Cancel(id) => self.book.cancels(id),
            Note::Nothing => {}
        }
        true
    }

    /// Opens the session of a restarted server the way the client had opened it.
    async fn open_again(&mut self, process: &mut Process) -> bool {
        let session = self.book.session();
        if let Some(params) = session.initialize {
            let id = self.book.next_id();
            let (reply, answer) = oneshot::channel();
            self.book.own_request(&id, reply);
            let line = request_line(&id, "initialize", params.as_deref());
            let opening = async {
                if process.write(&line, || true).await != Written::All {
                    return None;
                }
                tokio::select! {
                    biased;
                    answer = answer => answer.ok(),
                    () = process.silent() => None,
                }
            };
            let answered = tokio::select! {
                biased;
                answer = opening => matches!(answer, Some(OwnReply::Result(_))),
                () = sleep(OPENING) => false,
                () = self.give_up.raised() => false,
            };
            if !answered {
                tracing::error!("the restarted server does not answer `initialize`");
                return false;
            }
            if let Some(line) = session.initialized
                && process.write(&line, || true).await != Written::All
            {
                return false;
            }
        }
        self.tools.server_restarted();
        true
    }

    /// Starts the command again when that may be done. `None`: there is nobody to do it for.
    async fn restart(
        &mut self,
        restarts: &mut VecDeque<Instant>,
        reason: &str,
        held: &mut Option<ToServer>,
    ) -> Option<Process> {
        loop {
            let now = Instant::now();
            restarts.retain(|at: &Instant| now.duration_since(*at) < WITHIN);
            if restarts.len() >= RESTARTS {
                let again = restarts.front().map_or(now, |at| *at + WITHIN);
                *held = Some(self.refuse_until(again, reason, held.take()).await?);
                continue;
            }
            let wait = BACKOFF * (1 << restarts.len());
            tokio::select! {
                biased;
                () = self.closing.raised() => return None,
                () = sleep(wait) => {}
            }
            restarts.push_back(Instant::now());
            match self.spawn() {
                Ok(process) => return Some(process),
                Err(error) => tracing::error!(%error, "the server can't be started again"),
            }
        }
    }

    /// Answers everything with an error until that time; then returns the first message that wants a server.
    async fn refuse_until(&mut self, again: Instant, reason: &str, held: Option<ToServer>) -> Option<ToServer> {
        let reason = format!(
            "{reason}, and was already started again {RESTARTS} times within a minute: correct what makes it end; \
             it will be tried again later"
        );
        tracing::error!("{reason}");
        if let Some(message) = held {
            self.refuse(message, &reason).await;
        }
        let mut over = false;
        loop {
            let message = tokio::select! {
                biased;
                () = self.closing.raised() => return None,
                message = self.queue.recv() => message?,
                () = sleep_until(again), if !over => { over = true; continue }
            };
            if matches!(message, ToServer::Close) {
                return None;
            }
            if over || Instant::now() >= again {
                return Some(message);
            }
            self.refuse(message, &reason).await;
        }
    }

    /// Answers what the ended process owed.
    async fn answer_open(&self, reason: &str, tell: bool) {
        let open = self.book.process_ended();
        for reply in open.own {
            let _ = reply.send(OwnReply::Lost);
        }
        for id in open.passed.into_iter().filter(|_| tell) {
            let text = format!("{reason} before it answered: whether it did what was asked is not known");
            self.client.send(error_line(&id, TRANSPORT_ERROR, &text, None)).await;
        }
    }

    /// Answers a message that was not sent.
    async fn refuse(&self, message: ToServer, reason: &str) {
        match message {
            ToServer::Pass { note: Note::Requests(requests), .. } => {
                for (id, _) in requests {
                    let text = format!("nothing was sent: {reason}");
                    self.client.send(error_line(&id, TRANSPORT_ERROR, &text, None)).await;
                }
            }
            ToServer::Pass { message, note: Note::Initialized } => self.book.initialized(message.line),
            ToServer::Own { reply, .. } => drop(reply.send(OwnReply::NotSent(reason.to_owned()))),
            ToServer::Pass { .. } | ToServer::Close => {}
        }
    }
}

fn describe(status: Option<ExitStatus>) -> String {
    status.map_or_else(|| "its status is not known".to_owned(), |status| status.to_string())
}

#[cfg(test)]
mod tests;

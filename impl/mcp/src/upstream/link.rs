//! One client's way to a server behind HTTP: what [`Supervisor`](crate::behind::supervisor::Supervisor) is to a process.
//!
//! Messages are begun in the order in which they came. Nothing overtakes `initialize` and its answer, which names the session,
//! nor `notifications/initialized`. After that requests run beside each other; the client's notifications go one after the
//! other, and a cancel goes after the request that it names.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::Method;
use settled::task;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::behind::server::{Note, ServerHandle, TRANSPORT_ERROR, ToServer};
use crate::behind::supervisor::Wiring;
use crate::book::{Book, OwnReply};
use crate::flag::Flag;
use crate::inward::FromServer;
use crate::listed::tools::Tools;
use crate::messages::context::{Context, Incoming};
use crate::messages::frame::{Frame, parse};
use crate::messages::lines::ClientSink;
use crate::session::Served;
use crate::told::answer::error_line;
use crate::upstream::Http;
use crate::upstream::flights::{Flight, Flights};
use crate::upstream::headers::{self, Said, is_stateless};
use crate::upstream::opened::Current;
use crate::upstream::params::Params;
use crate::upstream::post::{Job, Whose};
use crate::upstream::reopen::Failures;

/// How many messages wait while a session is being opened; beyond that, the client is not read.
const HELD: usize = 4096;

/// How many notifications wait for the one before them.
const NOTIFICATIONS: usize = 1024;

/// How long a notification may hold up the next one.
const TURN: Duration = Duration::from_secs(30);

/// How many requests may be under way at once; more are refused, so that memory and connections stay bounded.
const UNDER_WAY: usize = 16_384;

/// How long what is under way may take when the client has gone.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// How long the server may take to hear that its session is over.
const GOODBYE: Duration = Duration::from_secs(2);

/// Everything that happens in one client's session has this.
pub(crate) struct Shared {
    pub(crate) http: Arc<Http>,
    pub(crate) book: Arc<Book>,
    pub(crate) client: ClientSink,
    pub(crate) tools: Arc<Tools>,
    pub(crate) from_server: FromServer,
    pub(crate) current: Current,
    pub(crate) flights: Flights,
    /// What calls repeat in headers.
    pub(crate) params: Params,
    /// Everything stops at once.
    pub(crate) give_up: Flag,
    /// The longest message that is taken from the server, in bytes.
    pub(crate) longest: usize,
    /// Nothing more is listened for that nobody waits for.
    pub(crate) ending: Flag,
    /// Held while a session is being opened again.
    pub(crate) reopening: tokio::sync::Mutex<()>,
    failures: Mutex<Failures>,
    /// What came with the client's last message that had anything with it.
    latest: Mutex<Arc<Context>>,
    /// Its clones are held by what is under way.
    running: Mutex<Option<mpsc::Sender<Infallible>>>,
}

impl Shared {
    pub(crate) fn failures(&self) -> MutexGuard<'_, Failures> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What goes with a message: what came with it, or, if that is nothing, with the client's last one.
    pub(crate) fn latest(&self, context: &Arc<Context>) -> Arc<Context> {
        if !context.pass.is_empty() {
            return context.clone();
        }
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn remember(&self, context: &Arc<Context>) {
        if !context.pass.is_empty() {
            *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = context.clone();
        }
    }

    /// To be held by what is under way.
    fn running(&self) -> Option<mpsc::Sender<Infallible>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn under_way(&self) -> usize {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.as_ref().map_or(0, mpsc::Sender::strong_count)
    }

    /// Begins something that the end waits for.
    fn begin(self: &Arc<Self>, job: Job) -> JoinHandle<()> {
        let (shared, running) = (self.clone(), self.running());
        let flight = job.flight.clone();
        let ids = match &job.whose {
            Whose::Client(ids) => ids.clone(),
            Whose::Own { .. } | Whose::Nobody => Vec::new(),
        };
        // A cancel that comes next finds it.
        self.flights.begin(&ids, &flight);
        task::spawn(async move {
            shared.carry(job).await;
            flight.begins(false);
            shared.flights.end(&ids, &flight);
            drop(running);
        })
    }
}

/// The way of one client.
pub(crate) struct Link {
    shared: Arc<Shared>,
    queue: mpsc::Receiver<ToServer>,
    /// Notifications that wait for their turn, each with the request that must be begun before it.
    turns: mpsc::Sender<(Job, Option<Arc<Flight>>)>,
    done: mpsc::Receiver<Infallible>,
}

/// What the next messages wait for.
type Opening = JoinHandle<()>;

impl Link {
    /// A way to this server, on which nothing has been sent yet.
    pub(crate) fn new(http: Arc<Http>, wiring: Wiring) -> (ServerHandle, Link) {
        let Wiring { config, book, client, tools, closing: _, give_up, longest } = wiring;
        let (handle, queue) = ServerHandle::new(book.clone());
        let from_server = FromServer { config, book: book.clone(), client: client.clone(), tools: tools.clone() };
        let (running, done) = mpsc::channel(1);
        let shared = Arc::new(Shared {
            http,
            book,
            client,
            tools,
            from_server,
            current: Current::new(),
            flights: Flights::default(),
            params: Params::default(),
            give_up,
            longest,
            ending: Flag::default(),
            reopening: tokio::sync::Mutex::default(),
            failures: Mutex::default(),
            latest: Mutex::default(),
            running: Mutex::new(Some(running)),
        });
        let (turns, waiting) = mpsc::channel(NOTIFICATIONS);
        task::spawn(take_turns(shared.clone(), waiting));
        (handle, Link { shared, queue, turns, done })
    }

    /// Takes messages until there are no more, and sees what is under way to its end.
    pub(crate) async fn run(mut self) -> Served {
        let mut held: VecDeque<ToServer> = VecDeque::new();
        let mut opening: Option<Opening> = None;
        loop {
            while opening.is_none()
                && let Some(message) = held.pop_front()
            {
                opening = self.take(message).await;
            }
            let opened = async {
                match &mut opening {
                    Some(opening) => drop(opening.await),
                    None => std::future::pending().await,
                }
            };
            let message = tokio::select! {
                biased;
                () = self.shared.give_up.raised() => break,
                () = opened => {
                    opening = None;
                    continue;
                }
                message = self.queue.recv(), if held.len() < HELD => message,
            };
            match message {
                None | Some(ToServer::Close) => break,
                // The server may wait for it before it answers what opens the session.
                Some(message) if opening.is_some() && !is_answer(&message) => held.push_back(message),
                Some(message) => {
                    if let Some(another) = self.take(message).await {
                        opening = Some(another);
                    }
                }
            }
        }
        for message in held {
            self.refuse(message).await;
        }
        self.queue.close();
        while let Some(message) = self.queue.recv().await {
            self.refuse(message).await;
        }
        self.end().await;
        Ok(None)
    }

    /// Begins to send a message. What is given back must be over before the next one is begun.
    async fn take(&mut self, message: ToServer) -> Option<Opening> {
        match message {
            ToServer::Pass { message: Incoming { line, context, came: _ }, note } => {
                self.shared.remember(&context);
                self.pass(line, context, note).await
            }
            ToServer::Own { line, id, permit, context, written, reply } => {
                // Nobody waits for its answer any more.
                if reply.is_closed() {
                    return None;
                }
                self.shared.book.own_request(&id, reply);
                let said = Said::of(&line);
                let whose = Whose::Own { id, permit };
                let flight = Arc::default();
                drop(self.shared.begin(Job { line, said, whose, context, flight, opens: false, left: Some(written) }));
                None
            }
            ToServer::Close => None,
        }
    }

    async fn pass(&mut self, line: bytes::Bytes, context: Arc<Context>, note: Note) -> Option<Opening> {
        let said = Said::of(&line);
        let stateless = is_stateless(said.revision(&context, self.shared.current.open().as_deref()));
        let flight = Arc::new(Flight { stateless, ..Flight::default() });
        let job = |whose, opens, flight| Job { line: line.clone(), said, whose, context, flight, opens, left: None };
        match note {
            Note::Requests(requests) if !requests.is_empty() => {
                let opens = requests.iter().any(|(_, initialize)| initialize.is_some());
                let ids = self.note(requests).await?;
                let sending = self.shared.begin(job(Whose::Client(ids), opens, flight));
                opens.then_some(sending)
            }
            Note::Requests(_) => {
                self.in_turn(job(Whose::Nobody, false, flight), None).await;
                None
            }
            Note::Initialized => {
                self.shared.book.initialized(line.clone());
                let (shared, line, session) = (self.shared.clone(), line.clone(), self.shared.current.open());
                let context = job(Whose::Nobody, false, flight).context;
                Some(task::spawn(async move {
                    if let Err(why) = shared.initialized(line, context, session).await {
                        tracing::warn!("the server did not take `notifications/initialized`: {why}");
                    }
                }))
            }
            Note::Cancel(id) => {
                let cancelled = self.shared.flights.get(&id);
                self.shared.book.cancels(&id);
                let is_told_by_leaving = cancelled.as_ref().is_some_and(|flight| flight.stateless) || stateless;
                if let Some(flight) = &cancelled {
                    flight.cancelled.raise();
                }
                if !is_told_by_leaving {
                    self.in_turn(job(Whose::Nobody, false, flight), cancelled).await;
                }
                None
            }
            Note::Nothing if matches!(parse(&line), Frame::Response { .. }) => {
                drop(self.shared.begin(job(Whose::Nobody, false, flight)));
                None
            }
            Note::Nothing => {
                self.in_turn(job(Whose::Nobody, false, flight), None).await;
                None
            }
        }
    }

    /// Enters the client's requests in the book; their ids, or `None` if they can't be passed on.
    async fn note(&self, requests: Vec<(String, Option<Option<String>>)>) -> Option<Vec<String>> {
        if self.shared.under_way() > UNDER_WAY {
            for (id, _) in &requests {
                let text = format!("nothing was sent: {UNDER_WAY} requests are under way; try again later");
                self.shared.client.send(error_line(id, TRANSPORT_ERROR, &text, None)).await;
            }
            return None;
        }
        let mut ids = Vec::with_capacity(requests.len());
        for (id, initialize) in requests {
            if !self.shared.book.passes(&id, initialize) {
                let problem = "nothing was sent: this request id is in use by the proxy; use another one";
                self.shared.client.send(error_line(&id, -32600, problem, None)).await;
                return None;
            }
            ids.push(id);
        }
        Some(ids)
    }

    async fn in_turn(&self, job: Job, after: Option<Arc<Flight>>) {
        tokio::select! {
            biased;
            _ = self.turns.send((job, after)) => {}
            () = self.shared.give_up.raised() => {}
        }
    }

    /// Answers a message that was not sent.
    async fn refuse(&self, message: ToServer) {
        let reason = "the session has been closed";
        match message {
            ToServer::Pass { note: Note::Requests(requests), .. } => {
                for (id, _) in requests {
                    let text = format!("nothing was sent: {reason}");
                    self.shared.client.send(error_line(&id, TRANSPORT_ERROR, &text, None)).await;
                }
            }
            ToServer::Own { reply, .. } => drop(reply.send(OwnReply::NotSent(reason.to_owned()))),
            ToServer::Pass { .. } | ToServer::Close => {}
        }
    }

    /// Waits for what is under way, and tells the server that the session is over.
    async fn end(self) {
        let Link { shared, turns, mut done, .. } = self;
        drop(turns);
        shared.ending.raise();
        *shared.running.lock().unwrap_or_else(PoisonError::into_inner) = None;
        tokio::select! {
            biased;
            // What is under way sees that by itself.
            () = shared.give_up.raised() => {}
            _ = timeout(LAST_ANSWERS, done.recv()) => {}
        }
        shared.give_up.raise();
        let _ = timeout(GOODBYE, done.recv()).await;
        if let Some(session) = shared.current.open().filter(|session| session.id.is_some()) {
            let _ = timeout(GOODBYE, shared.goodbye(&session)).await;
            session.over.raise();
        }
    }
}

impl Shared {
    /// Ends a session at the server (revision 2025-11-25, "Session Management"). It may not want to hear of it.
    async fn goodbye(&self, session: &crate::upstream::opened::Opened) {
        let context = self.latest(&Arc::default());
        let mut request = reqwest::Request::new(Method::DELETE, self.http.url.clone());
        *request.headers_mut() = headers::without_message(&context, Some(session), &self.http.fixed);
        if let Err(error) = self.http.client.execute(request).await {
            tracing::debug!("the server was not told that the session is over: {}", super::chain(error));
        }
    }
}

/// Sends notifications one after the other.
async fn take_turns(shared: Arc<Shared>, mut waiting: mpsc::Receiver<(Job, Option<Arc<Flight>>)>) {
    while let Some((job, after)) = waiting.recv().await {
        if let Some(flight) = after {
            let begun = timeout(TURN, flight.begun.raised()).await;
            // A cancel of what never left is of no use.
            if begun.is_ok() && !flight.has_left() {
                continue;
            }
        }
        let _ = timeout(TURN, shared.begin(job)).await;
    }
}

fn is_answer(message: &ToServer) -> bool {
    match message {
        ToServer::Pass { message, note: Note::Nothing } => matches!(parse(&message.line), Frame::Response { .. }),
        _ => false,
    }
}

//! Who waits for which answer, and what the session was.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::messages::frame::{Body, IdKey};
use crate::messages::splice::quoted;
use crate::told::offers::{Adds, Offers, takes_keys};
use crate::told::progress::Progress;
use crate::upstream::proves::Refusal;
use crate::watch::Awaited;

/// What came of a request of the proxy's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OwnReply {
    /// The result's text.
    Result(String),
    /// The error's text.
    Error(String),
    /// It may have been sent, and its answer never came.
    Lost,
    /// It was certainly not sent.
    NotSent(String),
    /// The server refused to run it.
    Refused(Refusal),
}

/// Where an answer of the server belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goes {
    /// To the client.
    On,
    /// To the client, with what the proxy adds to it.
    With(Adds),
    /// Nowhere: it was the proxy's own, or nobody waits for it.
    Nowhere,
}

/// Where an answer of the client belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ToWhom {
    /// To the server.
    Server,
    /// To the server, under the id that the server gave.
    Renamed(String),
    /// To a server process that no longer exists.
    Nobody,
}

/// How the client opened its session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Session {
    /// `initialize` was answered: its parameters' text, as the client sent it.
    pub(crate) initialize: Option<Option<String>>,
    /// The client's `notifications/initialized`, the whole line.
    pub(crate) initialized: Option<bytes::Bytes>,
}

/// What was still open when a server process ended.
pub(crate) struct Open {
    /// The ids of the client's own requests.
    pub(crate) passed: Vec<String>,
    /// The proxy's.
    pub(crate) own: Vec<oneshot::Sender<OwnReply>>,
}

#[derive(Default)]
struct Pages {
    own: BTreeMap<String, oneshot::Sender<OwnReply>>,
    passed: BTreeMap<IdKey, Passed>,
    /// Requests of the running server process that the client has not answered.
    asked: HashMap<IdKey, ()>,
    /// Such requests of former processes: their answers are dropped.
    stale: HashMap<IdKey, ()>,
    /// Requests of the running process whose ids a former one had used: proxy's id → server's id.
    renamed: HashMap<String, String>,
    /// Passed requests whose answers the proxy has something to add to.
    added_to: HashMap<IdKey, Adds>,
    session: Session,
    takes_keys: bool,
    /// The proxy offers tasks in this session.
    session_tasks: bool,
    /// Passed requests that are only observed.
    watched: HashMap<IdKey, Awaited>,
}

impl Pages {
    fn forget_asked(&mut self) {
        let asked = std::mem::take(&mut self.asked);
        self.stale.extend(asked);
        let renamed = std::mem::take(&mut self.renamed);
        self.stale.extend(renamed.into_keys().map(|id| (IdKey::new(&quoted(&id)), ())));
    }
}

struct Passed {
    id: String,
    /// Of an `initialize`: its parameters.
    initialize: Option<Option<String>>,
}

/// The proxy's book.
pub(crate) struct Book {
    prefix: String,
    offers: Offers,
    /// Calls that are kept alive.
    pub(crate) progress: Progress,
    pages: Mutex<(u64, Pages)>,
}

impl Book {
    pub(crate) fn new(epoch: impl std::fmt::Display) -> Book {
        Book {
            prefix: format!("settled-{epoch}-"),
            offers: Offers::default(),
            progress: Progress::default(),
            pages: Mutex::default(),
        }
    }

    fn pages(&self) -> MutexGuard<'_, (u64, Pages)> {
        // Every change of the pages is a single step, so a panic elsewhere leaves nothing half done.
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An id of the proxy's own that nobody uses now.
    pub(crate) fn next_id(&self) -> String {
        let mut pages = self.pages();
        loop {
            pages.0 += 1;
            let id = format!("{}{}", self.prefix, pages.0);
            if !pages.1.passed.contains_key(&IdKey::new(&quoted(&id))) {
                return id;
            }
        }
    }

    /// The proxy sends a request.
    pub(crate) fn own_request(&self, id: &str, reply: oneshot::Sender<OwnReply>) {
        self.pages().1.own.insert(id.to_owned(), reply);
    }

    /// Whether anybody still waits for the answer to such a request.
    pub(crate) fn waits_for(&self, id: &str) -> bool {
        self.pages().1.own.contains_key(id)
    }

    /// Such a request was not sent after all.
    pub(crate) fn take_back(&self, id: &str) -> Option<oneshot::Sender<OwnReply>> {
        self.pages().1.own.remove(id)
    }

    /// A request of the client is about to be passed on. `false` if its id is one that the proxy waits for itself.
    pub(crate) fn passes(&self, id: &str, initialize: Option<Option<String>>) -> bool {
        let mut pages = self.pages();
        let taken = serde_json::from_str::<String>(id).is_ok_and(|id| pages.1.own.contains_key(&id));
        if !taken {
            pages.1.passed.insert(IdKey::new(id), Passed { id: id.to_owned(), initialize });
        }
        !taken
    }

    /// What the proxy adds to the server's answers.
    pub(crate) fn offering(self, offers: Offers) -> Book {
        Book { offers, ..self }
    }

    /// What the proxy adds to the server's answers.
    pub(crate) fn offers(&self) -> Offers {
        self.offers
    }

    /// The answer to a request that is about to be passed on will be added to.
    pub(crate) fn adds(&self, id: &str, adds: Adds) {
        self.pages().1.added_to.insert(IdKey::new(id), adds);
    }

    /// Whether the server takes the caller's keys itself (SEP-3182).
    pub(crate) fn takes_keys(&self) -> bool {
        self.pages().1.takes_keys
    }

    /// Whether the client has opened a session in which the proxy offers tasks (revision 2025-11-25), since the server has none.
    pub(crate) fn session_tasks(&self) -> bool {
        self.pages().1.session_tasks
    }

    /// A request is about to be passed on whose answer is observed.
    pub(crate) fn watch(&self, id: &str, awaited: Awaited) {
        self.pages().1.watched.insert(IdKey::new(id), awaited);
    }

    /// Its answer has come.
    pub(crate) fn unwatch(&self, id: &str) -> Option<Awaited> {
        let mut pages = self.pages();
        if pages.1.watched.is_empty() {
            return None;
        }
        pages.1.watched.remove(&IdKey::new(id))
    }

    /// The client no longer wants an answer to a request that was passed on.
    pub(crate) fn cancels(&self, id: &IdKey) {
        let mut pages = self.pages();
        pages.1.added_to.remove(id);
        pages.1.passed.remove(id);
    }

    /// No answer will come to a request that was passed on. Whether the client still waits for one.
    pub(crate) fn gives_up(&self, id: &IdKey) -> bool {
        let mut pages = self.pages();
        pages.1.added_to.remove(id);
        pages.1.passed.remove(id).is_some()
    }

    /// The client's `notifications/initialized` is passed on.
    pub(crate) fn initialized(&self, line: bytes::Bytes) {
        self.pages().1.session.initialized = Some(line);
    }

    /// How the session was opened.
    pub(crate) fn session(&self) -> Session {
        self.pages().1.session.clone()
    }

    /// The server answers.
    pub(crate) fn server_answers(&self, id: &str, body: Body<'_>) -> Goes {
        let mut pages = self.pages();
        let text = serde_json::from_str::<String>(id).ok();
        if let Some(reply) = text.as_ref().and_then(|id| pages.1.own.remove(id)) {
            let _ = reply.send(match body {
                Body::Result(result) => OwnReply::Result(result.to_owned()),
                Body::Error(error) => OwnReply::Error(error.to_owned()),
            });
            return Goes::Nowhere;
        }
        let key = IdKey::new(id);
        let adds = pages.1.added_to.remove(&key);
        match pages.1.passed.remove(&key) {
            Some(passed) => {
                if let (Some(params), Body::Result(_)) = (passed.initialize, body) {
                    pages.1.session.initialize = Some(params);
                }
                if let (Some(Adds::Initialize | Adds::Discover), Body::Result(result)) = (adds, body) {
                    pages.1.takes_keys = takes_keys(result);
                }
                if let (Some(Adds::Initialize), Body::Result(result)) = (adds, body) {
                    pages.1.session_tasks = self.offers.in_session(result);
                }
                adds.map_or(Goes::On, Goes::With)
            }
            None if text.is_some_and(|id| id.starts_with(&self.prefix)) => Goes::Nowhere,
            None => Goes::On,
        }
    }

    /// The server asks the client something. If its id could be taken for that of a former process, the id to use
    /// instead.
    pub(crate) fn server_asks(&self, id: &str) -> Option<String> {
        let key = IdKey::new(id);
        let mut pages = self.pages();
        if pages.1.stale.contains_key(&key) {
            pages.0 += 1;
            let new = format!("{}{}", self.prefix, pages.0);
            pages.1.renamed.insert(new.clone(), id.to_owned());
            Some(quoted(&new))
        } else {
            pages.1.asked.insert(key, ());
            None
        }
    }

    /// The client answers the server.
    pub(crate) fn client_answers(&self, id: &str) -> ToWhom {
        let key = IdKey::new(id);
        let mut pages = self.pages();
        if let Some(server_id) = serde_json::from_str(id).ok().and_then(|id: String| pages.1.renamed.remove(&id)) {
            return ToWhom::Renamed(server_id);
        }
        if pages.1.asked.remove(&key).is_none() && pages.1.stale.remove(&key).is_some() {
            return ToWhom::Nobody;
        }
        ToWhom::Server
    }

    /// The server has ended the session: what it had asked the client is not answered any more.
    pub(crate) fn session_ended(&self) {
        self.pages().1.forget_asked();
    }

    /// The server process has ended: everything that it owed.
    pub(crate) fn process_ended(&self) -> Open {
        let mut pages = self.pages();
        let pages = &mut pages.1;
        pages.forget_asked();
        pages.added_to.clear();
        Open {
            passed: std::mem::take(&mut pages.passed).into_values().map(|passed| passed.id).collect(),
            own: std::mem::take(&mut pages.own).into_values().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_answers_stay_here() {
        let book = Book::new(3);
        let (reply, mut got) = oneshot::channel();
        let id = book.next_id();
        assert_eq!(id, "settled-3-1");
        book.own_request(&id, reply);
        assert!(!book.passes(r#""settled-3-1""#, None));
        assert_eq!(book.server_answers(r#""settled-3-1""#, Body::Result("{}")), Goes::Nowhere);
        assert_eq!(got.try_recv(), Ok(OwnReply::Result("{}".to_owned())));
        assert_eq!(book.server_answers(r#""settled-3-1""#, Body::Result("{}")), Goes::Nowhere);
        assert_eq!(book.server_answers("1", Body::Result("{}")), Goes::On);
    }

    #[test]
    fn a_client_may_use_ids_of_the_same_form() {
        let book = Book::new(3);
        assert!(book.passes(r#""settled-3-1""#, None));
        assert_eq!(book.next_id(), "settled-3-2");
        assert_eq!(book.server_answers(r#""settled-3-1""#, Body::Result("{}")), Goes::On);
    }

    #[test]
    fn the_session_is_kept_once_it_is_open() {
        let book = Book::new(1);
        book.passes("0", Some(Some("{\"a\":1}".to_owned())));
        assert_eq!(book.session().initialize, None);
        book.server_answers("0.0", Body::Result("{}"));
        assert_eq!(book.session().initialize, Some(Some("{\"a\":1}".to_owned())));
    }

    #[test]
    fn answers_to_a_former_process_are_dropped() {
        let book = Book::new(1);
        book.passes("7", None);
        assert_eq!(book.server_asks("0"), None);
        let open = book.process_ended();
        assert_eq!(open.passed, ["7"]);
        // The new process counts from 0 again.
        let new = book.server_asks("0").unwrap();
        assert_eq!(book.client_answers("0"), ToWhom::Nobody);
        assert_eq!(book.client_answers(&new), ToWhom::Renamed("0".to_owned()));
        assert_eq!(book.server_asks("0"), None);
        assert_eq!(book.client_answers("0"), ToWhom::Server);
    }
}

//! The session with a server behind HTTP, as it stands.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::HeaderValue;

use crate::flag::Flag;

/// A session that was opened by `initialize`.
#[derive(Debug)]
pub(crate) struct Opened {
    /// Counts the sessions of one client.
    pub(crate) number: u64,
    /// Its id, if the server gave it one.
    pub(crate) id: Option<HeaderValue>,
    /// The revision that was agreed on.
    pub(crate) revision: Option<String>,
    /// It has ended, or another one was opened.
    pub(crate) over: Flag,
}

impl Opened {
    pub(crate) fn new(number: u64, id: Option<HeaderValue>, revision: Option<String>) -> Opened {
        Opened { number, id, revision, over: Flag::default() }
    }
}

/// How it stands with the session.
#[derive(Clone, Debug)]
pub(crate) enum Standing {
    /// None was opened: the client has not asked for one yet, or its revision has none.
    Unopened,
    /// It is open.
    Open(Arc<Opened>),
    /// The server has ended it. The next message opens another.
    Over(Arc<Opened>),
}

/// The session, shared by all that happens in it.
#[derive(Debug)]
pub(crate) struct Current {
    standing: Mutex<Standing>,
}

impl Current {
    pub(crate) fn new() -> Current {
        Current { standing: Mutex::new(Standing::Unopened) }
    }

    fn lock(&self) -> MutexGuard<'_, Standing> {
        // It is replaced in one step.
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How it stands.
    pub(crate) fn standing(&self) -> Standing {
        self.lock().clone()
    }

    /// The session that is open.
    pub(crate) fn open(&self) -> Option<Arc<Opened>> {
        match &*self.lock() {
            Standing::Open(opened) => Some(opened.clone()),
            Standing::Unopened | Standing::Over(_) => None,
        }
    }

    /// `initialize` was answered.
    pub(crate) fn opened(&self, id: Option<HeaderValue>, revision: Option<String>) -> Arc<Opened> {
        let mut standing = self.lock();
        let number = match &*standing {
            Standing::Unopened => 1,
            Standing::Open(before) | Standing::Over(before) => {
                before.over.raise();
                before.number + 1
            }
        };
        let opened = Arc::new(Opened::new(number, id, revision));
        *standing = Standing::Open(opened.clone());
        opened
    }

    /// The server knows that session no more.
    pub(crate) fn ended(&self, session: &Arc<Opened>) {
        let mut standing = self.lock();
        session.over.raise();
        if matches!(&*standing, Standing::Open(open) if open.number == session.number) {
            *standing = Standing::Over(session.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_session_does_not_end_the_one_after_it() {
        let current = Current::new();
        let first = current.opened(Some(HeaderValue::from_static("a")), None);
        current.ended(&first);
        assert!(matches!(current.standing(), Standing::Over(_)) && first.over.is_raised());
        let second = current.opened(Some(HeaderValue::from_static("b")), None);
        assert_eq!(second.number, 2);
        current.ended(&first);
        assert_eq!(current.open().unwrap().number, 2);
        assert!(!second.over.is_raised());
        current.opened(None, None);
        assert!(second.over.is_raised(), "it was replaced");
    }
}

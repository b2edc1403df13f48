//! The sessions that are open: by id for clients that open one, by principal for those that don't.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use settled::protocol::Digest;

use crate::ProxyError;
use crate::config::HttpConfig;
use crate::front::Front;
use crate::front::open::Open;

/// Whose a session is: the principal's digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Owner(Digest);

impl Owner {
    /// The owner of this name; nobody in particular without one.
    pub(crate) fn of(principal: Option<&str>) -> Owner {
        let (there, name) = principal.map_or((&b"0"[..], &b""[..]), |name| (&b"1"[..], name.as_bytes()));
        Owner(Digest::of_parts(&[there, name]))
    }
}

/// Where a session is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) service: usize,
    pub(crate) owner: Owner,
    /// Its id; without, it is the one that requests without session share.
    pub(crate) id: Option<String>,
}

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoSession {
    /// There are too many.
    #[error("{0} sessions are open, which is as many as there may be: end one, or try again later")]
    TooMany(usize),
    /// No id can be made.
    #[error("no random number can be had: {0}")]
    NoRandom(getrandom::Error),
    /// The server can't be reached.
    #[error("{0}")]
    Proxy(#[from] ProxyError),
}

/// All open sessions.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<Known>);

#[derive(Default)]
struct Known {
    by_id: HashMap<String, Arc<Open>>,
    shared: HashMap<(usize, Owner), Arc<Open>>,
}

impl Sessions {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session with that id, if it is this owner's and with this server.
    pub(crate) fn find(&self, service: usize, owner: Owner, id: &str) -> Option<Arc<Open>> {
        let known = self.known();
        let open = known.by_id.get(id)?;
        (open.place.service == service && open.place.owner == owner).then(|| open.clone())
    }

    /// Opens a session with an id that nobody can guess.
    pub(crate) fn open(
        &self,
        front: &Arc<Front>,
        service: usize,
        principal: Option<&str>,
    ) -> Result<Arc<Open>, NoSession> {
        let mut random = [0; 32];
        getrandom::fill(&mut random).map_err(NoSession::NoRandom)?;
        let id = URL_SAFE_NO_PAD.encode(random);
        let owner = Owner::of(principal);
        let mut known = self.known();
        known.has_room(&front.http, owner)?;
        let open = Open::begin(front, Place { service, owner, id: Some(id.clone()) }, principal)?;
        known.by_id.insert(id, open.clone());
        Ok(open)
    }

    /// The session that all requests without one share, of this principal with this server (revision 2026-07-28).
    pub(crate) fn shared(
        &self,
        front: &Arc<Front>,
        service: usize,
        principal: Option<&str>,
    ) -> Result<Arc<Open>, NoSession> {
        let owner = Owner::of(principal);
        let mut known = self.known();
        if let Some(open) = known.shared.get(&(service, owner)) {
            return Ok(open.clone());
        }
        known.has_room(&front.http, owner)?;
        let open = Open::begin(front, Place { service, owner, id: None }, principal)?;
        known.shared.insert((service, owner), open.clone());
        Ok(open)
    }

    /// Forgets a session.
    pub(crate) fn remove(&self, open: &Arc<Open>) {
        let mut known = self.known();
        match &open.place.id {
            Some(id) => drop(known.by_id.remove(id)),
            None => {
                let place = (open.place.service, open.place.owner);
                if known.shared.get(&place).is_some_and(|known| Arc::ptr_eq(known, open)) {
                    known.shared.remove(&place);
                }
            }
        }
    }

    /// Ends what nobody uses, and drops what nobody comes back for.
    pub(crate) fn tidy(&self, http: &HttpConfig) {
        let all: Vec<Arc<Open>> = {
            let known = self.known();
            known.by_id.values().chain(known.shared.values()).cloned().collect()
        };
        for open in all {
            open.streams.tidy();
            if open.idle() >= http.idle_timeout {
                open.ending.raise();
            }
        }
    }
}

impl Known {
    fn has_room(&self, http: &HttpConfig, owner: Owner) -> Result<(), NoSession> {
        let all = || self.by_id.values().chain(self.shared.values());
        if self.by_id.len() + self.shared.len() >= http.sessions {
            return Err(NoSession::TooMany(http.sessions));
        }
        // Counting them one by one is only needed where one of many may not have them all.
        if http.sessions_per_principal < http.sessions
            && all().filter(|open| open.place.owner == owner).count() >= http.sessions_per_principal
        {
            return Err(NoSession::TooMany(http.sessions_per_principal));
        }
        Ok(())
    }
}

//! Reading a key's frames back: its entry, its history, and whether a certain request is among them.

use std::path::{Path, PathBuf};

use settled::{Change, Entry, LedgerError};
use settled_protocol::{Key, Version};

use crate::body::{Link, Requests, Step};
use crate::error::from_log;
use crate::frame::{self, FrameError, Head, KeyHash, Kind, Rest, Token};
use crate::log::LogReader;

/// Reads chains of frames from the log, from any thread.
#[derive(Clone)]
pub(crate) struct Chains {
    log: LogReader,
    dir: PathBuf,
}

impl Chains {
    pub fn new(log: LogReader, dir: &Path) -> Chains {
        Chains { log, dir: dir.to_owned() }
    }

    /// The log that they are in.
    pub fn log(&self) -> &LogReader {
        &self.log
    }

    /// The entry whose latest frame is at `position`. It must be that of `key`, if one is given.
    pub fn entry(&self, position: u64, key: Option<&Key>) -> Result<Entry, LedgerError> {
        let mut found = None;
        let mut links: Vec<Link> = Vec::new();
        let mut latest = None;
        self.walk(position, |mut link| {
            let (generation, name) = match &mut link.step {
                Step::Changed(body) => (body.generation(), body.key.take()),
                Step::Buried(tombstone) => (tombstone.record.generation(), Some(tombstone.key.clone())),
            };
            found = found.take().or(name);
            // An earlier operation under the key has nothing to tell, except for the key itself.
            let earlier = *latest.get_or_insert(generation) != generation;
            if !earlier {
                links.push(link);
            }
            Ok(!(earlier && found.is_some()))
        })?;
        let key = self.checked(found, key, position)?;
        let mut entry: Option<Entry> = None;
        for link in links.into_iter().rev() {
            entry = Some(match link.step {
                Step::Changed(body) => {
                    let change = body.into_change(key.clone());
                    change.apply(entry.as_ref(), |_| link.position.saturating_add(1))
                }
                Step::Buried(tombstone) => tombstone.into_entry(),
            });
        }
        entry.ok_or_else(|| self.corrupt(position, "the chain of a key's records is empty"))
    }

    /// All changes up to the one at `position`, oldest first.
    pub fn history(&self, position: u64, key: &Key) -> Result<Vec<Change>, LedgerError> {
        let mut named = None;
        let mut changes = Vec::new();
        self.walk(position, |link| {
            match link.step {
                Step::Changed(mut body) => {
                    named = body.key.take().or(named.take());
                    changes.push(body.into_change(key.clone()));
                }
                Step::Buried(tombstone) => named = Some(tombstone.key),
            }
            Ok(true)
        })?;
        self.checked(named, Some(key), position)?;
        changes.reverse();
        Ok(changes)
    }

    /// The whole chain up to `position`, oldest first.
    pub fn links(&self, position: u64) -> Result<Vec<Link>, LedgerError> {
        let mut links = Vec::new();
        self.walk(position, |link| {
            links.push(link);
            Ok(true)
        })?;
        links.reverse();
        Ok(links)
    }

    /// Whether the request that `token` names wrote the frame at `position` or one before it in the same chain. It expected
    /// the version `after`, so what it wrote, if it did, comes later than that.
    pub fn holds(&self, position: u64, token: Token, after: Option<Version>) -> Result<bool, LedgerError> {
        Ok(self.requests(position, after)?.iter().any(|(named, _)| *named == token))
    }

    /// The requests that led to the frame at `position`, latest first, back to the one that stored the version `after`.
    pub fn requests(&self, position: u64, after: Option<Version>) -> Result<Requests, LedgerError> {
        let mut requests = Requests::new();
        let mut at = Some(position);
        while let Some(position) = at {
            let frame = match self.frame(position) {
                Ok(frame) => frame,
                // Compaction has removed what came before a key was forgotten.
                Err(_) if position < self.log.begin() => break,
                Err(error) => return Err(error),
            };
            let (head, rest) = self.head(position, &frame)?;
            let unreadable = |e: FrameError| self.unreadable(position, &e);
            let mut oldest = None;
            let mut add = |token, version| {
                requests.push((token, version));
                oldest = version.or(oldest);
            };
            match head.kind {
                Kind::Change { of, .. } | Kind::Buried { of, .. } => add(head.token(), Some(of.version)),
                Kind::Forgotten { .. } | Kind::Registered { .. } | Kind::Ended { .. } => add(head.token(), None),
                Kind::Whole { .. } | Kind::Part { .. } => {
                    let links = rest.parse::<Vec<Link>>().map_err(unreadable)?;
                    links.iter().rev().for_each(|link| add(link.token, Some(version(link))));
                }
                Kind::Remembered { .. } => {
                    let older = rest.parse::<Requests>().map_err(unreadable)?;
                    older.into_iter().for_each(|(token, version)| add(token, version));
                }
            }
            if oldest.is_some_and(|oldest| Some(oldest) <= after) {
                break;
            }
            at = head.previous();
        }
        Ok(requests)
    }

    /// Whether the chain of `position` has a frame before `limit`.
    pub fn reaches(&self, position: u64, limit: u64) -> Result<bool, LedgerError> {
        let mut at = Some(position);
        while let Some(position) = at {
            if position < limit {
                return Ok(true);
            }
            let frame = self.frame(position)?;
            let (head, _) = self.head(position, &frame)?;
            at = match head.kind {
                Kind::Buried { .. } => None,
                _ => head.previous(),
            };
        }
        Ok(false)
    }

    /// The key whose frame is at `position`, if the log still has that.
    pub fn key(&self, position: u64) -> Result<Option<KeyHash>, LedgerError> {
        let frame = match self.frame(position) {
            Ok(frame) => frame,
            Err(_) if position < self.log.begin() => return Ok(None),
            Err(error) => return Err(error),
        };
        let (head, _) = self.head(position, &frame)?;
        Ok(head.kind.key())
    }

    /// Goes back from `position` as long as `more` says so and there is something.
    fn walk(&self, position: u64, mut more: impl FnMut(Link) -> Result<bool, LedgerError>) -> Result<(), LedgerError> {
        let mut at = Some(position);
        while let Some(position) = at {
            let frame = self.frame(position)?;
            let (head, rest) = self.head(position, &frame)?;
            let links = self.read_links(position, &head, rest)?;
            for link in links.into_iter().rev() {
                let last = matches!(link.step, Step::Buried(_));
                if !more(link)? || last {
                    return Ok(());
                }
            }
            at = head.previous();
        }
        Ok(())
    }

    fn read_links(&self, position: u64, head: &Head, rest: Rest<'_>) -> Result<Vec<Link>, LedgerError> {
        let token = head.token();
        let links = match head.kind {
            Kind::Change { .. } => rest.body().map(|body| {
                let step = Step::Changed(Box::new(body));
                vec![Link { token, position, step }]
            }),
            Kind::Buried { .. } => rest.parse().map(|tombstone| {
                let step = Step::Buried(Box::new(tombstone));
                vec![Link { token, position, step }]
            }),
            Kind::Whole { .. } | Kind::Part { .. } => rest.parse(),
            Kind::Registered { .. } | Kind::Ended { .. } | Kind::Forgotten { .. } | Kind::Remembered { .. } => {
                return Err(self.corrupt(position, "a record that is no change is in a key's chain"));
            }
        };
        links.map_err(|e| self.unreadable(position, &e))
    }

    fn frame(&self, position: u64) -> Result<Vec<u8>, LedgerError> {
        self.log.read(position).map_err(|e| from_log(&e, &self.dir))
    }

    fn head<'a>(&self, position: u64, frame: &'a [u8]) -> Result<(Head, Rest<'a>), LedgerError> {
        let (head, rest) = frame::read(frame).map_err(|e| self.unreadable(position, &e))?;
        if head.previous().is_some_and(|previous| previous >= position) {
            return Err(self.corrupt(position, "a key's chain of records doesn't lead back"));
        }
        Ok((head, rest))
    }

    fn checked(&self, found: Option<Key>, wanted: Option<&Key>, position: u64) -> Result<Key, LedgerError> {
        match (found, wanted) {
            (Some(found), Some(wanted)) if found != *wanted => {
                Err(self.corrupt(position, &format!("the record found for the key `{wanted}` is that of `{found}`")))
            }
            (Some(found), _) => Ok(found),
            (None, _) => Err(self.corrupt(position, "a chain of records names no key")),
        }
    }

    fn corrupt(&self, position: u64, what: &str) -> LedgerError {
        LedgerError::Corrupt(format!("{what} (position {position} of the log in `{}`)", self.dir.display()))
    }

    fn unreadable(&self, position: u64, error: &FrameError) -> LedgerError {
        self.corrupt(position, &error.to_string())
    }
}

fn version(link: &Link) -> Version {
    match &link.step {
        Step::Changed(body) => body.record.version(),
        Step::Buried(tombstone) => tombstone.record.version(),
    }
}

//! Reading a key's frames back: its entry, its history, and whether a certain request is among them.

use std::path::{Path, PathBuf};

use settled::{Change, Entry, LedgerError};
use settled_protocol::{Key, Version};

use crate::error::from_log;
use crate::frame::{self, Body, FrameError, Head, Kind, Token};
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

    /// The entry whose latest frame is at `position`. It must be that of `key`, if one is given.
    pub fn entry(&self, position: u64, key: Option<&Key>) -> Result<Entry, LedgerError> {
        let mut found = None;
        let mut bodies: Vec<Body> = Vec::new();
        self.walk(position, |head, mut body| {
            if found.is_none() {
                found = body.key.take();
            }
            // An earlier operation under the key has nothing to tell, except for the key itself.
            let earlier = bodies.first().is_some_and(|latest| latest.generation() != body.generation());
            if !earlier {
                bodies.push(body);
            }
            Ok(!(earlier && found.is_some()) && head.previous().is_some())
        })?;
        let key = self.checked(found, key, position)?;
        let mut entry: Option<Entry> = None;
        for body in bodies.into_iter().rev() {
            entry = Some(body.into_change(key.clone()).apply(entry.as_ref()));
        }
        entry.ok_or_else(|| self.corrupt(position, "the chain of a key's records is empty"))
    }

    /// All changes up to the one at `position`, oldest first.
    pub fn history(&self, position: u64, key: &Key) -> Result<Vec<Change>, LedgerError> {
        let mut named = None;
        let mut changes = Vec::new();
        self.walk(position, |_, mut body| {
            if let Some(name) = body.key.take() {
                named = Some(name);
            }
            changes.push(body.into_change(key.clone()));
            Ok(true)
        })?;
        self.checked(named, Some(key), position)?;
        changes.reverse();
        Ok(changes)
    }

    /// Whether the request that `token` names wrote the frame at `position` or one before it in the same chain. It expected
    /// the version `after`, so what it wrote, if it did, comes later than that.
    pub fn holds(&self, position: u64, token: Token, after: Option<Version>) -> Result<bool, LedgerError> {
        let mut at = Some(position);
        while let Some(position) = at {
            let frame = self.frame(position)?;
            let (head, _) = self.head(position, &frame)?;
            if head.token() == token {
                return Ok(true);
            }
            if matches!(head.kind, Kind::Change { version, .. } if Some(version) <= after) {
                break;
            }
            at = head.previous();
        }
        Ok(false)
    }

    /// Goes back from `position` as long as `more` says so and there is something.
    fn walk(
        &self,
        position: u64,
        mut more: impl FnMut(&Head, Body) -> Result<bool, LedgerError>,
    ) -> Result<(), LedgerError> {
        let mut at = Some(position);
        while let Some(position) = at {
            let frame = self.frame(position)?;
            let (head, body) = self.head(position, &frame)?;
            if !matches!(head.kind, Kind::Change { .. }) {
                return Err(self.corrupt(position, "a record that is no change is in a key's chain"));
            }
            let body = frame::body(body).map_err(|e| self.unreadable(position, &e))?;
            if !more(&head, body)? {
                break;
            }
            at = head.previous();
        }
        Ok(())
    }

    fn frame(&self, position: u64) -> Result<Vec<u8>, LedgerError> {
        self.log.read(position).map_err(|e| from_log(&e, &self.dir))
    }

    fn head<'a>(&self, position: u64, frame: &'a [u8]) -> Result<(Head, &'a [u8]), LedgerError> {
        let (head, body) = frame::read(frame).map_err(|e| self.unreadable(position, &e))?;
        if head.previous().is_some_and(|previous| previous >= position) {
            return Err(self.corrupt(position, "a key's chain of records doesn't lead back"));
        }
        Ok((head, body))
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

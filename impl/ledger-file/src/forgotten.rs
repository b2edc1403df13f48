//! The latest keys that were forgotten, so that requests which are sent again can be recognised.

use std::collections::VecDeque;

use settled::LedgerError;

use crate::chain::Chains;
use crate::frame::{self, Head, KeyHash, Kind};

/// How many are remembered.
const REMEMBERED: usize = 4096;
/// How many requests of each are copied. They were made within the time for which a call is sent again.
const REQUESTS: usize = 64;

/// The positions of the latest frames that forgot a key.
#[derive(Default)]
pub(crate) struct Forgotten(VecDeque<(KeyHash, u64)>);

impl Forgotten {
    pub fn restore(list: Vec<(KeyHash, u64)>) -> Forgotten {
        Forgotten(list.into())
    }

    pub fn remember(&mut self, key: KeyHash, position: u64) {
        if self.0.len() >= REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back((key, position));
    }

    /// Where a key was forgotten.
    pub fn positions(&self, key: KeyHash) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().filter(move |(forgotten, _)| *forgotten == key).map(|(_, position)| *position)
    }

    pub fn list(&self) -> Vec<(KeyHash, u64)> {
        self.0.iter().copied().collect()
    }

    /// The positions before `before`, and for each a frame that tells the same.
    pub fn copies(&self, before: u64, chains: &Chains) -> Result<(Vec<u64>, Vec<Vec<u8>>), LedgerError> {
        let (mut positions, mut frames) = (Vec::new(), Vec::new());
        for (key, position) in self.0.iter().filter(|(_, position)| *position < before) {
            let mut requests = chains.requests(*position, None)?;
            requests.truncate(REQUESTS);
            let head = Head::new(None, 0, Kind::Remembered { key: *key });
            frames.push(frame::with_body(&head, &requests).map_err(|e| LedgerError::Unavailable(e.to_string()))?);
            positions.push(*position);
        }
        Ok((positions, frames))
    }

    /// Takes note of where the copies are.
    pub fn moved(&mut self, copies: impl Iterator<Item = (u64, u64)>) {
        let moved: std::collections::HashMap<u64, u64> = copies.collect();
        for (_, position) in &mut self.0 {
            if let Some(to) = moved.get(position) {
                *position = *to;
            }
        }
    }
}

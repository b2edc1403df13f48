//! What a process has out: noted before it is decided whether it may be sent, so that whoever finds nothing here, after the
//! right to send has ended, knows that nothing will be sent.

use std::collections::HashMap;
use std::hash::Hash;

use crate::sync::{Arc, Mutex, lock};

/// What is out, by key.
pub struct Outbox<K, O> {
    out: Mutex<HashMap<K, Vec<Arc<O>>>>,
}

impl<K, O> Default for Outbox<K, O> {
    fn default() -> Self {
        Outbox { out: Mutex::new(HashMap::new()) }
    }
}

impl<K: Hash + Eq + Clone, O> Outbox<K, O> {
    /// This is out from now on.
    pub fn add(&self, key: &K, out: Arc<O>) {
        lock(&self.out).entry(key.clone()).or_default().push(out);
    }

    /// It is no longer.
    pub fn remove(&self, key: &K, out: &Arc<O>) {
        let mut all = lock(&self.out);
        if let Some(of_key) = all.get_mut(key) {
            of_key.retain(|other| !Arc::ptr_eq(other, out));
            if of_key.is_empty() {
                all.remove(key);
            }
        }
    }

    /// Whether this is so of everything of the key.
    pub fn all_of(&self, key: &K, is_so: impl Fn(&O) -> bool) -> bool {
        lock(&self.out).get(key).is_none_or(|of_key| of_key.iter().all(|out| is_so(out)))
    }

    /// Whether this is so of everything.
    pub fn all(&self, is_so: impl Fn(&O) -> bool) -> bool {
        lock(&self.out).values().flatten().all(|out| is_so(out))
    }

    /// Whether there is anything of the key.
    pub fn any(&self, key: &K) -> bool {
        lock(&self.out).contains_key(key)
    }

    /// What is found first of the key.
    pub fn find<R>(&self, key: &K, found: impl FnMut(&Arc<O>) -> Option<R>) -> Option<R> {
        lock(&self.out).get(key)?.iter().find_map(found)
    }
}

impl<K, O> std::fmt::Debug for Outbox<K, O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outbox").finish_non_exhaustive()
    }
}

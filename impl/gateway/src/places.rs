//! How many requests of one principal are under way.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use settled_protocol::Digest;

/// The requests under way, by principal.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places(Arc<Mutex<HashMap<Option<Digest>, usize>>>);

/// One of them, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    of: Option<Digest>,
    places: Places,
}

impl Places {
    /// A place for one more; `None`: this principal has that many already.
    pub(crate) fn take(&self, of: Option<Digest>, at_most: usize) -> Option<Place> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(of).or_insert(0);
        if *count >= at_most {
            return None;
        }
        *count += 1;
        Some(Place { of, places: self.clone() })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.places.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.of) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                counts.remove(&self.of);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_principal_has_places_of_its_own() {
        let places = Places::default();
        let (one, other) = (Some(Digest::of(b"1")), Some(Digest::of(b"2")));
        let held = places.take(one, 1).unwrap();
        assert!(places.take(one, 1).is_none());
        assert!(places.take(other, 1).is_some());
        drop(held);
        assert!(places.take(one, 1).is_some());
        assert!(places.0.lock().unwrap().is_empty());
    }
}

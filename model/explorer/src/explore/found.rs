//! The best run so far for each property.

use crate::properties::{PropertyName, PropertySet};

/// Where a violation was found. Smaller is better: fewer faults, then the earlier in the order of the layer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// How many faults were spent.
    pub spent: u32,
    /// The node's position within its layer.
    pub order: u64,
    /// The node.
    pub node: u32,
}

/// The best place of each property in one layer.
#[derive(Clone, Default)]
pub struct Found {
    places: Vec<(PropertyName, Place)>,
}

impl Found {
    /// Notes that these properties are violated there.
    pub fn offer(&mut self, properties: PropertySet, place: Place) {
        for property in properties.iter() {
            match self.places.iter_mut().find(|(its, _)| *its == property) {
                Some((_, best)) => *best = place.min(*best),
                None => self.places.push((property, place)),
            }
        }
    }

    /// Takes over all that the other has found.
    pub fn merge(&mut self, other: &mut Found) {
        for (property, place) in other.places.drain(..) {
            self.offer(PropertySet::NONE.with(property, true), place);
        }
    }

    /// What was found.
    pub fn drain(&mut self) -> impl Iterator<Item = (PropertyName, Place)> {
        self.places.drain(..)
    }
}

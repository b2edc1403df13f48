//! The world as a stateright model.

use ahash::RandomState;
use stateright::{Model, Property, Representative};

use crate::moves::{Move, Rules};
use crate::properties::PropertyName;
use crate::world::World;

/// A protocol's world, to be explored for these properties.
#[derive(Clone, Debug)]
pub struct ProtocolModel {
    /// The world's rules.
    pub rules: Rules,
    /// The properties to check.
    pub properties: Vec<PropertyName>,
}

impl Model for ProtocolModel {
    type State = World;
    type Action = Move;

    fn init_states(&self) -> Vec<World> {
        vec![World::initial(&self.rules.description)]
    }

    fn actions(&self, world: &World, moves: &mut Vec<Move>) {
        self.rules.moves(world, moves);
    }

    fn next_state(&self, world: &World, what: Move) -> Option<World> {
        self.rules.apply(world, what)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        self.properties
            .iter()
            .map(|property| {
                let condition: fn(&Self, &World) -> bool = match property {
                    PropertyName::AtMostOnce => |m, w| PropertyName::AtMostOnce.holds(&m.rules, w),
                    PropertyName::NoPhantomSuccess => |m, w| PropertyName::NoPhantomSuccess.holds(&m.rules, w),
                    PropertyName::NoFalseFailure => |m, w| PropertyName::NoFalseFailure.holds(&m.rules, w),
                    PropertyName::FaithfulReplay => |m, w| PropertyName::FaithfulReplay.holds(&m.rules, w),
                    PropertyName::NoSuppression => |m, w| PropertyName::NoSuppression.holds(&m.rules, w),
                    PropertyName::IntentFirst => |m, w| PropertyName::IntentFirst.holds(&m.rules, w),
                    PropertyName::UnknownBlocks => |m, w| PropertyName::UnknownBlocks.holds(&m.rules, w),
                    PropertyName::Settles => |m, w| PropertyName::Settles.holds(&m.rules, w),
                };
                Property::always(property.name(), condition)
            })
            .collect()
    }
}

/// Guard processes are alike: worlds that differ only in their names are one. The representative is the renaming with the
/// smallest hash, so it is the same for all of them.
impl Representative for World {
    fn representative(&self) -> World {
        let names: &[&[u8]] = match self.guards.len() {
            2 => &[&[0, 1], &[1, 0]],
            3 => &[&[0, 1, 2], &[0, 2, 1], &[1, 0, 2], &[1, 2, 0], &[2, 0, 1], &[2, 1, 0]],
            _ => return self.clone(),
        };
        let mut representative = self.clone();
        let mut smallest = hash(&representative);
        for names in &names[1..] {
            let renamed = self.rename_guards(names);
            let its = hash(&renamed);
            if its < smallest {
                (representative, smallest) = (renamed, its);
            }
        }
        representative
    }
}

/// A world's hash, the same in every run.
pub fn hash(world: &World) -> u64 {
    RandomState::with_seeds(1, 2, 3, 4).hash_one(world)
}

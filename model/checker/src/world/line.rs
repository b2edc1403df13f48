//! A resource's line: operations that wait are records with a place, and whoever is first among those that are not settled may
//! begin. Looking at the line is one move, beginning another: what a look has shown may be old by then.

use crate::description::{Frees, Resources};
use crate::machine::{Id, Stage};

use super::{CLOCK, DEAD, Do, Message, Rules, World};

/// Places are told apart by their lowest bits where nothing else does.
const RANKS: u8 = 3;

impl Rules {
    /// Whether a key's operation is recorded and waits for its turn.
    pub(crate) fn waits_in_line(&self, world: &World, key: u8) -> bool {
        self.stands_in_line() && self.stage_of(world, key) == Some(Stage::Created)
    }

    /// The write that begins an operation gives it a place after all others; or, in a line that is ordered by clocks, after
    /// those that began no later.
    pub(crate) fn join_line(&self, world: &mut World, guard: u8, key: u8, record: Id) {
        let begun = world.keys[usize::from(key)].record == Some(record);
        if !self.stands_in_line() || !begun || self.guard.view(record).stage != Stage::Created {
            return;
        }
        let time = match self.description.guard.resources {
            Resources::LineByClock => (world.guards[usize::from(guard)].clock + CLOCK) as u8,
            _ => 0,
        };
        let last = (1 << RANKS) - 1;
        let entry = &mut world.keys[usize::from(key)];
        (entry.place, entry.by) = (time << RANKS | last, guard + 1);
    }

    /// Leaves the line what has ended; numbers the others anew, so that equal lines are equal states.
    pub(crate) fn move_up(&self, world: &mut World) {
        if !self.stands_in_line() {
            return;
        }
        let mut line: Vec<u8> = Vec::new();
        for key in 0..world.keys.len() as u8 {
            let stage = self.stage_of(world, key);
            let entry = &mut world.keys[usize::from(key)];
            if matches!(stage, None | Some(Stage::Settled(_))) {
                entry.place = 0;
            } else {
                line.push(key);
            }
            // Whose it is matters only until it is dispatched.
            if stage != Some(Stage::Created) {
                entry.by = 0;
            }
        }
        line.sort_by_key(|key| world.keys[usize::from(*key)].place);
        for (rank, key) in (1..).zip(line) {
            let place = &mut world.keys[usize::from(key)].place;
            *place = *place >> RANKS << RANKS | rank;
        }
    }

    /// Whether an operation that waits is found to be first, and its resource free.
    pub(crate) fn is_its_turn(&self, world: &World, key: u8) -> bool {
        let place = world.keys[usize::from(key)].place;
        self.others(world, key).all(|(other, stage)| {
            let holds = match stage {
                None | Some(Stage::Settled(_)) => false,
                Some(stage) => self.counts(stage) && world.keys[usize::from(other)].place < place,
            };
            !holds && !self.lingers(world, other)
        })
    }

    /// Whether what it waits for waits for a person.
    pub(crate) fn is_held_for_long(&self, world: &World, key: u8) -> bool {
        let place = world.keys[usize::from(key)].place;
        self.others(world, key)
            .any(|(other, stage)| stage == Some(Stage::Escalated) && world.keys[usize::from(other)].place < place)
    }

    /// Whether an operation that is not settled keeps its place.
    fn counts(&self, stage: Stage) -> bool {
        if self.description.guard.resources != Resources::LineFreedByLease {
            return true;
        }
        match stage {
            Stage::Dispatched(owner) => owner != DEAD,
            Stage::Unknown(_) | Stage::Escalated => false,
            Stage::Created | Stage::Confirmed | Stage::Settled(_) => true,
        }
    }

    /// Whether something of a key's operations may still reach the tool, where the line waits for that.
    fn lingers(&self, world: &World, key: u8) -> bool {
        let frees = self.description.guard.frees;
        let arrives = || {
            world.messages().any(|message| match message {
                Message::Request { key: its, .. } | Message::Working { key: its, .. } => its == key,
                _ => false,
            })
        };
        let queued = || {
            let sends = |todo: super::Todo| todo.key == key && matches!(todo.what, Do::Send(_));
            world.guards.iter().any(|guard| guard.todos().any(sends))
        };
        frees != Frees::WhenSettled && arrives() || frees == Frees::WhenQuiet && queued()
    }

    /// The other keys whose operations want the same resource.
    fn others(&self, world: &World, key: u8) -> impl Iterator<Item = (u8, Option<Stage>)> {
        let call = self.call_of_record(world, key);
        (0..world.keys.len() as u8)
            .filter(move |other| *other != key && self.share_resource(call, self.call_of_record(world, *other)))
            .map(|other| (other, self.stage_of(world, other)))
    }

    fn stands_in_line(&self) -> bool {
        self.description.guard.resources.is_line()
    }

    fn stage_of(&self, world: &World, key: u8) -> Option<Stage> {
        world.keys[usize::from(key)].record.map(|record| self.guard.view(record).stage)
    }
}

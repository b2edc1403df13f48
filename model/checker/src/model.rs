//! The world as something that can be explored.

use settled_explorer::{Budget, Fault, PropertySet, Readable, Said, Snapshot, System};

use crate::world::{Move, Rules, World};

impl System for Rules {
    type State = World;
    type Move = Move;

    fn initial(&self) -> World {
        World::initial()
    }

    fn bounds(&self) -> Budget {
        self.bounds
    }

    fn moves(&self, world: &World, left: Budget, moves: &mut Vec<(Move, Option<Fault>)>) {
        Rules::moves(self, world, left, moves);
    }

    fn apply(&self, world: &World, what: Move) -> Option<World> {
        Rules::apply(self, world, what)
    }

    fn symmetric(&self, world: &World, each: &mut dyn FnMut(&World)) {
        self.renamings(world, each);
    }

    fn properties(&self) -> PropertySet {
        self.properties
    }

    fn violated(&self, world: &World) -> PropertySet {
        Rules::violated(self, world)
    }

    fn violated_at_rest(&self, world: &World) -> PropertySet {
        Rules::violated_at_rest(self, world)
    }

    fn pack(&self, world: &World, bytes: &mut Vec<u8>) -> bool {
        self.write(world, bytes);
        true
    }

    fn unpack(&self, bytes: &[u8]) -> Option<World> {
        self.read(bytes)
    }

    fn ended(&self, world: &World) -> bool {
        Rules::ended(self, world)
    }
}

impl Readable for Rules {
    fn name(&self) -> String {
        self.description.name.clone()
    }

    fn description(&self) -> serde_json::Value {
        serde_json::to_value(&self.description).unwrap_or_default()
    }

    fn say(&self, before: &World, what: Move, after: &World) -> Said {
        Rules::say(self, before, what, after)
    }

    fn snapshot(&self, world: &World) -> Snapshot {
        Rules::snapshot(self, world)
    }

    fn effects(&self, world: &World) -> Vec<usize> {
        (0..self.description.caller.operations).map(|call| world.effects_of(call)).collect()
    }
}

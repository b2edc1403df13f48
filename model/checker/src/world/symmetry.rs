//! Worlds that differ only in names: guard processes are alike, and so are logical calls that share no key and no order.

use settled_protocol::Epoch;

use super::{DEAD, Do, Message, Phase, Rules, Todo, World};

const ORDERS: [&[&[u8]]; 4] =
    [&[&[]], &[&[0]], &[&[0, 1], &[1, 0]], &[&[0, 1, 2], &[0, 2, 1], &[1, 0, 2], &[1, 2, 0], &[2, 0, 1], &[2, 1, 0]]];

impl Rules {
    /// Calls `each` with every other renaming of this world.
    pub(crate) fn renamings(&self, world: &World, each: &mut dyn FnMut(&World)) {
        let guards = ORDERS[usize::from(self.guards())];
        let calls = if self.calls_are_alike { ORDERS[usize::from(self.callers())] } else { ORDERS[1] };
        for (first_call, calls) in calls.iter().enumerate() {
            let renamed = if first_call == 0 { *world } else { self.rename_calls(world, calls) };
            for (first_guard, guards) in guards.iter().enumerate() {
                if first_call + first_guard > 0 {
                    let renamed = if first_guard == 0 { renamed } else { self.rename_guards(&renamed, guards) };
                    each(&renamed);
                }
            }
        }
    }

    /// The same world with its guard processes renamed: guard `i` becomes `names[i]`.
    pub fn rename_guards(&self, world: &World, names: &[u8]) -> World {
        let mut renamed = *world;
        for (old, new) in names.iter().enumerate() {
            renamed.guards[usize::from(*new)] = world.guards[old];
        }
        self.map_owners(&mut renamed, &|owner| match World::guard_of(owner) {
            Some(guard) => World::owner(names[usize::from(guard)]),
            None => DEAD,
        });
        renamed
    }

    /// Rewrites every mention of an owner.
    pub(crate) fn map_owners(&self, world: &mut World, name: &dyn Fn(Epoch) -> Epoch) {
        let small = |owner: u8| name(Epoch(owner.into())).0 as u8;
        for key in &mut world.keys {
            let same = key.record == key.durable;
            key.record = key.record.map(|record| self.guard.with_owner(record, name));
            key.by = small(key.by);
            key.durable = if same { key.record } else { key.durable.map(|r| self.guard.with_owner(r, name)) };
        }
        for guard in &mut world.guards {
            for packed in &mut guard.todo {
                let mut todo = Todo::from(*packed);
                if let Do::Write { read: Some(record), .. } = &mut todo.what {
                    *record = self.guard.with_owner(*record, name);
                    *packed = todo.into();
                }
            }
        }
        if !self.description.is_direct() {
            for caller in &mut world.callers[..usize::from(self.description.caller.operations)] {
                if let Phase::Waiting { at } = &mut caller.phase {
                    // A caller goes on waiting for a process that died: to it, the name still stands.
                    *at = World::guard_of(name(World::owner(*at))).unwrap_or(*at);
                }
            }
        }
        for packed in &mut world.network {
            let mut message = Message::from(*packed);
            let process = message.process_mut();
            *process = small(*process);
            *packed = message.into();
        }
        world.sort_network();
    }

    /// The same world with its logical calls renamed: call `i` becomes `names[i]`, and its keys with it.
    pub fn rename_calls(&self, world: &World, names: &[u8]) -> World {
        let mut renamed = *world;
        let each = self.keys_per_call();
        let call_name = |call: u8| names.get(usize::from(call)).copied().unwrap_or(call);
        let key_name = |key: u8| call_name(key / each) * each + key % each;
        for (old, new) in names.iter().enumerate() {
            renamed.callers[usize::from(*new)] = world.callers[old];
            for nth in 0..each {
                let (old, new) = (old * usize::from(each), usize::from(*new * each));
                renamed.keys[new + usize::from(nth)] = world.keys[old + usize::from(nth)];
            }
        }
        let bits = |bits: u8| {
            (0..names.len() as u8).filter(|call| bits & 1 << call != 0).fold(0, |all, call| all | 1 << call_name(call))
        };
        for guard in &mut renamed.guards {
            (guard.arrived, guard.waiting) = (bits(guard.arrived), bits(guard.waiting));
            for packed in &mut guard.todo {
                let mut todo = Todo::from(*packed);
                todo.key = key_name(todo.key);
                if let Do::Write { call, .. } = &mut todo.what {
                    *call = if *call == u8::MAX { *call } else { call_name(*call) };
                }
                *packed = todo.into();
            }
            guard.todo.sort_by_key(|todo| todo.key_of_todo());
        }
        for packed in &mut renamed.network {
            let mut message = Message::from(*packed);
            match &mut message {
                Message::Request { key, call, .. } | Message::Working { key, call, .. } => {
                    (*key, *call) = (key_name(*key), call_name(*call));
                }
                Message::Reply { key, .. } | Message::Question { key, .. } | Message::Seen { key, .. } => {
                    *key = key_name(*key);
                }
            }
            *packed = message.into();
        }
        renamed.sort_network();
        for made_for in &mut renamed.effects {
            *made_for = call_name(*made_for);
        }
        renamed
    }

    /// Whether logical calls may be renamed: each has its own keys, equal arguments, and no place in an order.
    pub(crate) fn calls_may_be_renamed(description: &crate::description::Description) -> bool {
        use crate::description::KeySource::{Caller as Own, PerCall};
        (description.is_direct() || matches!(description.caller.key, Own | PerCall))
            && !description.caller.sequential
            && description.faults.key_reuses == 0
    }
}

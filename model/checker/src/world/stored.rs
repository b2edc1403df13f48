//! A world in few bytes, as it waits for its turn to be explored: only what there is of it.

use tinyvec::ArrayVec;

use crate::machine::{Id, ToolMemory};

use super::{Caller, Definite, Guard, Heard, KeyState, Packed, Phase, Rules, World, Wrongs};

/// Reads what was written, in the same order.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn number(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes([self.byte()?, self.byte()?]))
    }

    fn list<const N: usize>(&mut self) -> Option<ArrayVec<[Packed; N]>>
    where
        [Packed; N]: tinyvec::Array<Item = Packed>,
    {
        let mut list = ArrayVec::new();
        for _ in 0..self.byte()? {
            let packed = [self.byte()?, self.byte()?, self.byte()?, self.byte()?];
            list.try_push(Packed::from_bytes(packed)).is_none().then_some(())?;
        }
        Some(list)
    }
}

fn write_list(list: &[Packed], bytes: &mut Vec<u8>) {
    bytes.push(list.len() as u8);
    for packed in list {
        bytes.extend(packed.to_bytes());
    }
}

fn write_caller(caller: &Caller, bytes: &mut Vec<u8>) {
    let (phase, more) = match caller.phase {
        Phase::Idle => (0, 0),
        Phase::Waiting { at } => (1, at),
        Phase::Cancelled => (2, 0),
        Phase::Restarted => (3, 0),
        Phase::Told(Heard::Failed) => (4, 0),
        Phase::Told(Heard::Unknown) => (5, 0),
        Phase::Told(Heard::InProgress) => (6, 0),
        Phase::Told(Heard::Conflict) => (7, 0),
        Phase::Told(Heard::ConnectionLost) => (8, 0),
        Phase::Told(Heard::Done(result)) => (9, result),
    };
    bytes.extend([phase | u8::from(caller.saved) << 7, more, caller.calls, caller.key, caller.since, caller.sends]);
}

fn read_caller(bytes: &mut Bytes) -> Option<Caller> {
    let (phase, more) = (bytes.byte()?, bytes.byte()?);
    let saved = phase & 0x80 != 0;
    let phase = match phase & 0x7f {
        0 => Phase::Idle,
        1 => Phase::Waiting { at: more },
        2 => Phase::Cancelled,
        3 => Phase::Restarted,
        4 => Phase::Told(Heard::Failed),
        5 => Phase::Told(Heard::Unknown),
        6 => Phase::Told(Heard::InProgress),
        7 => Phase::Told(Heard::Conflict),
        8 => Phase::Told(Heard::ConnectionLost),
        _ => Phase::Told(Heard::Done(more)),
    };
    let (calls, key, since, sends) = (bytes.byte()?, bytes.byte()?, bytes.byte()?, bytes.byte()?);
    Some(Caller { calls, key, since, sends, phase, saved })
}

fn write_key(key: &KeyState, bytes: &mut Vec<u8>) {
    let number = |id: Option<Id>| id.map_or(0, Id::number).to_le_bytes();
    let told = match key.first_told {
        None => 0,
        Some(Definite::Failed) => 1,
        Some(Definite::Done(result)) => result.saturating_add(2),
    };
    bytes.extend(number(key.record));
    bytes.extend(number(key.durable));
    bytes.extend(key.told_failed.to_le_bytes());
    bytes.extend(key.applied.to_le_bytes());
    let ToolMemory { effect, since, sealed, own } = key.memory;
    let (forgotten, call) = (u8::from(key.forgotten) | key.place << 1, key.call | key.by << 4);
    bytes.extend([told, forgotten, call, key.made, effect, since, sealed, own]);
}

fn read_key(bytes: &mut Bytes) -> Option<KeyState> {
    let (record, durable) = (Id::numbered(bytes.number()?), Id::numbered(bytes.number()?));
    let (told_failed, applied) = (bytes.number()?, bytes.number()?);
    let first_told = match bytes.byte()? {
        0 => None,
        1 => Some(Definite::Failed),
        result => Some(Definite::Done(result - 2)),
    };
    let forgotten = bytes.byte()?;
    let (forgotten, place) = (forgotten & 1 != 0, forgotten >> 1);
    let call = bytes.byte()?;
    let (call, by) = (call & 0xf, call >> 4);
    let made = bytes.byte()?;
    let (effect, since, sealed, own) = (bytes.byte()?, bytes.byte()?, bytes.byte()?, bytes.byte()?);
    let memory = ToolMemory { effect, since, sealed, own };
    Some(KeyState { record, durable, first_told, told_failed, applied, forgotten, call, place, by, made, memory })
}

impl Wrongs {
    fn flags(&mut self) -> [&mut bool; 7] {
        [
            &mut self.phantom,
            &mut self.unfaithful,
            &mut self.suppressed,
            &mut self.unrecorded,
            &mut self.overlapped,
            &mut self.slipped_in,
            &mut self.overflowed,
        ]
    }
}

impl Rules {
    pub(crate) fn write(&self, world: &World, bytes: &mut Vec<u8>) {
        let mut wrongs = world.wrongs;
        let flags = wrongs.flags().into_iter().fold(0, |all, flag| all << 1 | u8::from(*flag));
        bytes.extend([world.now, flags]);
        for caller in &world.callers[..usize::from(self.callers())] {
            write_caller(caller, bytes);
        }
        for guard in &world.guards[..usize::from(self.guards())] {
            bytes.extend([guard.arrived | guard.waiting << 4, guard.clock as u8]);
            write_list(&guard.todo, bytes);
        }
        let used = (0..world.keys.len()).filter(|key| world.keys[*key] != KeyState::default());
        bytes.push(used.clone().fold(0, |all, key| all | 1 << key));
        for key in used {
            write_key(&world.keys[key], bytes);
        }
        write_list(&world.network, bytes);
        bytes.extend(world.effects.iter());
    }

    pub(crate) fn read(&self, bytes: &[u8]) -> Option<World> {
        let mut bytes = Bytes(bytes);
        let mut world = World::initial();
        world.now = bytes.byte()?;
        let flags = bytes.byte()?;
        for (nth, flag) in world.wrongs.flags().into_iter().rev().enumerate() {
            *flag = flags & 1 << nth != 0;
        }
        for caller in &mut world.callers[..usize::from(self.callers())] {
            *caller = read_caller(&mut bytes)?;
        }
        for guard in &mut world.guards[..usize::from(self.guards())] {
            let calls = bytes.byte()?;
            let clock = bytes.byte()? as i8;
            *guard = Guard { arrived: calls & 0xf, waiting: calls >> 4, clock, todo: bytes.list()? };
        }
        let used = bytes.byte()?;
        for (nth, key) in world.keys.iter_mut().enumerate() {
            if used & 1 << nth != 0 {
                *key = read_key(&mut bytes)?;
            }
        }
        world.network = bytes.list()?;
        while let Some(made_for) = bytes.byte() {
            world.effects.try_push(made_for).is_none().then_some(())?;
        }
        Some(world)
    }
}

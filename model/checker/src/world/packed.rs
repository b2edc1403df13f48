//! Messages and things to do as 32 bits each, and a world as a few words: most of a world is these, and worlds are copied and
//! hashed millions of times a second.

use std::hash::{Hash, Hasher};

use settled_protocol::{Answer, ErrorClass, Observation, Reply, SealScope};

use super::{Asking, Caller, Definite, Do, Guard, Heard, KeyState, Message, Of, Phase, Todo, World};

/// A message or a thing to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Packed(u32);

/// Writes fields into a word, lowest bits first.
struct Writer {
    word: u64,
    used: u32,
}

impl Writer {
    fn new() -> Self {
        Writer { word: 0, used: 0 }
    }

    /// A value that doesn't fit is cut to the largest that does: what a world counts is bounded below that.
    fn put(mut self, bits: u32, value: u64) -> Self {
        self.word |= value.min((1 << bits) - 1) << self.used;
        self.used += bits;
        self
    }

    fn of(self, of: Of) -> Self {
        self.put(4, of.generation.into()).put(3, of.attempt.into())
    }

    fn packed(self) -> Packed {
        Packed(self.word as u32)
    }
}

/// Reads them back in the same order.
struct Reader(u32);

impl Reader {
    fn get(&mut self, bits: u32) -> u8 {
        let value = self.0 & ((1 << bits) - 1);
        self.0 >>= bits;
        value as u8
    }

    fn flag(&mut self) -> bool {
        self.get(1) == 1
    }

    fn of(&mut self) -> Of {
        Of { generation: self.get(4), attempt: self.get(3) }
    }
}

const REQUEST: u64 = 0;
const WORKING: u64 = 1;
const REPLY: u64 = 2;
const QUESTION: u64 = 3;
const SEEN: u64 = 4;

impl From<Message> for Packed {
    fn from(message: Message) -> Packed {
        let begin = |kind, key: u8, process: u8, of| {
            Writer::new().put(3, kind).put(3, key.into()).put(2, process.into()).of(of)
        };
        match message {
            Message::Request { key, call, of, owner, recorded, cut } => {
                begin(REQUEST, key, owner, of).put(2, call.into()).put(1, recorded.into()).put(1, cut.into())
            }
            Message::Working { key, call, of, owner, result } => {
                begin(WORKING, key, owner, of).put(2, call.into()).put(5, result.into())
            }
            Message::Reply { key, of, to, reply } => {
                let (kind, value) = match reply {
                    None => (0, 0),
                    Some(Reply::Error(ErrorClass::NotRun, error)) => (1, error),
                    Some(Reply::Error(ErrorClass::Unproven, error)) => (2, error),
                    Some(Reply::Error(ErrorClass::Busy, error)) => (3, error),
                    Some(Reply::Result(result)) => (4, result),
                };
                begin(REPLY, key, to, of).put(3, kind).put(5, value.into())
            }
            Message::Question { key, of, asking, from } => {
                let asking = match asking {
                    Asking::Observe { conclusive } => u64::from(conclusive),
                    Asking::Seal(SealScope::Attempts) => 2,
                    Asking::Seal(SealScope::Operation) => 3,
                };
                begin(QUESTION, key, from, of).put(2, asking)
            }
            Message::Seen { key, of, observation, conclusive, to } => {
                let (kind, value) = match observation {
                    Observation::Unclear => (0, 0),
                    Observation::NotApplied => (1, 0),
                    Observation::Sealed(SealScope::Attempts) => (2, 0),
                    Observation::Sealed(SealScope::Operation) => (3, 0),
                    Observation::Applied(result) => (4, result),
                };
                begin(SEEN, key, to, of).put(1, conclusive.into()).put(3, kind).put(5, value.into())
            }
        }
        .packed()
    }
}

impl From<Packed> for Message {
    fn from(packed: Packed) -> Message {
        let mut read = Reader(packed.0);
        let kind = u64::from(read.get(3));
        let (key, process, of) = (read.get(3), read.get(2), read.of());
        match kind {
            REQUEST => {
                let (call, recorded, cut) = (read.get(2), read.flag(), read.flag());
                Message::Request { key, call, of, owner: process, recorded, cut }
            }
            WORKING => Message::Working { key, call: read.get(2), of, owner: process, result: read.get(5) },
            REPLY => {
                let (kind, value) = (read.get(3), read.get(5));
                let reply = match kind {
                    0 => None,
                    1 => Some(Reply::Error(ErrorClass::NotRun, value)),
                    2 => Some(Reply::Error(ErrorClass::Unproven, value)),
                    3 => Some(Reply::Error(ErrorClass::Busy, value)),
                    _ => Some(Reply::Result(value)),
                };
                Message::Reply { key, of, to: process, reply }
            }
            QUESTION => {
                let asking = match read.get(2) {
                    2 => Asking::Seal(SealScope::Attempts),
                    3 => Asking::Seal(SealScope::Operation),
                    conclusive => Asking::Observe { conclusive: conclusive == 1 },
                };
                Message::Question { key, of, asking, from: process }
            }
            _ => {
                let (conclusive, kind, value) = (read.flag(), read.get(3), read.get(5));
                let observation = match kind {
                    0 => Observation::Unclear,
                    1 => Observation::NotApplied,
                    2 => Observation::Sealed(SealScope::Attempts),
                    3 => Observation::Sealed(SealScope::Operation),
                    _ => Observation::Applied(value),
                };
                Message::Seen { key, of, observation, conclusive, to: process }
            }
        }
    }
}

const SEND: u64 = 0;
const ANSWER: u64 = 1;
const ALERT: u64 = 2;
const NOTE: u64 = 3;
const WRITE: u64 = 4;
const BEGIN: u64 = 5;

impl From<Todo> for Packed {
    fn from(todo: Todo) -> Packed {
        let begin = |kind| Writer::new().put(3, todo.key.into()).put(3, kind);
        let maybe = |error: Option<u8>| error.map_or(0, |error| u64::from(error) + 1);
        match todo.what {
            Do::Send(of) => begin(SEND).of(of),
            Do::Answer(answer, generation) => {
                let (kind, value, replayed) = match answer {
                    Answer::Done { result, replayed } => (0, result.into(), replayed),
                    Answer::Failed { error, replayed } => (1, maybe(error), replayed),
                    Answer::Unknown { error } => (2, maybe(error), false),
                    Answer::InProgress => (3, 0, false),
                    Answer::Conflict => (4, 0, false),
                    Answer::Expired => (5, 0, false),
                };
                begin(ANSWER).put(3, kind).put(1, replayed.into()).put(6, value).put(4, generation.into())
            }
            Do::Alert => begin(ALERT),
            Do::Begin => begin(BEGIN),
            Do::NoteDelivery(generation) => begin(NOTE).put(4, generation.into()),
            Do::Write { call, read } => {
                begin(WRITE).put(3, call.min(7).into()).put(16, read.map_or(0, crate::machine::Id::number).into())
            }
        }
        .packed()
    }
}

impl From<Packed> for Todo {
    fn from(packed: Packed) -> Todo {
        let mut read = Reader(packed.0);
        let key = read.get(3);
        let what = match u64::from(read.get(3)) {
            SEND => Do::Send(read.of()),
            ANSWER => {
                let (kind, replayed, value) = (read.get(3), read.flag(), read.get(6));
                let answer = match kind {
                    0 => Answer::Done { result: value, replayed },
                    1 => Answer::Failed { error: value.checked_sub(1), replayed },
                    2 => Answer::Unknown { error: value.checked_sub(1) },
                    3 => Answer::InProgress,
                    4 => Answer::Conflict,
                    _ => Answer::Expired,
                };
                Do::Answer(answer, read.get(4))
            }
            ALERT => Do::Alert,
            BEGIN => Do::Begin,
            NOTE => Do::NoteDelivery(read.get(4)),
            _ => {
                let call = read.get(3);
                Do::Write {
                    call: if call == 7 { u8::MAX } else { call },
                    read: crate::machine::Id::numbered(read.0 as u16),
                }
            }
        };
        Todo { key, what }
    }
}

impl Packed {
    pub(crate) fn to_bytes(self) -> [u8; 4] {
        self.0.to_le_bytes()
    }

    pub(crate) fn from_bytes(bytes: [u8; 4]) -> Packed {
        Packed(u32::from_le_bytes(bytes))
    }

    /// The key that a thing to do is for.
    pub(crate) fn key_of_todo(self) -> u8 {
        (self.0 & 7) as u8
    }

    /// The key that a message is about.
    pub(crate) fn key_of_message(self) -> u8 {
        (self.0 >> 3 & 7) as u8
    }
}

fn heard(heard: Heard) -> u8 {
    match heard {
        Heard::Failed => 0,
        Heard::Unknown => 1,
        Heard::InProgress => 2,
        Heard::Conflict => 3,
        Heard::ConnectionLost => 4,
        Heard::Done(result) => result.saturating_add(5),
    }
}

fn caller_word(caller: &Caller) -> u64 {
    let (phase, more) = match caller.phase {
        Phase::Idle => (0, 0),
        Phase::Waiting { at } => (1, at),
        Phase::Told(what) => (2, heard(what)),
        Phase::Cancelled => (3, 0),
        Phase::Restarted => (4, 0),
    };
    let Caller { calls, key, since, sends, saved, .. } = *caller;
    u64::from_le_bytes([calls, key, since, sends, phase, more, saved.into(), 0])
}

fn guard_word(guard: &Guard) -> u64 {
    u64::from_le_bytes([guard.arrived, guard.waiting, guard.clock as u8, 0, 0, 0, 0, 0])
}

fn key_words(key: &KeyState) -> [u64; 2] {
    let id = |record: Option<crate::machine::Id>| record.map_or(0, crate::machine::Id::number).to_le_bytes();
    let ([r, ecord], [d, urable]) = (id(key.record), id(key.durable));
    let told = match key.first_told {
        None => 0,
        Some(Definite::Failed) => 1,
        Some(Definite::Done(result)) => result.saturating_add(2),
    };
    let memory = &key.memory;
    let ([f, ailed], [a, pplied]) = (key.told_failed.to_le_bytes(), key.applied.to_le_bytes());
    [
        u64::from_le_bytes([r, ecord, d, urable, f, ailed, a, pplied]),
        u64::from_le_bytes([
            memory.effect,
            memory.since,
            memory.sealed,
            memory.own,
            key.call | key.by << 4,
            key.made,
            told,
            u8::from(key.forgotten) | key.place << 1,
        ]),
    ]
}

/// As a few words in one piece: hashing field by field costs several times as much.
impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let wrongs = &self.wrongs;
        let flags = [
            wrongs.phantom,
            wrongs.unfaithful,
            wrongs.suppressed,
            wrongs.unrecorded,
            wrongs.overlapped,
            wrongs.slipped_in,
            wrongs.overflowed,
        ];
        let flags = flags.into_iter().fold(0, |all, flag| all << 1 | u64::from(flag));
        let effects = self.effects.iter().fold(1, |all, call| all << 2 | u64::from(*call));
        let mut words = [0; 2 + super::CALLERS + super::GUARDS + 2 * super::KEYS];
        words[0] = u64::from(self.now) << 8 | flags;
        words[1] = effects;
        let mut rest = words[2..].iter_mut();
        let all = self.callers.iter().map(caller_word).chain(self.guards.iter().map(guard_word));
        for word in all.chain(self.keys.iter().flat_map(key_words)) {
            if let Some(place) = rest.next() {
                *place = word;
            }
        }
        words.hash(state);
        self.network.hash(state);
        for guard in &self.guards {
            guard.todo.hash(state);
        }
    }
}

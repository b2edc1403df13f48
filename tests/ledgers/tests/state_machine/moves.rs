//! What can happen, and how it is drawn.

use std::cell::Cell;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use settled::Limits;
use settled::protocol::{Backoff, Digest, Ends, Key, Policy, Repeat, Retry, ToolKind};

/// How many keys there are: one for each kind of tool, and what else a declaration can say.
pub const KEYS: usize = 9;

const WINDOW: u64 = 60_000;
const TOMBSTONE: Duration = Duration::from_secs(97);
/// When it begins.
pub const BEGIN: u64 = 1_700_000_000_000;
/// From one move to the next; so one operation under a key can be told from another.
pub const STEP: u64 = 1_000;
/// By how much the time jumps. Everything in the declarations lies well between the sums of jumps, and what all moves and the
/// real time that they take may add to these.
pub const JUMP: u64 = 100_000;
/// The most moves of one case.
pub const MOVES: usize = 24;

/// What is declared of a key's tool.
pub struct Declared {
    pub policy: Policy,
    pub resource: bool,
    pub tombstone: Option<Duration>,
}

pub fn declared(key: usize) -> Declared {
    let windowed = |ends| Repeat { ends, window: Some(WINDOW) };
    let tool = match key {
        0 => ToolKind::ReadOnly,
        1 => ToolKind::Idempotent,
        4 => ToolKind::Observable { settling: 1 },
        5 => ToolKind::Sealable,
        6 => ToolKind::Deduplicates { limit: 280_000, margin: 1_000, remembers_rejections: true },
        7 => ToolKind::Transactional,
        _ => ToolKind::Opaque,
    };
    let repeat = match key {
        2 => windowed(Ends::OnDelivery),
        5 | 8 => windowed(Ends::OnFailure),
        3 | 6 => Repeat::ALWAYS_REPLAY,
        _ => windowed(Ends::WithWindow),
    };
    let retry = Retry { attempts: 3, total: 370_000, checks: 2, backoff: Backoff { base: 1, cap: 1 } };
    let policy = Policy { repeat, retry, errors_final: key == 3, ..Policy::new(tool) };
    Declared { policy, resource: matches!(key, 1 | 8), tombstone: (key == 4).then_some(TOMBSTONE) }
}

/// No time runs out but that of an attempt whose tool hangs: replies come at once or not at all.
pub fn limits(key: usize) -> Limits {
    let long = Duration::from_secs(86_400);
    Limits {
        attempt: Duration::from_millis(15),
        settle: long,
        queue: long,
        transit: Duration::ZERO,
        tombstone: declared(key).tombstone,
    }
}

thread_local! {
    static CASE: Cell<u64> = const { Cell::new(0) };
}

/// The next case: its keys are others than those of all cases before.
pub fn next_case() {
    CASE.set(fastrand::u64(..));
}

/// The scope of this case's keys.
pub fn scope() -> String {
    format!("case{}", CASE.get())
}

pub fn name(key: usize) -> Key {
    Key::new(scope(), "tool", format!("k{key}")).expect("a key")
}

/// What a caller asks with: the usual arguments, or others.
pub fn arguments(other: bool) -> &'static str {
    if other { "{\"cents\":2}" } else { "{\"cents\":1}" }
}

/// How the tool meets an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Play {
    Result,
    Error,
    NotRun,
    Busy,
    ConnectionLost,
    /// It has not answered when the time is over; perhaps later.
    Hang,
}

/// What an observer, or a seal, says whenever it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    Applied,
    NotApplied,
    Sealed,
    Unclear,
}

/// What the tool does from now on: with one attempt after the other, and when they are used up a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    pub plays: Vec<Play>,
    pub sight: Sight,
}

/// Where a process stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// When its n-th change has become durable, and it has not heard of that.
    Stored(usize),
    /// When its n-th attempt has reached the tool.
    Sent(usize),
}

/// How a call ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With an answer.
    Answer,
    /// Its process is killed there, and another one started.
    Killed(Point),
    /// Its process is frozen there for longer than its lease, and another one started.
    Frozen(Point),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum As {
    Succeeded,
    Failed,
    Abandoned,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Move {
    Call {
        key: usize,
        other: bool,
        twice: bool,
        script: Script,
        end: End,
    },
    /// A tool that hung answers after all.
    Late {
        key: usize,
        play: Play,
    },
    /// Another process is started in the place of this one, which is killed.
    Restart,
    /// What was left is taken further.
    Recover {
        script: Script,
    },
    /// The frozen process goes on: the answer that it had been waiting for has come.
    Wake,
    Cancel {
        key: usize,
    },
    Decide {
        key: usize,
        decided: As,
        quiet: bool,
    },
    /// The last answer of this key has reached its caller.
    Deliver {
        key: usize,
    },
    Jump,
    Expire,
}

fn play() -> impl Strategy<Value = Play> {
    use Play::*;
    prop_oneof![3 => Just(Result), 2 => Just(Error), 1 => Just(NotRun), 2 => Just(Busy), 1 => Just(ConnectionLost), 3 => Just(Hang)]
}

fn script() -> impl Strategy<Value = Script> {
    use Sight::*;
    let sight = prop_oneof![Just(Applied), Just(NotApplied), Just(Sealed), Just(Unclear)];
    (vec(play(), 0..4), sight).prop_map(|(plays, sight)| Script { plays, sight })
}

fn end() -> impl Strategy<Value = End> {
    let point = prop_oneof![(1_usize..4).prop_map(Point::Stored), (1_usize..3).prop_map(Point::Sent)];
    prop_oneof![6 => Just(End::Answer), 2 => point.clone().prop_map(End::Killed), 1 => point.prop_map(End::Frozen)]
}

/// Keys with which something other than a call can be done.
#[derive(Default)]
pub struct Likely {
    pub waiting: Vec<usize>,
    pub hanging: Vec<usize>,
    pub open: Vec<usize>,
    pub answered: Vec<usize>,
    /// Left by a process that has stopped.
    pub left: Vec<usize>,
    /// Whose answer is not kept any more.
    pub expired: Vec<usize>,
    pub wakes: bool,
    pub due: bool,
}

/// One of the keys for which it comes to something, mostly.
fn one_of(likely: Vec<usize>) -> BoxedStrategy<usize> {
    if likely.is_empty() { (0..KEYS).boxed() } else { prop_oneof![6 => select(likely), 1 => 0..KEYS].boxed() }
}

pub fn any_move(likely: Likely) -> impl Strategy<Value = Move> {
    let weight = |is_likely: bool, weight: u32| if is_likely { weight } else { 1 };
    let call = (0..KEYS, prop::bool::weighted(0.15), prop::bool::weighted(0.2), script(), end());
    // Something that has to wait for its resource, and is left waiting.
    let left_waiting = select(vec![1, 8]).prop_map(|key| Move::Call {
        key,
        other: false,
        twice: false,
        script: Script { plays: Vec::new(), sight: Sight::Unclear },
        end: End::Killed(Point::Stored(1)),
    });
    // Something that is sealed for good.
    let sealed = Just(Move::Call {
        key: 5,
        other: false,
        twice: false,
        script: Script { plays: vec![Play::NotRun], sight: Sight::Sealed },
        end: End::Answer,
    });
    let decided = prop_oneof![Just(As::Succeeded), Just(As::Failed), Just(As::Abandoned)];
    let late = prop_oneof![2 => Just(Play::Result), 1 => Just(Play::Error), 1 => Just(Play::NotRun)];
    let Likely { waiting, hanging, open, answered, left, expired, wakes, due } = likely;
    let calls_of = |keys: Vec<usize>| {
        (one_of(keys), prop::bool::weighted(0.2), script()).prop_map(|(key, other, script)| Move::Call {
            key,
            other,
            twice: false,
            script,
            end: End::Answer,
        })
    };
    let (is_left, is_expired) = (!left.is_empty(), !expired.is_empty());
    let (hangs, waits, opens) = (!hanging.is_empty(), !waiting.is_empty(), !open.is_empty());
    prop_oneof![
        16 => call.prop_map(|(key, other, twice, script, end)| Move::Call { key, other, twice, script, end }),
        1 => left_waiting,
        1 => sealed,
        weight(is_left, 6) => calls_of(left),
        weight(is_expired, 6) => calls_of(expired),
        weight(hangs, 6) => (one_of(hanging), late).prop_map(|(key, play)| Move::Late { key, play }),
        1 => Just(Move::Restart),
        2 => script().prop_map(|script| Move::Recover { script }),
        weight(wakes, 8) => Just(Move::Wake),
        weight(waits, 8) => one_of(waiting).prop_map(|key| Move::Cancel { key }),
        weight(opens, 3) => (one_of(open), decided, any::<bool>())
            .prop_map(|(key, decided, quiet)| Move::Decide { key, decided, quiet }),
        3 => one_of(answered).prop_map(|key| Move::Deliver { key }),
        1 => Just(Move::Jump),
        weight(due, 4) => Just(Move::Expire),
    ]
}

/// The bodies that tools and people give.
pub fn body(play: Play) -> &'static [u8] {
    match play {
        Play::Result => b"result",
        Play::Error => b"error",
        Play::NotRun => b"not run",
        Play::Busy => b"busy",
        Play::ConnectionLost | Play::Hang => b"",
    }
}

pub const SEEN: &[u8] = b"seen";
pub const DECIDED: &[u8] = b"decided";

pub fn digest(body: &[u8]) -> Digest {
    Digest::of(body)
}

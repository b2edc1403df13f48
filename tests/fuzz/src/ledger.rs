//! The file ledger: a valid one to which something happens, and any bytes in its files.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use bytes::Bytes;
use settled::{Change, Entry};
use settled_ledger_file::fuzzing::{Ledger, Op, frame, messages};
use settled_ledger_file::log::disk::{Disk, FaultDisk};
use settled_protocol::{
    Action, AttemptId, Digest, Epoch, Event, Key, Policy, Record, Reply, Start, Time, ToolKind, What,
};

use crate::choices::Choices;

/// What was there after each batch.
type States = Vec<Vec<Entry>>;

/// A ledger is written, and then its files are damaged. It opens as it was after one of its batches, or says that it is damaged.
pub fn damaged(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let disk = FaultDisk::new(u64::from(choices.byte()));
    let states = write(&disk, &mut choices);
    disk.kill();
    let mut hurt = false;
    while choices.more() {
        hurt |= damage(&disk, &mut choices);
    }
    match Ledger::open(&disk) {
        Ok(opened) => {
            let Ok(entries) = opened.entries() else {
                assert!(hurt, "what nobody has damaged can't be read");
                return;
            };
            let after = states.iter().rposition(|state| *state == entries);
            assert!(
                after.is_some(),
                "it holds what was never there: {entries:#?}\n\nat the end there was: {:#?}",
                states.last()
            );
            assert!(hurt || after == Some(states.len() - 1), "what was acknowledged is lost");
            assert!(opened.histories().is_ok() || hurt);
            goes_on(opened, &disk, &entries);
        }
        Err(error) => assert!(hurt, "{error}"),
    }
}

/// A ledger that opens can be written, and opens again.
fn goes_on(mut opened: Ledger, disk: &FaultDisk, entries: &[Entry]) {
    let Some(op) = claim("after", Time(u64::from(u32::MAX) * 2_000)) else { return };
    if opened.batch(&[op]).is_err() {
        // A file that was cut is noticed when it is written.
        return;
    }
    drop(opened);
    disk.kill();
    let again = Ledger::open(disk).expect("it was open before");
    assert_eq!(again.entries().unwrap().len(), entries.len() + 1);
}

/// Any bytes as the log's first file, with and without the marker that says that there is a log.
pub fn any_segment(bytes: &[u8]) {
    for marked in [false, true] {
        let disk = FaultDisk::new(1);
        if marked {
            let mut ledger = Ledger::open(&disk).unwrap();
            ledger.batch(&[Op::Register]).unwrap();
            drop(ledger);
            disk.kill();
        }
        disk.replace("log.0000000000000000", Some(bytes.to_vec()));
        if let Ok(opened) = Ledger::open(&disk) {
            let entries = opened.entries();
            drop(opened);
            disk.kill();
            let again = Ledger::open(&disk).expect("what was opened opens again");
            assert_eq!(entries.ok(), again.entries().ok());
        }
    }
}

/// Any bytes as the snapshot of a log. It is of use or it isn't; what the log says stays.
pub fn any_snapshot(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let disk = FaultDisk::new(2);
    let states =
        write(&disk, &mut Choices::new(&[3, 1, 0, 0, 1, 0, 1, 2, 0, 2, 0, 3, 1, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5]));
    disk.kill();
    disk.replace("snapshot", Some(choices.rest().to_vec()));
    let opened = Ledger::open(&disk).expect("the log is whole");
    assert_eq!(Some(&opened.entries().unwrap()), states.last());
}

/// The snapshot of a ledger, changed in a few places, with all checksums as they were: what the log says stays.
pub fn changed_snapshot(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let disk = FaultDisk::new(3);
    let states = write(&disk, &mut choices);
    let ledger = Ledger::open(&disk).expect("nothing is damaged");
    ledger.snapshot().expect("the disk works");
    drop(ledger);
    disk.kill();
    let Some(mut snapshot) = disk.bytes("snapshot") else { return };
    // Most of it is the checksums of empty sections; a change of one of them says little.
    let contents = contents(&snapshot);
    for _ in 0..=choices.below(4) {
        let at = match choices.below(4) {
            3 => choices.below(snapshot.len()),
            _ => *choices.pick(&contents),
        };
        if let Some(byte) = snapshot.get_mut(at) {
            *byte ^= 1 << choices.below(8);
        }
    }
    disk.replace("snapshot", Some(snapshot));
    let opened = Ledger::open(&disk).expect("the log is whole");
    assert_eq!(Some(&opened.entries().unwrap()), states.last());
}

/// Where a snapshot's sections hold something: after a magic of eight bytes, each is a length of eight bytes, a checksum of four,
/// and so many bytes.
fn contents(snapshot: &[u8]) -> Vec<usize> {
    let (mut all, mut at) = (Vec::new(), 8);
    while let Some(length) = snapshot.get(at..).and_then(|rest| rest.first_chunk()) {
        let begin = at + 12;
        at = begin + usize::try_from(u64::from_le_bytes(*length)).expect("a length that memory holds");
        all.extend(begin..at);
    }
    all
}

/// Any bytes as a frame of the log, and as a message between processes.
pub fn any_frame(bytes: &[u8]) {
    frame(bytes);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(messages(bytes));
}

fn key(id: &str) -> Key {
    Key::new("scope", "tool", id).expect("a key")
}

/// Writes some batches; returns what was there after each, what there was at first included.
fn write(disk: &FaultDisk, choices: &mut Choices<'_>) -> States {
    let mut ledger = Ledger::open(disk).expect("an empty disk");
    let mut kept: BTreeMap<String, Record<Digest>> = BTreeMap::new();
    let mut states = vec![Vec::new()];
    let batches = 1 + choices.below(12);
    for batch in 0..batches {
        let now = Time(1_000_000 + 5_000 * batch as u64);
        let mut ops = Vec::new();
        // One for each key, and copies last: so it is one batch of the log, too.
        let mut ids = vec!["a", "b", "long name", "d"];
        for _ in 0..=choices.below(4) {
            if ids.is_empty() {
                break;
            }
            let id = ids.remove(choices.below(ids.len())).to_owned();
            let before = kept.get(&id).copied();
            ops.extend(op(&id, before, now, choices, &mut kept));
        }
        ops.sort_by_key(|op| matches!(op, Op::Move(_) | Op::Keep));
        let accepted = ledger.batch(&ops).expect("the disk works");
        assert!(accepted.iter().all(|accepted| *accepted), "{ops:#?} {accepted:?}");
        if choices.once_in(4) {
            ledger.snapshot().expect("the disk works");
        }
        states.push(ledger.entries().expect("nothing is damaged"));
    }
    states
}

fn op(
    id: &str,
    before: Option<Record<Digest>>,
    now: Time,
    choices: &mut Choices<'_>,
    kept: &mut BTreeMap<String, Record<Digest>>,
) -> Option<Op> {
    let Some(record) = before else {
        if choices.once_in(8) {
            return Some(Op::Register);
        }
        let op = claim(id, now)?;
        if let Op::Change(change) = &op {
            kept.insert(id.to_owned(), change.record);
        }
        return Some(op);
    };
    match choices.below(6) {
        0 => {
            kept.remove(id);
            Some(Op::Forget(key(id), record.version()))
        }
        1 if record.is_settled() => Some(Op::Bury(key(id), record.version(), now.after(9))),
        2 => Some(Op::Move(key(id))),
        3 => Some(Op::Keep),
        _ => {
            let op = advance(id, &record, now, choices)?;
            if let Op::Change(change) = &op {
                kept.insert(id.to_owned(), change.record);
            }
            Some(op)
        }
    }
}

/// Begins an operation.
fn claim(id: &str, now: Time) -> Option<Op> {
    let what = What::Call { fingerprint: Digest::of(id.as_bytes()), start: Start::Now };
    change(id, None, what, now, Some(vec![b'a'; id.len() * 40]))
}

/// Takes it further.
fn advance(id: &str, record: &Record<Digest>, now: Time, choices: &mut Choices<'_>) -> Option<Op> {
    let body = vec![b'r'; choices.below(3) * 700];
    let of = AttemptId { generation: record.generation(), attempt: record.sent()?.attempt() };
    let what = match choices.below(3) {
        _ if record.is_settled() => What::Call { fingerprint: record.fingerprint(), start: Start::Later },
        0 => What::Lost { of, how: settled_protocol::Loss::TimedOut },
        _ => What::Reply { of, reply: Reply::Result(Digest::of(&body)) },
    };
    change(id, Some(record), what, now, Some(body))
}

fn change(
    id: &str,
    before: Option<&Record<Digest>>,
    what: What<Digest>,
    now: Time,
    body: Option<Vec<u8>>,
) -> Option<Op> {
    let mut policy = Policy::new(ToolKind::Observable { settling: 1 });
    policy.repeat.window = Some(1);
    let step = policy.step(before, &Event { now, by: Epoch(NonZeroU32::MIN.get()), draw: 0, what });
    let Some(Action::Store(store)) = step.actions.iter().next() else { return None };
    let begins = before.is_none_or(|before| before.generation() != store.record.generation());
    let body = body.map(Bytes::from);
    Some(Op::Change(Box::new(Change {
        key: key(id),
        expected: store.expected,
        record: store.record,
        at: now,
        by: Epoch(1),
        event: "event".to_owned(),
        asked: body.clone().filter(|_| begins),
        sent: None,
        outcome: body.filter(|_| !begins),
        note: None,
        resource: None,
        keep_until: store.record.is_settled().then_some(now),
    })))
}

/// Damages a file in some place; whether that changed anything.
fn damage(disk: &FaultDisk, choices: &mut Choices<'_>) -> bool {
    let mut names = disk.list().expect("a disk");
    names.sort();
    if names.is_empty() {
        choices.rest();
        return false;
    }
    let name = choices.pick(&names).clone();
    let Some(before) = disk.bytes(&name) else { return false };
    let mut after = before.clone();
    let at = choices.below(after.len() + 1);
    let to = (at + choices.below(700)).min(after.len());
    match choices.below(6) {
        0 => {
            if let Some(byte) = after.get_mut(at) {
                *byte ^= 1 << choices.below(8);
            }
        }
        1 => after.truncate(at),
        2 => after[at..to].fill(0),
        3 => {
            // A sector from elsewhere.
            let from = choices.below(after.len() + 1) / 512 * 512;
            let piece: Vec<u8> = before[from.min(before.len())..].iter().copied().take(512).collect();
            let to = at / 512 * 512;
            for (byte, new) in after.iter_mut().skip(to).zip(piece) {
                *byte = new;
            }
        }
        4 => after.extend_from_slice(&vec![choices.byte(); choices.below(600)]),
        _ => {
            if choices.once_in(3) {
                disk.replace(&name, None);
                return true;
            }
            after[at..to].fill(choices.byte());
        }
    }
    let changed = after != before;
    if changed {
        disk.replace(&name, Some(after));
    }
    changed
}

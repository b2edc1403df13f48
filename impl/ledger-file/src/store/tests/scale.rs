//! How long opening takes with many keys, and how much memory they take. Run by hand:
//! `SETTLED_KEYS=10000000 cargo test --release -p settled-ledger-file --lib scale -- --ignored --nocapture`

use std::time::Instant;

use settled_protocol::Time;

use super::*;
use crate::log::disk::FsDisk;

/// Processor time that this process has used.
fn used() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let ticks = stat.rsplit(')').next().unwrap().split(' ').skip(12).take(2);
    ticks.map(|ticks| ticks.parse::<f64>().unwrap()).sum::<f64>() / 100.0
}

/// Resident memory of this process, in bytes.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[test]
#[ignore = "takes minutes and gigabytes"]
fn opening_with_many_keys() {
    let keys: u64 = std::env::var("SETTLED_KEYS").map_or(1_000_000, |keys| keys.parse().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let disk = || Arc::new(FsDisk::open(dir.path()).unwrap()) as Arc<dyn Disk>;
    let options = LogOptions::default();
    let (mut log, _) = Log::open(disk(), options, |_, _| Ok(())).unwrap();
    let started = Instant::now();
    for from in (0..keys).step_by(20_000) {
        let changes: Vec<_> = (from..keys.min(from + 20_000))
            .map(|id| {
                let mut end = change(&key("scale", id), 2, settled());
                // Spread over a month.
                end.keep_until = Some(Time(1_700_000_000_000 + id * 2_592_000_000 / keys));
                end.outcome = Some(bytes::Bytes::from_static(b"{\"order\":17,\"state\":\"accepted\"}"));
                (claim(&key("scale", id)), end)
            })
            .collect();
        let frames = |changes: Vec<&Change>| -> Vec<Vec<u8>> {
            changes.iter().map(|change| frame::change(change, KeyHash::of(&change.key), 7).unwrap()).collect()
        };
        let append = |log: &mut Log, frames: &[Vec<u8>]| {
            log.append(&frames.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap()
        };
        let claims = frames(changes.iter().map(|(claim, _)| claim).collect());
        let positions = append(&mut log, &claims);
        let mut ends = frames(changes.iter().map(|(_, end)| end).collect());
        for ((end, position), claim) in ends.iter_mut().zip(positions).zip(&claims) {
            frame::link(end, Some(position), claim.len() as u64);
        }
        append(&mut log, &ends);
    }
    println!("{keys} keys written in {:?}, {} bytes each", started.elapsed(), log.end() / keys);
    drop(log);
    let before = resident();
    let (started, cpu) = (Instant::now(), used());
    let replayed = replay::open(&disk(), dir.path(), options).unwrap();
    let (took, cpu) = (started.elapsed(), used() - cpu);
    let bytes = (resident() - before) / keys;
    println!(
        "whole log: {took:?} ({cpu:.2} s of processor time), {:.2} M records/s, {:.2} M keys/s, {bytes} bytes resident per key",
        2.0 * keys as f64 / took.as_secs_f64() / 1e6,
        keys as f64 / took.as_secs_f64() / 1e6
    );
    assert_eq!(replayed.index.keys(), keys);
    drop(replayed);
    let fixture = Fixture { disk: FaultDisk::new(1), dir: tempfile::tempdir().unwrap() };
    let held = DirLock::try_acquire(fixture.dir.path()).unwrap().unwrap();
    let owners = Arc::new(Owners::new(fixture.dir.path()));
    let opened =
        Store::on(disk(), dir.path(), &FileLedgerOptions::default(), owners, Some(held), Run::Threads).unwrap();
    let (store, mut keeper) = opened;
    let started = Instant::now();
    keeper.snapshot().unwrap();
    let snapshot = std::fs::metadata(dir.path().join("snapshot")).unwrap().len();
    println!("snapshot written in {:?}, {} bytes per key", started.elapsed(), snapshot / keys);
    drop((store, keeper));
    let before = resident();
    let (started, cpu) = (Instant::now(), used());
    let replayed = replay::open(&disk(), dir.path(), options).unwrap();
    println!(
        "snapshot: {:?} ({:.2} s of processor time), {} bytes more resident per key than before",
        started.elapsed(),
        used() - cpu,
        resident().saturating_sub(before) / keys
    );
    assert_eq!(replayed.index.keys(), keys);
    let started = Instant::now();
    let due = replayed.index.due(Time(u64::MAX), None, 1000);
    println!("1000 that are due found in {:?}", started.elapsed());
    assert_eq!(due.len(), 1000);
}

//! Random batches, faults and crashes: nothing acknowledged is ever lost, and nothing appears in part.

use crate::common::{append, open_with};
use proptest::prelude::*;
use settled_ledger_file::log::disk::{FaultDisk, Faults};
use settled_ledger_file::log::{LogError, LogOptions};

type Batch = Vec<Vec<u8>>;

/// One life of the process: what goes wrong, what it writes, how it ends.
#[derive(Debug, Clone)]
struct Life {
    faults: Faults,
    /// Faults strike while the log is being opened too.
    faults_at_open: bool,
    batches: Vec<Batch>,
    power_fails: bool,
    options: LogOptions,
}

fn frame() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => prop::collection::vec(any::<u8>(), 0..200),
        // Whole sectors of zeros, which must not look like a tear.
        2 => (0usize..3000).prop_map(|len| vec![0; len]),
        1 => prop::collection::vec(any::<u8>(), 0..6000),
    ]
}

fn faults() -> impl Strategy<Value = Faults> {
    let nth = || prop::option::weighted(0.3, 1u64..20);
    let capacity = prop::option::weighted(0.1, 1000u64..60_000);
    (nth(), nth(), capacity, any::<bool>()).prop_map(|(fail_write, fail_sync, capacity, short_writes)| Faults {
        fail_write,
        fail_sync,
        capacity,
        short_writes,
        stop_after: None,
    })
}

fn life() -> impl Strategy<Value = Life> {
    let batches = prop::collection::vec(prop::collection::vec(frame(), 1..5), 0..12);
    let options = (9u32..15, 5u32..13)
        .prop_map(|(segment, chunk)| LogOptions { segment_bytes: 1 << segment, preallocate_bytes: 1 << chunk });
    (faults(), any::<bool>(), batches, any::<bool>(), options).prop_map(
        |(faults, faults_at_open, batches, power_fails, options)| Life {
            faults,
            faults_at_open,
            batches,
            power_fails,
            options,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn acknowledged_frames_survive_everything(seed in any::<u64>(), lives in prop::collection::vec(life(), 1..8)) {
        let disk = FaultDisk::new(seed);
        // Durable for certain, and the one batch that a failure left in doubt.
        let mut sure: Vec<Batch> = Vec::new();
        let mut doubt: Option<Batch> = None;
        for life in lives {
            if life.faults_at_open {
                disk.set_faults(life.faults);
            }
            match open_with(&disk, life.options) {
                Err(LogError::Io { .. } | LogError::DiskFull { .. }) if life.faults_at_open => {}
                Err(e) => return Err(TestCaseError::fail(format!("not a fault of ours: {e}"))),
                Ok(mut opened) => {
                    let found = opened.bytes();
                    let mut expected = sure.concat();
                    if found.len() > expected.len() {
                        let batch = doubt.take().unwrap_or_default();
                        expected.extend(batch.clone());
                        sure.push(batch);
                    }
                    doubt = None;
                    prop_assert_eq!(&found, &expected);
                    prop_assert_eq!(opened.recovery.batches, sure.len() as u64);
                    prop_assert_eq!(opened.recovery.next_batch, sure.len() as u64 + 1);
                    prop_assert_eq!(opened.recovery.frames, expected.len() as u64);
                    let reader = opened.log.reader();
                    for (position, bytes) in &opened.frames {
                        prop_assert_eq!(&reader.read(*position).unwrap(), bytes);
                    }
                    if !life.faults_at_open {
                        disk.set_faults(life.faults);
                    }
                    for batch in life.batches {
                        match append(&mut opened.log, &batch) {
                            Ok(positions) => {
                                prop_assert!(doubt.is_none(), "acknowledged after a failure");
                                for (position, bytes) in positions.iter().zip(&batch) {
                                    prop_assert_eq!(&reader.read(*position).unwrap(), bytes);
                                }
                                sure.push(batch);
                            }
                            Err(LogError::Poisoned { .. }) => doubt = doubt.or(Some(batch)),
                            Err(e) => return Err(TestCaseError::fail(format!("not poisoned: {e}"))),
                        }
                    }
                }
            }
            if life.power_fails { disk.crash() } else { disk.kill() }
        }
        let found = open_with(&disk, LogOptions::default()).unwrap().bytes();
        let expected = sure.concat();
        prop_assert_eq!(&found[..expected.len()], &expected[..]);
        let rest = &found[expected.len()..];
        prop_assert!(rest.is_empty() || Some(rest) == doubt.as_deref());
    }
}

#[test]
fn a_failed_sync_poisons_at_whichever_append_it_strikes() {
    for n in 1..=40 {
        let disk = FaultDisk::new(n);
        let mut opened = crate::common::open(&disk).unwrap();
        disk.set_faults(Faults { fail_sync: Some(n), ..Faults::default() });
        let mut acknowledged = Vec::new();
        let mut refused = 0;
        for i in 0..60u8 {
            let frames = vec![vec![i; 700]];
            match append(&mut opened.log, &frames) {
                Ok(_) => acknowledged.extend(frames),
                Err(LogError::Poisoned { cause }) => {
                    refused += 1;
                    assert!(cause.to_string().contains("can't sync"), "{cause}");
                    assert!(cause.to_string().contains("injected"), "{cause}");
                }
                Err(e) => panic!("{e}"),
            }
        }
        assert!(refused > 0 && refused + acknowledged.len() == 60);
        let (_, syncs) = disk.counts();
        assert_eq!(syncs, n, "nothing is tried after the failure");
        disk.crash();
        let found = crate::common::open(&disk).unwrap().bytes();
        assert_eq!(found[..acknowledged.len()], acknowledged);
        assert!(found.len() <= acknowledged.len() + 1);
    }
}

/// A failed sync marks the pages clean: they can be read but will never be written. A log that trusts them would lose the
/// batch, and with it everything after it, at the next power failure.
#[test]
fn a_batch_accepted_after_a_failed_sync_is_written_anew() {
    for seed in 0..50 {
        let disk = FaultDisk::new(seed);
        let mut opened = crate::common::open(&disk).unwrap();
        append(&mut opened.log, &[vec![1; 100]]).unwrap();
        disk.set_faults(Faults { fail_sync: Some(1), ..Faults::default() });
        append(&mut opened.log, &[vec![2; 3000]]).unwrap_err();
        disk.kill();
        let mut opened = crate::common::open(&disk).unwrap();
        assert_eq!(opened.bytes(), [vec![1; 100], vec![2; 3000]]);
        append(&mut opened.log, &[vec![3; 100]]).unwrap();
        disk.crash();
        assert_eq!(crate::common::open(&disk).unwrap().bytes(), [vec![1; 100], vec![2; 3000], vec![3; 100]]);
    }
}

#[test]
fn a_full_disk_is_named_and_poisons() {
    let disk = FaultDisk::new(1);
    let mut opened = crate::common::open(&disk).unwrap();
    disk.set_faults(Faults { capacity: Some(5000), ..Faults::default() });
    let mut acknowledged = Vec::new();
    let cause = loop {
        let frames = vec![vec![7; 300]];
        match append(&mut opened.log, &frames) {
            Ok(_) => acknowledged.extend(frames),
            Err(LogError::Poisoned { cause }) => break cause,
            Err(e) => panic!("{e}"),
        }
    };
    assert!(matches!(*cause, LogError::DiskFull { .. }));
    assert!(cause.to_string().starts_with("the disk is full"), "{cause}");
    // Space alone doesn't heal it: what the failed write left behind is unknown until the log is opened again.
    disk.set_faults(Faults::default());
    let again = append(&mut opened.log, &[vec![8; 10]]).unwrap_err();
    assert!(matches!(again, LogError::Poisoned { .. }), "{again}");
    disk.kill();
    let mut opened = crate::common::open(&disk).unwrap();
    assert_eq!(opened.bytes(), acknowledged);
    append(&mut opened.log, &[vec![8; 10]]).unwrap();
}

#[test]
fn a_torn_log_opens_on_a_full_disk() {
    let disk = FaultDisk::new(3);
    let mut opened = crate::common::open(&disk).unwrap();
    append(&mut opened.log, &[vec![1; 100]]).unwrap();
    let whole = opened.log.end() as usize;
    append(&mut opened.log, &[vec![2; 1000]]).unwrap();
    let mut bytes = disk.bytes("log.0000000000000000").unwrap();
    bytes[whole + 512..].fill(0);
    let size = bytes.len() as u64;
    disk.replace("log.0000000000000000", Some(bytes));
    disk.kill();
    disk.set_faults(Faults { capacity: Some(size), ..Faults::default() });
    let opened = crate::common::open(&disk).unwrap();
    assert_eq!(opened.bytes(), [vec![1; 100]]);
    assert_eq!(opened.recovery.cut_bytes, 512);
}

#[test]
fn short_writes_are_completed() {
    let disk = FaultDisk::new(2);
    let mut opened = crate::common::open(&disk).unwrap();
    disk.set_faults(Faults { short_writes: true, ..Faults::default() });
    let frames: Vec<Vec<u8>> = (0..20u8).map(|i| vec![i; 1000]).collect();
    for frame in &frames {
        append(&mut opened.log, std::slice::from_ref(frame)).unwrap();
    }
    assert!(disk.counts().0 > 40, "writes were short");
    disk.crash();
    assert_eq!(crate::common::open(&disk).unwrap().bytes(), frames);
}

#[test]
fn a_batch_costs_one_write_and_one_sync() {
    let disk = FaultDisk::new(4);
    let mut opened = crate::common::open_with(&disk, LogOptions::default()).unwrap();
    append(&mut opened.log, &[vec![1; 100]]).unwrap();
    disk.set_faults(Faults::default());
    for _ in 0..100 {
        append(&mut opened.log, &vec![vec![1; 50]; 10]).unwrap();
    }
    assert_eq!(disk.counts(), (100, 100));
    opened.log.append(&[]).unwrap();
    assert_eq!(disk.counts(), (100, 100), "no frames, no write");
}

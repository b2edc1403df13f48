//! Damage that no crash can cause is reported, at its place, and changes nothing.

use crate::common::{SMALL, append, name, noise, open, open_with};
use settled_ledger_file::log::disk::{Disk, FaultDisk};
use settled_ledger_file::log::{Corruption, Log, LogError, LogOptions};

/// A closed log: its disk, its frames, and the first offset of each batch by segment.
struct Sample {
    disk: FaultDisk,
    frames: Vec<Vec<u8>>,
    /// Segment, offset and end of each batch.
    batches: Vec<(String, usize, usize)>,
}

fn sample(batches: usize) -> Sample {
    let mut random = fastrand::Rng::with_seed(7);
    let disk = FaultDisk::new(7);
    let mut opened = open(&disk).unwrap();
    let mut sample = Sample { disk, frames: Vec::new(), batches: Vec::new() };
    for i in 0..batches {
        // Among them frames of zeros, which cover whole sectors.
        let mut frames: Vec<Vec<u8>> = (0..i % 4 + 1).map(|_| noise(&mut random, 40 + i * 90)).collect();
        frames.push(vec![0; i % 3 * 700]);
        let before = opened.log.end();
        append(&mut opened.log, &frames).unwrap();
        let base = segments(&sample.disk).last().copied().unwrap();
        let start = before.max(base) - base;
        sample.batches.push((name(base), start as usize, (opened.log.end() - base) as usize));
        sample.frames.extend(frames);
    }
    sample.disk.kill();
    sample
}

fn segments(disk: &FaultDisk) -> Vec<u64> {
    let names = disk.list().unwrap();
    let names = names.iter().filter_map(|name| name.strip_prefix("log."));
    let mut bases: Vec<u64> = names.map(|base| u64::from_str_radix(base, 16).unwrap()).collect();
    bases.sort_unstable();
    bases
}

fn contents(disk: &FaultDisk) -> Vec<(String, Vec<u8>)> {
    segments(disk).into_iter().map(|base| (name(base), disk.bytes(&name(base)).unwrap())).collect()
}

fn restore(disk: &FaultDisk, to: &[(String, Vec<u8>)]) {
    for base in segments(disk) {
        disk.replace(&name(base), None);
    }
    for (name, bytes) in to {
        disk.replace(name, Some(bytes.clone()));
    }
}

fn corruption(disk: &FaultDisk) -> (String, u64, Corruption) {
    let before = contents(disk);
    let found = match open(disk).err() {
        Some(LogError::Corrupt { segment, offset, kind }) => (segment, offset, kind),
        Some(other) => panic!("{other}"),
        None => panic!("opened"),
    };
    assert_eq!(contents(disk), before, "nothing is modified");
    found
}

/// The marker outlives what a crash leaves, so without the first batch it tells of a loss.
#[test]
fn a_log_without_its_first_batch_is_lost_rather_than_new() {
    let whole = sample(1);
    whole.disk.crash();
    let bytes = whole.disk.bytes(&name(0)).unwrap();
    for left in [None, Some(Vec::new()), Some(vec![0; bytes.len()]), Some(bytes[..40].to_vec())] {
        whole.disk.replace(&name(0), left.clone());
        let error = open(&whole.disk).err().expect("lost");
        assert!(matches!(&error, LogError::Lost { segment, .. } if *segment == name(0)), "{error}");
        assert_eq!(whole.disk.bytes(&name(0)), left, "nothing is modified");
    }
    whole.disk.replace(&name(0), Some(bytes));
    assert_eq!(open(&whole.disk).unwrap().bytes(), whole.frames);
    // Where a crash left the batch but no marker, opening makes it.
    whole.disk.replace("LEDGER", None);
    open(&whole.disk).unwrap();
    assert!(whole.disk.bytes("LEDGER").is_some());
}

/// Every byte of the log, flipped in three ways: the error names the batch it is in, or every frame is still there.
#[test]
fn no_flipped_byte_loses_a_frame() {
    let sample = sample(14);
    let original = contents(&sample.disk);
    assert!(original.len() >= 3, "{} segments", original.len());
    let (mut reported, mut harmless) = (0, 0);
    for (name, bytes) in &original {
        let data_end = sample.batches.iter().filter(|b| b.0 == *name).map(|b| b.2).max().unwrap();
        for at in 0..bytes.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] ^= flip;
                sample.disk.replace(name, Some(damaged));
                let outcome = open(&sample.disk);
                sample.disk.replace(name, Some(bytes.clone()));
                match outcome {
                    Ok(opened) => {
                        assert_eq!(opened.bytes(), sample.frames, "{name} byte {at} ^ {flip:#x}");
                        // Only zeros ahead of the log's end can be mended, and only as a tear.
                        assert!(at >= data_end, "{name} byte {at} ^ {flip:#x} went unnoticed");
                        assert_eq!(opened.recovery.cut_bytes as usize, at + 1 - data_end);
                        harmless += 1;
                    }
                    Err(LogError::Corrupt { segment, offset, .. }) => {
                        assert_eq!(segment, *name);
                        let batch = sample.batches.iter().find(|b| b.0 == *name && (b.1..b.2).contains(&at));
                        assert_eq!(offset as usize, batch.map_or(data_end, |b| b.1), "{name} byte {at} ^ {flip:#x}");
                        reported += 1;
                    }
                    Err(e) => panic!("{name} byte {at} ^ {flip:#x}: {e}"),
                }
                // Opening mended the file where it could; the next flip starts from the original.
                restore(&sample.disk, &original);
            }
        }
    }
    println!("{reported} flips reported, {harmless} in the zeros after the end cut off, 0 lost a frame");
    assert!(reported > 0 && harmless > 0);
}

/// Zeroed sectors of any batch but the last are no tear, because later batches follow.
#[test]
fn a_zeroed_sector_before_the_last_batch_is_corruption() {
    let sample = sample(14);
    let original = contents(&sample.disk);
    let (last_segment, last_start, _) = sample.batches.last().unwrap().clone();
    let mut reported = 0;
    for (name, bytes) in &original {
        for start in (0..bytes.len()).step_by(512) {
            let end = (start + 512).min(bytes.len());
            let is_last = *name == last_segment && end > last_start;
            if is_last || bytes[start..end].iter().all(|&b| b == 0) {
                continue;
            }
            let mut damaged = bytes.clone();
            damaged[start..end].fill(0);
            sample.disk.replace(name, Some(damaged));
            assert_eq!(corruption(&sample.disk).0, *name, "sector at {start}");
            restore(&sample.disk, &original);
            reported += 1;
        }
    }
    assert!(reported > 20, "{reported}");
}

/// In one segment, whole runs of zeroed sectors: what follows them, header or not, shows that they are no tear.
#[test]
fn zeroed_sectors_followed_by_a_later_batch_are_corruption() {
    let mut random = fastrand::Rng::with_seed(5);
    let disk = FaultDisk::new(5);
    let mut opened = open_with(&disk, LogOptions::default()).unwrap();
    let mut last_start = 0;
    for i in 0..6 {
        last_start = opened.log.end() as usize;
        append(&mut opened.log, &[noise(&mut random, 900 + i * 100)]).unwrap();
    }
    let mut original = disk.bytes(&name(0)).unwrap();
    original.truncate(opened.log.end() as usize);
    // The sector of the last batch's header stays, so that batch was begun.
    let sectors = last_start / 512;
    for from in 0..sectors {
        for to in from + 1..=sectors {
            let mut damaged = original.clone();
            damaged[from * 512..to * 512].fill(0);
            disk.replace(&name(0), Some(damaged));
            corruption(&disk);
        }
    }
}

#[test]
fn a_missing_segment_is_corruption() {
    let sample = sample(14);
    let original = contents(&sample.disk);
    let bases = segments(&sample.disk);
    for (i, base) in bases[..bases.len() - 1].iter().enumerate() {
        sample.disk.replace(&name(*base), None);
        let next = bases[i + 1];
        let (_, _, kind) = corruption(&sample.disk);
        assert_eq!(kind, Corruption::Gap { next });
        restore(&sample.disk, &original);
    }
}

#[test]
fn a_segment_cut_short_before_the_last_is_corruption() {
    let sample = sample(14);
    let bases = segments(&sample.disk);
    let first = sample.disk.bytes(&name(0)).unwrap();
    let batches: Vec<_> = sample.batches.iter().filter(|b| b.0 == name(0)).collect();
    let next = bases[1];
    for (at, expected) in [(batches[1].1, Corruption::Gap { next }), (batches[1].1 + 100, Corruption::Followed)] {
        sample.disk.replace(&name(0), Some(first[..at].to_vec()));
        assert_eq!(corruption(&sample.disk), (name(0), batches[1].1 as u64, expected));
    }
}

#[test]
fn data_past_the_next_segment_is_corruption() {
    let sample = sample(14);
    let next = segments(&sample.disk)[1];
    let mut first = sample.disk.bytes(&name(0)).unwrap();
    first.resize(next as usize + 100, 0);
    first[next as usize + 99] = 1;
    sample.disk.replace(&name(0), Some(first));
    assert_eq!(corruption(&sample.disk), (name(0), next, Corruption::Overlap { next }));
}

#[test]
fn batches_out_of_order_are_corruption() {
    // Two logs of equal shape, one of which began with an extra batch: a segment of one can't stand in the other.
    let build = |batches: &[usize]| {
        let disk = FaultDisk::new(1);
        let mut opened = open(&disk).unwrap();
        for len in batches {
            append(&mut opened.log, &[vec![1; *len]]).unwrap();
        }
        disk
    };
    // Headers, trailers and padding make both first segments end at the same position.
    let one = build(&[4000, 4000]);
    let two = build(&[1944, 1984, 4000]);
    let (a, b) = (segments(&one), segments(&two));
    assert_eq!(a.len(), 1, "{a:?} {b:?}");
    let start = 4064;
    let mut mixed = one.bytes(&name(0)).unwrap();
    let other = two.bytes(&name(0)).unwrap();
    let end = mixed.len().min(other.len());
    mixed[start..end].copy_from_slice(&other[start..end]);
    one.replace(&name(0), Some(mixed));
    assert_eq!(corruption(&one), (name(0), start as u64, Corruption::OutOfOrder { expected: 2, found: 3 }));
}

#[test]
fn a_batch_copied_elsewhere_is_corruption() {
    let disk = FaultDisk::new(1);
    let mut opened = open(&disk).unwrap();
    append(&mut opened.log, &[vec![1; 100]]).unwrap();
    let end = opened.log.end() as usize;
    let mut bytes = disk.bytes(&name(0)).unwrap();
    bytes.copy_within(..end, end);
    disk.replace(&name(0), Some(bytes));
    disk.kill();
    assert_eq!(corruption(&disk), (name(0), end as u64, Corruption::Header));
}

#[test]
fn a_strange_name_is_corruption_and_other_files_are_none_of_its_business() {
    let sample = sample(2);
    sample.disk.replace("LOCK", Some(Vec::new()));
    sample.disk.replace("socket", Some(Vec::new()));
    assert_eq!(open(&sample.disk).unwrap().bytes(), sample.frames);
    for strange in ["log.1", "log.000000000000000G", "log.00000000000000AB", "log.0000000000000000.bak"] {
        sample.disk.replace(strange, Some(Vec::new()));
        match open(&sample.disk).err() {
            Some(LogError::Corrupt { segment, kind: Corruption::Name, .. }) => assert_eq!(segment, strange),
            other => panic!("{other:?}"),
        }
        sample.disk.replace(strange, None);
    }
}

#[test]
fn an_unknown_version_has_its_own_error() {
    let disk = FaultDisk::new(1);
    let mut opened = open(&disk).unwrap();
    append(&mut opened.log, &[vec![1; 100]]).unwrap();
    let mut bytes = disk.bytes(&name(0)).unwrap();
    bytes[4] = 9;
    // A valid header of that version: the checksum, which covers the position 0 too, agrees.
    let crc = crc32fast::hash(&[&bytes[..28], &[0; 8]].concat());
    bytes[28..32].copy_from_slice(&crc.to_le_bytes());
    disk.replace(&name(0), Some(bytes));
    disk.kill();
    let error = open(&disk).err().unwrap();
    assert!(matches!(error, LogError::UnknownVersion { version: 9, offset: 0, .. }), "{error}");
}

#[test]
fn a_refused_frame_stops_the_opening_and_changes_nothing() {
    let sample = sample(3);
    let before = contents(&sample.disk);
    let opened = Log::open(std::sync::Arc::new(sample.disk.clone()), SMALL, |_, _| Err("not mine".into()));
    let error = opened.err().unwrap();
    assert!(error.to_string().ends_with("was refused: not mine"), "{error}");
    assert_eq!(contents(&sample.disk), before);
}

//! What a crash or a failing write can leave of the last batch is cut off or completed, and the log goes on.

use crate::common::{append, name, noise, open};
use settled_ledger_file::log::disk::FaultDisk;

/// Every subset of the last batch's sectors that a crash can leave unwritten.
#[test]
fn every_tear_of_the_last_batch_is_cut() {
    let mut random = fastrand::Rng::with_seed(9);
    let disk = FaultDisk::new(9);
    let mut opened = open(&disk).unwrap();
    append(&mut opened.log, &[noise(&mut random, 100)]).unwrap();
    let start = opened.log.end() as usize;
    let before = disk.bytes(&name(0)).unwrap();
    append(&mut opened.log, &[noise(&mut random, 1200), vec![0; 1100], noise(&mut random, 900)]).unwrap();
    let end = opened.log.end() as usize;
    let mut after = disk.bytes(&name(0)).unwrap();
    after.resize(after.len().max(end), 0);
    let mut old = before;
    old.resize(after.len(), 0);
    let sectors: Vec<usize> = (start / 512..end.div_ceil(512))
        .filter(|s| old[s * 512..(s * 512 + 512).min(old.len())] != after[s * 512..(s * 512 + 512).min(old.len())])
        .collect();
    assert!(sectors.len() >= 5, "{sectors:?}");
    for subset in 0..1u32 << sectors.len() {
        let mut torn = old.clone();
        for (_, s) in sectors.iter().enumerate().filter(|(i, _)| subset & 1 << i != 0) {
            let range = s * 512..(s * 512 + 512).min(torn.len());
            torn[range.clone()].copy_from_slice(&after[range]);
        }
        let whole = subset == (1 << sectors.len()) - 1;
        let cut = if whole { 0 } else { (torn.iter().rposition(|&b| b != 0).unwrap() + 1).saturating_sub(start) };
        disk.replace(&name(0), Some(torn));
        disk.kill();
        let mut opened = open(&disk).unwrap();
        assert_eq!(opened.frames.len(), if whole { 4 } else { 1 }, "{subset:b}");
        assert_eq!(opened.recovery.cut_bytes as usize, cut, "{subset:b}");
        append(&mut opened.log, &[b"next".to_vec()]).unwrap();
        disk.kill();
        assert_eq!(open(&disk).unwrap().bytes().last().unwrap(), b"next");
    }
}

/// A failing or interrupted write may stop anywhere, and whether the file was preallocated makes no difference.
#[test]
fn a_write_that_stopped_at_any_byte_is_cut_or_completed() {
    for preallocated in [true, false] {
        let mut random = fastrand::Rng::with_seed(3);
        let disk = FaultDisk::new(3);
        let mut opened = open(&disk).unwrap();
        append(&mut opened.log, &[noise(&mut random, 300)]).unwrap();
        let start = opened.log.end() as usize;
        append(&mut opened.log, &[vec![0; 600], noise(&mut random, 600)]).unwrap();
        let end = opened.log.end() as usize;
        let whole = disk.bytes(&name(0)).unwrap();
        let mut completed = 0;
        for stop in start..end {
            let mut torn = whole.clone();
            torn[stop..].fill(0);
            if !preallocated {
                torn.truncate(stop);
            }
            disk.replace(&name(0), Some(torn));
            disk.kill();
            let mut opened = open(&disk).unwrap();
            match opened.frames.len() {
                1 => assert!(stop == start || opened.recovery.cut_bytes > 0),
                3 => completed += 1,
                n => panic!("{n} frames, stopped at {stop}"),
            }
            let mut expected = opened.bytes();
            append(&mut opened.log, &[b"next".to_vec()]).unwrap();
            expected.push(b"next".to_vec());
            disk.crash();
            assert_eq!(open(&disk).unwrap().bytes(), expected, "stopped at {stop}");
        }
        assert!((1..=32).contains(&completed), "{completed}");
    }
}

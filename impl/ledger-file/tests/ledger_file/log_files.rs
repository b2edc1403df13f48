//! The log on real files.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use settled_ledger_file::log::disk::{FsDisk, SECTOR};
use settled_ledger_file::log::{Log, LogError, LogOptions, Recovery};

const OPTIONS: LogOptions = LogOptions { segment_bytes: 64 << 10, preallocate_bytes: 16 << 10 };

fn open(dir: &Path) -> (Log, Recovery, Vec<(u64, Vec<u8>)>) {
    let mut frames = Vec::new();
    let disk = Arc::new(FsDisk::open(dir).unwrap());
    let (log, recovery) = Log::open(disk, OPTIONS, |position, bytes| {
        frames.push((position, bytes.to_vec()));
        Ok(())
    })
    .unwrap();
    (log, recovery, frames)
}

fn segments(dir: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("log.")).collect()
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_log_is_found_again() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("ledger");
    let mut written = Vec::new();
    for round in 0..4u32 {
        let (mut log, recovery, frames) = open(&dir);
        assert_eq!(frames, written);
        assert_eq!(recovery.frames, written.len() as u64);
        assert_eq!((recovery.batches, recovery.cut_bytes), (u64::from(round) * 50, 0));
        for i in 0..50 {
            let batch: Vec<Vec<u8>> = (0..i % 5 + 1).map(|f| vec![(i + f) as u8; 200 + i * 9]).collect();
            let refs: Vec<&[u8]> = batch.iter().map(Vec::as_slice).collect();
            let positions = log.append(&refs).unwrap();
            written.extend(positions.into_iter().zip(batch));
        }
    }
    let segments = segments(&dir);
    assert!(segments.len() > 2, "{segments:?}");
    assert_eq!(mode(&dir), 0o700);
    for segment in segments {
        assert_eq!(mode(&segment), 0o600);
        assert!(segment.metadata().unwrap().len() <= OPTIONS.segment_bytes);
    }
}

#[test]
fn files_grow_by_the_chunk_and_are_filled_with_zeros() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, ..) = open(dir.path());
    log.append(&[&[1; 100]]).unwrap();
    let bytes = std::fs::read(dir.path().join("log.0000000000000000")).unwrap();
    assert_eq!(bytes.len() as u64, OPTIONS.preallocate_bytes);
    assert!(bytes[log.end() as usize..].iter().all(|&b| b == 0));
}

#[test]
fn a_batch_larger_than_a_segment_has_one_to_itself() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, ..) = open(dir.path());
    log.append(&[b"small"]).unwrap();
    let large = vec![5; 3 * OPTIONS.segment_bytes as usize];
    let at = log.append(&[&large]).unwrap();
    log.append(&[b"small again"]).unwrap();
    assert_eq!(log.reader().read(at[0]).unwrap(), large);
    drop(log);
    let (log, recovery, frames) = open(dir.path());
    assert_eq!(recovery.frames, 3);
    assert_eq!(log.reader().read(at[0]).unwrap(), large);
    assert_eq!(frames[2].1, b"small again");
    assert_eq!(segments(dir.path()).len(), 3);
}

#[test]
fn a_wrong_position_gives_no_frame() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, ..) = open(dir.path());
    let inner = [3u8; 2 * SECTOR];
    let positions = log.append(&[b"first", &inner, b""]).unwrap();
    let reader = log.reader();
    for position in (0..OPTIONS.preallocate_bytes + 100).chain([u64::MAX, u64::MAX - 7, 1 << 40]) {
        match reader.read(position) {
            Ok(_) => assert!(positions.contains(&position), "{position}"),
            Err(LogError::NoFrame { position: p }) => {
                assert!(p == position && !positions.contains(&p))
            }
            Err(e) => panic!("{e}"),
        }
    }
}

#[test]
fn a_damaged_frame_is_noticed_by_the_reader() {
    use std::os::unix::fs::FileExt;
    let dir = tempfile::tempdir().unwrap();
    let (mut log, ..) = open(dir.path());
    let at = log.append(&[&[9; 64]]).unwrap()[0];
    let file = std::fs::File::options().write(true).open(dir.path().join("log.0000000000000000")).unwrap();
    file.write_all_at(&[8], at + 8 + 63).unwrap();
    assert!(matches!(log.reader().read(at), Err(LogError::NoFrame { position }) if position == at));
}

#[test]
fn readers_read_while_the_log_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, ..) = open(dir.path());
    let (send, receive) = std::sync::mpsc::channel();
    let reader = log.reader();
    let reading = thread::spawn(move || {
        let mut seen = 0;
        for (position, i) in receive {
            assert_eq!(reader.read(position).unwrap(), [i; 500]);
            seen += 1;
        }
        seen
    });
    for i in 0..=255 {
        let at = log.append(&[&[i; 500]]).unwrap();
        send.send((at[0], i)).unwrap();
    }
    drop(send);
    assert_eq!(reading.join().unwrap(), 256);
    assert!(segments(dir.path()).len() > 1, "it rolled");
}

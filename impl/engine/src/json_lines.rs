//! A history in a file of JSON lines.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, TrySendError, channel, sync_channel};
use std::thread::{self, JoinHandle};

use crate::history::{HISTORY_VERSION, Happened, History, HistoryLine};

mod rotating;

use rotating::RotatingFile;

/// How many lines may wait for the writer before lines are left out (and a [`Happened::Gap`] says how many).
const WAITING_LINES: usize = 65_536;

/// Appends every line to a file, from a thread of its own. The file is never synced: the ledger is the truth, this is its
/// story. If it can't be written, that is logged once, and the calls go on.
///
/// A file that has grown large is put aside as `PATH.1`, what was `PATH.1` becomes `PATH.2`, and so on; the oldest part is
/// removed. Any number of processes may append to the same file.
#[derive(Debug)]
pub struct JsonLines {
    lines: Option<SyncSender<Item>>,
    left_out: AtomicU64,
    writer: Option<JoinHandle<()>>,
}

/// How many bytes are gathered before they are written although more are coming.
const FLUSH_AT: usize = 64 << 10;

enum Item {
    Line(Box<HistoryLine>),
    Flush(Sender<()>),
}

impl JsonLines {
    /// The size at which the file is put aside, unless another one is given: 64 MiB.
    pub const PART_BYTES: u64 = 64 << 20;

    /// How many parts that were put aside are kept, unless another number is given.
    pub const PARTS_KEPT: u32 = 4;

    /// Appends to this file, which is created, readable by its owner only, if it is missing. Parts are of
    /// [`PART_BYTES`](Self::PART_BYTES); [`PARTS_KEPT`](Self::PARTS_KEPT) older ones are kept.
    ///
    /// # Errors
    /// If the file can't be opened for appending, or no thread can be started.
    pub fn append_to(path: impl AsRef<Path>) -> io::Result<JsonLines> {
        JsonLines::append_in_parts(path, JsonLines::PART_BYTES, JsonLines::PARTS_KEPT)
    }

    /// The same with parts of another size (a part is ended once it has this many bytes), and another number of older
    /// parts that are kept. Processes on one file should agree on both.
    ///
    /// # Errors
    /// As [`append_to`](Self::append_to).
    pub fn append_in_parts(path: impl AsRef<Path>, part_bytes: u64, parts_kept: u32) -> io::Result<JsonLines> {
        let file = RotatingFile::open(path.as_ref().to_path_buf(), part_bytes, parts_kept)?;
        let (lines, waiting) = sync_channel(WAITING_LINES);
        let writer = thread::Builder::new().name("settled-history".into()).spawn(move || write_all(waiting, file))?;
        Ok(JsonLines { lines: Some(lines), left_out: AtomicU64::new(0), writer: Some(writer) })
    }

    /// Returns once every line recorded before is in the file.
    pub fn flush(&self) {
        let (done, wait) = channel();
        if let Some(lines) = &self.lines
            && lines.send(Item::Flush(done)).is_ok()
        {
            // An error means that the writer is gone: nothing is left to wait for.
            let _ = wait.recv();
        }
    }

    fn try_send(&self, line: HistoryLine) -> bool {
        match &self.lines {
            Some(lines) => match lines.try_send(Item::Line(Box::new(line))) {
                Ok(()) => true,
                Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => false,
            },
            None => false,
        }
    }
}

impl History for JsonLines {
    fn record(&self, line: &HistoryLine) {
        let missing = self.left_out.swap(0, Ordering::Relaxed);
        if missing > 0 {
            let what = Happened::Gap { lines: missing };
            let gap = HistoryLine { v: HISTORY_VERSION, at: line.at, by: line.by, key: None, what };
            if !self.try_send(gap) {
                self.left_out.fetch_add(missing + 1, Ordering::Relaxed);
                return;
            }
        }
        if !self.try_send(line.clone()) {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for JsonLines {
    fn drop(&mut self) {
        self.lines = None;
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!("the history's writer panicked: its last lines may be missing");
        }
    }
}

fn write_all(waiting: Receiver<Item>, mut file: RotatingFile) {
    // Whole lines only: other processes append to the same file.
    let mut lines = Vec::new();
    let mut broken = false;
    let mut flush = |lines: &mut Vec<u8>| {
        if lines.is_empty() {
            return;
        }
        if let Err(error) = file.write(lines)
            && !std::mem::replace(&mut broken, true)
        {
            let path = file.path().display();
            tracing::error!(%path, %error, "the history can't be written: lines will be missing from it");
        }
        lines.clear();
    };
    loop {
        let item = match waiting.try_recv() {
            Ok(item) => item,
            Err(TryRecvError::Disconnected) => break,
            Err(TryRecvError::Empty) => {
                flush(&mut lines);
                match waiting.recv() {
                    Ok(item) => item,
                    Err(_) => break,
                }
            }
        };
        match item {
            Item::Line(line) => {
                let begun = lines.len();
                match serde_json::to_writer(&mut lines, &line) {
                    Ok(()) => lines.push(b'\n'),
                    Err(error) => {
                        lines.truncate(begun);
                        tracing::error!(%error, "a line of the history can't be written as JSON");
                    }
                }
                if lines.len() >= FLUSH_AT {
                    flush(&mut lines);
                }
            }
            Item::Flush(done) => {
                flush(&mut lines);
                // The one who asked may have gone away.
                let _ = done.send(());
            }
        }
    }
    flush(&mut lines);
}

#[cfg(test)]
mod tests {
    use settled_protocol::{Epoch, Time};

    use super::*;

    #[test]
    fn lines_are_appended_in_order_and_survive_a_second_opening() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("history.jsonl");
        let line =
            |n| HistoryLine { v: HISTORY_VERSION, at: Time(n), by: Epoch(1), key: None, what: Happened::Started };
        for n in [1, 3] {
            let history = JsonLines::append_to(&path).unwrap();
            history.record(&line(n));
            history.record(&line(n + 1));
            history.flush();
            assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count() as u64, n + 1);
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let read: Vec<HistoryLine> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(read, (1..=4).map(line).collect::<Vec<_>>());
    }

    #[test]
    fn a_torn_line_costs_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("history.jsonl");
        std::fs::write(&path, b"{\"v\":1,\"at\":").unwrap();
        let line = HistoryLine { v: HISTORY_VERSION, at: Time(1), by: Epoch(1), key: None, what: Happened::Started };
        JsonLines::append_to(&path).unwrap().record(&line);
        let text = std::fs::read_to_string(&path).unwrap();
        let last = text.lines().nth(1).unwrap();
        assert_eq!(serde_json::from_str::<HistoryLine>(last).unwrap(), line);
    }
}

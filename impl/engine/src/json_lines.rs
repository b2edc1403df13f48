//! A history in a file of JSON lines.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::history::{HISTORY_VERSION, Happened, History, HistoryLine};
use crate::line_queue::LineQueue;

mod rotating;

use rotating::RotatingFile;

/// How many lines may wait for the writer before lines are left out (and a [`Happened::Gap`] says how many).
const WAITING_LINES: usize = 65_536;

/// When so many lines wait, the writer takes them at once.
const PLENTY: usize = WAITING_LINES / 4;

/// How long the writer gathers lines after the first one: waking it for each line would cost the calls more than the line.
const GATHERING: Duration = Duration::from_millis(1);

/// How many bytes are gathered before they are written although more are coming.
const FLUSH_AT: usize = 64 << 10;

/// Appends every line to a file, from a thread of its own. The file is never synced: the ledger is the truth, this is its
/// story. If it can't be written, that is logged once, and the calls go on. A process that is killed loses the lines of its
/// last millisecond or so.
///
/// A file that has grown large is put aside as `PATH.1`, what was `PATH.1` becomes `PATH.2`, and so on; the oldest part is
/// removed. Any number of processes may append to the same file.
#[derive(Debug)]
pub struct JsonLines {
    lines: Arc<LineQueue<HistoryLine>>,
    writer: Option<JoinHandle<()>>,
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
        let lines = Arc::new(LineQueue::new(WAITING_LINES, PLENTY, GATHERING));
        let writer = thread::Builder::new().name("settled-history".into()).spawn({
            let lines = Arc::clone(&lines);
            move || {
                // Whoever flushes must not wait for a writer that is gone, however it went.
                let _ended = Ended(&lines);
                write_all(&lines, file);
            }
        })?;
        Ok(JsonLines { lines, writer: Some(writer) })
    }

    /// Returns once every line recorded before is in the file.
    pub fn flush(&self) {
        self.lines.flush();
    }
}

impl History for JsonLines {
    fn record(&self, line: &HistoryLine) {
        self.lines.push(line.clone(), |lines, line| {
            let what = Happened::Gap { lines };
            HistoryLine { v: HISTORY_VERSION, n: 0, key: None, what, ..*line }
        });
    }
}

impl Drop for JsonLines {
    fn drop(&mut self) {
        self.lines.close();
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!("the history's writer panicked: its last lines may be missing");
        }
    }
}

/// Says that the writer is gone when it is dropped.
struct Ended<'a>(&'a LineQueue<HistoryLine>);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

fn write_all(queue: &LineQueue<HistoryLine>, mut file: RotatingFile) {
    // Whole lines only: other processes append to the same file.
    let mut bytes = Vec::new();
    let mut broken = false;
    let mut flush = |bytes: &mut Vec<u8>| {
        if bytes.is_empty() {
            return;
        }
        if let Err(error) = file.write(bytes)
            && !std::mem::replace(&mut broken, true)
        {
            let path = file.path().display();
            tracing::error!(%path, %error, "the history can't be written: lines will be missing from it");
        }
        bytes.clear();
    };
    let mut lines = Vec::new();
    loop {
        queue.take(&mut lines);
        if lines.is_empty() {
            return;
        }
        for line in &lines {
            append(line, &mut bytes);
            if bytes.len() >= FLUSH_AT {
                flush(&mut bytes);
            }
        }
        flush(&mut bytes);
        queue.wrote(lines.len());
        lines.clear();
    }
}

fn append(line: &HistoryLine, bytes: &mut Vec<u8>) {
    let begun = bytes.len();
    match serde_json::to_writer(&mut *bytes, line) {
        Ok(()) => bytes.push(b'\n'),
        Err(error) => {
            bytes.truncate(begun);
            tracing::error!(%error, "a line of the history can't be written as JSON");
        }
    }
}

#[cfg(test)]
mod tests {
    use settled_protocol::{Epoch, Time};

    use super::*;

    #[test]
    fn lines_are_appended_in_order_and_survive_a_second_opening() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("history.jsonl");
        let line = |n| HistoryLine {
            v: HISTORY_VERSION,
            at: Time(n),
            by: Epoch(1),
            run: Epoch(1),
            n: 1,
            key: None,
            what: Happened::Started,
        };
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
        std::fs::write(&path, b"{\"v\":2,\"at\":").unwrap();
        let line = HistoryLine {
            v: HISTORY_VERSION,
            at: Time(1),
            by: Epoch(1),
            run: Epoch(1),
            n: 1,
            key: None,
            what: Happened::Started,
        };
        JsonLines::append_to(&path).unwrap().record(&line);
        let text = std::fs::read_to_string(&path).unwrap();
        let last = text.lines().nth(1).unwrap();
        assert_eq!(serde_json::from_str::<HistoryLine>(last).unwrap(), line);
    }

    #[test]
    fn nothing_is_lost_among_threads_and_what_has_no_room_is_said() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("history.jsonl");
        let history = JsonLines::append_to(&path).unwrap();
        let count = 3 * WAITING_LINES as u64;
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for n in 0..count / 2 {
                        history.record(&HistoryLine {
                            v: HISTORY_VERSION,
                            at: Time(n),
                            by: Epoch(1),
                            run: Epoch(1),
                            n: 1,
                            key: None,
                            what: Happened::Started,
                        });
                    }
                });
            }
        });
        history.flush();
        // What was left out at the end is told with the next line.
        let last = HistoryLine {
            v: HISTORY_VERSION,
            at: Time(1),
            by: Epoch(1),
            run: Epoch(1),
            n: 1,
            key: None,
            what: Happened::Started,
        };
        history.record(&last);
        drop(history);
        let mut told = 0;
        for line in std::fs::read_to_string(&path).unwrap().lines() {
            told += match serde_json::from_str::<HistoryLine>(line).unwrap().what {
                Happened::Gap { lines } => lines,
                _ => 1,
            };
        }
        assert_eq!(told, count + 1);
    }
}

//! A history in a file of JSON lines.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, TrySendError, channel, sync_channel};
use std::thread::{self, JoinHandle};

use crate::history::{HISTORY_VERSION, Happened, History, HistoryLine};

/// How many lines may wait for the writer before lines are left out (and a [`Happened::Gap`] says how many).
const WAITING_LINES: usize = 65_536;

/// Appends every line to a file, from a thread of its own. The file is never synced: the ledger is the truth, this is its
/// story. If it can't be written, that is logged once, and the calls go on.
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
    /// Appends to this file, which is created, readable by its owner only, if it is missing.
    ///
    /// # Errors
    /// If the file can't be opened for appending, or no thread can be started.
    pub fn append_to(path: impl AsRef<Path>) -> io::Result<JsonLines> {
        let path = path.as_ref().to_path_buf();
        let mut file = OpenOptions::new().create(true).read(true).append(true).mode(0o600).open(&path)?;
        end_torn_line(&mut file)?;
        let (lines, waiting) = sync_channel(WAITING_LINES);
        let writer =
            thread::Builder::new().name("settled-history".into()).spawn(move || write_all(waiting, file, path))?;
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

/// A line that an earlier process began and could not finish (a full disk) is ended, so that the next one is not lost with it.
fn end_torn_line(file: &mut File) -> io::Result<()> {
    let mut last = [0];
    if file.seek(SeekFrom::End(0))? > 0 {
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        if last != *b"\n" {
            file.write_all(b"\n")?;
        }
    }
    Ok(())
}

fn write_all(waiting: Receiver<Item>, mut file: File, path: PathBuf) {
    // Whole lines only: other processes append to the same file.
    let mut lines = Vec::new();
    let mut broken = false;
    let mut flush = |lines: &mut Vec<u8>| {
        if let Err(error) = file.write_all(lines)
            && !std::mem::replace(&mut broken, true)
        {
            tracing::error!(path = %path.display(), %error, "the history can't be written: lines will be missing from it");
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

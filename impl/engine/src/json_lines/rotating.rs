//! A file that is put aside when it has grown large, by whichever of its writers finds that first.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A file that several processes append to. The older parts are `PATH.1` (the latest), `PATH.2` and so on.
#[derive(Debug)]
pub(super) struct RotatingFile {
    path: PathBuf,
    file: File,
    /// A part is ended once it has this many bytes.
    limit: u64,
    /// How many ended parts are kept.
    keep: u32,
    /// The last write may have ended in the middle of a line.
    torn: bool,
}

impl RotatingFile {
    /// Opens the file for appending; creates it, readable by its owner only, if it is missing.
    pub(super) fn open(path: PathBuf, limit: u64, keep: u32) -> io::Result<RotatingFile> {
        let mut file = open(&path)?;
        end_torn_line(&mut file)?;
        Ok(RotatingFile { path, file, limit, keep, torn: false })
    }

    /// Its path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends whole lines in one write, and begins a new part if this one is full then.
    pub(super) fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        if !self.is_current()? {
            self.file = open(&self.path)?;
        }
        if std::mem::replace(&mut self.torn, true) {
            self.file.write_all(b"\n")?;
        }
        self.file.write_all(lines)?;
        self.torn = false;
        if self.file.metadata()?.len() >= self.limit {
            self.rotate()?;
        }
        Ok(())
    }

    /// Whether the path still leads to the open file: another process may have put it aside.
    fn is_current(&self) -> io::Result<bool> {
        let ours = self.file.metadata()?;
        match fs::metadata(&self.path) {
            Ok(found) => Ok((found.dev(), found.ino()) == (ours.dev(), ours.ino())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Of the processes that find the same file full, the one that locks it first puts it aside; the file at the path is
    /// another one for the others then. The rename of the current file is the last one, so nobody can fill its successor
    /// and begin with the renames while they are under way.
    fn rotate(&mut self) -> io::Result<()> {
        self.file.lock()?;
        let current = self.is_current();
        let renamed = if matches!(current, Ok(true)) { self.put_aside() } else { Ok(()) };
        self.file.unlock()?;
        current?;
        renamed?;
        self.file = open(&self.path)?;
        Ok(())
    }

    fn put_aside(&self) -> io::Result<()> {
        if self.keep == 0 {
            return fs::remove_file(&self.path);
        }
        for number in (1..self.keep).rev() {
            missing_is_fine(fs::rename(self.part(number), self.part(number + 1)))?;
        }
        fs::rename(&self.path, self.part(1))
    }

    fn part(&self, number: u32) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        name.into()
    }
}

fn missing_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).read(true).append(true).mode(0o600).open(path)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &Path) -> Vec<String> {
        fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_full_file_is_put_aside_and_the_oldest_part_goes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("history.jsonl");
        let mut file = RotatingFile::open(path.clone(), 8, 2).unwrap();
        for number in 0..9 {
            file.write(format!("line{number}\n").as_bytes()).unwrap();
        }
        assert_eq!(lines(&path), ["line8"]);
        assert_eq!(lines(&file.part(1)), ["line6", "line7"]);
        assert_eq!(lines(&file.part(2)), ["line4", "line5"]);
        assert!(!file.part(3).exists());
    }

    #[test]
    fn nothing_is_kept_of_what_is_full_where_nothing_is_to_be_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("history.jsonl");
        let mut file = RotatingFile::open(path.clone(), 8, 0).unwrap();
        for number in 0..3 {
            file.write(format!("line{number}\n").as_bytes()).unwrap();
        }
        assert_eq!(lines(&path), ["line2"]);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn several_writers_lose_no_line_and_rotate_once() {
        const WRITERS: u32 = 4;
        const LINES: u32 = 400;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("history.jsonl");
        // Ample: no part may go.
        let keep = WRITERS * LINES;
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let mut file = RotatingFile::open(path.clone(), 256, keep).unwrap();
                scope.spawn(move || {
                    for line in 0..LINES {
                        file.write(format!("{writer} {line:04}\n").as_bytes()).unwrap();
                    }
                });
            }
        });
        let mut found = Vec::new();
        let mut parts = 0;
        for entry in fs::read_dir(directory.path()).unwrap() {
            let entry = entry.unwrap();
            parts += 1;
            if entry.path() != path {
                assert!(entry.metadata().unwrap().len() >= 256, "a part was ended that was not full");
            }
            found.extend(lines(&entry.path()));
        }
        let expected: Vec<String> =
            (0..WRITERS).flat_map(|writer| (0..LINES).map(move |line| format!("{writer} {line:04}"))).collect();
        found.sort();
        assert_eq!(found, expected);
        assert!(parts > 10, "only {parts} parts");
    }

    #[test]
    fn a_file_that_was_taken_away_is_made_anew() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("history.jsonl");
        let mut file = RotatingFile::open(path.clone(), 1 << 20, 1).unwrap();
        file.write(b"a\n").unwrap();
        fs::remove_file(&path).unwrap();
        file.write(b"b\n").unwrap();
        assert_eq!(lines(&path), ["b"]);
    }
}

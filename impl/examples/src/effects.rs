//! The effects file: one line per charge, the only trace that the server leaves in the world.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek, Write},
    path::{Path, PathBuf},
};

/// An append-only file of lines `charge <customer> <cents>`.
///
/// Neither the file handle nor a count is kept: the file alone says how many charges there were, over restarts and when
/// several servers share it.
#[derive(Debug, Clone)]
pub(crate) struct Effects {
    path: PathBuf,
}

impl Effects {
    /// Creates the file if there is none.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let effects = Self { path: path.to_owned() };
        effects.file()?;
        Ok(effects)
    }

    fn file(&self) -> io::Result<File> {
        OpenOptions::new().read(true).append(true).create(true).open(&self.path)
    }

    /// Appends a charge durably and returns its line number, counted from 1.
    ///
    /// The customer must hold no white space ([`is_customer`]).
    pub(crate) fn append(&self, customer: &str, cents: u64) -> io::Result<usize> {
        let mut file = self.file()?;
        // Held until the file is closed: without it, two charges at once could count each other's lines.
        file.lock()?;
        file.write_all(format!("charge {customer} {cents}\n").as_bytes())?;
        file.sync_all()?;
        file.rewind()?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes.iter().filter(|byte| **byte == b'\n').count())
    }

    /// The number of charges to a customer.
    pub(crate) fn count(&self, customer: &str) -> io::Result<usize> {
        let mut bytes = Vec::new();
        let mut file = self.file()?;
        file.lock_shared()?;
        file.read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes);
        Ok(text.lines().filter(|line| line.split(' ').nth(1) == Some(customer)).count())
    }
}

/// Whether a name can stand as one word in a line.
pub(crate) fn is_customer(name: &str) -> bool {
    !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || c.is_control())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_numbered_over_reopening_and_counted_per_customer() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("effects");
        let effects = Effects::open(&path).unwrap();
        assert_eq!(effects.count("alice").unwrap(), 0);
        assert_eq!(effects.append("alice", 4200).unwrap(), 1);
        assert_eq!(effects.append("bob", u64::MAX).unwrap(), 2);
        let effects = Effects::open(&path).unwrap();
        assert_eq!(effects.append("alice", 0).unwrap(), 3);
        assert_eq!(effects.count("alice").unwrap(), 2);
        assert_eq!(effects.count("ali").unwrap(), 0);
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            "charge alice 4200\ncharge bob 18446744073709551615\ncharge alice 0\n"
        );
    }

    #[test]
    fn charges_at_once_get_distinct_line_numbers() {
        let dir = tempfile::tempdir().unwrap();
        let effects = Effects::open(&dir.path().join("effects")).unwrap();
        let mut numbers: Vec<usize> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| effects.append("alice", 1).unwrap())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        numbers.sort_unstable();
        assert_eq!(numbers, (1..=8).collect::<Vec<_>>());
    }

    #[test]
    fn a_name_that_would_forge_lines_is_no_customer() {
        assert!(is_customer("alice") && is_customer("zoë-7"));
        for name in ["", "a b", "a\ncharge bob 1", "a\tb", "a\u{0}", "a\u{2028}b"] {
            assert!(!is_customer(name), "{name:?}");
        }
    }
}

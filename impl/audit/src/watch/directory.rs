//! A directory: the contents of its files, and their names. Times and permissions don't count.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use sha2::{Digest, Sha256};
use walkdir::WalkDir;

use super::is_ignored;
use crate::error::AuditError;
use crate::leaves::leaves;
use crate::state::Item;

/// Files up to this size are kept, to tell what has changed in them.
const MOST_KEPT: u64 = 1024 * 1024;
const MOST_FILES: usize = 100_000;

pub(super) fn read(root: &Path, ignore: &[String]) -> Result<Vec<(String, Item)>, AuditError> {
    let wrong = |problem: String| AuditError::Watch { what: format!("directory {}", root.display()), problem };
    let mut items = Vec::new();
    let walk = WalkDir::new(root).min_depth(1).into_iter().filter_entry(|entry| {
        entry.path().strip_prefix(root).is_ok_and(|path| !is_ignored(&path.to_string_lossy(), ignore))
    });
    for entry in walk {
        let entry = match entry {
            Ok(entry) => entry,
            // It was there a moment ago: a temporary file of a write under way.
            Err(error) if error.io_error().is_some_and(|error| error.kind() == io::ErrorKind::NotFound) => continue,
            Err(error) => return Err(wrong(error.to_string())),
        };
        if items.len() == MOST_FILES {
            return Err(wrong(format!(
                "more than {MOST_FILES} files: watch one with less in it, or leave some out with --ignore"
            )));
        }
        let path = entry.path().strip_prefix(root).unwrap_or(entry.path()).to_string_lossy().into_owned();
        let kind = entry.file_type();
        if kind.is_dir() {
            items.push((format!("{path}/"), Item::directory()));
        } else if kind.is_file() {
            match file(entry.path()) {
                Ok(item) => items.push((path, item)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(wrong(format!("{path}: {error}"))),
            }
        } else if kind.is_symlink() {
            let to = std::fs::read_link(entry.path()).unwrap_or_default();
            items.push((path, Item::value(format!("→ {}", to.display()))));
        }
    }
    Ok(items)
}

fn file(path: &Path) -> io::Result<Item> {
    let mut file = File::open(path)?;
    let (mut digest, mut size, mut kept) = (Sha256::new(), 0_u64, Vec::new());
    let mut chunk = vec![0; 64 * 1024];
    loop {
        let read = file.read(&mut chunk)?;
        let Some(bytes) = chunk.get(..read).filter(|bytes| !bytes.is_empty()) else {
            break;
        };
        digest.update(bytes);
        size += bytes.len() as u64;
        if size <= MOST_KEPT {
            kept.extend_from_slice(bytes);
        }
    }
    let text = (size <= MOST_KEPT).then(|| String::from_utf8(kept).ok()).flatten();
    Ok(Item::file(digest.finalize().into(), size, text.map(|text| lines(path, &text))))
}

/// A text's lines; the values of a JSON document, which is often written anew as a whole.
fn lines(path: &Path, text: &str) -> Vec<String> {
    if path.extension().is_some_and(|extension| extension == "json")
        && let Ok(document) = serde_json::from_str(text)
    {
        return leaves(&document).into_iter().map(|(place, value)| format!("{place} {value}")).collect();
    }
    text.lines().map(str::to_owned).collect()
}

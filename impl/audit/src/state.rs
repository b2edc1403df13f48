//! What is watched, at one moment, and what has changed since another.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest, Sha256};

/// All that is watched: files, tables, places of an observer's answer, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct State(pub(crate) BTreeMap<String, Item>);

/// One thing that is watched.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Item {
    pub(crate) kind: Kind,
    digest: [u8; 32],
    /// Bytes, or rows.
    pub(crate) size: u64,
    /// Its lines or rows, if they are text and not too many.
    pub(crate) lines: Option<Vec<String>>,
}

/// What a thing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Directory,
    File,
    Table,
    Value,
}

impl Item {
    pub(crate) fn directory() -> Item {
        Item { kind: Kind::Directory, digest: [0; 32], size: 0, lines: None }
    }

    pub(crate) fn file(digest: [u8; 32], size: u64, lines: Option<Vec<String>>) -> Item {
        Item { kind: Kind::File, digest, size, lines }
    }

    /// Rows in any order: the order of a table means nothing.
    pub(crate) fn table(mut rows: Vec<String>) -> Item {
        rows.sort_unstable();
        let digest = Sha256::digest(rows.join("\n")).into();
        Item { kind: Kind::Table, digest, size: rows.len() as u64, lines: Some(rows) }
    }

    /// A table with more rows than are kept.
    pub(crate) fn large_table(digest: &str, size: u64) -> Item {
        Item { kind: Kind::Table, digest: Sha256::digest(digest).into(), size, lines: None }
    }

    pub(crate) fn value(text: String) -> Item {
        Item {
            kind: Kind::Value,
            digest: Sha256::digest(&text).into(),
            size: text.len() as u64,
            lines: Some(vec![text]),
        }
    }
}

/// How a thing differs.
#[derive(Clone, Debug)]
pub(crate) struct Change<'a> {
    pub(crate) name: &'a str,
    pub(crate) before: Option<&'a Item>,
    pub(crate) after: Option<&'a Item>,
}

/// What changes by itself, or doesn't count.
#[derive(Clone, Debug, Default)]
pub(crate) struct Noise {
    names: BTreeSet<String>,
    /// Names of things that come and go by themselves, without their numbers.
    patterns: BTreeSet<String>,
}

impl Noise {
    /// Whatever has changed between two states although nothing was called.
    pub(crate) fn add(&mut self, before: &State, after: &State) {
        for change in changes(before, after, &Noise::default()) {
            self.names.insert(change.name.to_owned());
            if change.before.is_none() || change.after.is_none() {
                self.patterns.insert(without_numbers(change.name));
            }
        }
    }

    fn covers(&self, name: &str) -> bool {
        self.names.contains(name) || (!self.patterns.is_empty() && self.patterns.contains(&without_numbers(name)))
    }

    /// Their names.
    pub(crate) fn names(&self) -> Vec<String> {
        self.names.iter().cloned().collect()
    }
}

/// What differs, apart from noise.
pub(crate) fn changes<'a>(before: &'a State, after: &'a State, noise: &Noise) -> Vec<Change<'a>> {
    let names: BTreeSet<&String> = before.0.keys().chain(after.0.keys()).collect();
    let changes = names.into_iter().filter_map(|name| {
        let change = Change { name, before: before.0.get(name), after: after.0.get(name) };
        (change.before != change.after && !noise.covers(name)).then_some(change)
    });
    changes.collect()
}

/// How often a text is there, in names and in contents.
pub(crate) fn occurrences(state: &State, text: &str) -> usize {
    let count = |(name, item): (&String, &Item)| {
        let lines = item.lines.iter().flatten();
        name.matches(text).count() + lines.map(|line| line.matches(text).count()).sum::<usize>()
    };
    state.0.iter().map(count).sum()
}

/// A text with `#` for each word that has a digit in it: numbers, times and generated ids are not the same twice.
pub(crate) fn without_numbers(text: &str) -> String {
    let mut shape = String::with_capacity(text.len());
    let mut word = String::new();
    for letter in text.chars().chain(['\n']) {
        if letter.is_ascii_alphanumeric() {
            word.push(letter);
            continue;
        }
        let has_digit = word.contains(|letter: char| letter.is_ascii_digit());
        shape.push_str(if has_digit { "#" } else { &word });
        word.clear();
        shape.push(letter);
    }
    shape.pop();
    shape
}

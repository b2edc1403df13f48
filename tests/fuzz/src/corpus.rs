//! Texts to begin from.

use std::fs;
use std::path::PathBuf;

use crate::choices::Choices;

/// Texts that are in the repository for this target: `corpus/TARGET`, in the order of their names. What was found once stays
/// there.
pub fn of(target: &str) -> Vec<Vec<u8>> {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    let mut files: Vec<PathBuf> = fs::read_dir(&directory)
        .unwrap_or_else(|error| panic!("{}: {error}", directory.display()))
        .map(|file| file.unwrap().path())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", directory.display());
    files.into_iter().map(|file| fs::read(file).unwrap()).collect()
}

/// One of the texts, changed in a few places.
pub fn changed(texts: &[Vec<u8>], choices: &mut Choices<'_>) -> Vec<u8> {
    let mut text = choices.pick(texts).clone();
    for _ in 0..=choices.below(6) {
        change(&mut text, texts, choices);
    }
    text
}

/// What a text often breaks at.
const TOKENS: [&[u8]; 24] = [
    b"\"",
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"=",
    b"\n",
    b"\0",
    b"\xff",
    b"\xc3\xa9",
    b"-",
    b"0",
    b"1e999",
    b"18446744073709551616",
    b"null",
    b"true",
    b"\\ud800",
    b"#",
    b"'",
    b"\"\"\"",
    b"\xe2\x80\xa8",
];

/// Changes a text in one place.
pub fn change(text: &mut Vec<u8>, texts: &[Vec<u8>], choices: &mut Choices<'_>) {
    let at = choices.below(text.len() + 1);
    let to = (at + choices.below(24)).min(text.len());
    match choices.below(7) {
        0 => {
            text.splice(at..at, choices.pick(&TOKENS).iter().copied());
        }
        1 => {
            text.splice(at..to, choices.pick(&TOKENS).iter().copied());
        }
        2 => drop(text.drain(at..to)),
        3 => {
            let again: Vec<u8> = text[at..to].to_vec();
            text.splice(at..at, again);
        }
        4 => {
            if let Some(byte) = text.get_mut(at) {
                *byte ^= 1 << choices.below(8);
            }
        }
        5 => text.truncate(at),
        _ => {
            // A line, or what there is of one, from another text.
            let other = choices.pick(texts);
            let from = choices.below(other.len() + 1);
            let piece: Vec<u8> = other[from..].iter().copied().take(choices.below(80)).collect();
            text.splice(at..at, piece);
        }
    }
}

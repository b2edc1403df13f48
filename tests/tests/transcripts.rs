//! Everything that `@modelcontextprotocol/server-everything` offers, asked for by the TypeScript SDKs: each message that a client
//! gets is, byte for byte, the one that it gets without the proxy. Only answers of guarded calls carry a mark, and the opened
//! session the word that keys are understood. Not compared where HTTP is involved: how many `tools/list_changed` come before a client
//! has opened the stream for such messages, which is chance without the proxy, too.
//!
//! A sample by default; `SETTLED_TRANSCRIPTS=full` takes each SDK with each revision on each transport.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod transcripts {
    pub mod compare;
    pub mod play;
}

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use comfy_table::{Table, presets::UTF8_FULL_CONDENSED};
use transcripts::compare::{Compared, compare};
use transcripts::play::{Link, SDKS, Spoken, Transcript, play};

const REVISIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
const WAYS: [(Link, Link); 4] =
    [(Link::Stdio, Link::Stdio), (Link::Http, Link::Http), (Link::Stdio, Link::Http), (Link::Http, Link::Stdio)];

fn all(full: bool) -> Vec<Spoken> {
    let mut spoken = Vec::new();
    for (place, sdk) in SDKS.into_iter().enumerate() {
        for (row, revision) in REVISIONS.into_iter().enumerate() {
            for (column, way) in WAYS.into_iter().enumerate() {
                // Each SDK with each revision, on each transport in turn; the current revision on all of them.
                if full || (place + row) % WAYS.len() == column || (place == 1 && row == 3) {
                    spoken.push(Spoken { sdk, revision, front: way.0, back: way.1 });
                }
            }
        }
    }
    spoken
}

/// Does it for all of them, some at once: they mostly wait.
fn together<T: Ord + Clone + Send + Sync, R: Send>(all: &[T], each: impl Fn(&T) -> R + Sync) -> BTreeMap<T, R> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                while let Some(one) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let came = each(one);
                    done.lock().unwrap().insert(one.clone(), came);
                }
            });
        }
    });
    done.into_inner().unwrap()
}

#[test]
fn the_same_transcript_through_the_proxy() {
    let only = std::env::var("SETTLED_TRANSCRIPTS").unwrap_or_default();
    let mut spoken = all(only == "full" || only.contains('>'));
    if only.contains('>') {
        spoken.retain(|spoken| only.split_whitespace().all(|word| spoken.to_string().contains(word)));
    }
    let mut direct: Vec<Spoken> = spoken.iter().map(Spoken::reference).collect();
    direct.sort();
    direct.dedup();
    let direct = together(&direct, |spoken| play(spoken, false));
    let guarded = together(&spoken, |spoken| play(spoken, true));

    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header([
        "client",
        "revision",
        "transport",
        "messages",
        "same bytes",
        "same but for the mark",
        "different",
    ]);
    let mut wrong = Vec::new();
    for (spoken, through) in &guarded {
        let compared = compare(&direct[&spoken.reference()], through, spoken.is_ordered());
        let Compared { messages, same, but_for_mark, differences } = &compared;
        table.add_row([
            format!("TypeScript SDK {}", spoken.sdk),
            spoken.revision.to_owned(),
            format!("{}>{}", spoken.front, spoken.back),
            messages.to_string(),
            same.to_string(),
            but_for_mark.to_string(),
            differences.len().to_string(),
        ]);
        wrong.extend(differences.iter().map(|difference| format!("{spoken}: {difference}")));
    }
    println!("{table}");
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/tests");
    let _ = std::fs::create_dir_all(directory)
        .and_then(|()| std::fs::write(format!("{directory}/transcripts.txt"), table.to_string()));
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// The comparison sees each kind of difference.
#[test]
fn a_difference_is_shown() {
    let of = |raws: &[&str]| Transcript {
        raws: raws.iter().map(|raw| (*raw).to_owned()).collect(),
        ..Transcript::default()
    };
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[],"n":1.0}}"#;
    let progress = r#"{"method":"notifications/progress","params":{"progressToken":1},"jsonrpc":"2.0"}"#;
    let direct = of(&[progress, answer]);
    let differences = |through: &[&str], ordered| compare(&direct, &of(through), ordered).differences.len();
    assert_eq!(differences(&[progress, answer], true), 0);
    let marked =
        r#"{"jsonrpc":"2.0","id":1,"result":{"content":[],"n":1.0,"_meta":{"io.settled/status":{"status":"done"}}}}"#;
    let compared = compare(&direct, &of(&[progress, marked]), true);
    assert_eq!((compared.same, compared.but_for_mark, compared.differences), (1, 1, Vec::new()));
    for through in [
        // A number written otherwise, a space, another result under the mark.
        vec![progress, r#"{"jsonrpc":"2.0","id":1,"result":{"content":[],"n":1}}"#],
        vec![progress, r#"{"jsonrpc":"2.0","id":1,"result":{"content":[], "n":1.0}}"#],
        vec![progress, r#"{"jsonrpc":"2.0","id":1,"result":{"n":1.0,"_meta":{"io.settled/status":{}}}}"#],
        // Lost, twice, late, invented.
        vec![answer],
        vec![progress, answer, answer],
        vec![answer, progress],
        vec![progress, answer, r#"{"method":"notifications/message","jsonrpc":"2.0"}"#],
    ] {
        assert!(differences(&through, false) > 0, "{through:?}");
    }
}

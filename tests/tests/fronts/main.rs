//! Client × transport × revision × fault: how often one wish is charged, without a guard and with one.
//!
//! `cargo test -p settled-tests --test fronts -- --nocapture` runs a sample in which each client meets each transport, each
//! revision it speaks and each fault, and prints it as a table; `SETTLED_FRONTS=full` runs all combinations, and each of them
//! without the guard, too. `SETTLED_FRONTS_ONLY='rmcp http>stdio'` runs those whose names have all these words.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod cell;
mod choose;
mod run;
mod scene;
mod table;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use cell::{Cell, Direct};
use run::Seen;

/// What came of a cell.
#[derive(Clone, Debug)]
pub enum Came {
    /// It was played to its end.
    Played(Seen),
    /// The test itself failed.
    Broke(String),
}

/// Plays all of these at once, as far as the machine allows: mostly, they wait.
fn all<C: Clone + Send + Sync>(cells: &[C], play: impl Fn(&C) -> Seen + Sync) -> Vec<(C, Came)> {
    let next = AtomicUsize::new(0);
    let played = Mutex::new(Vec::new());
    let threads = thread::available_parallelism().map_or(2, usize::from) * 2;
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(cell) = cells.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let came = match catch_unwind(AssertUnwindSafe(|| play(cell))) {
                        Ok(seen) => Came::Played(seen),
                        Err(panic) => Came::Broke(said(panic.as_ref())),
                    };
                    played.lock().unwrap().push((cell.clone(), came));
                }
            });
        }
    });
    played.into_inner().unwrap()
}

fn said(panic: &(dyn std::any::Any + Send)) -> String {
    let text =
        panic.downcast_ref::<String>().cloned().or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
    text.unwrap_or_else(|| "a panic without words".to_owned())
}

/// A fault that did not strike says nothing: once more, and then it is an error.
fn until_it_strikes(play: impl Fn() -> Seen) -> Seen {
    let first = play();
    if first.struck { first } else { play() }
}

#[test]
fn each_wish_is_charged_once() {
    let full = std::env::var("SETTLED_FRONTS").is_ok_and(|value| value == "full");
    let only = std::env::var("SETTLED_FRONTS_ONLY").unwrap_or_default();
    let mut cells = cell::all();
    if !only.is_empty() {
        cells.retain(|cell| only.split_whitespace().all(|word| cell.to_string().contains(word)));
    } else if !full {
        cells = choose::covering(&cells);
    }
    assert!(!cells.is_empty(), "nothing is called '{only}'");
    let without = if full || !only.is_empty() { cell::direct(&cells) } else { choose::one_for_each_fault(&cells) };

    let direct: BTreeMap<Direct, Came> =
        all(&without, |cell| until_it_strikes(|| run::direct(cell))).into_iter().collect();
    let guarded = all(&cells, |cell| until_it_strikes(|| run::guarded(cell)));

    let table = table::of(&guarded, &direct);
    println!("{table}");
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/tests");
    let _ = std::fs::create_dir_all(directory).and_then(|()| std::fs::write(format!("{directory}/fronts.txt"), &table));
    let wrong: Vec<String> = guarded
        .iter()
        .filter_map(|(cell, came)| Some(format!("{cell}: {}", problem(cell.fault.wishes(), came)?)))
        .chain(direct.iter().filter_map(|(cell, came)| Some(format!("{cell}: {}", direct_problem(cell, came)?))))
        .collect();
    assert!(wrong.is_empty(), "{} of {} cells:\n{}", wrong.len(), guarded.len() + direct.len(), wrong.join("\n\n"));
}

/// What is wrong with a guarded cell.
fn problem(wishes: usize, came: &Came) -> Option<String> {
    match came {
        Came::Broke(why) => Some(why.clone()),
        Came::Played(seen) if seen.charges != wishes => {
            Some(format!("{} charges for {wishes} wishes\n{}", seen.charges, seen.story))
        }
        Came::Played(seen) if !seen.struck => Some(format!("the fault did not strike\n{}", seen.story)),
        Came::Played(seen) if seen.lie.is_some() => Some(format!("{}\n{}", seen.lie.as_ref()?, seen.story)),
        Came::Played(_) => None,
    }
}

/// A fault that doubles nothing without the guard proves nothing with it.
fn direct_problem(cell: &Direct, came: &Came) -> Option<String> {
    match came {
        Came::Broke(why) => Some(why.clone()),
        Came::Played(seen) if !seen.struck => Some(format!("the fault did not strike\n{}", seen.story)),
        Came::Played(seen) if seen.charges < 2 && !cell.may_be_harmless() => {
            Some(format!("{} charges: it does no harm\n{}", seen.charges, seen.story))
        }
        Came::Played(_) => None,
    }
}

/// The sample leaves nothing out that it must have.
#[test]
fn the_sample_has_everything() {
    let (all, sample) = (cell::all(), choose::covering(&cell::all()));
    let pairs = |cells: &[Cell]| cells.iter().flat_map(choose::pairs).collect::<std::collections::BTreeSet<_>>();
    assert_eq!(pairs(&all), pairs(&sample));
    assert!(sample.len() * 4 < all.len(), "{} of {}", sample.len(), all.len());
    println!("{} of {} cells", sample.len(), all.len());
}

//! Client × operation × fault: how often one wish is charged, without the gateway and behind it.

mod cell;
mod play;
mod print;
mod workers;

use std::collections::BTreeMap;

use settled_tests::Fault;

use self::cell::{Cell, Way};
use self::play::Seen;

#[test]
fn each_wish_is_charged_once() {
    let full = std::env::var("SETTLED_GATEWAY").is_ok_and(|value| value == "full");
    let only = std::env::var("SETTLED_GATEWAY_ONLY").unwrap_or_default();
    let mut cells = cell::all();
    if !only.is_empty() {
        cells.retain(|cell| only.split_whitespace().all(|word| cell.to_string().contains(word)));
    } else if !full {
        cells = cell::sample(&cells);
    }
    assert!(!cells.is_empty(), "nothing is called '{only}'");
    let mut seen: BTreeMap<(Cell, Way), Seen> = BTreeMap::new();
    for batch in batches(&cells) {
        let batch = batch.as_slice();
        std::thread::scope(|scope| {
            let playing = Way::ALL.map(|way| (way, scope.spawn(move || play::all(batch, way))));
            for (way, playing) in playing {
                let played = playing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                seen.extend(played.into_iter().map(|(cell, its)| ((cell, way), its)));
            }
        });
    }
    let table = print::table(&cells, &seen);
    println!("{table}");
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/tests");
    let _ =
        std::fs::create_dir_all(directory).and_then(|()| std::fs::write(format!("{directory}/gateway.txt"), &table));
    let wrong: Vec<String> = seen
        .iter()
        .filter_map(|((cell, way), its)| Some(format!("{cell} {way:?}: {}\n{its:#?}", problem(*cell, *way, its)?)))
        .collect();
    assert!(wrong.is_empty(), "{} of {} went wrong:\n{}", wrong.len(), seen.len(), wrong.join("\n\n"));
}

/// Too many faults at once, and the gateway's budget of retries, a share of its requests, would have to be waited for: a world of
/// its own for each fault, then.
fn batches(cells: &[Cell]) -> Vec<Vec<Cell>> {
    const TOGETHER: usize = 120;
    if cells.len() <= TOGETHER {
        return vec![cells.to_vec()];
    }
    let of = |fault| cells.iter().copied().filter(|cell| cell.fault == fault).collect::<Vec<_>>();
    Fault::ALL.map(of).into_iter().filter(|batch| !batch.is_empty()).collect()
}

/// What is wrong with what was seen.
fn problem(cell: Cell, way: Way, seen: &Seen) -> Option<String> {
    if seen.strikes != cell.strikes() {
        return Some(format!("the fault struck {} times", seen.strikes));
    }
    if way == Way::Direct {
        return match seen.charges {
            // A fault that doubles nothing without the gateway proves nothing behind it.
            0 | 1 if !cell.may_be_harmless() => Some(format!("{} charges: it does no harm", seen.charges)),
            _ => None,
        };
    }
    if seen.charges != cell.charges(way) {
        return Some(format!("{} charges for one wish", seen.charges));
    }
    if let Some(lie) = &seen.lie {
        return Some(lie.clone());
    }
    match seen.told {
        told if cell.may_end_with(way, told) => None,
        told => Some(format!("the caller was told last: {told}")),
    }
}

/// The sample leaves no client, no operation and no fault out, and no pair of client and fault.
#[test]
fn the_sample_has_everything() {
    let pairs = |cells: &[Cell]| {
        let its = |cell: &Cell| {
            [
                format!("{:?} {}", cell.client, cell.fault),
                format!("{:?} {}", cell.client, cell.operation),
                format!("{} {:?}", cell.fault, cell.operation.is_stream()),
            ]
        };
        cells.iter().flat_map(its).collect::<std::collections::BTreeSet<_>>()
    };
    let (all, sample) = (cell::all(), cell::sample(&cell::all()));
    assert_eq!(pairs(&all), pairs(&sample));
    assert!(sample.len() * 2 < all.len(), "{} of {}", sample.len(), all.len());
    println!("{} of {} cells", sample.len(), all.len());
}

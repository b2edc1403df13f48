//! A process is killed at one place, and its successor at another.

use std::sync::Arc;

use settled_sweeps::places::Place;
use settled_sweeps::sweep::{Process, Sweep, is_full};
use settled_sweeps::table::show;

/// So many pairs of each sweep, if not all of them.
const SAMPLE: u64 = 16;

#[test]
fn a_process_and_its_successor() {
    let _alone = crate::alone();
    let (file, postgres, redis) = (Arc::new(Place::File), Arc::new(Place::postgres()), Arc::new(Place::redis()));
    let sweeps = [
        (&file, "opaque", Process::Holder, true),
        (&file, "deduplicates", Process::Holder, true),
        (&file, "opaque", Process::Client, true),
        (&file, "sealable", Process::Holder, false),
        (&file, "observable", Process::Client, false),
        (&postgres, "opaque", Process::Guard, false),
        (&postgres, "transactional", Process::Guard, false),
        (&redis, "opaque", Process::Guard, false),
        (&redis, "deduplicates", Process::Guard, false),
    ];
    let mut rows = Vec::new();
    for (place, kind, process, all) in sweeps {
        let sweep = Sweep { place: Arc::clone(place), kind, process, stride: 1, from: 1 };
        let points = sweep.little_points();
        let pairs = (1..=points).flat_map(|first| (1..=points).map(move |second| (first, second)));
        // Prime to the number of points: pairs all over the table.
        let sample = if is_full() { SAMPLE * 25 } else { SAMPLE };
        let stride = if is_full() && all { 1 } else { (points * points / sample) | 1 };
        let mut row = sweep.pairs(pairs.step_by(usize::try_from(stride).unwrap().max(1)).collect());
        row.points = points;
        rows.push(row);
    }
    show("kill-pairs.txt", ["process", "kills"], &rows);
}

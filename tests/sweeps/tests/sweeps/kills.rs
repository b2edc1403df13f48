//! Every process of a scenario is killed at every place where that is possible: nothing acknowledged is lost, nothing happens
//! twice, and everyone is told the truth.

use std::sync::Arc;

use settled_sweeps::places::Place;
use settled_sweeps::sweep::{Process, Sweep, in_parallel, is_full};
use settled_sweeps::table::show;

const KINDS: [&str; 6] = ["opaque", "observable", "sealable", "deduplicates", "idempotent", "read-only"];

#[test]
fn every_process_at_every_point() {
    let _alone = crate::alone();
    let only = std::env::var("SETTLED_SWEEP_ONLY").unwrap_or_default();
    let mut sweeps = Vec::new();
    let places = [Place::File, Place::postgres(), Place::redis()].map(Arc::new);
    for place in places {
        let kinds = KINDS.iter().copied().chain((place.name() == "postgres").then_some("transactional"));
        for kind in kinds {
            let processes = match &*place {
                Place::File => vec![Process::Holder, Process::Client, Process::Tool],
                _ => vec![Process::Guard, Process::Tool],
            };
            for process in processes {
                // Its effect is the database's.
                if kind == "transactional" && process == Process::Tool {
                    continue;
                }
                // The tool passes few points.
                let stride = match process {
                    _ if is_full() => 1,
                    Process::Tool => 9,
                    _ => 19,
                };
                // It is asked about again and again.
                let stride = if kind == "observable" && !is_full() { 2 * stride + 1 } else { stride };
                let (place, from) = (Arc::clone(&place), 1 + sweeps.len() as u64 * 5 % stride);
                let sweep = Sweep { place, kind, process, stride, from };
                if sweep.name().contains(&only) {
                    sweeps.push(sweep);
                }
            }
        }
    }
    let mut rows = in_parallel(sweeps, |sweep| sweep.singles());
    rows.sort_by(|a, b| (a.ledger, &a.process, a.kind).cmp(&(b.ledger, &b.process, b.kind)));
    show("kill-sweep.txt", ["process", "kills"], &rows);
}

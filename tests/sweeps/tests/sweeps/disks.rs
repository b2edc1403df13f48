//! The disk of the process that holds a directory fails: it tells the truth, sends nothing whose record it can't store, and its
//! successor finds everything that was acknowledged.

use settled_sweeps::places::Place;
use settled_sweeps::scenario::{Order, everything};
use settled_sweeps::scene::{Plot, Scene};
use settled_sweeps::seat::Fate;
use settled_sweeps::sweep::{in_parallel, is_full};
use settled_sweeps::table::{Row, show};

/// `N` is the place of the operation at which it begins.
const FAULTS: [&str; 14] = [
    "any:N:EIO",
    "any:N+:EROFS",
    "any:N+:ENOSPC",
    "any:N:EMFILE",
    "write:N:ENOSPC",
    "write:N+:EDQUOT",
    "write:N:torn",
    "write:N:short",
    "write:N+:short",
    "fsync:N:EIO",
    "fsync:N:lost",
    "fsync:N:slow",
    "create:N:ENOSPC",
    "syncdir:N:EIO",
];

fn sweep(fault: &'static str, kind: &'static str, stride: usize, from: usize) -> Row {
    let mut row = Row { ledger: "file", kind, process: fault.to_owned(), ..Row::default() };
    let mut at = from;
    loop {
        let first = vec![Fate::disk(&fault.replace(":N", &format!(":{at}")))];
        let scene = Scene::set(&Place::File, kind, Plot { first, ..Plot::default() });
        let ended = everything(scene, Order::TestedFirst);
        row.runs += 1;
        row.kills += usize::from(ended.faults > 0);
        row.take(ended.truth);
        if ended.faults == 0 {
            return row;
        }
        row.points = at as u64;
        at += stride;
    }
}

#[test]
fn every_operation_of_a_disk() {
    let _alone = crate::alone();
    let kinds = if is_full() { vec!["opaque", "deduplicates", "sealable"] } else { vec!["opaque"] };
    let mut sweeps = Vec::new();
    for fault in FAULTS {
        for kind in &kinds {
            let stride = match fault.split(':').next() {
                _ if is_full() => 1,
                Some("any") => 13,
                Some("write" | "fsync") => 7,
                _ => 1,
            };
            sweeps.push((fault, *kind, stride, 1 + sweeps.len() * 3 % stride));
        }
    }
    let mut rows = in_parallel(sweeps, |(fault, kind, stride, from)| sweep(fault, kind, stride, from));
    rows.sort_by(|a, b| (&a.process, a.kind).cmp(&(&b.process, b.kind)));
    show("disk-sweep.txt", ["fault", "faulty"], &rows);
}

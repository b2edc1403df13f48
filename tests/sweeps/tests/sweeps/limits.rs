//! Disks that are really full, and processes that run out of something.

use std::path::Path;
use std::process::Command;
use std::thread;

use settled_ledger_tests::stage::wire::Answer;
use settled_sweeps::places::Place;
use settled_sweeps::scenario::{Order, everything};
use settled_sweeps::scene::{Ended, Plot, Scene};
use settled_sweeps::seat::Fate;
use settled_sweeps::sweep::in_parallel;
use settled_sweeps::table::{Row, show};

/// Many calls at once, more than there are file descriptors; then again at a successor that has enough.
fn crowd(scene: Scene) -> Ended {
    let requests: Vec<_> = (0..100).map(|number| scene.request(&format!("{number}.0"))).collect();
    drop(scene.first.guard());
    thread::scope(|scope| {
        for request in &requests {
            scope.spawn(|| scene.first.call_once(request));
        }
    });
    scene.first.end();
    thread::scope(|scope| {
        for request in &requests {
            scope.spawn(|| scene.first.call(request));
        }
    });
    scene.end()
}

fn tested_first(scene: Scene) -> Ended {
    everything(scene, Order::TestedFirst)
}

/// What a shell takes from the process, with several amounts of it, and what the process then does.
type Limit = (&'static str, &'static [u32], fn(Scene) -> Ended);

const LIMITS: [Limit; 4] = [
    ("ulimit -n N", &[12, 18, 24, 40], crowd),
    // The process is told, or killed.
    ("ulimit -f N; trap '' XFSZ", &[1, 100, 1_500], tested_first),
    ("ulimit -f N", &[1, 1_500], tested_first),
    ("ulimit -v N", &[30_000, 60_000, 90_000, 120_000], tested_first),
];

#[test]
fn a_process_runs_out() {
    let _alone = crate::alone();
    let rows = in_parallel(LIMITS.into(), |(limit, amounts, act)| {
        let mut row = Row { ledger: "file", kind: "opaque", process: limit.to_owned(), ..Row::default() };
        for amount in amounts {
            let first = vec![Fate::shell(&limit.replace('N', &amount.to_string()))];
            let plot = Plot { first, unwritten: limit.starts_with("ulimit -f"), ..Plot::default() };
            let ended = act(Scene::set(&Place::File, "opaque", plot));
            row.runs += 1;
            // Where there were too few descriptors for all, some were lost on the way.
            let unknown = limit.starts_with("ulimit -n") && ended.truth.answers.contains_key("Unknown");
            row.kills += usize::from(ended.trouble > 0 || unknown);
            row.take(ended.truth);
        }
        row.points = row.runs as u64;
        row
    });
    show("limits.txt", ["limit", "met"], &rows);
}

/// A file system of its own.
struct Mount(tempfile::TempDir);

impl Mount {
    fn new(options: &str) -> Result<Mount, String> {
        let directory = tempfile::tempdir().unwrap();
        mount(directory.path(), options).map(|()| Mount(directory))
    }

    fn change(&self, options: &str) {
        mount(self.0.path(), &format!("remount,{options}")).unwrap();
    }
}

fn mount(at: &Path, options: &str) -> Result<(), String> {
    let done = Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(at).output();
    let done = done.map_err(|error| error.to_string())?;
    done.status.success().then_some(()).ok_or_else(|| String::from_utf8_lossy(&done.stderr).trim().to_owned())
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Lazily: whoever still has it open doesn't keep it there.
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

/// Each record has 200 kB, and the disk a little more than a megabyte. Then it gets larger.
fn fills(disk: &Mount) -> Ended {
    let scene = Scene::set(&Place::Directory(disk.0.path().to_owned()), "opaque", Plot::default());
    let long = |id: u32| scene.request(&format!("{id}.0")).of(format!("{id}").repeat(100_000));
    let mut answers = Vec::new();
    for id in 0..9 {
        answers.extend(scene.first.call_once(&long(id)).map(|told| told.answer));
    }
    assert!(answers.contains(&Answer::Done) && answers.contains(&Answer::NotSent), "{answers:?}");
    disk.change("size=16m");
    for id in 0..9 {
        assert_eq!(scene.first.call(&long(id)).answer, Answer::Done);
    }
    scene.end()
}

#[test]
fn a_disk_is_full() {
    let _alone = crate::alone();
    let disk = match Mount::new("size=1200k") {
        Ok(disk) => disk,
        Err(why) => return println!("SKIPPED: no file system can be mounted here: {why}"),
    };
    let mut full = Row { ledger: "file", kind: "opaque", process: "1.2 MB".to_owned(), ..Row::default() };
    let ended = fills(&disk);
    (full.runs, full.points, full.kills) = (1, 1, ended.trouble);
    full.take(ended.truth);
    let mut inodes = Row { ledger: "file", kind: "opaque", process: "few inodes".to_owned(), ..Row::default() };
    for number in 2..9 {
        let disk = Mount::new(&format!("nr_inodes={number}")).unwrap();
        let first = vec![Fate { may_not_start: true, ..Fate::default() }];
        let scene =
            Scene::set(&Place::Directory(disk.0.path().to_owned()), "opaque", Plot { first, ..Plot::default() });
        let one = scene.request("one.0");
        let told = scene.first.try_to_start().then(|| scene.first.call_once(&one)).flatten();
        disk.change("nr_inodes=100");
        scene.first.call(&one);
        let ended = scene.end();
        inodes.runs += 1;
        inodes.points = number;
        inodes.kills += usize::from(told.is_none_or(|told| told.answer != Answer::Done));
        inodes.take(ended.truth);
    }
    show("full-disks.txt", ["disk", "met"], &[full, inodes]);
}

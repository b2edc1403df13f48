//! Random devices, clocks, partitions, crashes of disk and process: in the end all are equal, each operation was applied once, and
//! nothing that was acknowledged to a device's user is lost.

use std::collections::{BTreeMap, HashMap, HashSet};

use fastrand::Rng;
use settled_ledger_file::log::disk::{FaultDisk, Faults};
use settled_protocol::merge::{Change, HybridTime, Merged, OpId, Value, View};
use settled_sync::Device;
use std::sync::Arc;

use crate::reference::Reference;
use crate::support::{Clock, field, name, options, schema, set};

const DAY: i64 = 86_400_000;

/// A device and what its user was told.
struct Part {
    label: String,
    disk: FaultDisk,
    clock: Clock,
    ahead: i64,
    device: Option<Arc<Device>>,
    /// What was acknowledged, in order, with all that had been confirmed to the device by then.
    acknowledged: Vec<(OpId, HashSet<OpId>)>,
    confirmed: HashSet<OpId>,
}

impl Part {
    fn new(label: String, random: &mut Rng) -> Self {
        let ahead = match random.u8(..4) {
            0 => random.i64(-3 * DAY..3 * DAY),
            _ => random.i64(-120_000..120_000),
        };
        let disk = FaultDisk::new(random.u64(..));
        Self {
            label,
            disk,
            clock: Clock::default(),
            ahead,
            device: None,
            acknowledged: vec![],
            confirmed: HashSet::new(),
        }
    }

    /// The device, opened if it is not: what a user does who starts the program again.
    fn open(&mut self, now: u64) -> Option<Arc<Device>> {
        self.clock.set((now as i64 + self.ahead) as u64);
        if self.device.is_none() {
            self.device =
                Device::on(Arc::new(self.disk.clone()), schema(), options(&self.label, &self.clock)).ok().map(Arc::new);
        }
        self.device.clone()
    }

    fn end(&mut self, power: bool) {
        self.device = None;
        if power { self.disk.crash() } else { self.disk.kill() }
    }
}

fn change(random: &mut Rng) -> (&'static str, Change) {
    let target = ["task/1", "task/2", "votes"][random.usize(..3)];
    if target == "votes" {
        return (target, Change::Count(random.i64(-3..4)));
    }
    let number = Value::Number(random.i64(0..5));
    let change = match random.u8(..5) {
        0 => field("title", Change::Set(number)),
        1 => field("finished", Change::Set(number)),
        2 => field("best", Change::Set(number)),
        3 => field("seen", Change::Add(number)),
        _ => field("tags", Change::Add(number)),
    };
    (target, change)
}

fn act(part: &mut Part, random: &mut Rng, now: u64) {
    let known = part.confirmed.clone();
    let Some(device) = part.open(now) else { return };
    let done = if random.u8(..8) == 0 {
        device.remove(name("task/1"), &[name("tags")], Value::Number(random.i64(0..5)))
    } else {
        let (target, change) = change(random);
        device.act(name(target), change)
    };
    match done {
        Ok(id) => part.acknowledged.push((id, known)),
        // A disk that has failed: the program ends, and is started again.
        Err(_) => part.end(false),
    }
}

/// One exchange, any message of which may be lost or doubled.
fn exchange(part: &mut Part, server: &mut Reference, random: &mut Rng, now: u64, faults: bool) {
    let mut lost = || faults && random.u8(..5) == 0;
    let (request_lost, reply_lost, twice, pull_lost) = (lost(), lost(), lost(), lost());
    let batch = if faults { 1 + random.usize(..5) } else { 100 };
    let Some(device) = part.open(now) else { return };
    if let Some(upload) = device.upload(0, batch)
        && !request_lost
    {
        if twice {
            server.upload(&upload, now);
        }
        let uploaded = server.upload(&upload, now);
        if !reply_lost && device.uploaded(&uploaded).is_err() {
            part.end(false);
            return;
        }
        if !reply_lost {
            part.confirmed.extend(uploaded.answers.iter().map(|answer| answer.op_id));
        }
    }
    if !pull_lost {
        let pulled = server.pull(device.cursor(), if faults { 3 } else { 1000 });
        if device.pulled(&pulled).is_err() {
            part.end(false);
            return;
        }
        part.confirmed.extend(pulled.operations.iter().map(|applied| applied.operation.op_id));
    }
}

fn run(seed: u64) -> (usize, usize) {
    let mut random = Rng::with_seed(seed);
    let mut server = Reference::new(schema());
    let mut parts: Vec<Part> =
        (0..random.usize(2..5)).map(|number| Part::new(format!("d{number}"), &mut random)).collect();
    let mut now = 1_000 * DAY as u64;
    for _ in 0..random.usize(20..120) {
        now += random.u64(..5_000);
        let at = random.usize(..parts.len());
        let part = &mut parts[at];
        match random.u8(..20) {
            0 => part.end(true),
            1 => part.end(false),
            2 => part.ahead = random.i64(-2 * DAY..2 * DAY),
            3 => {
                let nth = Some(random.u64(1..4));
                let (fail_write, fail_sync) = if random.bool() { (nth, None) } else { (None, nth) };
                part.disk.set_faults(Faults {
                    fail_write,
                    fail_sync,
                    short_writes: random.bool(),
                    ..Faults::default()
                });
            }
            4 => now += DAY as u64 / 2,
            5..12 => act(part, &mut random, now),
            _ => exchange(part, &mut server, &mut random, now, true),
        }
    }
    // Everybody is well again, and there is time.
    for part in &mut parts {
        part.end(false);
    }
    for _ in 0..40 {
        for part in &mut parts {
            exchange(part, &mut server, &mut random, now, false);
        }
    }
    judge(seed, &mut parts, &server, now);
    (server.log.len(), server.log.iter().filter(|applied| applied.redated).count())
}

fn judge(seed: u64, parts: &mut [Part], server: &Reference, now: u64) {
    let mut times: HashMap<OpId, HybridTime> = HashMap::new();
    let mut states: BTreeMap<_, Merged> = BTreeMap::new();
    for applied in &server.log {
        let operation = &applied.operation;
        assert!(times.insert(operation.op_id, operation.time).is_none(), "seed {seed}: applied twice: {operation:?}");
        let state =
            states.entry(operation.target.clone()).or_insert_with(|| schema().nothing(&operation.target).unwrap());
        state.apply(operation).unwrap();
    }
    let expected: BTreeMap<_, View> = states.iter().map(|(target, state)| (target.clone(), state.view())).collect();
    for part in parts {
        let label = part.label.clone();
        let device = part.open(now).unwrap();
        assert_eq!(device.pending(), 0, "seed {seed}: {label} has not sent everything");
        assert_eq!(device.refused(), [], "seed {seed}: {label}");
        assert_eq!(device.views(), expected, "seed {seed}: {label} differs");
        let mut last = HybridTime::default();
        for (id, known) in &part.acknowledged {
            let time = *times.get(id).unwrap_or_else(|| panic!("seed {seed}: {label} lost {id}"));
            assert!(time > last, "seed {seed}: {label}: {id} at {time} is not after its own last one at {last}");
            for cause in known {
                assert!(
                    times[cause] < time,
                    "seed {seed}: {label}: {id} at {time} is not after {cause} at {}",
                    times[cause]
                );
            }
            last = time;
        }
    }
}

#[test]
fn all_converge_and_nothing_is_lost_or_repeated() {
    let (mut applied, mut redated) = (0, 0);
    for seed in 0..300 {
        let (operations, dated) = run(seed);
        applied += operations;
        redated += dated;
    }
    println!("{applied} operations applied, {redated} of them redated");
    assert!(redated * 20 > applied, "too few clocks were off: {redated} of {applied}");
}

#[test]
fn the_judge_notices() {
    // What the server would do if it took the last to arrive for the latest.
    let mut server = Reference::new(schema());
    let mut random = Rng::with_seed(1);
    let mut parts: Vec<Part> = (0..2).map(|number| Part::new(format!("d{number}"), &mut random)).collect();
    let now = 1_000 * DAY as u64;
    for (number, part) in parts.iter_mut().enumerate() {
        part.ahead = 0;
        part.open(now + number as u64).unwrap().act(name("task/1"), field("title", set(number as i64))).unwrap();
    }
    for _ in 0..3 {
        parts.iter_mut().for_each(|part| exchange(part, &mut server, &mut random, now, false));
    }
    judge(0, &mut parts, &server, now);
    server.log[0].operation.time.millis += 10;
    let noticed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| judge(0, &mut parts, &server, now)));
    assert!(noticed.is_err(), "a state that is not the fold of the server's operations was taken for equal");
}

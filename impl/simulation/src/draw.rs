//! Drawing a plan from a seed: each run has some kinds of faults, at rates of its own, and lacks the others.

use fastrand::Rng;
use settled_protocol::{Ends, Millis};

use crate::fault::{Fault, FaultAt};
use crate::plan::{
    CallPlan, HORIZON, Kind, LONGEST_QUEUE, LONGEST_STOP, LONGEST_STORE, LedgerKind, Plan, Plant, Profile, Rates,
    ToolPlan,
};
use crate::proxy;

impl Plan {
    /// The run of a seed.
    pub fn draw(seed: u64, profile: Profile, plant: Option<Plant>) -> Plan {
        let mut random = Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5e77_1ed0);
        let random = &mut random;
        let ledger = [LedgerKind::Memory, LedgerKind::Postgres, LedgerKind::File, LedgerKind::File][random.usize(..4)];
        let guards = random.usize(1..=3);
        let load = random.u64(3_000..=12_000);
        let tools: Vec<ToolPlan> = (0..random.usize(1..=3)).map(|_| tool(random, ledger)).collect();
        let mut rates = Rates::default();
        let (some, most) = match profile {
            Profile::Calm => (0.3, 30),
            Profile::Stormy => (0.6, 200),
        };
        for (_, rate) in rates.each() {
            if random.f64() < some {
                *rate = random.u32(1..=most);
            }
        }
        let calls = calls(random, &tools, guards, load);
        let faults = faults(random, profile, ledger, guards, load);
        let plan = Plan {
            seed,
            plant,
            ledger,
            proxied: false,
            guards,
            lease: random.u64(600..=5_000),
            segment: random.u64(2..=32) << 10,
            load,
            tools,
            rates,
            calls,
            faults,
        };
        // Defects are put into what proxies decide for themselves.
        if random.u8(..5) == 1 && plant.is_none() { proxy::draw(random, plan) } else { plan }
    }
}

fn tool(random: &mut Rng, ledger: LedgerKind) -> ToolPlan {
    let kind = loop {
        // Opaque and observable ones have most to lose, and a transaction is one with the ledger's server.
        let kinds = [&Kind::ALL[..], &[Kind::Opaque, Kind::Observable, Kind::Transactional]].concat();
        let kind = kinds[random.usize(..kinds.len())];
        if kind != Kind::Transactional || ledger != LedgerKind::File {
            break kind;
        }
    };
    let (transit, takes) = (random.u64(1..=400), random.u64(1..=1_500));
    let longest = 2 * transit + takes;
    let own_key = random.bool();
    ToolPlan {
        kind,
        errors_final: random.u8(..4) == 0,
        remembers: random.bool(),
        ends: match own_key {
            true => Ends::WithWindow,
            false => [Ends::OnFailure, Ends::OnDelivery][random.usize(..2)],
        },
        window: (random.u8(..3) == 0)
            .then(|| HORIZON + LONGEST_STOP + LONGEST_STORE + LONGEST_QUEUE + random.u64(5_000..=15_000)),
        tombstone: random.bool().then(|| random.u64(5_000..=20_000)),
        resource: if kind == Kind::Idempotent { random.u8(..4) > 0 } else { random.u8(..4) == 0 },
        transit,
        takes,
        timeout: random.u64(longest / 3..=3 * longest) + 20,
        settle: random.u64(500..=6_000),
        attempts: random.u32(1..=5),
        checks: random.u32(1..=8),
        limit: random.u64(10_000..=90_000),
    }
}

fn calls(random: &mut Rng, tools: &[ToolPlan], guards: usize, load: Millis) -> Vec<CallPlan> {
    let mut calls = Vec::new();
    for wish in 0..random.u32(2..=14) {
        let (first, tool) = (random.u64(..load), random.usize(..tools.len()));
        let callers = [1, 1, 1, 2, 2, 4][random.usize(..6)];
        for caller in 0..callers {
            // Half of those who ask for the same do so at the very same time.
            let late = if caller == 0 || random.bool() { 0 } else { random.u64(..HORIZON / 2) };
            calls.push(CallPlan {
                at: first + late,
                wish,
                tool,
                guard: random.usize(..guards),
                patience: random.u64(200..=6_000),
                asks: random.u32(1..=4),
                cancels: (random.u8(..8) == 0).then(|| random.u64(..1_000)),
                other: caller > 0 && random.u8(..8) == 0,
            });
        }
    }
    calls
}

fn faults(random: &mut Rng, profile: Profile, ledger: LedgerKind, guards: usize, load: Millis) -> Vec<FaultAt> {
    let on_disk = ledger == LedgerKind::File;
    let kinds: Vec<usize> = (0..12).filter(|_| random.f64() < 0.5).collect();
    let most = if profile == Profile::Calm { 3 } else { 10 };
    let mut faults = Vec::new();
    for _ in 0..random.usize(..=most) {
        if kinds.is_empty() {
            break;
        }
        let longest = LONGEST_STOP / [30, 6, 1][random.usize(..3)];
        let (guard, pause) = (random.usize(..guards), random.u64(50..=longest));
        let fault = match kinds[random.usize(..kinds.len())] {
            0 => Fault::Kill { guard, down: pause },
            1 => Fault::Stop { guard, pause },
            2 => Fault::CutLedger { guard, pause },
            3 => Fault::CutTools { guard, pause },
            4 => Fault::LedgerDown { pause },
            5 => Fault::PowerFails { down: pause },
            6 if on_disk => Fault::SyncFails { nth: random.u64(1..=6) },
            7 if on_disk => Fault::WriteFails { nth: random.u64(1..=6) },
            8 if on_disk => Fault::ShortWrites,
            9 if on_disk => Fault::DiskFull { left: random.u64(..4_000), pause },
            10 if on_disk => Fault::KillHolder { after: random.u64(1..=20), power: random.bool() },
            11 => {
                let by = i64::try_from(random.u64(..600_000)).unwrap_or(0);
                Fault::ClockSet { guard, by: if random.bool() { by } else { -by } }
            }
            _ => Fault::Kill { guard, down: pause },
        };
        faults.push(FaultAt { at: random.u64(..load), fault });
    }
    faults.sort_by_key(|fault| fault.at);
    faults
}

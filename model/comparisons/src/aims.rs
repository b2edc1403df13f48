//! What the checker is to be, and whether it is.

use serde::Serialize;

use crate::suite::{Group, Outcome, Who};

/// One aim, with what was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Aim {
    /// What is aimed at.
    pub aim: String,
    /// What was measured.
    pub measured: String,
    /// Whether it is met; `None`: nothing was measured that says so.
    pub met: Option<bool>,
}

/// Memory is looked at above this many states: below, it is buffers of fixed size.
const MANY: usize = 100_000;

/// All aims.
pub fn aims(outcomes: &[Outcome]) -> Vec<Aim> {
    let mut aims = vec![not_safe(outcomes), two_of_each(outcomes)];
    aims.extend(against(outcomes, Who::Stateright, "at least 5 times as fast to the verdict as plain stateright", 5.0));
    aims.extend(against(
        outcomes,
        Who::Spin,
        "ahead of Spin at the same bounds, translating and compiling included",
        1.0,
    ));
    aims.push(per_core(outcomes));
    aims.push(memory(outcomes));
    aims
}

fn not_safe(outcomes: &[Outcome]) -> Aim {
    let slowest = outcomes.iter().filter(|its| its.group == Group::Unsafe).map(|its| its.row.seconds);
    let slowest = slowest.max_by(f64::total_cmp);
    Aim {
        aim: "every protocol of the library that is not safe is found out within 1 s".into(),
        measured: slowest.map_or_else(|| "none".into(), |seconds| format!("at most {seconds:.2} s")),
        met: slowest.map(|seconds| seconds < 1.0),
    }
}

fn two_of_each(outcomes: &[Outcome]) -> Aim {
    let all: Vec<_> = outcomes.iter().filter(|its| its.group == Group::TwoOfEach).collect();
    let in_time = |its: &&&Outcome| its.finished && its.row.seconds < 10.0;
    let late: Vec<_> = all.iter().filter(|its| !in_time(its)).map(|its| its.row.what.as_str()).collect();
    let met = (!all.is_empty()).then_some(late.is_empty());
    let mut measured = format!("{} of {}", all.len() - late.len(), all.len());
    if !late.is_empty() {
        measured += &format!("; not: {}", late.join("; "));
    }
    Aim { aim: "two operations, two guards, two faults of each kind: decided within 10 s, each policy that reckons with no time".into(), measured, met }
}

/// The same model at the same bounds: our time to the verdict, and the fastest of the other's.
fn against(outcomes: &[Outcome], who: Who, aim: &str, least: f64) -> Vec<Aim> {
    let ours = outcomes.iter().filter(|its| its.who == Who::Settled && its.finished);
    let pairs = ours.filter_map(|ours| {
        let same = |its: &&Outcome| its.who == who && its.row.what == ours.row.what;
        let theirs = |finished| {
            let all = outcomes.iter().filter(same).filter(move |its| its.finished == finished);
            all.map(|its| its.row.seconds).min_by(f64::total_cmp)
        };
        let (seconds, bound) = match (theirs(true), theirs(false)) {
            (Some(seconds), _) => (seconds, ""),
            (None, seconds) => (seconds?, "more than "),
        };
        let ratio = seconds / ours.row.seconds.max(1e-6);
        // A run that was cut short shows only how slow it is at least.
        let met = if bound.is_empty() || ratio >= least { Some(ratio >= least) } else { None };
        let times = if ratio < 10.0 { format!("{ratio:.1}") } else { format!("{ratio:.0}") };
        Some(Aim { aim: format!("{aim}: {}", ours.row.what), measured: format!("{bound}{times} times"), met })
    });
    pairs.collect()
}

fn per_core(outcomes: &[Outcome]) -> Aim {
    let speed = |who, engine: &str| {
        let its = outcomes
            .iter()
            .find(|its| its.group == Group::TwoPhaseCommit && its.who == who && its.row.engine.contains(engine));
        its.map(|its| its.row.states_per_second)
    };
    let ratio = speed(Who::SettledUnreduced, "1 thread")
        .zip(speed(Who::Stateright, "breadth first, 1 thread"))
        .map(|(ours, theirs)| ours / theirs);
    Aim {
        aim: "without reductions, as many states a second on one thread as stateright breadth first: two-phase commit"
            .into(),
        measured: ratio.map_or_else(|| "nothing".into(), |ratio| format!("{ratio:.1} times as many")),
        met: ratio.map(|ratio| ratio >= 1.0),
    }
}

fn memory(outcomes: &[Outcome]) -> Aim {
    let large = outcomes
        .iter()
        .filter(|its| its.who == Who::Settled && its.row.unique_states > MANY)
        .filter_map(|its| Some((its.row.bytes_per_state?, its.row.what.as_str())));
    let most = large.max_by(|a, b| a.0.total_cmp(&b.0));
    Aim {
        aim: "at most 64 bytes for each distinct state, where there are more than 100,000".into(),
        measured: most
            .map_or_else(|| "no run was that large".into(), |(bytes, what)| format!("at most {bytes:.0} ({what})")),
        met: most.map(|(bytes, _)| bytes <= 64.0),
    }
}

/// The aims as lines of text.
pub fn lines(aims: &[Aim]) -> String {
    let sign = |met| match met {
        Some(true) => "✓",
        Some(false) => "✗",
        None => "?",
    };
    let lines: Vec<_> = aims.iter().map(|its| format!("{} {}: {}", sign(its.met), its.aim, its.measured)).collect();
    lines.join("\n")
}

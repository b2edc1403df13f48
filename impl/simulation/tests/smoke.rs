#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]
use settled_simulation::*;
#[test]
fn smoke() {
    let from: u64 = std::env::var("FROM").ok().and_then(|s| s.parse().ok()).unwrap_or(0);
    let count: u64 = std::env::var("COUNT").ok().and_then(|s| s.parse().ok()).unwrap_or(20);
    let plant = std::env::var("PLANT").ok().and_then(|name| Plant::ALL.into_iter().find(|p| p.name() == name));
    let profile = if std::env::var("CALM").is_ok() { Profile::Calm } else { Profile::Stormy };
    if count == 1 {
        let outcome = Plan::draw(from, profile, plant).run(true).unwrap();
        for line in &outcome.story { println!("{line}"); }
        return;
    }
    let summary = Runs { from, count, profile, plant, jobs: 2, enough: if plant.is_some() { 1 } else { 1000 } }.run(&|_| {}).unwrap();
    for failed in &summary.failed { for v in &failed.violations { println!("{} {:?} {}", failed.seed, v.property, v.what); } }
    println!("runs {} bad {} sim {:?} in {:?}: {}/s events {} calls {} sends {} effects {}", summary.runs, summary.failed.len(), summary.simulated, summary.elapsed, summary.runs as f64 / summary.elapsed.as_secs_f64(), summary.events, summary.calls, summary.sends, summary.effects);
    println!("{:#?} {:#?} {:#?}", summary.coverage.faults, summary.coverage.answers, summary.coverage.steps);
    println!("reached {} of {}", reachable().len() - summary.coverage.missed_transitions().len(), reachable().len());
    for t in summary.coverage.missed_transitions() { println!("missed {t}"); }
    for t in summary.coverage.transitions.keys().filter(|t| !reachable().contains(t)) { println!("unexpected {t}"); }
    println!("{:?} {:?}", summary.coverage.missed_faults(), summary.coverage.missed_states());
    if let Some(f) = summary.failed.first() {
        let plan = Plan::draw(f.seed, profile, plant).minimised(f.violations[0].property).unwrap();
        println!("{}", serde_json::to_string(&plan).unwrap());
        for line in plan.run(true).unwrap().story { println!("{line}"); }
    }
}

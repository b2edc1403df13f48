//! Checks the protocol as it should be and with one change, and prints every verdict, and how the first violation comes about.

use std::error::Error;

use settled_example_protocol::{description, rules};
use settled_model::{Limits, Verdict, check_rules};

fn main() -> Result<(), Box<dyn Error>> {
    for (what, fence) in [("a cancelled reservation is marked", true), ("a cancelled reservation is deleted", false)] {
        let report = check_rules(&rules(description()?, fence), Limits::default(), |_| {})?;
        println!("{what}: {} worlds in {:.1?}", report.worlds, report.elapsed);
        for (property, verdict) in &report.verdicts {
            let verdict = match verdict {
                Verdict::Holds => "holds",
                Verdict::Violated(_) => "violated",
                Verdict::NotFinished => "not finished",
                Verdict::NotApplicable => continue,
            };
            println!("  {verdict:<12} {} ({})", property.name(), property.says());
        }
        if let Some((_, trace)) = report.violations().min_by_key(|(_, trace)| trace.steps.len()) {
            println!("\n{}", trace.text());
        }
        println!();
    }
    Ok(())
}

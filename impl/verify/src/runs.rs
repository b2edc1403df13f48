//! What concerns whole processes.

use crate::facts::RunFacts;
use crate::property::Property;
use crate::report::Where;
use crate::verifier::Case;

pub(crate) fn check(case: &mut Case<'_>) {
    let runs = case.runs;
    for (name, run) in runs {
        case.report.processes += 1;
        case.report.unfinished += u64::from(!run.retired);
        holes(case, name.0, run);
        let begins = run.numbers.0.first_key_value().is_some_and(|(first, _)| *first == 1);
        for (epoch, place) in &run.seen {
            case.report.check(Property::WholeHistory);
            if run.started.contains(epoch) {
                continue;
            }
            let place = case.names.at(None, place);
            if begins && run.numbers.0.len() == 1 && run.retired {
                let text = format!("lines under ownership {epoch}, which this process never took");
                case.report.violate(Property::WholeHistory, Some(5), place, text);
            } else {
                case.report.gap(place, format!("that this process took ownership {epoch} is not told"));
            }
        }
        for (epoch, place) in &run.fenced {
            case.report.check(Property::FencedSilence);
            if !run.started.contains(epoch) && begins {
                let text = format!("ownership {epoch} was fenced, which this process never took");
                let place = case.names.at(None, place);
                case.report.violate(Property::WholeHistory, Some(5), place, text);
            }
        }
    }
}

/// The lines that are missing between those that are there.
fn holes(case: &mut Case<'_>, name: u32, run: &RunFacts) {
    let mut next = 1;
    for (first, last) in &run.numbers.0 {
        if *first > next {
            let process = Some(settled_protocol::Epoch(name));
            let place = Where { process, ..Where::default() };
            case.report.gap(place, format!("lines {next} to {} of this process", first - 1));
        }
        next = last.saturating_add(1);
    }
}

//! How things stand at the end, and what is forgotten.

use settled::ToDo;
use settled_protocol::{Action, Key, Record, State};

use crate::chain::{Chain, Link};
use crate::facts::KeyFacts;
use crate::property::Property;
use crate::report::Where;
use crate::verifier::Case;

pub(crate) fn check(case: &mut Case<'_>, key: &Key, facts: &KeyFacts, chain: &Chain<'_>) {
    for operation in &chain.operations {
        let Some(last) = chain.links_of(operation).last() else { continue };
        let certain = chain.has_all_of(case, operation);
        settles(case, key, last, certain);
    }
    retention(case, key, facts);
    expiries(case, key, facts, chain);
}

fn settles(case: &mut Case<'_>, key: &Key, last: &Link<'_>, certain: bool) {
    case.report.check(Property::Settles);
    if matches!(last.record.state(), State::Settled { .. } | State::Escalated { .. }) {
        return;
    }
    let mut place = Where { key: Some(key.clone()), ..Where::default() };
    if let Some(line) = last.lines.first() {
        place = case.names.at(Some(key), &line.place);
    }
    let place = place.of(last.record.generation()).version(last.record.version());
    let state = last.record.state().name();
    if !case.options.ended {
        case.report.open.push(place);
    } else if certain {
        case.report.violate(Property::Settles, None, place, format!("it is still {state} at the end"));
    } else {
        case.report.gap(place, format!("how an operation ended that was last {state}"));
    }
}

/// What is over is not kept.
fn retention(case: &mut Case<'_>, key: &Key, facts: &KeyFacts) {
    let Some((Some(entry), _)) = &facts.kept else { return };
    case.report.check(Property::BoundedMemory);
    let Some(until) = entry.keep_until.filter(|_| entry.record.is_settled()) else { return };
    if case.options.ended && case.last > until.after(case.options.margin) {
        let place = Where { key: Some(key.clone()), ..Where::default() }.version(entry.record.version());
        let text = format!("its record could be forgotten from {until} on, and is there at {}", case.last);
        case.report.violate(Property::BoundedMemory, Some(12), place, text);
    }
}

/// What was forgotten was over.
fn expiries(case: &mut Case<'_>, key: &Key, facts: &KeyFacts, chain: &Chain<'_>) {
    for (place, version, step) in &facts.expired {
        case.report.check(Property::BoundedMemory);
        let here = case.names.at(Some(key), place).version(*version);
        let Some(link) = chain.links.iter().find(|link| link.record.version() == *version) else {
            case.report.gap(here, "the record that was forgotten");
            continue;
        };
        case.report.steps += 1;
        let record: &Record<_> = &link.record;
        let taken = step.policy.step(Some(record), &step.event());
        let forgets = taken.actions.iter().any(|action| action == Action::Forget(*version));
        let actions: Vec<ToDo> = taken.actions.iter().map(ToDo::of).collect();
        if !forgets || actions != step.actions {
            let text = format!("a record was forgotten that is {}, and not over", record.state().name());
            case.report.violate(Property::BoundedMemory, Some(12), here, text);
        }
    }
}

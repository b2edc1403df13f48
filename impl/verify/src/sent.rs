//! What was sent, what came back, and what the records rest on.

use std::collections::BTreeMap;

use settled::Taken;
use settled_protocol::{AttemptId, Digest, ErrorClass, Key, Loss, Observation, Reply, State, ToolKind, Verdict, What};

use crate::chain::{Chain, Link};
use crate::facts::{About, KeyFacts, Place, Stored, of_attempt};
use crate::property::Property;
use crate::report::Where;
use crate::verifier::Case;

pub(crate) fn check(case: &mut Case<'_>, key: &Key, facts: &KeyFacts, chain: &Chain<'_>) {
    for sent in &facts.sent {
        let place = case.names.at(Some(key), &sent.place).of(sent.generation);
        intent_first(case, facts, sent, &place);
        fenced(case, sent, &place);
        forgotten(case, facts, sent, &place);
        settled(case, facts, chain, sent, &place);
        case.report.check(Property::WholeHistory);
        if sent.place.by != sent.what {
            let text = format!("sent under ownership {} by ownership {}", sent.what, sent.place.by);
            case.report.violate(Property::WholeHistory, Some(5), place, text);
        }
    }
    once(case, key, facts);
    effects_of_replies(case, key, facts, chain);
    answers_to_sends(case, key, facts);
    observations(case, key, facts, chain);
    for line in &facts.stored {
        let place = case.names.at(Some(key), &line.place).of(line.record.generation()).version(line.record.version());
        rests_on(case, facts, line, &place);
    }
    retries(case, key, facts, chain);
}

/// The dispatch was durable, under exactly this ownership, before it was sent.
fn intent_first(case: &mut Case<'_>, facts: &KeyFacts, sent: &About<settled_protocol::Epoch>, place: &Where) {
    case.report.check(Property::IntentFirst);
    let allows = |line: &&Stored| {
        line.place.is_before(&sent.place)
            && matches!(line.record.state(), State::Dispatched(its)
                if its.attempt().get() == sent.attempt && its.owner() == sent.what)
    };
    if facts.stored_of(sent.generation).iter().any(|line| allows(&line)) {
        return;
    }
    let text = format!(
        "attempt {} was sent under ownership {} without a durable record of that before it",
        sent.attempt, sent.what
    );
    if case.is_whole(&sent.place) {
        case.report.violate(Property::IntentFirst, Some(5), place.clone(), text);
    } else {
        case.report.gap(place.clone(), text + ", or its line is missing");
    }
}

fn fenced(case: &mut Case<'_>, sent: &About<settled_protocol::Epoch>, place: &Where) {
    case.report.check(Property::FencedSilence);
    let Some(run) = case.runs.get(&sent.place.run) else { return };
    let fenced = run.fenced.iter().find(|(epoch, fenced)| *epoch == sent.what && fenced.is_before(&sent.place));
    if let Some((epoch, fenced)) = fenced {
        let text = format!("attempt {} was sent under ownership {epoch}, which had been fenced", sent.attempt);
        let place = place.clone().and(case.names.line(fenced));
        case.report.violate(Property::FencedSilence, Some(5), place, text);
    }
}

fn forgotten(case: &mut Case<'_>, facts: &KeyFacts, sent: &About<settled_protocol::Epoch>, place: &Where) {
    case.report.check(Property::BoundedMemory);
    let Some(line) = facts.stored_of(sent.generation).first() else { return };
    let late = facts
        .expired
        .iter()
        .any(|(expired, version, _)| expired.is_before(&sent.place) && *version >= line.record.version());
    if late {
        let text = format!("attempt {} was sent after its record had been forgotten", sent.attempt);
        case.report.violate(Property::BoundedMemory, Some(12), place.clone(), text);
    }
}

/// Nothing is sent of what this process knew to be settled.
fn settled(
    case: &mut Case<'_>,
    facts: &KeyFacts,
    chain: &Chain<'_>,
    sent: &About<settled_protocol::Epoch>,
    place: &Where,
) {
    let known = facts.stored_of(sent.generation).iter().find_map(|line| match line.record.state() {
        State::Settled { verdict, .. } if line.place.is_before(&sent.place) => Some((line, *verdict)),
        _ => None,
    });
    let Some((line, verdict)) = known else { return };
    let kind = chain.operation(sent.generation).and_then(|operation| chain.kind(operation));
    let property = match (verdict, kind) {
        (Verdict::Failed(_) | Verdict::Abandoned(_), _) => Property::NoFalseFailure,
        // A late reply of an earlier attempt can settle it while the next one is on its way: that one finds it done.
        (Verdict::Succeeded(_), Some(ToolKind::Opaque | ToolKind::Observable { .. })) => Property::AtMostOnce,
        (Verdict::Succeeded(_), _) => return,
    };
    let text = format!("attempt {} was sent after the operation was settled", sent.attempt);
    case.report.violate(property, Some(6), place.clone().and(case.names.line(&line.place)), text);
}

/// One dispatch is at most one delivery.
fn once(case: &mut Case<'_>, key: &Key, facts: &KeyFacts) {
    let mut first: BTreeMap<(u32, u32), &Place> = BTreeMap::new();
    for sent in &facts.sent {
        case.report.check(Property::AtMostOnce);
        if let Some(before) = first.insert((sent.generation, sent.attempt), &sent.place) {
            let place = case.names.at(Some(key), &sent.place).of(sent.generation).and(case.names.line(before));
            let text = format!("attempt {} was sent twice", sent.attempt);
            case.report.violate(Property::AtMostOnce, Some(1), place, text);
        }
    }
}

/// Two attempts of one operation are known to have taken effect, and the tool does not make one of them of no effect.
fn effects_of_replies(case: &mut Case<'_>, key: &Key, facts: &KeyFacts, chain: &Chain<'_>) {
    let mut applied: BTreeMap<u32, (&Place, u32)> = BTreeMap::new();
    for reply in facts.replied.iter().filter(|reply| reply.what.0 == "result") {
        case.report.check(Property::AtMostOnce);
        let kind = chain.operation(reply.generation).and_then(|operation| chain.kind(operation));
        let each_counts =
            matches!(kind, Some(ToolKind::Opaque | ToolKind::Observable { .. } | ToolKind::Transactional));
        if let Some((before, attempt)) = applied.insert(reply.generation, (&reply.place, reply.attempt))
            && each_counts
            && attempt != reply.attempt
        {
            let place = case.names.at(Some(key), &reply.place).of(reply.generation).and(case.names.line(before));
            let text = format!("attempts {attempt} and {} both took effect", reply.attempt);
            case.report.violate(Property::AtMostOnce, None, place, text);
        }
    }
}

/// What comes back was sent, and comes back once.
fn answers_to_sends(case: &mut Case<'_>, key: &Key, facts: &KeyFacts) {
    let lost = facts
        .lost
        .iter()
        .filter(|lost| lost.what == "connection lost")
        .map(|lost| (lost.place, lost.generation, lost.attempt));
    let replied = facts.replied.iter().map(|reply| (reply.place, reply.generation, reply.attempt));
    let replies = facts.replied.iter().map(|reply| (&reply.place, reply.what.0.as_str()));
    for (place, name) in replies.chain(facts.lost.iter().map(|lost| (&lost.place, lost.what.as_str()))) {
        if !matches!(name, "result" | "not run" | "busy" | "error" | "timed out" | "connection lost") {
            let here = case.names.at(Some(key), place);
            case.report.violate(Property::WholeHistory, None, here, format!("no attempt ends with “{name}”"));
        }
    }
    let mut back: BTreeMap<(u32, u32, settled_protocol::Epoch), Place> = BTreeMap::new();
    for (place, generation, attempt) in replied.chain(lost) {
        case.report.check(Property::WholeHistory);
        let here = case.names.at(Some(key), &place).of(generation);
        let of = |all| of_attempt(all, generation, attempt);
        let mut out = of(&facts.sent).iter().chain(of(&facts.withheld));
        if !out.any(|about| about.place.is_before(&place)) {
            let text = format!("an answer to attempt {attempt}, which was not sent");
            if case.is_whole(&place) {
                case.report.violate(Property::WholeHistory, Some(3), here.clone(), text);
            } else {
                case.report.gap(here.clone(), text + ", or its line is missing");
            }
        }
        if let Some(before) = back.insert((generation, attempt, place.run), place) {
            let here = here.and(case.names.line(&before));
            let text = format!("attempt {attempt} was answered twice");
            case.report.violate(Property::WholeHistory, Some(1), here, text);
        }
    }
}

/// Only what is unknown is asked about.
fn observations(case: &mut Case<'_>, key: &Key, facts: &KeyFacts, chain: &Chain<'_>) {
    for seen in &facts.observed {
        let place = case.names.at(Some(key), &seen.place).of(seen.generation);
        case.report.check(Property::WholeHistory);
        if !matches!(seen.what.0.as_str(), "applied" | "not applied" | "sealed" | "unclear") {
            let text = format!("nothing is seen as “{}”", seen.what.0);
            case.report.violate(Property::WholeHistory, None, place, text);
            continue;
        }
        let operation = chain.operation(seen.generation);
        let is_its = |link: &&Link<'_>| {
            let doubtful = matches!(link.record.state(), State::Unknown { .. } | State::Escalated { .. });
            let of = link.record.attempt_id();
            let told_later = !link.lines.is_empty()
                && link.kept.is_none()
                && link.lines.iter().all(|line| seen.place.is_before(&line.place));
            doubtful && !told_later && of.is_some_and(|of| of.attempt.get() == seen.attempt)
        };
        if !operation.into_iter().flat_map(|operation| chain.links_of(operation)).any(|link| is_its(&link)) {
            let text = format!("attempt {} was asked about, which is not unknown", seen.attempt);
            if operation.is_some_and(|operation| chain.has_all_of(case, operation)) {
                case.report.violate(Property::WholeHistory, Some(3), place, text);
            } else {
                case.report.gap(place, text + ", or its record is missing");
            }
        }
    }
}

/// What a record was changed for was seen by the process that changed it.
fn rests_on(case: &mut Case<'_>, facts: &KeyFacts, line: &Stored, place: &Where) {
    let Taken { what, .. } = &*line.step;
    let (property, rule, seen, text) = match *what {
        What::Call { fingerprint, .. } => {
            let asked =
                facts.asked.iter().any(|asked| asked.fingerprint == fingerprint && asked.place.is_before(&line.place));
            (Property::CoreSteps, None, asked, "an operation that nobody asked for".to_owned())
        }
        What::Reply { of, reply: Reply::Result(body) } => {
            let seen = has_replied(facts, line, of, &["result"], body);
            (Property::NoPhantomSuccess, Some(3), seen, format!("a result that attempt {} did not give", of.attempt))
        }
        What::Reply { of, reply: Reply::Error(class, body) } => {
            let names: &[&str] = match class {
                // What does not ask again takes "busy" for this.
                ErrorClass::NotRun => &["not run", "busy"],
                ErrorClass::Busy => &["busy"],
                ErrorClass::Unproven => &["error"],
            };
            let unsent = class == ErrorClass::NotRun && !was_sent(facts, of);
            let seen = unsent || has_replied(facts, line, of, names, body);
            (Property::NoFalseFailure, Some(3), seen, format!("an error that attempt {} did not give", of.attempt))
        }
        What::Lost { of, how } => {
            let name = match how {
                Loss::TimedOut => "timed out",
                Loss::ConnectionLost => "connection lost",
            };
            let lost = of_attempt(&facts.lost, of.generation, of.attempt.get());
            let seen = lost.iter().any(|lost| lost.place.is_before(&line.place) && lost.what == name);
            (Property::CoreSteps, Some(3), seen, format!("“{name}” of attempt {}, which nobody noticed", of.attempt))
        }
        What::Observed { of, observation, conclusive } => {
            let name = match observation {
                Observation::Applied(_) => "applied",
                Observation::NotApplied => "not applied",
                Observation::Sealed(_) => "sealed",
                Observation::Unclear => "unclear",
            };
            let property = match observation {
                Observation::Applied(_) => Property::NoPhantomSuccess,
                _ => Property::NoFalseFailure,
            };
            let same = |seen: &(String, bool)| seen.0 == name && seen.1 == conclusive;
            let observed = of_attempt(&facts.observed, of.generation, of.attempt.get());
            let seen = observed.iter().any(|seen| seen.place.is_before(&line.place) && same(&seen.what));
            (property, Some(3), seen, format!("“{name}” of attempt {}, which nobody saw", of.attempt))
        }
        What::Alerted => {
            let generation = line.record.generation();
            let told = facts.escalated.iter().any(|(place, of)| *of == generation && place.is_before(&line.place));
            (Property::Settles, None, told, "it counts as handed to a person, and nobody was told".to_owned())
        }
        What::Resume { .. } | What::Committed { .. } | What::Decide { .. } | What::Cancel => return,
        What::Delivered { .. } | What::Expire => return,
    };
    case.report.check(property);
    if seen {
        return;
    }
    if case.is_whole(&line.place) {
        case.report.violate(property, rule, place.clone(), text);
    } else {
        case.report.gap(place.clone(), text + ", or its line is missing");
    }
}

fn has_replied(facts: &KeyFacts, line: &Stored, of: AttemptId, names: &[&str], body: Digest) -> bool {
    let same = |what: &(String, Digest)| names.contains(&what.0.as_str()) && what.1 == body;
    let replied = of_attempt(&facts.replied, of.generation, of.attempt.get());
    replied.iter().any(|reply| reply.place.is_before(&line.place) && same(&reply.what))
}

fn was_sent(facts: &KeyFacts, of: AttemptId) -> bool {
    !of_attempt(&facts.sent, of.generation, of.attempt.get()).is_empty()
}

/// No more attempts than were allowed.
fn retries(case: &mut Case<'_>, key: &Key, facts: &KeyFacts, chain: &Chain<'_>) {
    for sent in &facts.sent {
        let Some(operation) = chain.operation(sent.generation) else { continue };
        let budget = chain.links_of(operation).filter_map(|link| Some(link.step()?.policy.retry.attempts)).max();
        case.report.check(Property::BoundedRetries);
        if budget.is_some_and(|budget| sent.attempt > budget.max(1)) {
            let place = case.names.at(Some(key), &sent.place).of(sent.generation);
            let text = format!("attempt {} of {}", sent.attempt, budget.unwrap_or_default());
            case.report.violate(Property::BoundedRetries, None, place, text);
        }
    }
}

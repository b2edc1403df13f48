//! What callers were told, beside what is recorded.

use std::collections::{BTreeMap, BTreeSet};

use settled_protocol::{Cause, Digest, Key, Outcome, State, ToolKind, Verdict, What};

use crate::chain::{Chain, Link, Operation};
use crate::facts::{Answered, Asked, KeyFacts, Place, of_operation};
use crate::property::Property;
use crate::report::Where;
use crate::verifier::Case;

pub(crate) fn check(case: &mut Case<'_>, key: &Key, facts: &KeyFacts, chain: &Chain<'_>) {
    asked_once(case, key, facts);
    let joined: BTreeSet<_> = facts.joined.iter().map(|(place, call)| (place.run, *call)).collect();
    let mut firsts: BTreeMap<u32, &Place> = BTreeMap::new();
    let calls: BTreeMap<_, _> = facts.asked.iter().map(|asked| ((asked.place.run, asked.call), asked)).collect();
    for answered in &facts.answered {
        let place = case.names.at(Some(key), &answered.place);
        let place = if answered.generation == 0 { place } else { place.of(answered.generation) };
        let asked = calls.get(&(answered.place.run, answered.call)).copied();
        let asked = asked.filter(|asked| asked.place.is_before(&answered.place));
        if asked.is_none() {
            missing(case, &answered.place, &place, Property::WholeHistory, "an answer to a call that nobody made");
        }
        let operation = chain.operation(answered.generation);
        let has_joined = joined.contains(&(answered.place.run, answered.call));
        let told = Told { facts, chain, answered, asked, operation, has_joined, place: &place };
        match answered.answer.as_str() {
            "done" => told.done(case),
            "failed" => told.failed(case),
            "unknown" => told.unknown(case),
            "conflict" => told.conflict(case),
            "not sent" => told.not_sent(case),
            "in progress" | "expired" => {}
            other => {
                let text = format!("there is no answer “{other}”");
                case.report.violate(Property::WholeHistory, None, place.clone(), text);
            }
        }
        told.of_an_operation(case);
        told.of_its_arguments(case);
        told.of_its_wish(case);
        let is_outcome = matches!(answered.answer.as_str(), "done" | "failed");
        if is_outcome && !answered.replayed {
            case.report.check(Property::FaithfulReplay);
            if let Some(first) = firsts.insert(answered.generation, &answered.place) {
                let place = place.clone().and(case.names.line(first));
                let text = "two callers were told that theirs was the call that led to it";
                case.report.violate(Property::FaithfulReplay, None, place, text);
            }
        }
    }
    deliveries(case, key, facts, chain);
}

/// Absence counts only where nothing can be missing.
fn missing(case: &mut Case<'_>, at: &Place, place: &Where, property: Property, text: &str) {
    case.report.check(property);
    if case.is_whole(at) {
        case.report.violate(property, None, place.clone(), text);
    } else {
        case.report.gap(place.clone(), format!("{text}, or its line is missing"));
    }
}

/// Each call is asked, and answered, once.
fn asked_once(case: &mut Case<'_>, key: &Key, facts: &KeyFacts) {
    let asked = facts.asked.iter().map(|asked| (true, asked.call, &asked.place));
    let answered = facts.answered.iter().map(|answered| (false, answered.call, &answered.place));
    let mut seen: BTreeMap<(bool, settled_protocol::Epoch, u64), &Place> = BTreeMap::new();
    for (asks, call, place) in asked.chain(answered) {
        case.report.check(Property::WholeHistory);
        if let Some(first) = seen.insert((asks, place.run, call), place) {
            let what = if asks { "asked" } else { "answered" };
            let place = case.names.at(Some(key), place).and(case.names.line(first));
            let text = format!("call {call} was {what} twice");
            case.report.violate(Property::WholeHistory, None, place, text);
        }
    }
    for (place, call) in &facts.joined {
        let asked = seen.get(&(true, place.run, *call));
        if !asked.is_some_and(|asked| asked.is_before(place)) {
            let here = case.names.at(Some(key), place);
            missing(case, place, &here, Property::WholeHistory, "a call joined that nobody made");
        }
    }
}

/// One answer, and what is known of its operation.
struct Told<'a> {
    facts: &'a KeyFacts,
    chain: &'a Chain<'a>,
    answered: &'a Answered,
    asked: Option<&'a Asked>,
    operation: Option<&'a Operation>,
    has_joined: bool,
    place: &'a Where,
}

impl Told<'_> {
    /// The operation's outcomes, as far as they are recorded, and where by this process.
    fn outcomes(&self) -> impl Iterator<Item = (Verdict<Digest>, bool, bool)> {
        let links = self.operation.into_iter().flat_map(|operation| self.chain.links_of(operation));
        links.filter_map(|link| {
            let (verdict, sent) = match link.record.state() {
                State::Settled { verdict, sent, .. } => (*verdict, sent.is_some()),
                State::Confirmed { outcome: Outcome::Succeeded(body), .. } => (Verdict::Succeeded(*body), true),
                State::Confirmed { outcome: Outcome::Failed(body), .. } => (Verdict::Failed(*body), true),
                _ => return None,
            };
            // Not durable yet when it was told, as far as this process is concerned. What is in the ledger may have been read
            // there before the one who stored it heard of that; but not by the one who stored it.
            let later = self.comes_later(link)
                && link.before.is_some()
                && (link.kept.is_none() || self.was_told_by_its_writer(link) || self.precedes_its_dispatch());
            Some((verdict, sent, later))
        })
    }

    /// Whether this process wrote down that the record is durable only after this answer.
    fn comes_later(&self, link: &Link<'_>) -> bool {
        !link.lines.is_empty() && link.lines.iter().all(|line| self.answered.place.is_before(&line.place))
    }

    /// Whether only the driver that gave this answer can have stored this outcome: the call that began the operation is told of
    /// its own attempt's reply, and nobody had doubts in between.
    fn was_told_by_its_writer(&self, link: &Link<'_>) -> bool {
        let was_dispatched =
            matches!(link.before, Some(Some(before)) if matches!(before.state(), State::Dispatched(_)));
        let is_reply = link.step().is_some_and(|step| matches!(step.what, What::Reply { .. }));
        !self.answered.replayed && was_dispatched && is_reply
    }

    /// Whether even the operation's first dispatch was written down after this answer: nothing is sent before that, so there
    /// was no outcome to be read anywhere.
    fn precedes_its_dispatch(&self) -> bool {
        let links = self.operation.into_iter().flat_map(|operation| self.chain.links_of(operation));
        let first = { links }.find(|link| matches!(link.record.state(), State::Dispatched(_)));
        first.is_some_and(|link| self.comes_later(link))
    }

    /// Nothing of the operation can be missing at this line.
    fn knows_all(&self, case: &Case<'_>) -> bool {
        let known = self.operation.is_some_and(|operation| self.chain.has_all_of(case, operation));
        // Who is told as the first one, is told what its own process has stored.
        known || !self.answered.replayed && case.is_whole(&self.answered.place)
    }

    /// It rests on a record that isn't there.
    fn without_record(&self, case: &mut Case<'_>, property: Property, text: &str) {
        if self.knows_all(case) {
            case.report.violate(property, None, self.place.clone(), text);
        } else {
            case.report.gap(self.place.clone(), format!("{text}, or that is missing"));
        }
    }

    fn done(&self, case: &mut Case<'_>) {
        case.report.check(Property::NoPhantomSuccess);
        case.report.check(Property::FaithfulReplay);
        let mut succeeded = None;
        let mut other = None;
        for (verdict, _, later) in self.outcomes() {
            match verdict {
                Verdict::Succeeded(body) => succeeded = succeeded.or(Some((body, later))),
                _ => other = Some(verdict),
            }
        }
        match (succeeded, other) {
            (Some((body, _)), _) if Some(body) != self.answered.digest => {
                let text = "told another result than the one that is recorded";
                case.report.violate(Property::FaithfulReplay, None, self.place.clone(), text);
            }
            (Some((_, true)), _) => {
                let text = "told “done” before that was durable";
                case.report.violate(Property::NoPhantomSuccess, None, self.place.clone(), text);
            }
            (Some(_), _) => {}
            (None, Some(_)) => {
                let text = "told “done” of an operation that is settled otherwise";
                case.report.violate(Property::NoPhantomSuccess, None, self.place.clone(), text);
            }
            (None, None) => {
                self.without_record(
                    case,
                    Property::NoPhantomSuccess,
                    "told “done” of what is not recorded as succeeded",
                );
            }
        }
    }

    fn failed(&self, case: &mut Case<'_>) {
        case.report.check(Property::NoFalseFailure);
        case.report.check(Property::FaithfulReplay);
        let mut failed = None;
        let mut other = false;
        for (verdict, sent, later) in self.outcomes() {
            match verdict {
                // The first record of it counts: later ones only say that it was delivered.
                Verdict::Failed(error) => failed = failed.or(Some((error, later))),
                // Given up before anything was sent; what is told then is why.
                Verdict::Abandoned(_) if !sent => failed = failed.or(Some((self.answered.digest, later))),
                _ => other = true,
            }
        }
        match failed {
            Some((error, _)) if error != self.answered.digest => {
                let text = "told another error than the one that is recorded";
                case.report.violate(Property::FaithfulReplay, None, self.place.clone(), text);
            }
            Some((_, true)) => {
                let text = "told “failed” before that was durable";
                case.report.violate(Property::NoFalseFailure, None, self.place.clone(), text);
            }
            Some(_) => {}
            None if other => {
                let text = "told “failed” of an operation that is settled otherwise";
                case.report.violate(Property::NoFalseFailure, Some(2), self.place.clone(), text);
            }
            None => {
                self.without_record(case, Property::NoFalseFailure, "told “failed” of what is not recorded as failed")
            }
        }
        if self.operation.and_then(|operation| self.chain.kind(operation)) == Some(ToolKind::ReadOnly) {
            return;
        }
        let generation = self.answered.generation;
        let result = of_operation(&self.facts.replied, generation).iter().find(|reply| reply.what.0 == "result");
        if let Some(result) = result {
            let place = self.place.clone().and(case.names.line(&result.place));
            let text = format!("told “failed”, and attempt {} took effect", result.attempt);
            case.report.violate(Property::NoFalseFailure, Some(2), place, text);
        }
        let seen = of_operation(&self.facts.observed, generation).iter().find(|seen| seen.what.0 == "applied");
        if let Some(seen) = seen {
            let place = self.place.clone().and(case.names.line(&seen.place));
            let text = "told “failed”, and it was seen to have happened";
            case.report.violate(Property::NoFalseFailure, Some(6), place, text);
        }
    }

    fn unknown(&self, case: &mut Case<'_>) {
        let (Some(digest), Some(operation)) = (self.answered.digest, self.operation) else { return };
        case.report.check(Property::FaithfulReplay);
        let is_its = self.chain.links_of(operation).any(|link| match link.record.state() {
            State::Unknown { cause, .. } | State::Escalated { cause, .. } => {
                matches!(cause, Cause::Error(error) | Cause::Refused(error) if *error == digest)
            }
            State::Settled { verdict: Verdict::Abandoned(Some(error)), .. } => *error == digest,
            _ => false,
        });
        if !is_its {
            self.without_record(case, Property::FaithfulReplay, "told an error that is not the operation's");
        }
    }

    fn conflict(&self, case: &mut Case<'_>) {
        let Some(asked) = self.asked else { return };
        case.report.check(Property::FaithfulReplay);
        if !self.chain.links.iter().any(|link| link.record.fingerprint() != asked.fingerprint) {
            let knows_all = self.chain.is_whole && case.has_ledger && self.facts.is_never_forgotten();
            let text = "told of a conflict, and the key was never used with other arguments";
            if knows_all {
                case.report.violate(Property::FaithfulReplay, None, self.place.clone(), text);
            } else {
                case.report.gap(self.place.clone(), format!("{text}, or that is missing"));
            }
        }
    }

    /// "Not sent" is a licence to repeat the call: nothing was sent for it that has not failed.
    fn not_sent(&self, case: &mut Case<'_>) {
        let Some(asked) = self.asked else { return };
        case.report.check(Property::NoFalseFailure);
        let meanwhile = |place: &Place| asked.place.is_before(place) && place.is_before(&self.answered.place);
        for sent in self.facts.sent.iter().filter(|sent| meanwhile(&sent.place)) {
            let records = || self.facts.stored_of(sent.generation).iter();
            let same = records().any(|line| line.record.fingerprint() == asked.fingerprint);
            let failed = records().any(|line| {
                meanwhile(&line.place)
                    && matches!(line.record.state(), State::Settled { verdict: Verdict::Failed(_), .. })
            });
            if same && !failed {
                let place = self.place.clone().and(case.names.line(&sent.place));
                let text = "told that nothing was sent, when something was";
                case.report.violate(Property::NoFalseFailure, None, place, text);
            }
        }
    }

    /// What is told about an operation, is about one that there is.
    fn of_an_operation(&self, case: &mut Case<'_>) {
        let names_none = matches!(self.answered.answer.as_str(), "conflict" | "expired" | "not sent");
        if self.answered.generation == 0 && !matches!(self.answered.answer.as_str(), "done" | "failed") {
            return;
        }
        case.report.check(Property::WholeHistory);
        if names_none {
            let text = format!("“{}” is said of no operation", self.answered.answer);
            case.report.violate(Property::WholeHistory, None, self.place.clone(), text);
        } else if self.operation.is_none() {
            self.without_record(case, Property::WholeHistory, "an answer about an operation that there is not");
        }
    }

    /// An outcome is told only to those who asked with the operation's arguments.
    fn of_its_arguments(&self, case: &mut Case<'_>) {
        let (Some(asked), Some(operation)) = (self.asked, self.operation) else { return };
        if !matches!(self.answered.answer.as_str(), "done" | "failed" | "unknown") {
            return;
        }
        case.report.check(Property::FaithfulReplay);
        if self.chain.links_of(operation).any(|link| link.record.fingerprint() != asked.fingerprint) {
            let text = "told the outcome of a call with other arguments";
            case.report.violate(Property::FaithfulReplay, None, self.place.clone(), text);
        }
    }

    /// Who asks after the operation is over has a new wish.
    fn of_its_wish(&self, case: &mut Case<'_>) {
        let (Some(asked), Some(operation)) = (self.asked, self.operation) else { return };
        if !matches!(self.answered.answer.as_str(), "done" | "failed") {
            return;
        }
        // Who joins a call that came before is told what that one is told.
        if self.has_joined {
            return;
        }
        case.report.check(Property::NoSuppression);
        let Some(last) = self.chain.links_of(operation).last() else { return };
        let knew = last.lines.iter().any(|line| line.place.is_before(&asked.place));
        if knew && asked.policy.is_over(&last.record, asked.place.at) {
            let lines = last.lines.iter().map(|line| case.names.line(&line.place));
            let place = lines.fold(self.place.clone().and(case.names.line(&asked.place)), Where::and);
            let text = "a new wish was told the outcome of an operation that was over";
            case.report.violate(Property::NoSuppression, None, place, text);
        }
    }
}

/// Only what has an outcome can be delivered, and only what was decided was decided.
fn deliveries(case: &mut Case<'_>, key: &Key, facts: &KeyFacts, chain: &Chain<'_>) {
    for (place, generation, verdict) in &facts.decided {
        let is_it = |verdict: &str, recorded: &Verdict<Digest>| {
            matches!(
                (verdict, recorded),
                ("succeeded", Verdict::Succeeded(_))
                    | ("failed", Verdict::Failed(_))
                    | ("abandoned", Verdict::Abandoned(_))
            )
        };
        let links = chain.operation(*generation).into_iter().flat_map(|operation| chain.links_of(operation));
        let recorded = links.into_iter().any(
            |link| matches!(link.record.state(), State::Settled { verdict: recorded, .. } if is_it(verdict, recorded)),
        );
        if !recorded {
            let here = case.names.at(Some(key), place).of(*generation);
            missing(case, place, &here, Property::WholeHistory, "a decision that is not recorded");
        }
    }
    for (place, generation, _) in &facts.delivered {
        let told = |answered: &&Answered| answered.generation == *generation && answered.place.is_before(place);
        if !facts.answered.iter().any(|answered| told(&answered)) {
            let here = case.names.at(Some(key), place).of(*generation);
            missing(case, place, &here, Property::WholeHistory, "an answer was delivered that nobody was given");
        }
    }
}

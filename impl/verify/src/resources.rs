//! Operations that must not overlap, across keys.

use std::collections::BTreeMap;

use settled::Resource;
use settled_protocol::{Key, State, Time};

use crate::chain::Chain;
use crate::facts::Place;
use crate::property::Property;
use crate::report::Where;
use crate::verifier::Case;

/// What the clocks of two processes may differ by, in milliseconds: less between two of them proves nothing.
const CLOCKS: u64 = 2_000;

/// When an operation certainly had its resource: from when its dispatch was known to be durable, to when what settled it
/// happened. (Both the one and the other can take a while to be stored, and to be told.)
struct Span {
    key: Key,
    generation: u32,
    begun: Time,
    begun_at: Place,
    /// None: it is still under way.
    ended: Option<(Time, Option<Place>)>,
    /// Nothing of it can be missing.
    certain: bool,
}

impl Span {
    /// What the clocks of the two can differ by.
    fn doubt(&self, other: &Span) -> u64 {
        let ended = self.ended.as_ref().and_then(|(_, place)| place.as_ref());
        let same = self.begun_at.run == other.begun_at.run && ended.is_none_or(|place| place.run == other.begun_at.run);
        if same { 0 } else { CLOCKS }
    }

    /// Whether the other one began while this one certainly went on.
    fn covers_the_beginning_of(&self, other: &Span) -> bool {
        let doubt = self.doubt(other);
        let before = self.begun.after(doubt) <= other.begun;
        before && self.ended.as_ref().is_none_or(|(ended, _)| other.begun.after(doubt) < *ended)
    }

    /// Whether it can be told at all that it had the resource.
    fn is_certain(&self) -> bool {
        self.ended.as_ref().is_none_or(|(ended, _)| self.begun < *ended)
    }
}

/// Who had which resource when.
#[derive(Default)]
pub(crate) struct Resources {
    spans: BTreeMap<Resource, Vec<Span>>,
}

impl Resources {
    pub(crate) fn add(&mut self, case: &Case<'_>, key: &Key, chain: &Chain<'_>) {
        // Where records are missing, so may be the one that gave it back.
        for operation in chain.operations.iter().filter(|operation| operation.is_whole) {
            let Some(resource) = operation.resource.clone() else { continue };
            let mut links = chain.links_of(operation);
            let Some(begun) = links.find(|link| matches!(link.record.state(), State::Dispatched(_))) else { continue };
            // Of what only the ledger tells, it is not known when it was known to be durable.
            let Some(begun_at) = begun.lines.first().map(|line| line.place) else { continue };
            let ended = links.find(|link| link.record.is_settled()).map(|link| {
                let line = link.lines.first();
                let at = line.map(|line| line.step.now).or(link.kept.map(|change| change.at));
                (at.unwrap_or_default(), line.map(|line| line.place))
            });
            let certain = chain.has_all_of(case, operation);
            let (key, generation) = (key.clone(), operation.generation);
            let span = Span { key, generation, begun: begun_at.at, begun_at, ended, certain };
            if span.is_certain() {
                self.spans.entry(resource).or_default().push(span);
            }
        }
    }

    pub(crate) fn check(self, case: &mut Case<'_>) {
        for (resource, mut spans) in self.spans {
            spans.sort_by_key(|span| (span.begun, span.begun_at.run, span.begun_at.n));
            for index in 0..spans.len() {
                let Some(span) = spans.get(index) else { continue };
                case.report.check(Property::NoOverlap);
                // Only the nearest ones can be the first to overlap.
                for next in spans.iter().skip(index + 1).take(8).filter(|next| span.covers_the_beginning_of(next)) {
                    let ended = span.ended.as_ref().and_then(|(_, place)| place.as_ref());
                    let places = [Some(&next.begun_at), Some(&span.begun_at), ended];
                    let lines = places.into_iter().flatten().map(|place| case.names.line(place)).collect();
                    let place = Where {
                        key: Some(next.key.clone()),
                        at: Some(next.begun),
                        generation: Some(next.generation),
                        process: Some(next.begun_at.run),
                        lines,
                        ..Where::default()
                    };
                    let text = format!("it began while {} had {resource}", span.key);
                    if span.ended.is_none() && !span.certain {
                        case.report.gap(place, format!("when {} gave {resource} back", span.key));
                    } else {
                        case.report.violate(Property::NoOverlap, None, place, text);
                    }
                }
            }
        }
    }
}

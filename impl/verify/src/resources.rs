//! Operations that must not overlap, across keys.

use std::collections::BTreeMap;

use settled::Resource;
use settled_protocol::{Key, State, Time};

use crate::chain::{Chain, Link};
use crate::facts::Place;
use crate::property::Property;
use crate::report::Where;
use crate::verifier::Case;

/// What the clocks of two processes may differ by, in milliseconds: less between two of them proves nothing.
const CLOCKS: u64 = 2_000;

#[derive(Clone)]
struct Point {
    at: Time,
    place: Option<Place>,
}

impl Point {
    fn of(link: &Link<'_>) -> Point {
        let line = link.lines.first();
        let at = line.map(|line| line.step.now).or(link.kept.map(|change| change.at)).unwrap_or_default();
        Point { at, place: line.map(|line| line.place) }
    }

    /// Whether it certainly came before the other.
    fn is_before(&self, other: &Point) -> bool {
        match (&self.place, &other.place) {
            (Some(one), Some(other)) if one.run == other.run => one.n < other.n,
            _ => self.at.after(CLOCKS) < other.at,
        }
    }
}

struct Span {
    key: Key,
    generation: u32,
    begun: Point,
    /// None: it is still under way.
    ended: Option<Point>,
    /// Nothing of it can be missing.
    certain: bool,
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
            let begun = Point::of(begun);
            let ended = links.find(|link| link.record.is_settled()).map(Point::of);
            let certain = chain.has_all_of(case, operation);
            let span = Span { key: key.clone(), generation: operation.generation, begun, ended, certain };
            self.spans.entry(resource).or_default().push(span);
        }
    }

    pub(crate) fn check(self, case: &mut Case<'_>) {
        for (resource, mut spans) in self.spans {
            spans.sort_by_key(|span| (span.begun.at, span.begun.place.map(|place| place.n)));
            for index in 0..spans.len() {
                let Some(span) = spans.get(index) else { continue };
                case.report.check(Property::NoOverlap);
                // Only the nearest ones can be the first to overlap.
                for next in spans.iter().skip(index + 1).take(8) {
                    let both = span.begun.is_before(&next.begun);
                    let under_way = span.ended.as_ref().is_none_or(|ended| next.begun.is_before(ended));
                    if !(both && under_way) {
                        continue;
                    }
                    let place = |point: &Point| point.place.map(|place| case.names.line(&place));
                    let mut lines: Vec<String> = place(&next.begun).into_iter().collect();
                    lines.extend(place(&span.begun));
                    lines.extend(span.ended.as_ref().and_then(place));
                    let place = Where {
                        key: Some(next.key.clone()),
                        at: Some(next.begun.at),
                        generation: Some(next.generation),
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

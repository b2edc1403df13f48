//! A counterexample with as few faults as possible: a shortest run may use more of them than are needed.

use settled_explorer::{Fault, Faults, PropertyName, Trace};

use crate::check::{Limits, Verdict, check};
use crate::description::Description;

/// A shortest run that violates the property with fewer faults than this one, if there is one: of its faults, none can be
/// left out any more. `None` if all of the trace's own are needed, or if that can't be told within the limits.
///
/// It searches the same world with the trace's faults as bounds, and takes away one after the other.
pub fn with_fewer_faults(description: &Description, trace: &Trace, limits: Limits) -> Option<Trace> {
    let mut needed = trace.faults;
    let mut found = None;
    while let Some((faults, shorter)) = without_one(description, trace.property, needed, limits) {
        needed = faults;
        found = Some(shorter);
    }
    found
}

/// The same violation with one fault less.
fn without_one(
    description: &Description,
    property: PropertyName,
    needed: Faults,
    limits: Limits,
) -> Option<(Faults, Trace)> {
    Fault::ALL.iter().find_map(|fault| {
        let mut faults = needed;
        let bound = faults.of(*fault);
        *bound = bound.checked_sub(1)?;
        let less = Description { faults, ..description.clone() };
        let limits = Limits { wanted: [property].into_iter().collect(), stop_when_found: true, ..limits };
        match check(&less, limits, |_| {}).ok()?.verdict(property) {
            Verdict::Violated(trace) => Some((trace.faults, trace.as_ref().clone())),
            Verdict::Holds | Verdict::NotFinished | Verdict::NotApplicable => None,
        }
    })
}
